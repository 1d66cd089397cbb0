#include "providers/plugin/plugin_kernel.h"

#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "providers/plugin/ep_api.h"
#include "providers/plugin/host_kernel_context.h"
#include "providers/plugin/host_node.h"
#include "providers/plugin/host_status.h"
#include "providers/plugin/plugin_table.h"

namespace lamina::plugin {
namespace {

constexpr std::string_view kKernel = "its kernel";
constexpr std::string_view kFused = "its fused kernel";

static_assert(LAMINA_MAX_WORKSPACE_SLOTS == WorkspaceRequirements::kMaxSlots);

class PluginKernel : public Kernel {
 public:
  PluginKernel(LaminaKernelImpl& impl, Device device, const DeviceMap& devices)
      : impl_(impl), device_(device.ToString()), devices_(devices) {}
  ~PluginKernel() override { impl_.Release(&impl_); }
  PluginKernel(const PluginKernel&) = delete;
  PluginKernel& operator=(const PluginKernel&) = delete;

  Status Compute(KernelContext& context) const override {
    LaminaKernelContext abi_context(context, devices_);
    // Who runs nodes says where.
    LAMINA_RETURN_IF_ERROR(TakeStatus(impl_.Compute(&impl_, &abi_context), device_));
    return abi_context.Outcome();
  }

  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    const auto declare = EntrySince(2, impl_, &LaminaKernelImpl::DeclareWorkspaceRequirements);
    if (!declare) return UnsupportedError("{}: the kernel declares no workspace", device_);
    const LaminaNode abi_node(node, devices_);
    std::vector<const int64_t*> shapes;
    std::vector<size_t> ranks;
    for (const LaminaNode::Edge& input : abi_node.inputs) {
      shapes.push_back(input.bounded ? input.max.data() : nullptr);
      ranks.push_back(input.bounded ? input.max.size() - 1 : 0);
    }
    std::array<LaminaWorkspaceSlot, LAMINA_MAX_WORKSPACE_SLOTS> slots{};
    size_t count = 0;
    LAMINA_RETURN_IF_ERROR(Take(declare(&impl_, &abi_node, shapes.data(), ranks.data(), shapes.size(),
                                        slots.data(), slots.size(), &count)));
    if (count > slots.size()) {
      return InternalError("{}: the kernel declared {} workspace slots, at most {} are possible", device_,
                           count, slots.size());
    }
    for (size_t i = 0; i < count; ++i) {
      LAMINA_RETURN_IF_ERROR(requirements.Add(slots[i].slot_id, slots[i].size_bytes).WithContext(device_));
    }
    return Status();
  }

  Status DeclarePrepack(const NodeInfo& node, int input, PrepackDeclaration& declaration) const override {
    if (!impl_.DeclarePrepack) return Status();
    const LaminaNode abi_node(node, devices_);
    LaminaPrepackDeclaration declared{};
    declared.lamina_version = LAMINA_EP_API_VERSION;
    LAMINA_RETURN_IF_ERROR(
        Take(impl_.DeclarePrepack(&impl_, &abi_node, static_cast<size_t>(input), &declared)));
    if (!declared.prepack) return Status();
    declaration = {true, declared.required, declared.packed_bytes, declared.scratch_bytes,
                   declared.absorbed_inputs};
    return Status();
  }

  Status PrePackWeight(int input, PrepackContext& context, void* packed, void* scratch) const override {
    LaminaPrepackContext abi_context(context, devices_);
    return Take(impl_.PrePackWeight(&impl_, static_cast<size_t>(input), &abi_context, packed, scratch));
  }

 private:
  Status Take(LaminaStatus* status) const {
    return status ? TakeStatus(status, device_).WithContext(device_) : Status();
  }

  LaminaKernelImpl& impl_;
  const std::string device_;
  const DeviceMap& devices_;
};

// Gives a LaminaNodeComputeInfo back.
struct ComputeInfoDeleter {
  LaminaEp* ep;
  void operator()(LaminaNodeComputeInfo* info) const {
    if (ep->ReleaseNodeComputeInfos) ep->ReleaseNodeComputeInfos(ep, &info, 1);
  }
};
using OwnedComputeInfo = std::unique_ptr<LaminaNodeComputeInfo, ComputeInfoDeleter>;

class FusedKernel : public Kernel {
 public:
  FusedKernel(OwnedComputeInfo info, void* state, Device device, const DeviceMap& devices)
      : info_(std::move(info)), state_(state), device_(device.ToString()), devices_(devices) {}
  ~FusedKernel() override {
    if (info_->ReleaseState) info_->ReleaseState(info_.get(), state_);
  }
  FusedKernel(const FusedKernel&) = delete;
  FusedKernel& operator=(const FusedKernel&) = delete;

  Status Compute(KernelContext& context) const override {
    LaminaKernelContext abi_context(context, devices_);
    LAMINA_RETURN_IF_ERROR(TakeStatus(info_->Compute(info_.get(), state_, &abi_context), device_));
    return abi_context.Outcome();
  }

 private:
  const OwnedComputeInfo info_;
  void* const state_;
  const std::string device_;
  const DeviceMap& devices_;
};

Status CheckKernel(const LaminaKernelImpl* kernel) {
  LAMINA_RETURN_IF_ERROR(CheckTable(kernel, kKernel));
  LAMINA_RETURN_IF_ERROR(RequireEntry(kernel->Release, kKernel, "Release"));
  LAMINA_RETURN_IF_ERROR(RequireEntry(kernel->Compute, kKernel, "Compute"));
  if (kernel->DeclarePrepack) return RequireEntry(kernel->PrePackWeight, kKernel, "PrePackWeight");
  return Status();
}

}  // namespace

Result<std::unique_ptr<Kernel>> MakePluginKernel(const LaminaKernelRegistry::Registration& registration,
                                                 const NodeInfo& node, LaminaEp& ep,
                                                 const DeviceMap& devices) {
  const Device device = node.device().device;
  const LaminaNode abi_node(node, devices);
  const LaminaKernelInfo info{&abi_node, &ep};
  LaminaKernelImpl* kernel = nullptr;
  LAMINA_RETURN_IF_ERROR(
      TakeStatus(registration.create(registration.state, &info, &kernel)).WithContext(device.ToString()));
  const Status check = CheckKernel(kernel);
  if (!check.ok()) {
    const bool has_release =
        kernel && CheckVersion(kernel->lamina_version, kKernel).ok() && kernel->Release != nullptr;
    if (has_release) kernel->Release(kernel);
    return check.WithContext(device.ToString());
  }
  return std::unique_ptr<Kernel>(std::make_unique<PluginKernel>(*kernel, device, devices));
}

Status EstimatePluginWorkspace(const LaminaKernelRegistry::Registration& registration, const NodeInfo& node,
                               LaminaEp& ep, const DeviceMap& devices, size_t* bytes) {
  const LaminaNode abi_node(node, devices);
  return TakeStatus(registration.workspace_estimate(&EpApi(), &abi_node, &ep, bytes));
}

Result<std::unique_ptr<Kernel>> MakeFusedKernel(LaminaNodeComputeInfo* raw_info, const NodeInfo& node,
                                                LaminaEp& ep, const DeviceMap& devices) {
  OwnedComputeInfo info(raw_info, ComputeInfoDeleter{&ep});
  const Device device = node.device().device;
  LAMINA_RETURN_IF_ERROR(CheckTable(info.get(), kFused).WithContext(device.ToString()));
  LAMINA_RETURN_IF_ERROR(RequireEntry(info->Compute, kFused, "Compute").WithContext(device.ToString()));
  void* state = nullptr;
  if (info->CreateState) {
    const LaminaNode abi_node(node, devices);
    const LaminaKernelInfo kernel_info{&abi_node, &ep};
    LAMINA_RETURN_IF_ERROR(
        TakeStatus(info->CreateState(info.get(), &kernel_info, &state)).WithContext(device.ToString()));
  }
  return std::unique_ptr<Kernel>(std::make_unique<FusedKernel>(std::move(info), state, device, devices));
}

}  // namespace lamina::plugin
