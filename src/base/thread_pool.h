// ThreadPool: low-latency fork and join for kernels. A token of a language model is hundreds of parallel
// loops of some microseconds each, so a fork costs one cache line written and a join one counter read while
// the workers are awake; they wait by spinning, then yielding the core, then sleeping in the kernel.
//
//   pool.ParallelFor(rows, /*grain=*/16, [&](int64_t begin, int64_t end, int worker) {
//     for (int64_t row = begin; row < end; ++row) Normalize(row, scratch[worker]);
//   });
//
// Contract
// - The calling thread takes part as worker 0. A pool of n threads starts n - 1 of its own; n = 1 starts
// none.
// - `body` is called once for every chunk [k * grain, min((k + 1) * grain, count)), in any order. The chunks
// depend
//   on `count` and `grain` alone, never on the number of threads, so that a result may only depend on the
//   threads if `grain` or the use of `worker` does. A chunk should be worth 5 us of work or more.
// - `worker` is in [0, num_threads()); no two calls of one loop that run at the same time share it.
// - A loop started inside a parallel body runs inline on that worker: no nested parallelism.
// - Loops from several threads are run one after the other.
// - An exception of `body` stops the handing out of chunks; one of those thrown is rethrown by ParallelFor
// after all
//   workers have left the body.
// - Workers run each loop with the caller's MXCSR (rounding, flush-to-zero and denormals-are-zero), so that a
// caller
//   who sets FTZ/DAZ gets the same bits from every thread. The pool itself leaves denormals as IEEE has them.
// - ParallelFor never allocates.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace lamina {

class ThreadPool {
 public:
  using Body = FunctionRef<void(int64_t begin, int64_t end, int worker)>;

  // `num_threads` counts the caller; 0 means one for each physical core that the process may use
  // (AvailableCores()). Where the system refuses to start a thread the pool has fewer, with a warning in the
  // log.
  explicit ThreadPool(int num_threads = 0);
  // REQUIRES: no loop is running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(threads_.size()) + 1; }

  // A count of 0 or less calls nothing; a grain below 1 counts as 1.
  void ParallelFor(int64_t count, int64_t grain, Body body);

  // While one lives, idle workers stay awake for up to 1 ms instead of 0.1 ms. Hold it across the operators
  // of a run: waking a sleeping thread costs more than most loops.
  class KeepAwake {
   public:
    explicit KeepAwake(ThreadPool& pool) : pool_(pool) {
      pool_.keep_awake_.fetch_add(1, std::memory_order_relaxed);
    }
    ~KeepAwake() { pool_.keep_awake_.fetch_sub(1, std::memory_order_relaxed); }
    KeepAwake(const KeepAwake&) = delete;
    KeepAwake& operator=(const KeepAwake&) = delete;

   private:
    ThreadPool& pool_;
  };

 private:
  static constexpr int kCacheLineBytes = 64;
  struct Job {
    const Body* body = nullptr;
    int64_t count = 0;
    int64_t grain = 1;
    int64_t chunks = 0;
    uint32_t float_control = 0;  // the caller's MXCSR
  };

  void WorkerMain(int worker);
  // Takes chunks of the open job until none is left.
  void RunChunks(int worker);
  void OpenGate(int64_t helpers);
  void CloseGateAndWait();
  bool EnterGate();
  void LeaveGate();

  // Written by the caller at a fork, read by every worker: one cache line.
  alignas(kCacheLineBytes) std::atomic<uint32_t> epoch_{0};  // workers wait for a change of it
  Job job_;                                                  // stable while the gate is open
  std::atomic<bool> stop_{false};
  // The gate counts the workers inside the job. A worker that comes too late finds it closed and is not
  // waited for.
  alignas(kCacheLineBytes) std::atomic<uint32_t> gate_;
  alignas(kCacheLineBytes) std::atomic<int64_t> next_chunk_{0};
  alignas(kCacheLineBytes) std::atomic<int> parked_workers_{0};
  std::atomic<int> keep_awake_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr exception_;  // written by the one worker that set failed_
  std::mutex caller_mutex_;       // held for the whole of a loop
  std::vector<std::thread> threads_;
};

}  // namespace lamina
