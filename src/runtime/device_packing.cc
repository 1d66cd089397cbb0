#include "runtime/device_packing.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "runtime/node_prepack_context.h"

namespace lamina {
namespace {

// Packs the weights of one device, group by group.
class DevicePacker {
 public:
  DevicePacker(const DevicePackingContext& context, const SessionDevice& device, std::span<Step> steps)
      : context_(context), device_(device), steps_(steps) {}

  Status PackAll(std::span<const DevicePacking* const> packings) {
    std::vector<Memory> memory;
    uint64_t most_bytes = 0;
    for (const DevicePacking* packing : packings) {
      memory.push_back(MemoryOf(*packing));
      most_bytes = std::max(most_bytes, memory.back().total_bytes());
    }
    LAMINA_ASSIGN_OR_RETURN(stream_,
                            device_.provider->CreateStream(device_.device(), StreamPurpose::kCompute));
    for (size_t begin = 0, end = 0; begin < packings.size(); begin = end) {
      Memory group;
      for (; end < packings.size(); ++end) {
        const Memory with{group.originals_bytes + memory[end].originals_bytes,
                          std::max(group.scratch_bytes, memory[end].scratch_bytes)};
        if (end > begin && with.total_bytes() > most_bytes) break;
        group = with;
      }
      LAMINA_RETURN_IF_ERROR(PackGroup(packings.subspan(begin, end - begin)));
    }
    return Status();
  }

 private:
  // What packing takes beside its result, in granules of the device, as the plan counts it.
  struct Memory {
    uint64_t originals_bytes = 0;
    uint64_t scratch_bytes = 0;

    uint64_t total_bytes() const { return originals_bytes + scratch_bytes; }
  };

  uint64_t RoundUp(uint64_t bytes) const {
    const uint64_t granule = std::max<uint64_t>(device_.description.granularity_bytes, 1);
    return (bytes + granule - 1) / granule * granule;
  }

  std::vector<const Value*> OriginalsOf(const DevicePacking& packing) const {
    const Step& step = steps_[packing.step];
    std::vector<const Value*> originals;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const Value* constant = step.inputs[i].constant;
      if (constant && IsAbsorbedByPacking(i, packing.input, packing.declaration) &&
          !step.info->def.is_host_input(static_cast<int>(i))) {
        originals.push_back(constant);
      }
    }
    return originals;
  }

  Memory MemoryOf(const DevicePacking& packing) const {
    Memory memory{0, RoundUp(packing.declaration.scratch_bytes)};
    for (const Value* original : OriginalsOf(packing)) {
      memory.originals_bytes += RoundUp(context_.constants.SizeBytes(original));
    }
    return memory;
  }

  Status PackGroup(std::span<const DevicePacking* const> packings) {
    std::vector<const Value*> originals;
    uint64_t scratch_bytes = 0;
    for (const DevicePacking* packing : packings) {
      const std::vector<const Value*> more = OriginalsOf(*packing);
      originals.insert(originals.end(), more.begin(), more.end());
      scratch_bytes = std::max(scratch_bytes, packing->declaration.scratch_bytes);
    }
    LAMINA_ASSIGN_OR_RETURN(const std::vector<DeviceConstants::Temporary> temporaries,
                            context_.constants.LoadTemporarily(originals, context_.progress));
    // One packing after the other in the stream: they share it.
    std::shared_ptr<void> scratch;
    if (scratch_bytes > 0) {
      Allocator& allocator = *device_.memory;
      LAMINA_ASSIGN_OR_RETURN(void* memory, allocator.Reserve(scratch_bytes));
      scratch = std::shared_ptr<void>(memory, [&allocator](void* p) { allocator.Free(p); });
    }
    Status status;
    for (size_t i = 0; i < packings.size() && status.ok(); ++i) {
      const DevicePacking& packing = *packings[i];
      status = Pack(packing, scratch.get());
      if (!status.ok()) {
        status = status.WithContext(device_.name()).WithContext(NodeLabel(*steps_[packing.step].node));
      }
    }
    // After an error too: what the stream still reads is freed on return.
    const Status done = stream_ ? stream_->Synchronize() : Status();
    LAMINA_RETURN_IF_ERROR(status);
    return done.WithContext(device_.name());
  }

  // Starts the packing in the stream.
  Status Pack(const DevicePacking& packing, void* scratch) {
    Step& step = steps_[packing.step];
    void* packed = context_.constants.PackedMemory(packing.room);
    NodePrepackContext context(step, context_.threads, stream_ ? stream_->handle() : nullptr);
    LAMINA_RETURN_IF_ERROR(step.kernel->PrePackWeight(packing.input, context, packed, scratch));
    step.packed[static_cast<size_t>(packing.input)] = {packed, packing.declaration.packed_bytes};
    return Status();
  }

  const DevicePackingContext& context_;
  const SessionDevice& device_;
  const std::span<Step> steps_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace

Status PackWeightsOnDevices(const DevicePackingContext& context, std::span<const DevicePacking> packings,
                            std::span<Step> steps) {
  std::vector<std::vector<const DevicePacking*>> by_device(context.devices.size());
  for (const DevicePacking& packing : packings) {
    by_device[static_cast<size_t>(steps[packing.step].device)].push_back(&packing);
  }
  for (size_t device = 0; device < by_device.size(); ++device) {
    if (by_device[device].empty()) continue;
    LAMINA_RETURN_IF_ERROR(DevicePacker(context, context.devices[device], steps).PackAll(by_device[device]));
  }
  return Status();
}

}  // namespace lamina
