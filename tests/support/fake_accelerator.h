// An execution provider without kernels whose device memory is host memory. Copies on streams are done later
// by a thread, so that memory that is reused too early gives wrong bytes; every operation can be made to
// fail; what is left behind is counted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "provider/host_registration.h"
#include "provider/provider.h"

namespace lamina::testing {

// Thread-safe after its settings are made.
class FakeAccelerator : public ExecutionProvider, public DataTransfer, public HostRegistration {
 public:
  FakeAccelerator();
  ~FakeAccelerator() override;

  static Device device() { return Device{DeviceKind::kGpu, 0}; }

  // --- Settings.
  // Called before each operation with its name: "alloc pinned", "alloc device", "create stream",
  // "create notification", "record", "copy", "copy now" (without a stream), "synchronize", "wait",
  // "register", "unregister". An error is returned instead of doing it, except that "unregister" is done all
  // the same.
  std::function<Status(const std::string& operation)> before;
  // Of each copy on a stream; during it the source is read last.
  std::chrono::microseconds copy_delay{0};
  bool can_register_read_only = true;

  // --- What is left and what was done.
  int live_allocations() const { return live_allocations_; }
  int live_streams() const { return live_streams_; }
  int live_registrations() const;
  int pinned_allocations() const { return pinned_allocations_; }
  int registrations() const { return registrations_; }
  int copies() const { return copies_; }
  int copies_now() const { return copies_now_; }
  // Copies on a stream from memory that was neither pinned nor registered when they were put there, or that
  // was given back before they were done.
  int unsafe_copies() const { return unsafe_copies_; }

  // --- ExecutionProvider, DataTransfer, HostRegistration.
  std::string_view name() const override { return "fake"; }
  std::string_view vendor() const override { return "fake"; }
  DeviceKind device_kind() const override { return DeviceKind::kGpu; }
  const KernelRegistry& kernel_registry() const override { return kernels_; }
  std::span<const DeviceDescription> devices() const override { return devices_; }
  Result<std::unique_ptr<Allocator>> CreateAllocator(const Device& device, MemoryKind kind) override;
  DataTransfer* data_transfer() override { return this; }
  Result<std::unique_ptr<Stream>> CreateStream(const Device& device, StreamPurpose purpose) override;
  bool CanCopy(const Device& source, const Device& destination) const override;
  Status CopyAsync(const MemoryCopy& copy, Stream* stream) override;
  bool CanRegisterReadOnly() const override { return can_register_read_only; }
  Status Register(std::span<const std::byte> memory, HostAccess access) override;
  Status Unregister(std::span<const std::byte> memory) override;

 private:
  class HostMemoryAllocator;
  class FakeStream;
  class FakeNotification;

  Status Before(const std::string& operation) const;
  void AddPinned(const void* memory, uint64_t bytes);
  void RemovePinned(const void* memory);
  bool IsPinned(const void* memory, uint64_t bytes) const;

  KernelRegistry kernels_;
  std::vector<DeviceDescription> devices_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, uint64_t> pinned_;      // guarded by mutex_: allocated or registered
  std::map<const std::byte*, uint64_t> registered_;  // guarded by mutex_
  std::atomic<int> live_allocations_{0};
  std::atomic<int> live_streams_{0};
  std::atomic<int> pinned_allocations_{0};
  std::atomic<int> registrations_{0};
  std::atomic<int> copies_{0};
  std::atomic<int> copies_now_{0};
  std::atomic<int> unsafe_copies_{0};
};

}  // namespace lamina::testing
