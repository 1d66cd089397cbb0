#include "cli/line_reader.h"

#include <histedit.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>

namespace lamina::cli {
namespace {

constexpr int kHistoryLines = 1000;

volatile std::sig_atomic_t g_interrupted = 0;

void OnInterrupt(int) { g_interrupted = 1; }

}  // namespace

struct LineReader::State {
  EditLine* edit = nullptr;
  History* history = nullptr;
  std::string prompt;

  static char* Prompt(EditLine* edit) {
    void* state = nullptr;
    el_get(edit, EL_CLIENTDATA, &state);
    return static_cast<State*>(state)->prompt.data();
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
  el_source(state_->edit, nullptr);
}

LineReader::~LineReader() {
  history_end(state_->history);
  el_end(state_->edit);
}

LineReader::Line LineReader::Read(const std::string& prompt) {
  state_->prompt = prompt;
  g_interrupted = 0;
  struct sigaction action = {};
  struct sigaction previous = {};
  action.sa_handler = OnInterrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous);  // without SA_RESTART: the read ends
  int count = 0;
  const char* text = el_gets(state_->edit, &count);
  sigaction(SIGINT, &previous, nullptr);
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
