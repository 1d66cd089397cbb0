#include "providers/plugin/plugin_memory.h"

#include <cstring>

#include "base/error.h"
#include "providers/cpu/cpu_provider.h"
#include "providers/plugin/host_status.h"
#include "providers/plugin/plugin_stream.h"
#include "providers/plugin/plugin_table.h"

namespace lamina::plugin {
namespace {

constexpr uintptr_t kAlignmentBytes = 256;

class HostBackedAllocator : public Allocator {
 public:
  explicit HostBackedAllocator(Device device) : device_(device) {}
  Device device() const override { return device_; }
  Result<void*> Alloc(uint64_t bytes) override { return host_.Alloc(bytes); }
  void Free(void* memory) override { host_.Free(memory); }
  AllocatorStats GetStats() const override { return host_.GetStats(); }

 private:
  HostAllocator host_;
  const Device device_;
};

}  // namespace

Status PluginAllocator::Check(const LaminaAllocator* allocator) {
  constexpr std::string_view kWhat = "its allocator";
  LAMINA_RETURN_IF_ERROR(CheckTable(allocator, kWhat));
  LAMINA_RETURN_IF_ERROR(RequireEntry(allocator->Alloc, kWhat, "Alloc"));
  return RequireEntry(allocator->Free, kWhat, "Free");
}

PluginAllocator::~PluginAllocator() {
  if (ep_.ReleaseAllocator) ep_.ReleaseAllocator(&ep_, &allocator_);
}

Result<void*> PluginAllocator::Checked(LaminaStatus* status, void* memory, uint64_t bytes) const {
  const std::string designator = device_.ToString();
  if (status) return TakeStatus(status, designator).WithContext(designator);
  if (!memory) {
    return InternalError("{}: the allocator returned null for {} bytes and no status", designator, bytes);
  }
  if (reinterpret_cast<uintptr_t>(memory) % kAlignmentBytes != 0) {
    allocator_.Free(&allocator_, memory);
    return InternalError("{}: the allocator returned memory that is not aligned to {} bytes", designator,
                         kAlignmentBytes);
  }
  return memory;
}

Result<void*> PluginAllocator::Alloc(uint64_t bytes) {
  void* memory = nullptr;
  LaminaStatus* status = allocator_.Alloc(&allocator_, bytes, &memory);
  return Checked(status, memory, bytes);
}

Result<void*> PluginAllocator::Reserve(uint64_t bytes) {
  if (!allocator_.Reserve) return Alloc(bytes);
  void* memory = nullptr;
  LaminaStatus* status = allocator_.Reserve(&allocator_, bytes, &memory);
  return Checked(status, memory, bytes);
}

Result<void*> PluginAllocator::AllocOnStream(uint64_t bytes, Stream& stream) {
  const auto alloc_on_stream = EntrySince(2, allocator_, &LaminaAllocator::AllocOnStream);
  auto* plugin_stream = dynamic_cast<PluginStream*>(&stream);
  if (!alloc_on_stream || !plugin_stream) return Alloc(bytes);
  void* memory = nullptr;
  LaminaStatus* status = alloc_on_stream(&allocator_, bytes, &plugin_stream->impl(), &memory);
  return Checked(status, memory, bytes);
}

void PluginAllocator::Free(void* memory) {
  if (memory) allocator_.Free(&allocator_, memory);
}

AllocatorStats PluginAllocator::GetStats() const {
  const auto get_stats = EntrySince(2, allocator_, &LaminaAllocator::GetStats);
  LaminaAllocatorStats stats{};
  stats.lamina_version = LAMINA_EP_API_VERSION;
  if (!get_stats || !TakeStatus(get_stats(&allocator_, &stats)).ok()) return {};
  AllocatorStats taken;
  taken.limit_bytes = stats.limit_bytes;
  taken.in_use_bytes = stats.in_use_bytes;
  taken.total_allocated_bytes = stats.total_allocated_bytes;
  taken.max_in_use_bytes = stats.max_in_use_bytes;
  taken.max_alloc_size_bytes = stats.max_alloc_size_bytes;
  taken.num_allocs = stats.num_allocs;
  taken.num_reserves = stats.num_reserves;
  taken.num_arena_extensions = stats.num_arena_extensions;
  taken.num_arena_shrinkages = stats.num_arena_shrinkages;
  return taken;
}

std::unique_ptr<Allocator> MakeHostBackedAllocator(Device device) {
  return std::make_unique<HostBackedAllocator>(device);
}

Status PluginDataTransfer::Check(const LaminaDataTransferImpl* transfer) {
  constexpr std::string_view kWhat = "its data transfer";
  LAMINA_RETURN_IF_ERROR(CheckTable(transfer, kWhat));
  LAMINA_RETURN_IF_ERROR(RequireEntry(transfer->CanCopy, kWhat, "CanCopy"));
  return RequireEntry(transfer->Copy, kWhat, "Copy");
}

bool PluginDataTransfer::CanCopy(const Device& source, const Device& destination) const {
  if (!devices_.Has(source) || !devices_.Has(destination)) return false;
  return transfer_.CanCopy(&transfer_, *devices_.IndexOf(source), *devices_.IndexOf(destination));
}

Status PluginDataTransfer::CopyAsync(const MemoryCopy& copy, Stream* stream) {
  LaminaMemoryCopy described{};
  described.lamina_version = LAMINA_EP_API_VERSION;
  described.source = copy.source;
  described.destination = copy.destination;
  described.size_bytes = copy.size_bytes;
  LAMINA_ASSIGN_OR_RETURN(described.source_device, devices_.IndexOf(copy.source_device));
  LAMINA_ASSIGN_OR_RETURN(described.destination_device, devices_.IndexOf(copy.destination_device));
  // Without a stream of the plugin's the copy is done on return.
  LaminaSyncStreamImpl* plugin_stream = nullptr;
  if (auto* own = dynamic_cast<PluginStream*>(stream)) plugin_stream = &own->impl();
  const LaminaMemoryCopy* copies[] = {&described};
  LaminaStatus* status = transfer_.Copy(&transfer_, copies, 1, plugin_stream);
  if (!status) return Status();
  const Device& device = copy.destination_device.is_host() ? copy.source_device : copy.destination_device;
  return TakeStatus(status, device.ToString())
      .WithContext(fmt::format("copy of {} bytes from {} to {}", copy.size_bytes,
                               copy.source_device.ToString(), copy.destination_device.ToString()));
}

bool HostBackedDataTransfer::CanCopy(const Device& source, const Device& destination) const {
  return devices_.Has(source) && devices_.Has(destination);
}

Status HostBackedDataTransfer::CopyAsync(const MemoryCopy& copy, Stream* stream) {
  // Work that is still on the stream may write the source or read the destination.
  if (stream) LAMINA_RETURN_IF_ERROR(stream->Synchronize());
  if (copy.size_bytes > 0) std::memcpy(copy.destination, copy.source, copy.size_bytes);
  return Status();
}

}  // namespace lamina::plugin
