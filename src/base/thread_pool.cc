#include "base/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/os.h"

namespace lamina {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// The state of the gate: two flags above the number of workers inside.
constexpr uint32_t kGateClosed = 1u << 31;
constexpr uint32_t kCallerParked = 1u << 30;
constexpr uint32_t kInsideMask = kCallerParked - 1;

// How long a waiting thread spins before it yields the core between looks, and how long it stays awake.
constexpr auto kSpin = microseconds(50);
constexpr auto kSpinOversubscribed = microseconds(2);
constexpr auto kAwakeIdle = microseconds(100);
constexpr auto kAwakeInRun = microseconds(1000);
constexpr int kPausesPerClockRead = 32;
// A gap this long between two clock reads of a spinning thread means that the system gave its core to
// another.
constexpr auto kDescheduled = microseconds(200);
constexpr int kWaitsAfterDescheduling = 4096;

// MXCSR without its sticky exception flags.
uint32_t FloatControl() { return _mm_getcsr() & ~0x3fu; }

// The loop body that this thread is inside, if any.
struct CurrentWorker {
  const ThreadPool* pool = nullptr;
  int worker = 0;
};
thread_local CurrentWorker t_current;

class InsideBody {
 public:
  InsideBody(const ThreadPool* pool, int worker) { t_current = {pool, worker}; }
  ~InsideBody() { t_current = {}; }
  InsideBody(const InsideBody&) = delete;
  InsideBody& operator=(const InsideBody&) = delete;
};

void FutexWait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>& word, int threads) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

// Waits of one thread. Remembers whether the machine has more runnable threads than cores, where spinning
// only keeps the awaited thread from its core (measured: milliseconds a join instead of microseconds).
class Waiter {
 public:
  // Returns true as soon as `ready()`, false after `awake` without it: time to sleep.
  template <typename Ready>
  bool SpinThenYield(Ready ready, Clock::duration awake) {
    if (Poll(ready)) return true;
    const Clock::time_point start = Clock::now();
    const Clock::duration spin = waits_oversubscribed_ > 0 ? kSpinOversubscribed : kSpin;
    if (waits_oversubscribed_ > 0) --waits_oversubscribed_;
    Clock::time_point last = start;
    while (true) {
      if (Poll(ready)) return true;
      const Clock::time_point now = Clock::now();
      if (now - last > kDescheduled) waits_oversubscribed_ = kWaitsAfterDescheduling;
      last = now;
      if (now - start > awake) return false;
      if (now - start > spin) sched_yield();
    }
  }

 private:
  template <typename Ready>
  static bool Poll(Ready ready) {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (ready()) return true;
      _mm_pause();
    }
    return false;
  }

  int waits_oversubscribed_ = 0;
};

thread_local Waiter t_waiter;

void RunChunk(const ThreadPool::Body& body, int64_t chunk, int64_t count, int64_t grain, int worker) {
  const int64_t begin = chunk * grain;
  body(begin, begin + std::min(grain, count - begin), worker);
}

// Signals belong to the application's threads.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

ThreadPool::ThreadPool(int num_threads) : gate_(kGateClosed) {
  if (num_threads <= 0) num_threads = AvailableCores();
  threads_.reserve(num_threads - 1);
  const BlockSignals block;
  for (int worker = 1; worker < num_threads; ++worker) {
    try {
      threads_.emplace_back([this, worker] { WorkerMain(worker); });
    } catch (const std::system_error& error) {
      LogWarning("thread pool: {} threads instead of {}: {}", worker, num_threads, error.what());
      break;
    }
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  FutexWake(epoch_, INT_MAX);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::ParallelFor(int64_t count, int64_t grain, Body body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t chunks = (count - 1) / grain + 1;
  if (chunks == 1 || threads_.empty() || t_current.pool != nullptr) {
    const int worker = t_current.pool == this ? t_current.worker : 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) RunChunk(body, chunk, count, grain, worker);
    return;
  }

  const std::lock_guard lock(caller_mutex_);
  job_ = {&body, count, grain, chunks, FloatControl()};
  next_chunk_.store(0, std::memory_order_relaxed);
  OpenGate(chunks - 1);
  RunChunks(0);
  CloseGateAndWait();
  if (failed_.load(std::memory_order_relaxed)) {
    failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(exception_, nullptr));
  }
}

void ThreadPool::RunChunks(int worker) {
  const InsideBody inside(this, worker);
  try {
    while (true) {
      const int64_t chunk = next_chunk_.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= job_.chunks) return;
      RunChunk(*job_.body, chunk, job_.count, job_.grain, worker);
    }
  } catch (...) {
    next_chunk_.store(job_.chunks, std::memory_order_relaxed);
    if (!failed_.exchange(true, std::memory_order_relaxed)) exception_ = std::current_exception();
  }
}

void ThreadPool::WorkerMain(int worker) {
  pthread_setname_np(pthread_self(), "lamina-worker");
  uint32_t seen_epoch = 0;
  while (true) {
    const auto forked = [&] { return epoch_.load(std::memory_order_acquire) != seen_epoch; };
    const auto awake = keep_awake_.load(std::memory_order_relaxed) > 0 ? kAwakeInRun : kAwakeIdle;
    if (!t_waiter.SpinThenYield(forked, awake)) {
      // Sequentially consistent with OpenGate: either it sees this worker parked or this worker sees its
      // epoch.
      parked_workers_.fetch_add(1);
      while (epoch_.load() == seen_epoch) FutexWait(epoch_, seen_epoch);
      parked_workers_.fetch_sub(1, std::memory_order_relaxed);
    }
    seen_epoch = epoch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (EnterGate()) {
      if (FloatControl() != job_.float_control) _mm_setcsr(job_.float_control);
      RunChunks(worker);
    }
    LeaveGate();
  }
}

void ThreadPool::OpenGate(int64_t helpers) {
  gate_.fetch_and(~kGateClosed, std::memory_order_release);
  epoch_.fetch_add(1);
  if (parked_workers_.load() > 0) FutexWake(epoch_, static_cast<int>(std::min<int64_t>(helpers, INT_MAX)));
}

bool ThreadPool::EnterGate() { return (gate_.fetch_add(1, std::memory_order_acquire) & kGateClosed) == 0; }

void ThreadPool::LeaveGate() {
  const uint32_t before = gate_.fetch_sub(1, std::memory_order_release);
  if ((before & kCallerParked) != 0 && (before & kInsideMask) == 1) FutexWake(gate_, 1);
}

void ThreadPool::CloseGateAndWait() {
  if ((gate_.fetch_or(kGateClosed, std::memory_order_acquire) & kInsideMask) == 0) return;
  const auto empty = [&] { return (gate_.load(std::memory_order_acquire) & kInsideMask) == 0; };
  if (t_waiter.SpinThenYield(empty, kAwakeInRun)) return;
  uint32_t state = gate_.fetch_or(kCallerParked, std::memory_order_acquire) | kCallerParked;
  while ((state & kInsideMask) != 0) {
    FutexWait(gate_, state);
    state = gate_.load(std::memory_order_acquire);
  }
  gate_.fetch_and(~kCallerParked, std::memory_order_relaxed);
}

}  // namespace lamina
