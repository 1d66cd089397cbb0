#include "queue.h"

#include <utility>

namespace sim {

void Event::Complete(const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  done_ = true;
  outcome_ = outcome;
  completed_.notify_all();
}

Outcome Event::Wait() const {
  std::unique_lock lock(mutex_);
  completed_.wait(lock, [this] { return done_; });
  return outcome_;
}

Queue::Queue() : thread_([this] { Serve(); }) {}

Queue::~Queue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Queue::Put(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void Queue::Serve() {
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
  }
}

}  // namespace sim
