#include "support/fake_accelerator.h"

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "base/error.h"

namespace lamina::testing {

class FakeAccelerator::HostMemoryAllocator : public Allocator {
 public:
  HostMemoryAllocator(FakeAccelerator& accelerator, MemoryKind kind)
      : accelerator_(accelerator), kind_(kind) {}

  Device device() const override { return FakeAccelerator::device(); }
  MemoryKind memory_kind() const override { return kind_; }

  Result<void*> Alloc(uint64_t bytes) override {
    const bool pinned = kind_ == MemoryKind::kPinned;
    LAMINA_RETURN_IF_ERROR(accelerator_.Before(pinned ? "alloc pinned" : "alloc device"));
    void* const memory = std::aligned_alloc(256, (bytes + 256) / 256 * 256);
    std::memset(memory, 0xCD, bytes);
    ++accelerator_.live_allocations_;
    if (pinned) {
      ++accelerator_.pinned_allocations_;
      accelerator_.AddPinned(memory, bytes);
    }
    return memory;
  }

  void Free(void* memory) override {
    if (!memory) return;
    if (kind_ == MemoryKind::kPinned) accelerator_.RemovePinned(memory);
    --accelerator_.live_allocations_;
    std::free(memory);
  }

  AllocatorStats GetStats() const override { return {}; }

 private:
  FakeAccelerator& accelerator_;
  MemoryKind kind_;
};

// Copies are done in order by a thread.
class FakeAccelerator::FakeStream : public Stream {
 public:
  explicit FakeStream(FakeAccelerator& accelerator) : accelerator_(accelerator), thread_([this] { Main(); }) {
    ++accelerator_.live_streams_;
  }

  ~FakeStream() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    thread_.join();
    --accelerator_.live_streams_;
  }

  Device device() const override { return FakeAccelerator::device(); }
  void* handle() const override { return nullptr; }
  Status Flush() override { return Status(); }

  Status Synchronize() override {
    // What was put here is done also where this reports an error.
    WaitFor(position());
    return accelerator_.Before("synchronize");
  }

  Result<std::unique_ptr<Notification>> CreateNotification() override;

  void Put(const MemoryCopy& copy) {
    const std::lock_guard lock(mutex_);
    copies_.push_back(copy);
    ++put_;
    changed_.notify_all();
  }

  uint64_t position() const {
    const std::lock_guard lock(mutex_);
    return put_;
  }

  void WaitFor(uint64_t position) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= position; });
  }

 private:
  void Main() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !copies_.empty(); });
      if (copies_.empty()) return;
      const MemoryCopy copy = copies_.front();
      copies_.pop_front();
      lock.unlock();
      std::this_thread::sleep_for(accelerator_.copy_delay);
      if (!accelerator_.IsPinned(copy.source, copy.size_bytes)) {
        ++accelerator_.unsafe_copies_;
      } else {
        std::memcpy(copy.destination, copy.source, copy.size_bytes);
      }
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  FakeAccelerator& accelerator_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<MemoryCopy> copies_;
  uint64_t put_ = 0;
  uint64_t done_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

class FakeAccelerator::FakeNotification : public Notification {
 public:
  FakeNotification(FakeAccelerator& accelerator, FakeStream& stream)
      : accelerator_(accelerator), stream_(stream) {}

  Status Record() override {
    LAMINA_RETURN_IF_ERROR(accelerator_.Before("record"));
    position_ = stream_.position();
    return Status();
  }
  Status WaitOnStream(Stream&) override { return UnsupportedError("the fake accelerator has no waits"); }
  Status WaitOnHost() override {
    LAMINA_RETURN_IF_ERROR(accelerator_.Before("wait"));
    stream_.WaitFor(position_);
    return Status();
  }

 private:
  FakeAccelerator& accelerator_;
  FakeStream& stream_;
  uint64_t position_ = 0;
};

Result<std::unique_ptr<Notification>> FakeAccelerator::FakeStream::CreateNotification() {
  LAMINA_RETURN_IF_ERROR(accelerator_.Before("create notification"));
  return std::unique_ptr<Notification>(std::make_unique<FakeNotification>(accelerator_, *this));
}

FakeAccelerator::FakeAccelerator() {
  DeviceDescription description;
  description.device = device();
  description.provider = "fake";
  devices_.push_back(description);
}

FakeAccelerator::~FakeAccelerator() = default;

Status FakeAccelerator::Before(const std::string& operation) const {
  return before ? before(operation) : Status();
}

int FakeAccelerator::live_registrations() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(registered_.size());
}

void FakeAccelerator::AddPinned(const void* memory, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  pinned_.emplace(static_cast<const std::byte*>(memory), bytes);
}

void FakeAccelerator::RemovePinned(const void* memory) {
  const std::lock_guard lock(mutex_);
  pinned_.erase(static_cast<const std::byte*>(memory));
}

bool FakeAccelerator::IsPinned(const void* memory, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto* const begin = static_cast<const std::byte*>(memory);
  auto after = pinned_.upper_bound(begin);
  if (after == pinned_.begin()) return false;
  --after;
  return begin + bytes <= after->first + after->second;
}

Result<std::unique_ptr<Allocator>> FakeAccelerator::CreateAllocator(const Device&, MemoryKind kind) {
  return std::unique_ptr<Allocator>(std::make_unique<HostMemoryAllocator>(*this, kind));
}

Result<std::unique_ptr<Stream>> FakeAccelerator::CreateStream(const Device&, StreamPurpose) {
  LAMINA_RETURN_IF_ERROR(Before("create stream"));
  return std::unique_ptr<Stream>(std::make_unique<FakeStream>(*this));
}

bool FakeAccelerator::CanCopy(const Device& source, const Device& destination) const {
  return source.is_host() && destination == device();
}

Status FakeAccelerator::CopyAsync(const MemoryCopy& copy, Stream* stream) {
  LAMINA_RETURN_IF_ERROR(Before(stream ? "copy" : "copy now"));
  ++(stream ? copies_ : copies_now_);
  if (!stream) {
    std::memcpy(copy.destination, copy.source, copy.size_bytes);
    return Status();
  }
  if (!IsPinned(copy.source, copy.size_bytes)) ++unsafe_copies_;
  static_cast<FakeStream*>(stream)->Put(copy);
  return Status();
}

Status FakeAccelerator::Register(std::span<const std::byte> memory, HostAccess access) {
  LAMINA_RETURN_IF_ERROR(Before("register"));
  if (access == HostAccess::kReadOnly && !can_register_read_only) {
    return UnsupportedError("the fake accelerator registers no read-only memory");
  }
  AddPinned(memory.data(), memory.size());
  ++registrations_;
  const std::lock_guard lock(mutex_);
  registered_.emplace(memory.data(), memory.size());
  return Status();
}

Status FakeAccelerator::Unregister(std::span<const std::byte> memory) {
  RemovePinned(memory.data());
  {
    const std::lock_guard lock(mutex_);
    registered_.erase(memory.data());
  }
  return Before("unregister");
}

}  // namespace lamina::testing
