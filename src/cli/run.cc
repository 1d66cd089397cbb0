#include "cli/run.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "base/error.h"
#include "cli/chat.h"
#include "cli/interrupt.h"
#include "cli/model_flags.h"
#include "cli/run_flags.h"
#include "cli/run_report.h"
#include "cli/sampling_flags.h"
#include "cli/text_model.h"
#include "cli/trace_file.h"

namespace lamina::cli {
namespace {

// All of standard input, without the line break at its end.
Result<std::string> ReadStandardInput() {
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    // A standard input that was closed is no input.
    if (count < 0 && errno != EBADF)
      return IoError("standard input cannot be read: {}", std::strerror(errno));
    if (count <= 0) break;
    text.append(buffer, static_cast<size_t>(count));
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

Result<std::string> CollectPrompt(const RunFlags& flags) {
  std::string prompt;
  for (const std::string& word : flags.prompt) prompt += (prompt.empty() ? "" : " ") + word;
  if (isatty(STDIN_FILENO)) return prompt;
  LAMINA_ASSIGN_OR_RETURN(const std::string piped, ReadStandardInput());
  if (!prompt.empty() && !piped.empty()) prompt += "\n\n";
  return prompt + piped;
}

Result<std::vector<int32_t>> EncodePrompt(const TextModel& model, const RunFlags& flags,
                                          const std::string& prompt) {
  if (flags.raw || !model.chat_template) {
    if (!flags.system.empty()) {
      return InvalidArgumentError("--system needs a chat template, which {}",
                                  flags.raw ? "--raw turns off" : "this model does not have");
    }
    return model.tokenizer->EncodePrompt(prompt);
  }
  std::vector<ChatMessage> messages;
  if (!flags.system.empty()) messages.push_back({"system", flags.system});
  messages.push_back({"user", prompt});
  return model.EncodeChat(messages);
}

Result<ExitCode> AnswerOnce(TextModel& model, const RunFlags& flags, const std::string& prompt, Output& out) {
  LAMINA_ASSIGN_OR_RETURN(const GenerationSettings settings,
                          ResolveSampling(flags.sampling, model.folder.sampling));
  LAMINA_ASSIGN_OR_RETURN(GenerationRequest request, model.NewRequest(settings));
  LAMINA_ASSIGN_OR_RETURN(request.prompt, EncodePrompt(model, flags, prompt));
  request.on_text = [&](std::string_view text) {
    out.Write(flags.json ? JsonPiece(text) : std::string(text));
    return out.Flush();
  };
  std::unique_ptr<TraceFile> trace;
  if (!flags.profile.empty()) {
    LAMINA_ASSIGN_OR_RETURN(trace, TraceFile::Create(flags.profile));
    request.run.on_step = [&](const StepProfile& step) { trace->Add(step); };
  }
  CancelToken cancel;
  request.run.cancel = &cancel;
  const InterruptGuard interrupt(cancel);
  LAMINA_ASSIGN_OR_RETURN(Generator generator, Generator::Create(*model.engine, *model.tokenizer));
  LAMINA_ASSIGN_OR_RETURN(const Generation answer, generator.Generate(request));
  if (trace) LAMINA_RETURN_IF_ERROR(trace->Close());
  const uint64_t seed = settings.sampling.seed;
  out.Write(flags.json ? JsonSummary(model, answer, seed) : "\n" + OtherSequences(answer));
  LAMINA_RETURN_IF_ERROR(out.Flush());
  if (flags.verbose) fmt::print(stderr, "\n{}", VerboseReport(model, answer, seed));
  return interrupt.interrupted() ? ExitCode::kFailure : ExitCode::kSuccess;
}

Result<ExitCode> Run(const RunFlags& flags, Output& out) {
  // Mistakes in flags show before a model is loaded.
  LAMINA_ASSIGN_OR_RETURN(const GenerationSettings settings, ResolveSampling(flags.sampling, {}));
  if (settings.sampling.top_log_probabilities >= 0 && !flags.json) {
    return InvalidArgumentError("--logprobs needs --json, which prints them");
  }
  LAMINA_ASSIGN_OR_RETURN(const std::string prompt, CollectPrompt(flags));
  const bool chat = prompt.empty() && isatty(STDIN_FILENO) && !flags.json;
  if (prompt.empty() && !chat) {
    return InvalidArgumentError("there is no prompt: give one as argument or on standard input");
  }
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<TextModel> model,
                          TextModel::Load(flags.model, flags.sampling));
  return chat ? RunChat(*model, flags, out) : AnswerOnce(*model, flags, prompt, out);
}

}  // namespace

void RegisterRunCommand(Commands& commands) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App& app = commands.Add("run", "Answer a prompt, or chat, with a language model",
                               [flags](Output& out) { return Run(*flags, out); });
  AddModelArgument(app, flags->model);
  AddModelFlags(app, flags->model);
  app.add_option("PROMPT", flags->prompt, "What the model answers; text on standard input is added to it");
  AddSamplingFlags(app, flags->sampling);
  app.add_option("--system", flags->system, "System message")->option_text("TEXT")->group("Generation");
  app.add_flag("--raw", flags->raw, "Complete the prompt as it stands, without the chat template")
      ->group("Generation");
  app.add_flag("--verbose", flags->verbose, "Print durations, rates and memory to standard error")
      ->group("Output");
  app.add_flag("--json", flags->json, "Print one JSON object a line")->group("Output");
  app.add_option("--profile", flags->profile, "Write a profile of every kernel (Chrome trace format)")
      ->option_text("FILE")
      ->group("Output");
}

}  // namespace lamina::cli
