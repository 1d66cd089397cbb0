// The chat of `lamina run` on a terminal: a pseudo terminal that the test types into.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include "support/subprocess.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kCtrlC[] = "\x03";
constexpr char kCtrlD[] = "\x04";
constexpr char kUp[] = "\x1b[A";
constexpr char kPrompt[] = ">>> ";

class Terminal {
 public:
  explicit Terminal(std::vector<std::string> flags = {}) {
    child_ = forkpty(&descriptor_, nullptr, nullptr, nullptr);
    if (child_ != 0) return;
    setenv("TERM", "xterm", 1);
    std::vector<std::string> words = {std::string(LAMINA_BINARY_DIR) + "/lamina", "run",
                                      testing::SourcePath("models/tales"), "--temperature", "0"};
    words.insert(words.end(), flags.begin(), flags.end());
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  ~Terminal() {
    if (!ended_) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    close(descriptor_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void Type(const std::string& text) const {
    ASSERT_EQ(write(descriptor_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  // What came up to and with `end`; fails the test after a minute.
  std::string ReadUntil(const std::string& end) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (;;) {
      if (const size_t at = pending_.find(end); at != std::string::npos) {
        std::string text = pending_.substr(0, at + end.size());
        pending_.erase(0, at + end.size());
        return text;
      }
      if (std::chrono::steady_clock::now() > deadline || !ReadMore()) {
        ADD_FAILURE() << "'" << end << "' did not come; there is: " << pending_;
        return pending_;
      }
    }
  }

  // Waits until there is anything more.
  void ReadSomething() {
    if (pending_.empty() && !ReadMore()) ADD_FAILURE() << "nothing came";
  }

  // Types a line and gives what comes up to the next prompt.
  std::string Ask(const std::string& line) {
    Type(line + "\r");
    return ReadUntil(kPrompt);
  }

  // Waits for the end: the exit code, or minus the signal's number. Fails the test, and ends the chat, where
  // nothing comes for a minute.
  int ExitCode() {
    while (ReadMore()) {
    }
    if (timed_out_) {
      ADD_FAILURE() << "the chat goes on; there is: " << pending_;
      kill(child_, SIGKILL);
    }
    int status = 0;
    waitpid(child_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  // False at the end, or where nothing comes for a minute.
  bool ReadMore() {
    pollfd waiting{descriptor_, POLLIN, 0};
    if (poll(&waiting, 1, 60'000) <= 0) {
      timed_out_ = true;
      return false;
    }
    char buffer[4096];
    const ssize_t count = read(descriptor_, buffer, sizeof buffer);
    if (count <= 0) return false;
    pending_.append(buffer, static_cast<size_t>(count));
    return true;
  }

  int descriptor_ = -1;
  pid_t child_ = -1;
  bool ended_ = false;
  bool timed_out_ = false;
  std::string pending_;
};

TEST(ChatTest, AnswersAndLeaves) {
  Terminal terminal({"--max-tokens", "4"});
  EXPECT_THAT(terminal.ReadUntil(kPrompt), HasSubstr("/? lists the commands"));
  const std::string question = "Once upon a time";
  const std::string text = terminal.Ask(question);
  const std::string answer = text.substr(text.rfind(question) + question.size());
  EXPECT_TRUE(std::any_of(answer.begin(), answer.end(), [](char c) { return std::isalpha(c) != 0; })) << text;
  terminal.Type("/bye\r");
  EXPECT_EQ(terminal.ExitCode(), 0);
}

TEST(ChatTest, TheConversationIsKeptUntilItIsCleared) {
  Terminal terminal({"--max-tokens", "8"});
  terminal.ReadUntil(kPrompt);
  // Without the echo, which comes twice where the line was typed before the prompt was there.
  const auto answer = [&] {
    const std::string question = "Tell me a story";
    const std::string text = terminal.Ask(question);
    return text.substr(text.rfind(question) + question.size());
  };
  const std::string first = answer();
  EXPECT_NE(answer(), first);
  EXPECT_THAT(terminal.Ask("/clear"), HasSubstr("forgotten"));
  EXPECT_EQ(answer(), first);
  terminal.Type(kCtrlD);
  EXPECT_EQ(terminal.ExitCode(), 0);
}

TEST(ChatTest, SettingsAreChangedAndShown) {
  Terminal terminal;
  terminal.ReadUntil(kPrompt);
  terminal.Ask("/set top-k 7");
  terminal.Ask("/set system You are a cat.");
  EXPECT_THAT(terminal.Ask("/show"), HasSubstr("top-k 7"));
  EXPECT_THAT(terminal.Ask("/show system"), HasSubstr("You are a cat."));
  EXPECT_THAT(terminal.Ask("/show model"), HasSubstr("models/tales"));
  EXPECT_THAT(terminal.Ask("/show template"), HasSubstr("message"));
  EXPECT_THAT(terminal.Ask("/set top-k many"), HasSubstr("expected a whole number"));
  EXPECT_THAT(terminal.Ask("/set flavour 1"), HasSubstr("there is no setting 'flavour'"));
  EXPECT_THAT(terminal.Ask("/dance"), HasSubstr("There is no command /dance"));
  EXPECT_THAT(terminal.Ask("/?"), HasSubstr("/clear"));
}

TEST(ChatTest, QuotesHoldSeveralLinesAndLinesAreRemembered) {
  Terminal terminal({"--max-tokens", "2"});
  terminal.ReadUntil(kPrompt);
  terminal.Type("\"\"\"The first line\r");
  terminal.ReadUntil("... ");
  EXPECT_THAT(terminal.Ask("the second\"\"\""), Not(HasSubstr("error")));
  terminal.Ask("/set top-k 3");
  terminal.Type(kUp);
  terminal.ReadUntil("/set top-k 3");
}

TEST(ChatTest, CtrlCStopsAnAnswerAndASecondOneLeaves) {
  Terminal terminal;
  terminal.ReadUntil(kPrompt);
  terminal.Type("Once upon a time\r");
  terminal.ReadUntil("time\r\n");
  terminal.ReadSomething();  // the answer has begun
  terminal.Type(kCtrlC);
  const std::string rest = terminal.ReadUntil(kPrompt);
  EXPECT_LT(rest.size(), 1000u) << "the answer went on";
  terminal.Type(kCtrlC);
  EXPECT_EQ(terminal.ExitCode(), 0);
}

TEST(ChatTest, CtrlDDuringAnAnswerLeavesAfterIt) {
  Terminal terminal({"--max-tokens", "30"});
  terminal.ReadUntil(kPrompt);
  terminal.Type("Once upon a time\r");
  terminal.ReadUntil("time\r\n");
  terminal.Type(kCtrlD);
  EXPECT_EQ(terminal.ExitCode(), 0);
}

TEST(ChatTest, CtrlCAtThePromptAsksOnceMore) {
  Terminal terminal({"--max-tokens", "2"});
  terminal.ReadUntil(kPrompt);
  terminal.Type(kCtrlC);
  EXPECT_THAT(terminal.ReadUntil(kPrompt), HasSubstr("Ctrl-C again"));
  terminal.Ask("Hello");
  terminal.Type(kCtrlC);
  EXPECT_THAT(terminal.ReadUntil(kPrompt), HasSubstr("Ctrl-C again"));
  terminal.Type(kCtrlC);
  EXPECT_EQ(terminal.ExitCode(), 0);
}

}  // namespace
}  // namespace lamina
