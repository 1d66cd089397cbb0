#include "cli/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/line_reader.h"
#include "cli/run_report.h"

namespace lamina::cli {
namespace {

constexpr std::string_view kBlockQuote = "\"\"\"";

constexpr std::string_view kHelp =
    "/set NAME VALUE   change a setting: system, or a flag of lamina run: temperature, top-k, top-p, min-p,\n"
    "                  repeat-penalty, seed, max-tokens, stop, ...\n"
    "/set verbose|quiet  print durations and rates after each answer, or do not\n"
    "/show [settings|system|template|model]  what is in force\n"
    "/clear            forget the conversation\n"
    "/bye              leave\n"
    "/?                this help\n"
    "\"\"\" starts and ends a message of several lines. Ctrl-C stops an answer, a second one leaves.\n";

class Chat {
 public:
  Chat(TextModel& model, RunFlags flags, Output& out, Generator generator)
      : model_(model), flags_(std::move(flags)), out_(out), generator_(std::move(generator)) {}

  Result<ExitCode> Loop() {
    for (;;) {
      LineReader::Line line = reader_.Read(">>> ");
      if (line.outcome == LineReader::Outcome::kEnd) return Leave();
      if (line.outcome == LineReader::Outcome::kInterrupted) {
        if (std::exchange(interrupted_before_, true)) return Leave();
        out_.Write("Ctrl-C again or /bye leaves.\n");
        LAMINA_RETURN_IF_ERROR(out_.Flush());
        continue;
      }
      interrupted_before_ = false;
      if (line.text.empty()) continue;
      if (line.text.rfind(kBlockQuote, 0) == 0 && !ReadBlock(line.text)) continue;
      reader_.AddToHistory(line.text);
      if (line.text[0] == '/') {
        if (line.text == "/bye" || line.text == "/exit" || line.text == "/quit") return Leave();
        out_.Write(Command(line.text));
      } else if (const Status status = Answer(line.text); !status.ok()) {
        if (out_.reader_gone()) return status;
        fmt::print(stderr, "error: {}\n", status.message());
      }
      LAMINA_RETURN_IF_ERROR(out_.Flush());
    }
  }

 private:
  Result<ExitCode> Leave() {
    LAMINA_RETURN_IF_ERROR(out_.Flush());
    return ExitCode::kSuccess;
  }

  // Replaces `text`, which begins with """, by the message up to the closing """. False where it was given
  // up.
  bool ReadBlock(std::string& text) {
    text.erase(0, kBlockQuote.size());
    for (;;) {
      if (const size_t end = text.rfind(kBlockQuote); end != std::string::npos) {
        text.erase(end);
        return !text.empty();
      }
      const LineReader::Line line = reader_.Read("... ");
      if (line.outcome != LineReader::Outcome::kLine) return false;
      text += "\n" + line.text;
    }
  }

  Status Answer(const std::string& text) {
    LAMINA_ASSIGN_OR_RETURN(const GenerationSettings settings,
                            ResolveSampling(flags_.sampling, model_.folder.sampling));
    const bool with_template = model_.chat_template && !flags_.raw;
    std::vector<ChatMessage> messages;
    if (!flags_.system.empty()) messages.push_back({"system", flags_.system});
    messages.insert(messages.end(), turns_.begin(), turns_.end());
    messages.push_back({"user", text});
    LAMINA_ASSIGN_OR_RETURN(GenerationRequest request, model_.NewRequest(settings));
    if (with_template) {
      LAMINA_ASSIGN_OR_RETURN(request.prompt, model_.EncodeChat(messages));
    } else {
      LAMINA_ASSIGN_OR_RETURN(request.prompt, model_.tokenizer->EncodePrompt(text));
    }
    request.on_text = [&](std::string_view piece) {
      out_.Write(piece);
      return out_.Flush();
    };
    CancelToken cancel;
    request.run.cancel = &cancel;
    Result<Generation> answer = [&] {
      const InterruptGuard interrupt(cancel);
      return generator_.Generate(request);
    }();
    if (!answer.ok()) return answer.status();
    interrupted_before_ = answer->reason == StopReason::kCancelled;
    out_.Write("\n\n");
    LAMINA_RETURN_IF_ERROR(out_.Flush());
    if (answer->reason == StopReason::kContextFull) {
      fmt::print(stderr, "The context of {} tokens is full; /clear starts anew.\n",
                 model_.engine->context_length_tokens());
    }
    if (flags_.verbose) fmt::print(stderr, "{}\n", VerboseReport(model_, *answer, settings.sampling.seed));
    turns_.push_back({"user", text});
    turns_.push_back({"assistant", answer->text});
    return Status();
  }

  std::string Command(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    std::string name;
    words >> command >> name >> std::ws;
    std::string value;
    std::getline(words, value);
    if (command == "/?" || command == "/help") return std::string(kHelp);
    if (command == "/clear") {
      turns_.clear();
      const Status cleared = generator_.Clear();
      return cleared.ok() ? "The conversation is forgotten.\n" : cleared.message() + "\n";
    }
    if (command == "/set") return Set(name, value);
    if (command == "/show") return Show(name);
    return fmt::format("There is no command {}; /? lists them.\n", command);
  }

  std::string Set(const std::string& name, const std::string& value) {
    if (name == "verbose" || name == "quiet") {
      flags_.verbose = name == "verbose";
      return "";
    }
    if (name.empty()) return "Usage: /set NAME VALUE\n";
    if (name == "system") {
      flags_.system = value;
      return "";
    }
    SamplingFlags changed = flags_.sampling;
    Status status = SetSamplingFlag(changed, name, value);
    if (status.ok()) status = ResolveSampling(changed, model_.folder.sampling).status();
    if (!status.ok()) return status.message() + "\n";
    flags_.sampling = changed;
    return "";
  }

  std::string Show(const std::string& what) {
    if (what == "system") return flags_.system + "\n";
    if (what == "template") {
      return model_.chat_template ? model_.chat_template->source() + "\n"
                                  : "The model has no chat template.\n";
    }
    if (what == "model") {
      return fmt::format("{}\ntype {}\ncontext {} tokens\nKV cache {}\n", model_.folder.model_path,
                         model_.folder.model_type.empty() ? "unknown" : model_.folder.model_type,
                         model_.engine->context_length_tokens(),
                         ApproximateByteSize(model_.engine->kv_cache_bytes()));
    }
    if (!what.empty() && what != "settings") return "Usage: /show [settings|system|template|model]\n";
    const Result<GenerationSettings> settings = ResolveSampling(flags_.sampling, model_.folder.sampling);
    return settings.ok() ? DescribeSampling(*settings) : settings.status().message() + "\n";
  }

  TextModel& model_;
  RunFlags flags_;
  Output& out_;
  Generator generator_;
  LineReader reader_;
  std::vector<ChatMessage> turns_;
  bool interrupted_before_ = false;  // the last thing the user did was Ctrl-C: another one leaves
};

}  // namespace

Result<ExitCode> RunChat(TextModel& model, RunFlags flags, Output& out) {
  LAMINA_ASSIGN_OR_RETURN(Generator generator, Generator::Create(*model.engine, *model.tokenizer));
  out.Write("/? lists the commands, /bye leaves.\n");
  LAMINA_RETURN_IF_ERROR(out.Flush());
  return Chat(model, std::move(flags), out, std::move(generator)).Loop();
}

}  // namespace lamina::cli
