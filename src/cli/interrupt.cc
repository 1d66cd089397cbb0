#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace lamina::cli {
namespace {

// Touched by the signal handler: lock-free atomics only.
std::atomic<CancelToken*> g_token{nullptr};
std::atomic<bool> g_interrupted{false};

struct sigaction g_previous_interrupt;
struct sigaction g_previous_terminate;

void OnSignal(int signal) {
  if (g_interrupted.exchange(true)) _exit(128 + signal);
  if (CancelToken* token = g_token.load()) token->Cancel();
}

}  // namespace

InterruptGuard::InterruptGuard(CancelToken& token) {
  g_interrupted.store(false);
  g_token.store(&token);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &g_previous_interrupt);
  sigaction(SIGTERM, &action, &g_previous_terminate);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &g_previous_interrupt, nullptr);
  sigaction(SIGTERM, &g_previous_terminate, nullptr);
  g_token.store(nullptr);
}

bool InterruptGuard::interrupted() const { return g_interrupted.load(); }

}  // namespace lamina::cli
