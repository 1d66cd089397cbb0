// An engine of a simulated device: a thread that does what is put on it, in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "outcome.h"

namespace sim {

// A point in a stream: done once, with the first error of the work before it. Thread-safe.
class Event {
 public:
  void Complete(const Outcome& outcome);
  // Blocks until Complete.
  Outcome Wait() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable completed_;
  bool done_ = false;
  Outcome outcome_;
};

// Work never waits for work that is put on any queue later, so that queues that wait for each other's events
// do not stand still. Thread-safe.
class Queue {
 public:
  Queue();
  // Does what is left on it first.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void Put(std::function<void()> work);

 private:
  void Serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace sim
