#include "runtime/device_constants.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"

namespace lamina {
namespace {

constexpr uint64_t kAlignment = 256;

uint64_t RoundUp(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

DeviceConstants::~DeviceConstants() {
  for (size_t device = 0; device < blocks_.size(); ++device)
    devices_[device].memory->Free(blocks_[device].memory);
}

const Value* DeviceConstants::Use(int32_t device, const Value& host, const Initializer& initializer) {
  Constant*& constant = by_host_[{device, &host}];
  if (!constant) {
    constants_.push_back({Value(), &host, &initializer, device, 0});
    constant = &constants_.back();
    by_value_[&constant->value] = constant;
  }
  ++constant->uses;
  return &constant->value;
}

void DeviceConstants::EndUse(const Value* constant) { --by_value_.at(constant)->uses; }

size_t DeviceConstants::ReservePacked(int32_t device, uint64_t bytes) {
  rooms_.push_back({device, bytes, nullptr});
  return rooms_.size() - 1;
}

Status DeviceConstants::AllocateBlocks() {
  blocks_.assign(devices_.size(), {});
  std::vector<Constant*> placed;
  std::vector<uint64_t> offsets;
  const auto reserve = [&](int32_t device, uint64_t bytes) {
    uint64_t& end = blocks_[static_cast<size_t>(device)].size_bytes;
    const uint64_t offset = end;
    end += RoundUp(bytes);
    return offset;
  };
  for (Constant& constant : constants_) {
    if (constant.uses == 0) continue;
    placed.push_back(&constant);
    offsets.push_back(reserve(constant.device, constant.host->tensor().size_bytes()));
  }
  std::vector<uint64_t> room_offsets;
  for (const Room& room : rooms_) room_offsets.push_back(reserve(room.device, room.size_bytes));
  for (size_t device = 0; device < devices_.size(); ++device) {
    if (blocks_[device].size_bytes == 0) continue;
    Result<void*> memory = devices_[device].memory->Reserve(blocks_[device].size_bytes);
    if (!memory.ok()) return memory.status().WithContext("weights on " + devices_[device].name());
    blocks_[device].memory = *memory;
  }
  const auto at = [&](int32_t device, uint64_t offset) -> void* {
    return static_cast<std::byte*>(blocks_[static_cast<size_t>(device)].memory) + offset;
  };
  for (size_t i = 0; i < placed.size(); ++i) PlaceAt(*placed[i], at(placed[i]->device, offsets[i]));
  for (size_t i = 0; i < rooms_.size(); ++i) rooms_[i].memory = at(rooms_[i].device, room_offsets[i]);
  return Status();
}

void DeviceConstants::PlaceAt(Constant& constant, void* memory) {
  const Tensor& host = constant.host->tensor();
  constant.value =
      Value(Tensor::View(host.type(), host.shape(), memory, host.size_bytes(), DeviceOf(constant).device()));
}

Status DeviceConstants::Load(const Progress& progress) {
  const int64_t start_ns = SystemClock().NowNs();
  LAMINA_RETURN_IF_ERROR(AllocateBlocks());
  times_.allocate_ns += SystemClock().NowNs() - start_ns;
  std::vector<Constant*> used;
  for (Constant& constant : constants_) {
    if (constant.uses > 0) used.push_back(&constant);
  }
  return Fill(used, progress);
}

Status DeviceConstants::Fill(const std::vector<Constant*>& constants, const Progress& progress) {
  const int64_t start_ns = SystemClock().NowNs();
  std::map<IExternalDataLoader*, std::vector<ExternalDataItem>> batches;
  for (Constant* constant : constants) {
    const SessionDevice& device = DeviceOf(*constant);
    const Tensor& host = constant->host->tensor();
    Tensor& tensor = constant->value.tensor();
    times_.bytes += host.size_bytes();
    IExternalDataLoader* loader = device.loader();
    if (loader && data_ && constant->initializer->is_external() &&
        !DerivedTensors::IsDerived(*constant->initializer) && loader->CanLoad(device.device())) {
      LAMINA_ASSIGN_OR_RETURN(const FileRange range, data_->Locate(*constant->initializer));
      batches[loader].push_back({constant->initializer->name.view(), range.file, range.offset_bytes,
                                 range.length_bytes, host.type(), tensor.mutable_raw_data(),
                                 device.device()});
      continue;
    }
    const Status copied = device.CopyFromHost(host.raw_data(), tensor.mutable_raw_data(), host.size_bytes());
    LAMINA_RETURN_IF_ERROR(
        copied.WithContext(fmt::format("weight '{}'", constant->initializer->name.view())));
    if (progress) LAMINA_RETURN_IF_ERROR(progress(host.size_bytes()));
  }
  for (const auto& [loader, items] : batches) {
    LAMINA_RETURN_IF_ERROR(loader->LoadBatch(items, {progress}));
    for (const SessionDevice& device : devices_) {
      if (device.generic_loader.get() == loader) CountLoad(device);
    }
  }
  times_.fill_ns += SystemClock().NowNs() - start_ns;
  return Status();
}

void DeviceConstants::CountLoad(const SessionDevice& device) {
  const LoadReport report = device.generic_loader->last_report();
  auto found = std::find_if(times_.loads.begin(), times_.loads.end(),
                            [&](const DeviceLoadStats& load) { return load.device == device.device(); });
  if (found == times_.loads.end()) {
    times_.loads.push_back({device.device(), std::string(LoadStrategyName(report.strategy))});
    found = times_.loads.end() - 1;
  }
  found->bytes += report.bytes;
  found->total_ns += report.total_ns;
  found->read_ns += report.phases.read_ns;
  found->copy_ns += report.phases.copy_ns;
  found->wait_ns += report.phases.wait_ns;
}

Result<std::vector<DeviceConstants::Temporary>> DeviceConstants::LoadTemporarily(
    std::span<const Value* const> constants, const Progress& progress) {
  std::vector<const Value*> values;
  std::vector<Constant*> placed;
  std::vector<uint64_t> offsets;
  uint64_t size_bytes = 0;
  for (const Value* value : constants) {
    Constant& constant = *by_value_.at(value);
    if (constant.value.defined() || std::find(values.begin(), values.end(), value) != values.end()) continue;
    constexpr uint64_t kAlignment = 256;
    values.push_back(value);
    placed.push_back(&constant);
    offsets.push_back(size_bytes);
    size_bytes += (constant.host->tensor().size_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  std::vector<Temporary> temporaries;
  if (placed.empty()) return temporaries;
  // One allocation: copies of neighbours are put together, and a device refuses to copy from one allocation
  // into the next.
  Allocator& allocator = *DeviceOf(*placed.front()).memory;
  LAMINA_ASSIGN_OR_RETURN(void* allocated, allocator.Alloc(size_bytes));
  const std::shared_ptr<void> memory(allocated, [&allocator](void* p) { allocator.Free(p); });
  for (size_t i = 0; i < placed.size(); ++i) {
    PlaceAt(*placed[i], static_cast<std::byte*>(allocated) + offsets[i]);
    temporaries.emplace_back(this, values[i], memory);
  }
  LAMINA_RETURN_IF_ERROR(Fill(placed, progress));
  return temporaries;
}

DeviceConstants::Temporary::~Temporary() {
  if (!constants_) return;
  Constant& constant = *constants_->by_value_.at(constant_);
  constant.value = Value();
}

}  // namespace lamina
