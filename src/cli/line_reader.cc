#include "cli/line_reader.h"

#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cwchar>

namespace lamina::cli {
namespace {

constexpr int kHistoryLines = 1000;
constexpr char kEndOfInput = '\x04';  // Ctrl-D

volatile std::sig_atomic_t g_interrupted = 0;

void OnInterrupt(int) { g_interrupted = 1; }

// While it lives, SIGINT sets g_interrupted, and comes through only while WaitForInput waits: one that came
// before the wait is not lost.
class InterruptScope {
 public:
  InterruptScope() {
    g_interrupted = 0;
    struct sigaction action = {};
    action.sa_handler = OnInterrupt;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &previous_action_);
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, &previous_mask_);
  }
  ~InterruptScope() {
    // One that is still pending belongs to the line that was read.
    pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
    sigaction(SIGINT, &previous_action_, nullptr);
  }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // Until standard input can be read; false after an interrupt or an error.
  bool WaitForInput() const {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    int ready = -1;
    do {
      ready = ppoll(&input, 1, nullptr, &previous_mask_);
    } while (ready < 0 && errno == EINTR && g_interrupted == 0);
    return ready > 0 && g_interrupted == 0;
  }

 private:
  struct sigaction previous_action_ = {};
  sigset_t previous_mask_ = {};
};

}  // namespace

struct LineReader::State {
  EditLine* edit = nullptr;
  History* history = nullptr;
  std::string prompt;
  const InterruptScope* interrupts = nullptr;

  static State& Of(EditLine* edit) {
    void* state = nullptr;
    el_get(edit, EL_CLIENTDATA, &state);
    return *static_cast<State*>(state);
  }

  static char* Prompt(EditLine* edit) { return Of(edit).prompt.data(); }

  // libedit's reader: 1 and a character, 0 at the end, -1 to give up.
  static int ReadCharacter(EditLine* edit, wchar_t* character) {
    std::mbstate_t decoding = {};
    for (;;) {
      if (!Of(edit).interrupts->WaitForInput()) return -1;
      char byte = 0;
      const ssize_t count = read(STDIN_FILENO, &byte, 1);
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count <= 0) return static_cast<int>(count);
      // What the terminal keeps of a Ctrl-D that was typed before its line was asked for.
      if (byte == '\0') byte = kEndOfInput;
      const size_t decoded = std::mbrtowc(character, &byte, 1, &decoding);
      if (decoded == static_cast<size_t>(-2)) continue;  // more bytes are needed
      if (decoded != static_cast<size_t>(-1)) return 1;
      decoding = {};  // not in the terminal's encoding: left out
    }
  }
};

LineReader::LineReader() : state_(std::make_unique<State>()) {
  // libedit decodes the terminal's characters by the locale.
  std::setlocale(LC_CTYPE, "");
  state_->edit = el_init("lamina", stdin, stdout, stderr);
  state_->history = history_init();
  HistEvent event;
  history(state_->history, &event, H_SETSIZE, kHistoryLines);
  history(state_->history, &event, H_SETUNIQUE, 1);
  el_set(state_->edit, EL_CLIENTDATA, state_.get());
  el_set(state_->edit, EL_PROMPT, &State::Prompt);
  el_set(state_->edit, EL_EDITOR, "emacs");
  el_set(state_->edit, EL_HIST, history, state_->history);
  el_set(state_->edit, EL_SIGNAL, 0);
  el_set(state_->edit, EL_GETCFN, &State::ReadCharacter);
  el_source(state_->edit, nullptr);
  // Ctrl-C discards nothing: the terminal would do so after the signal, and might take the next prompt away.
  for (const char* mode : {"-d", "-x"}) {
    const char* arguments[] = {"setty", mode, "+noflsh"};
    el_parse(state_->edit, 3, arguments);
  }
}

LineReader::~LineReader() {
  history_end(state_->history);
  el_end(state_->edit);
}

LineReader::Line LineReader::Read(const std::string& prompt) {
  state_->prompt = prompt;
  const InterruptScope interrupts;
  state_->interrupts = &interrupts;
  // Before the prompt is there and not, as el_gets does, after it: what is typed at once is for the editor.
  el_set(state_->edit, EL_PREP_TERM, 1);
  int count = 0;
  const char* text = el_gets(state_->edit, &count);
  if (g_interrupted) {
    el_reset(state_->edit);
    std::fputc('\n', stdout);
    return {Outcome::kInterrupted, ""};
  }
  if (!text || count <= 0) return {Outcome::kEnd, ""};
  Line line{Outcome::kLine, std::string(text, static_cast<size_t>(count))};
  while (!line.text.empty() && (line.text.back() == '\n' || line.text.back() == '\r')) line.text.pop_back();
  return line;
}

void LineReader::AddToHistory(const std::string& text) {
  if (text.empty()) return;
  HistEvent event;
  history(state_->history, &event, H_ENTER, text.c_str());
}

}  // namespace lamina::cli
