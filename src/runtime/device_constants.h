// The constants that kernels on devices read, in one block of memory on each device.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "lamina/value.h"
#include "model/initializer.h"
#include "runtime/session_devices.h"
#include "weights/external_data.h"

namespace lamina {

// Use by use the builder of an executable says which constants it needs where, and which of those uses end
// because a kernel packs the constant; then everything that is still used is placed and loaded.
class DeviceConstants {
 public:
  using Progress = std::function<Status(uint64_t bytes)>;

  // `data` gives the places of external initializers to providers with a loader of their own.
  DeviceConstants(const SessionDevices& devices, std::shared_ptr<ExternalData> data)
      : devices_(devices), data_(std::move(data)) {}
  ~DeviceConstants();
  DeviceConstants(const DeviceConstants&) = delete;
  DeviceConstants& operator=(const DeviceConstants&) = delete;

  // The constant on the device, a value that is filled by Load. `host`: where it is now; `initializer`: what
  // it comes from.
  const Value* Use(int32_t device, const Value& host, const Initializer& initializer);
  // One use less: `constant` from Use.
  void EndUse(const Value* constant);
  // Room for a packed weight, given by PackedMemory after Load. The number of the room.
  size_t ReservePacked(int32_t device, uint64_t bytes);

  // Allocates the blocks and fills the constants in use. RESOURCE_EXHAUSTED with the bytes of the block.
  Status Load(const Progress& progress);
  // Of a constant from Use, also where it is not on its device.
  uint64_t SizeBytes(const Value* constant) const {
    return by_value_.at(constant)->host->tensor().size_bytes();
  }
  void* PackedMemory(size_t room) const { return rooms_[room].memory; }

  // Keeps a constant that is in no block on its device for as long as the object lives.
  class Temporary {
   public:
    Temporary() = default;
    Temporary(DeviceConstants* constants, const Value* constant, std::shared_ptr<void> memory)
        : constants_(constants), constant_(constant), memory_(std::move(memory)) {}
    ~Temporary();
    Temporary(Temporary&& other) noexcept
        : constants_(std::exchange(other.constants_, nullptr)),
          constant_(other.constant_),
          memory_(std::move(other.memory_)) {}
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    Temporary& operator=(Temporary&&) = delete;

   private:
    DeviceConstants* constants_ = nullptr;
    const Value* constant_ = nullptr;
    std::shared_ptr<void> memory_;  // of all that were loaded together
  };
  // Those of `constants`, all of one device, that are not there yet, loaded together.
  Result<std::vector<Temporary>> LoadTemporarily(std::span<const Value* const> constants,
                                                 const Progress& progress);

  // What loading took so far.
  struct LoadTimes {
    int64_t allocate_ns = 0;
    int64_t fill_ns = 0;
    uint64_t bytes = 0;  // brought to devices
    std::vector<DeviceLoadStats> loads;
  };
  const LoadTimes& times() const { return times_; }

  uint64_t block_bytes(int32_t device) const { return blocks_[static_cast<size_t>(device)].size_bytes; }

 private:
  struct Constant {
    Value value;
    const Value* host = nullptr;
    const Initializer* initializer = nullptr;
    int32_t device = -1;
    int uses = 0;
  };
  struct Room {
    int32_t device = -1;
    uint64_t size_bytes = 0;
    void* memory = nullptr;
  };
  struct Block {
    void* memory = nullptr;
    uint64_t size_bytes = 0;
  };

  Status AllocateBlocks();
  // Makes the constant a tensor at `memory`.
  void PlaceAt(Constant& constant, void* memory);
  void CountLoad(const SessionDevice& device);
  // Fills placed constants, those of files by the provider's loader where it has one.
  Status Fill(const std::vector<Constant*>& constants, const Progress& progress);
  const SessionDevice& DeviceOf(const Constant& constant) const {
    return devices_[static_cast<size_t>(constant.device)];
  }

  const SessionDevices& devices_;
  std::shared_ptr<ExternalData> data_;
  std::deque<Constant> constants_;
  std::map<std::pair<int32_t, const Value*>, Constant*> by_host_;
  std::map<const Value*, Constant*> by_value_;
  std::vector<Room> rooms_;
  std::vector<Block> blocks_;  // by device
  LoadTimes times_;
};

}  // namespace lamina
