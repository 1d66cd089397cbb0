// Kernels written in C++ for a KernelRegistry, offered through the C interface: the same source serves in the
// tree and in a plugin.
//
//   KernelRegistry registry;
//   RegisterMyKernels(registry);
//   KernelExporter exporter(api, std::move(registry), hooks);
//   LAMINA_RETURN_IF_ERROR(exporter.Export(EstimateWorkspaceOf<MyEp>));
//   ... MyEp::GetKernelRegistry returns exporter.abi_registry()
//
// Workspace estimates and declarations, prepacking and cached keys and values work as in the tree. Not for
// kernels of nodes with graph attributes, strings or values that are no tensors: the host keeps such nodes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lamina/lamina_ep.h"
#include "provider/adapter/abi_kernel_context.h"
#include "provider/adapter/abi_node_info.h"
#include "provider/adapter/abi_status.h"
#include "provider/adapter/kernel_hooks.h"
#include "provider/kernel_registry.h"

namespace lamina::adapter {

// Immutable after Export; must outlive the kernels.
class KernelExporter {
 public:
  KernelExporter(const LaminaEpApi& api, KernelRegistry registry, KernelHooks& hooks)
      : api_(api), registry_(std::move(registry)), hooks_(hooks) {}
  ~KernelExporter() { api_.ReleaseKernelRegistry(abi_registry_); }
  KernelExporter(const KernelExporter&) = delete;
  KernelExporter& operator=(const KernelExporter&) = delete;

  // Registers every kernel; those with a workspace_estimate_func with `estimate`, which has to lead to
  // EstimateWorkspace below. `without_types`: element types that kernels which name their types do not get.
  // REQUIRES: called once.
  Status Export(LaminaKernelWorkspaceEstimateFunc estimate, TypeSet without_types = {}) {
    without_types_ = without_types;
    LAMINA_RETURN_IF_ERROR(FromAbi(api_, api_.CreateKernelRegistry(&abi_registry_)));
    for (const KernelCreateInfo* info : registry_.All()) {
      LAMINA_RETURN_IF_ERROR(Add(*info, estimate).WithContext(info->def.op_type()));
    }
    return Status();
  }

  const LaminaKernelRegistry* abi_registry() const { return abi_registry_; }

  // The estimate of the node's kernel.
  LaminaStatus* EstimateWorkspace(const LaminaNode* node, size_t* bytes) const noexcept {
    return Guarded(api_, [&]() -> Status {
      LAMINA_ASSIGN_OR_RETURN(const auto info, AbiNodeInfo::Make(api_, *node, hooks_.devices()));
      LAMINA_ASSIGN_OR_RETURN(const KernelCreateInfo* kernel, registry_.Lookup(*info));
      if (!kernel->workspace_estimate_func) return InternalError("the kernel has no estimate");
      return kernel->workspace_estimate_func(*info, bytes);
    });
  }

 private:
  // What a definition was registered with.
  struct Registration {
    KernelExporter* exporter;
    const KernelCreateInfo* info;
  };

  // A kernel as the host holds it.
  struct ExportedKernel : LaminaKernelImpl {
    KernelExporter* exporter = nullptr;
    std::unique_ptr<Kernel> kernel;
    std::string node;
    std::string op_type;
    int32_t device = 0;
  };

  struct BuilderDeleter {
    const LaminaEpApi* api;
    void operator()(LaminaKernelDefBuilder* builder) const { api->ReleaseKernelDefBuilder(builder); }
  };
  struct DefDeleter {
    const LaminaEpApi* api;
    void operator()(LaminaKernelDef* def) const { api->ReleaseKernelDef(def); }
  };

  Status Check(LaminaStatus* status) const { return FromAbi(api_, status); }

  Status Add(const KernelCreateInfo& info, LaminaKernelWorkspaceEstimateFunc estimate) {
    LaminaKernelDef* raw_def = nullptr;
    LAMINA_RETURN_IF_ERROR(BuildDef(info.def, &raw_def));
    const std::unique_ptr<LaminaKernelDef, DefDeleter> def(raw_def, DefDeleter{&api_});
    registrations_.push_back(std::make_unique<Registration>(Registration{this, &info}));
    return Check(api_.KernelRegistry_AddKernelV2(abi_registry_, def.get(), &CreateExported,
                                                 registrations_.back().get(),
                                                 info.workspace_estimate_func ? estimate : nullptr));
  }

  Status BuildDef(const KernelDef& def, LaminaKernelDef** built) const {
    LaminaKernelDefBuilder* raw_builder = nullptr;
    LAMINA_RETURN_IF_ERROR(
        Check(api_.CreateKernelDefBuilder(def.op_type().c_str(), def.domain().c_str(), &raw_builder)));
    const std::unique_ptr<LaminaKernelDefBuilder, BuilderDeleter> builder(raw_builder, BuilderDeleter{&api_});
    const bool open_ended = def.last_version() == std::numeric_limits<int>::max();
    LAMINA_RETURN_IF_ERROR(Check(api_.KernelDefBuilder_SetSinceVersion(builder.get(), def.first_version(),
                                                                       open_ended ? 0 : def.last_version())));
    for (const auto& [index, types] : def.constrained_inputs()) {
      const std::vector<LaminaDataType> list = TypesOf(types);
      LAMINA_RETURN_IF_ERROR(Check(api_.KernelDefBuilder_SetInputTypes(
          builder.get(), static_cast<size_t>(index), list.data(), list.size())));
    }
    for (const auto& [index, types] : def.constrained_outputs()) {
      const std::vector<LaminaDataType> list = TypesOf(types);
      LAMINA_RETURN_IF_ERROR(Check(api_.KernelDefBuilder_SetOutputTypes(
          builder.get(), static_cast<size_t>(index), list.data(), list.size())));
    }
    if (def.has_variadic_inputs()) {
      LAMINA_RETURN_IF_ERROR(Check(api_.KernelDefBuilder_SetVariadicInputs(builder.get())));
    }
    for (int i = 0; i < 64; ++i) {
      if (def.is_host_input(i)) {
        LAMINA_RETURN_IF_ERROR(Check(api_.KernelDefBuilder_SetInputMemoryType(
            builder.get(), static_cast<size_t>(i), LAMINA_MEMORY_HOST)));
      }
      if (def.is_host_output(i)) {
        LAMINA_RETURN_IF_ERROR(Check(api_.KernelDefBuilder_SetOutputMemoryType(
            builder.get(), static_cast<size_t>(i), LAMINA_MEMORY_HOST)));
      }
    }
    for (const auto& [input, output] : def.aliases()) {
      LAMINA_RETURN_IF_ERROR(Check(api_.KernelDefBuilder_AddInputOutputAlias(
          builder.get(), static_cast<size_t>(input), static_cast<size_t>(output))));
    }
    for (const auto& [input, output] : def.inplace_pairs()) {
      LAMINA_RETURN_IF_ERROR(Check(api_.KernelDefBuilder_AddInputOutputMayInplace(
          builder.get(), static_cast<size_t>(input), static_cast<size_t>(output))));
    }
    if (const KernelDef::KvIndices& kv = def.kv_cache(); kv.valid()) {
      LAMINA_RETURN_IF_ERROR(Check(api_.KernelDefBuilder_SetKvCache(
          builder.get(), static_cast<size_t>(kv.past_key), static_cast<size_t>(kv.past_value),
          static_cast<size_t>(kv.present_key), static_cast<size_t>(kv.present_value))));
    }
    return Check(api_.KernelDefBuilder_Build(builder.get(), built));
  }

  // Strings do not cross the interface.
  std::vector<LaminaDataType> TypesOf(TypeSet types) const {
    std::vector<LaminaDataType> list;
    for (int number = LAMINA_TYPE_FLOAT; number <= LAMINA_TYPE_INT2; ++number) {
      const auto type = static_cast<DataType>(number);
      if (type != DataType::kString && types.Contains(type) && !without_types_.Contains(type)) {
        list.push_back(static_cast<LaminaDataType>(number));
      }
    }
    return list;
  }

  static LaminaStatus* CreateExported(void* state, const LaminaKernelInfo* info,
                                      LaminaKernelImpl** kernel) noexcept {
    const auto& registration = *static_cast<const Registration*>(state);
    KernelExporter& exporter = *registration.exporter;
    return Guarded(exporter.api_, [&]() -> Status {
      const LaminaNode* node = nullptr;
      LAMINA_RETURN_IF_ERROR(exporter.Check(exporter.api_.KernelInfo_GetNode(info, &node)));
      LAMINA_ASSIGN_OR_RETURN(const auto node_info,
                              AbiNodeInfo::Make(exporter.api_, *node, exporter.hooks_.devices()));
      auto exported = std::make_unique<ExportedKernel>();
      LAMINA_ASSIGN_OR_RETURN(exported->kernel, registration.info->create(*node_info));
      LAMINA_RETURN_IF_ERROR(exporter.Check(exporter.api_.Node_GetDevice(node, &exported->device)));
      exported->exporter = &exporter;
      exported->node = node_info->name();
      exported->op_type = node_info->op_type();
      exported->lamina_version = LAMINA_EP_API_VERSION;
      exported->flags = 0;
      exported->Compute = &Compute;
      exported->Release = &Release;
      exported->DeclarePrepack = &DeclarePrepack;
      exported->PrePackWeight = &PrePackWeight;
      exported->DeclareWorkspaceRequirements = &DeclareWorkspaceRequirements;
      *kernel = exported.release();
      return Status();
    });
  }

  static ExportedKernel& Self(LaminaKernelImpl* kernel) { return *static_cast<ExportedKernel*>(kernel); }

  static void Release(LaminaKernelImpl* kernel) noexcept { delete &Self(kernel); }

  static LaminaStatus* Compute(LaminaKernelImpl* kernel, LaminaKernelContext* abi_context) noexcept {
    ExportedKernel& self = Self(kernel);
    KernelExporter& exporter = *self.exporter;
    return Guarded(exporter.api_, [&]() -> Status {
      AbiKernelContext context(exporter.api_, *abi_context, exporter.hooks_, self.device);
      LAMINA_RETURN_IF_ERROR(context.Open());
      const KernelCall call{self.node, self.op_type, self.device, context.abi_stream()};
      return exporter.hooks_.Run(call, [&] { return self.kernel->Compute(context); });
    });
  }

  static LaminaStatus* DeclareWorkspaceRequirements(LaminaKernelImpl* kernel, const LaminaNode* node,
                                                    const int64_t* const*, const size_t*, size_t,
                                                    LaminaWorkspaceSlot* slots, size_t max_slots,
                                                    size_t* num_slots) noexcept {
    ExportedKernel& self = Self(kernel);
    KernelExporter& exporter = *self.exporter;
    return Guarded(exporter.api_, [&]() -> Status {
      LAMINA_ASSIGN_OR_RETURN(const auto info,
                              AbiNodeInfo::Make(exporter.api_, *node, exporter.hooks_.devices()));
      WorkspaceRequirements requirements;
      LAMINA_RETURN_IF_ERROR(self.kernel->DeclareWorkspaceRequirements(*info, requirements));
      if (requirements.slots().size() > max_slots) {
        return InternalError("{} workspace slots, the host takes {}", requirements.slots().size(), max_slots);
      }
      size_t count = 0;
      for (const WorkspaceRequirement& slot : requirements.slots()) {
        slots[count++] = {slot.slot_id, 0, slot.size_bytes};
      }
      *num_slots = count;
      return Status();
    });
  }

  static LaminaStatus* DeclarePrepack(LaminaKernelImpl* kernel, const LaminaNode* node, size_t index,
                                      LaminaPrepackDeclaration* declaration) noexcept {
    ExportedKernel& self = Self(kernel);
    KernelExporter& exporter = *self.exporter;
    return Guarded(exporter.api_, [&]() -> Status {
      LAMINA_ASSIGN_OR_RETURN(const auto info,
                              AbiNodeInfo::Make(exporter.api_, *node, exporter.hooks_.devices()));
      PrepackDeclaration declared;
      LAMINA_RETURN_IF_ERROR(self.kernel->DeclarePrepack(*info, static_cast<int>(index), declared));
      declaration->prepack = declared.prepack;
      declaration->required = declared.required;
      declaration->packed_bytes = declared.packed_bytes;
      declaration->scratch_bytes = declared.scratch_bytes;
      declaration->absorbed_inputs = declared.absorbed_inputs;
      return Status();
    });
  }

  // Constants of a node while one of them is packed, at addresses of the kernel.
  class AbiPrepackContext : public PrepackContext {
   public:
    AbiPrepackContext(const ExportedKernel& kernel, LaminaPrepackContext& context)
        : kernel_(kernel), api_(kernel.exporter->api_), context_(context) {}

    const Tensor* Constant(int input) const override {
      const auto known = constants_.find(input);
      if (known != constants_.end()) return known->second ? &*known->second : nullptr;
      std::optional<Tensor>& constant = constants_[input];
      const LaminaTensor* tensor = nullptr;
      if (!FromAbi(api_, api_.PrepackContext_GetConstant(&context_, static_cast<size_t>(input), &tensor))
               .ok() ||
          !tensor) {
        return nullptr;
      }
      void* address = tensor->data;
      if (tensor->device != LAMINA_HOST_DEVICE) {
        const Result<void*> reached = kernel_.exporter->hooks_.KernelAddress(tensor->device, tensor->data);
        if (!reached.ok()) return nullptr;
        address = *reached;
      }
      constant = Tensor::View(static_cast<DataType>(tensor->type), Shape({tensor->shape, tensor->rank}),
                              address, tensor->capacity_bytes);
      return &*constant;
    }
    ThreadPool& threads() override { return kernel_.exporter->hooks_.threads(kernel_.device); }
    void* stream() const override {
      LaminaSyncStreamImpl* stream = abi_stream();
      return stream && stream->GetHandle ? stream->GetHandle(stream) : nullptr;
    }
    LaminaSyncStreamImpl* abi_stream() const {
      LaminaSyncStreamImpl* stream = nullptr;
      return FromAbi(api_, api_.PrepackContext_GetStream(&context_, &stream)).ok() ? stream : nullptr;
    }

   private:
    const ExportedKernel& kernel_;
    const LaminaEpApi& api_;
    LaminaPrepackContext& context_;
    mutable std::map<int, std::optional<Tensor>> constants_;
  };

  static LaminaStatus* PrePackWeight(LaminaKernelImpl* kernel, size_t index, LaminaPrepackContext* context,
                                     void* packed, void* scratch) noexcept {
    ExportedKernel& self = Self(kernel);
    KernelExporter& exporter = *self.exporter;
    return Guarded(exporter.api_, [&]() -> Status {
      const auto on_device = [&](void* address) -> Result<void*> {
        if (!address) return static_cast<void*>(nullptr);
        return exporter.hooks_.KernelAddress(self.device, address);
      };
      LAMINA_ASSIGN_OR_RETURN(void* packed_address, on_device(packed));
      LAMINA_ASSIGN_OR_RETURN(void* scratch_address, on_device(scratch));
      AbiPrepackContext prepack(self, *context);
      const KernelCall call{self.node, self.op_type, self.device, prepack.abi_stream()};
      return exporter.hooks_.Run(call, [&] {
        return self.kernel->PrePackWeight(static_cast<int>(index), prepack, packed_address, scratch_address);
      });
    });
  }

  const LaminaEpApi& api_;
  const KernelRegistry registry_;
  KernelHooks& hooks_;
  TypeSet without_types_;
  LaminaKernelRegistry* abi_registry_ = nullptr;
  std::vector<std::unique_ptr<Registration>> registrations_;
};

// The estimate to register kernels with. Ep derives from LaminaEp and has `const KernelExporter& exporter()
// const`.
template <typename Ep>
LaminaStatus* EstimateWorkspaceOf(const LaminaEpApi*, const LaminaNode* node, const LaminaEp* ep,
                                  size_t* bytes) noexcept {
  return static_cast<const Ep*>(ep)->exporter().EstimateWorkspace(node, bytes);
}

}  // namespace lamina::adapter
