#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

namespace lamina {
namespace {

int Increment(int x) { return x + 1; }

TEST(FunctionRefTest, BindsLambdasFunctionsAndConstObjects) {
  int calls = 0;
  const auto count = [&calls](int by) { calls += by; };
  const FunctionRef<void(int)> by_lambda = count;
  by_lambda(2);
  const FunctionRef<void(int)> copy = by_lambda;
  copy(3);
  EXPECT_EQ(calls, 5);
  const FunctionRef<int(int)> by_function = Increment;
  EXPECT_EQ(by_function(1), 2);
}

// Every chunk is exactly [k * grain, min((k + 1) * grain, count)) and comes once, for any number of threads.
TEST(ThreadPoolTest, CallsEveryChunkOnce) {
  std::mt19937 random(1);
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.num_threads(), threads);
    for (int round = 0; round < 200; ++round) {
      const int64_t count = random() % 1000;
      const int64_t grain = 1 + random() % 100;
      std::vector<std::atomic<int>> touched(count);
      std::atomic<bool> chunks_as_promised{true};
      pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end, int worker) {
        if (begin % grain != 0 || end != std::min(begin + grain, count)) chunks_as_promised = false;
        if (worker < 0 || worker >= threads) chunks_as_promised = false;
        for (int64_t i = begin; i < end; ++i) touched[i].fetch_add(1, std::memory_order_relaxed);
      });
      EXPECT_TRUE(chunks_as_promised);
      for (const auto& times : touched) ASSERT_EQ(times, 1);
    }
  }
}

TEST(ThreadPoolTest, EmptyAndHugeRanges) {
  ThreadPool pool(2);
  int calls = 0;
  pool.ParallelFor(0, 1, [&](int64_t, int64_t, int) { ++calls; });
  pool.ParallelFor(-5, 1, [&](int64_t, int64_t, int) { ++calls; });
  EXPECT_EQ(calls, 0);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> covered{0};
  pool.ParallelFor(kMax, kMax / 3, [&](int64_t begin, int64_t end, int) { covered += end - begin; });
  EXPECT_EQ(covered, kMax);
  std::atomic<int> chunks{0};
  pool.ParallelFor(3, 0, [&](int64_t, int64_t, int) { ++chunks; });
  EXPECT_EQ(chunks, 3);
}

TEST(ThreadPoolTest, AllThreadsTakePart) {
  ThreadPool pool(3);
  std::vector<int64_t> chunks_of(3, 0);
  // Every chunk waits until all three workers are inside at once.
  std::atomic<int> inside{0};
  pool.ParallelFor(3, 1, [&](int64_t, int64_t, int worker) {
    ++inside;
    while (inside < 3) std::this_thread::yield();
    ++chunks_of[worker];  // no two concurrent calls share a worker, so no lock
  });
  EXPECT_EQ(chunks_of, (std::vector<int64_t>{1, 1, 1}));
}

TEST(ThreadPoolTest, NestedLoopRunsInlineOnTheSameWorker) {
  ThreadPool pool(3);
  std::atomic<int> inner_chunks{0};
  std::atomic<bool> same{true};
  pool.ParallelFor(20, 1, [&](int64_t, int64_t, int worker) {
    const auto thread = std::this_thread::get_id();
    pool.ParallelFor(10, 3, [&](int64_t, int64_t, int inner_worker) {
      ++inner_chunks;
      if (inner_worker != worker || std::this_thread::get_id() != thread) same = false;
    });
  });
  EXPECT_EQ(inner_chunks, 80);
  EXPECT_TRUE(same);
}

TEST(ThreadPoolTest, LoopOnAnotherPoolInsideABodyRunsInline) {
  ThreadPool outer(2);
  ThreadPool inner(2);
  std::atomic<int> chunks{0};
  outer.ParallelFor(8, 1, [&](int64_t, int64_t, int) {
    inner.ParallelFor(4, 1, [&](int64_t, int64_t, int worker) { chunks += worker == 0 ? 1 : 100; });
  });
  EXPECT_EQ(chunks, 32);
}

TEST(ThreadPoolTest, ConcurrentCallersAreSerialised) {
  ThreadPool pool(2);
  std::atomic<int> loops_running{0};
  std::atomic<int> most{0};
  std::atomic<int64_t> sum{0};
  const auto caller = [&](int owner) {
    for (int round = 0; round < 300; ++round) {
      pool.ParallelFor(16, 1, [&](int64_t begin, int64_t, int) {
        const int before = loops_running.fetch_or(owner);
        if ((before | owner) == 3) most = 2;
        sum += begin;
        loops_running.fetch_and(~owner);
      });
    }
  };
  std::thread first(caller, 1);
  std::thread second(caller, 2);
  first.join();
  second.join();
  EXPECT_EQ(sum, 2 * 300 * 120);
  EXPECT_EQ(most, 0) << "chunks of two loops ran at the same time";
}

TEST(ThreadPoolTest, ExceptionsReachTheCallerAndThePoolLivesOn) {
  ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    EXPECT_THROW(pool.ParallelFor(100, 1,
                                  [&](int64_t begin, int64_t, int) {
                                    if (begin % 7 == 3) throw std::runtime_error("chunk failed");
                                  }),
                 std::runtime_error);
    std::atomic<int> chunks{0};
    pool.ParallelFor(100, 1, [&](int64_t, int64_t, int) { ++chunks; });
    EXPECT_EQ(chunks, 100);
  }
}

TEST(ThreadPoolTest, AnExceptionStopsTheHandingOut) {
  ThreadPool pool(2);
  std::atomic<int64_t> chunks{0};
  EXPECT_THROW(pool.ParallelFor(int64_t{1} << 60, 1,
                                [&](int64_t, int64_t, int) {
                                  if (++chunks > 10) throw std::runtime_error("enough");
                                }),
               std::runtime_error);
}

TEST(ThreadPoolTest, ParkedWorkersWakeUp) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than workers stay awake
    std::atomic<int> inside{0};
    pool.ParallelFor(2, 1, [&](int64_t, int64_t, int) {
      ++inside;
      while (inside < 2) std::this_thread::yield();
    });
  }
}

TEST(ThreadPoolTest, CallerParksForALongChunkAndWakes) {
  ThreadPool pool(2);
  std::atomic<int> inside{0};
  std::atomic<bool> slow_chunk_done{false};
  pool.ParallelFor(2, 1, [&](int64_t, int64_t, int worker) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
    if (worker != 1) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    slow_chunk_done = true;
  });
  EXPECT_TRUE(slow_chunk_done);
}

TEST(ThreadPoolTest, KeepAwakeScopesNest) {
  ThreadPool pool(2);
  const ThreadPool::KeepAwake outer(pool);
  for (int round = 0; round < 3; ++round) {
    const ThreadPool::KeepAwake inner(pool);
    std::atomic<int> chunks{0};
    pool.ParallelFor(4, 1, [&](int64_t, int64_t, int) { ++chunks; });
    EXPECT_EQ(chunks, 4);
  }
}

// Denormals are flushed on all threads exactly where the caller asked for it.
TEST(ThreadPoolTest, WorkersUseTheCallersFloatControl) {
  ThreadPool pool(3);
  const volatile float tiny = 1e-39f;
  const auto count_flushed = [&] {
    std::atomic<int> inside{0};
    std::atomic<int> flushed{0};
    pool.ParallelFor(3, 1, [&](int64_t, int64_t, int) {
      ++inside;
      while (inside < 3) std::this_thread::yield();
      if (tiny * 1.0f == 0.0f) ++flushed;
    });
    return flushed.load();
  };
  EXPECT_EQ(count_flushed(), 0);
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // FTZ and DAZ
  EXPECT_EQ(count_flushed(), 3);
  _mm_setcsr(before);
  EXPECT_EQ(count_flushed(), 0);
}

TEST(ThreadPoolTest, WorkersBlockSignals) {
  ThreadPool pool(2);
  std::atomic<int> inside{0};
  std::atomic<bool> blocked{false};
  pool.ParallelFor(2, 1, [&](int64_t, int64_t, int worker) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
    if (worker == 0) return;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked = sigismember(&mask, SIGINT) == 1;
  });
  EXPECT_TRUE(blocked);
}

// Random loops, pauses and pool sizes beyond the machine's cores, from two callers.
void Stress(int rounds, uint32_t seed) {
  ThreadPool pool(4);
  const auto caller = [&](uint32_t caller_seed) {
    std::mt19937 random(caller_seed);
    for (int round = 0; round < rounds; ++round) {
      const int64_t count = 1 + random() % 64;
      std::atomic<int64_t> sum{0};
      const int spin = static_cast<int>(random() % 50);
      pool.ParallelFor(count, 1 + random() % 4, [&](int64_t begin, int64_t end, int) {
        for (int i = 0; i < spin; ++i) _mm_pause();
        for (int64_t i = begin; i < end; ++i) sum.fetch_add(i, std::memory_order_relaxed);
      });
      ASSERT_EQ(sum, count * (count - 1) / 2);
      if (random() % 500 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    }
  };
  std::thread other(caller, seed);
  caller(seed + 1);
  other.join();
}

TEST(ThreadPoolTest, StressQuick) { Stress(3000, 7); }
TEST(ThreadPoolTest, StressFull) { Stress(1'000'000, 11); }

TEST(ThreadPoolTest, PoolsComeAndGo) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool(3);
    if (round % 2 == 0) {
      std::atomic<int> chunks{0};
      pool.ParallelFor(5, 1, [&](int64_t, int64_t, int) { ++chunks; });
      EXPECT_EQ(chunks, 5);
    }
  }
}

}  // namespace
}  // namespace lamina
