#include "providers/plugin/plugin_provider.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "providers/plugin/host_graph.h"
#include "providers/plugin/host_status.h"
#include "providers/plugin/plugin_capability.h"
#include "providers/plugin/plugin_kernel.h"
#include "providers/plugin/plugin_loader.h"
#include "providers/plugin/plugin_memory.h"
#include "providers/plugin/plugin_stream.h"
#include "providers/plugin/plugin_table.h"

namespace lamina::plugin {

PluginProvider::PluginProvider(std::string name, std::string vendor, DeviceKind kind,
                               std::vector<DeviceDescription> devices, int16_t first_ordinal,
                               std::shared_ptr<OwnedFactory> factory)
    : name_(std::move(name)),
      vendor_(std::move(vendor)),
      devices_(std::move(devices)),
      map_{kind, first_ordinal, static_cast<int32_t>(devices_.size())},
      factory_(std::move(factory)) {}

PluginProvider::~PluginProvider() {
  if (ep_) factory_->factory.ReleaseEp(&factory_->factory, ep_);
}

Result<std::unique_ptr<PluginProvider>> PluginProvider::Make(
    std::string name, std::string vendor, DeviceKind kind, std::vector<DeviceDescription> devices,
    int16_t first_ordinal, std::shared_ptr<OwnedFactory> factory, LaminaEp* ep) {
  std::unique_ptr<PluginProvider> provider(new PluginProvider(
      std::move(name), std::move(vendor), kind, std::move(devices), first_ordinal, std::move(factory)));
  LAMINA_RETURN_IF_ERROR(provider->Open(ep));
  return provider;
}

Status PluginProvider::Open(LaminaEp* ep) {
  ep_ = ep;
  constexpr std::string_view kEp = "it";
  LAMINA_RETURN_IF_ERROR(CheckTable(ep, kEp));
  if (!ep->GetKernelRegistry && !ep->Compile) {
    return InternalError("it has neither GetKernelRegistry nor Compile: it could run nothing");
  }
  if (ep->Compile) {
    LAMINA_RETURN_IF_ERROR(RequireEntry(ep->ReleaseNodeComputeInfos, kEp, "ReleaseNodeComputeInfos"));
  }
  if (ep->CreateAllocator) {
    LAMINA_RETURN_IF_ERROR(RequireEntry(ep->ReleaseAllocator, kEp, "ReleaseAllocator"));
    LAMINA_RETURN_IF_ERROR(RequireEntry(ep->GetDataTransfer, kEp, "GetDataTransfer"));
  }
  LAMINA_RETURN_IF_ERROR(OpenKernels());
  return OpenMemory();
}

Status PluginProvider::OpenKernels() {
  if (!ep_->GetKernelRegistry) return Status();
  const LaminaKernelRegistry* registry = nullptr;
  LAMINA_RETURN_IF_ERROR(TakeStatus(ep_->GetKernelRegistry(ep_, &registry)));
  if (!registry) {
    return ep_->Compile ? Status() : InternalError("it has no kernel registry and no Compile");
  }
  for (const LaminaKernelRegistry::Registration& registration : registry->registrations) {
    WorkspaceEstimateFunc estimate;
    if (registration.workspace_estimate) {
      estimate = [this, &registration](const NodeInfo& node, size_t* bytes) {
        return EstimatePluginWorkspace(registration, node, *ep_, map_, bytes);
      };
    }
    kernels_.Add(
        registration.def,
        [this, &registration](const NodeInfo& node) {
          return MakePluginKernel(registration, node, *ep_, map_);
        },
        std::move(estimate));
  }
  return Status();
}

Status PluginProvider::OpenMemory() {
  if (!ep_->CreateAllocator) {
    data_transfer_ = std::make_unique<HostBackedDataTransfer>(map_);
  } else {
    LaminaDataTransferImpl* transfer = nullptr;
    LAMINA_RETURN_IF_ERROR(TakeStatus(ep_->GetDataTransfer(ep_, &transfer)));
    LAMINA_RETURN_IF_ERROR(PluginDataTransfer::Check(transfer));
    data_transfer_ = std::make_unique<PluginDataTransfer>(*transfer, map_);
  }
  const auto get_loader = EntrySince(2, *ep_, &LaminaEp::GetExternalDataLoader);
  if (!get_loader) return Status();
  LaminaExternalDataLoader* loader = nullptr;
  LAMINA_RETURN_IF_ERROR(TakeStatus(get_loader(ep_, &loader)));
  if (!loader) return Status();
  LAMINA_RETURN_IF_ERROR(PluginExternalDataLoader::Check(loader));
  loader_ = std::make_unique<PluginExternalDataLoader>(*loader, map_);
  return Status();
}

Result<Capability> PluginProvider::GetCapability(const CapabilityRequest& request) const {
  return AskCapability(request, *ep_, kernels_, map_, name_);
}

std::optional<uint64_t> PluginProvider::available_resource_bytes(const Device& device) const {
  const auto get_available = EntrySince(2, *ep_, &LaminaEp::GetAvailableResource);
  if (!get_available || !map_.IsOwn(device)) return std::nullopt;
  LaminaResourceCount available{};
  available.lamina_version = LAMINA_EP_API_VERSION;
  if (!TakeStatus(get_available(ep_, *map_.IndexOf(device), &available)).ok()) return std::nullopt;
  if (available.kind != LAMINA_RESOURCE_BYTES) return std::nullopt;
  return available.bytes;
}

Result<std::unique_ptr<Allocator>> PluginProvider::CreateAllocator(const Device& device, MemoryKind kind) {
  LAMINA_ASSIGN_OR_RETURN(const int32_t index, map_.IndexOf(device));
  if (index == LAMINA_HOST_DEVICE) return InternalError("provider {} does not serve the host", name_);
  if (!ep_->CreateAllocator) {
    if (kind == MemoryKind::kPinned) return UnsupportedError("provider {} has no pinned memory", name_);
    return MakeHostBackedAllocator(device);
  }
  LaminaAllocator* allocator = nullptr;
  const LaminaMemoryType type = kind == MemoryKind::kPinned ? LAMINA_MEMORY_HOST : LAMINA_MEMORY_DEVICE;
  LAMINA_RETURN_IF_ERROR(
      TakeStatus(ep_->CreateAllocator(ep_, index, type, &allocator)).WithContext(device.ToString()));
  if (!allocator && kind == MemoryKind::kPinned) {
    return UnsupportedError("provider {} has no pinned memory", name_);
  }
  const Status check = PluginAllocator::Check(allocator);
  if (!allocator || !check.ok()) {
    if (allocator) ep_->ReleaseAllocator(ep_, allocator);
    return check.WithContext(device.ToString());
  }
  return std::unique_ptr<Allocator>(std::make_unique<PluginAllocator>(*ep_, *allocator, device, kind));
}

Result<std::unique_ptr<Stream>> PluginProvider::CreateStream(const Device& device, StreamPurpose purpose) {
  LAMINA_ASSIGN_OR_RETURN(const int32_t index, map_.IndexOf(device));
  if (index == LAMINA_HOST_DEVICE) return InternalError("provider {} does not serve the host", name_);
  if (!ep_->CreateSyncStream) return MakeSynchronousStream(device);
  LaminaSyncStreamImpl* stream = nullptr;
  const LaminaStreamPurpose abi_purpose =
      purpose == StreamPurpose::kCopy ? LAMINA_STREAM_COPY : LAMINA_STREAM_COMPUTE;
  LAMINA_RETURN_IF_ERROR(
      TakeStatus(ep_->CreateSyncStream(ep_, index, abi_purpose, &stream)).WithContext(device.ToString()));
  if (!stream) return MakeSynchronousStream(device);
  LAMINA_RETURN_IF_ERROR(PluginStream::Check(stream).WithContext(device.ToString()));
  return std::unique_ptr<Stream>(std::make_unique<PluginStream>(*stream, device));
}

Result<std::unique_ptr<Kernel>> PluginProvider::Compile(const NodeInfo& node, const Graph& body) {
  if (!ep_->Compile) return ExecutionProvider::Compile(node, body);
  LAMINA_ASSIGN_OR_RETURN(LaminaNodeComputeInfo * info, CompileBody(node, body, *ep_, map_));
  return MakeFusedKernel(info, node, *ep_, map_);
}

Status PluginProvider::CallRunHook(LaminaStatus* (*hook)(LaminaEp*, const LaminaRunInfo*,
                                                         LaminaSyncStreamImpl* const*,
                                                         size_t)LAMINA_EP_NOEXCEPT,
                                   const RunInfo& run, std::span<Stream* const> streams) const {
  if (!hook) return Status();
  const std::string tag(run.tag);
  const LaminaRunInfo info{LAMINA_EP_API_VERSION, 0, run.id, tag.c_str()};
  // A run allocates nothing: hooks are called for so many devices at most.
  constexpr size_t kMaxStreams = 64;
  std::array<LaminaSyncStreamImpl*, kMaxStreams> impls;
  size_t count = 0;
  for (Stream* stream : streams) {
    auto* own = dynamic_cast<PluginStream*>(stream);
    if (!own) continue;
    if (count == kMaxStreams) return UnsupportedError("provider {} has over {} devices", name_, kMaxStreams);
    impls[count++] = &own->impl();
  }
  const Status status = TakeStatus(hook(ep_, &info, impls.data(), count));
  return status.ok() ? status : status.WithContext(fmt::format("provider {}", name_));
}

Status PluginProvider::OnRunStart(const RunInfo& run, std::span<Stream* const> streams) {
  return CallRunHook(ep_->OnRunStart, run, streams);
}

Status PluginProvider::OnRunEnd(const RunInfo& run, std::span<Stream* const> streams) {
  return CallRunHook(ep_->OnRunEnd, run, streams);
}

const void* PluginProvider::Extension(const char* extension) const {
  return ep_->GetExtension ? ep_->GetExtension(ep_, extension) : nullptr;
}

}  // namespace lamina::plugin
