#include "providers/plugin/host_kernel_def.h"

#include <limits>
#include <memory>
#include <string>

#include "base/error.h"

namespace lamina::plugin {
namespace {

// Inputs and outputs that a definition can name. Those of host memory are kept in 64 bits.
constexpr size_t kMaxIndex = 64;

Status CheckIndex(const KernelDef& def, const char* what, size_t index) {
  if (index < kMaxIndex) return Status();
  return InvalidArgumentError("the kernel of {}: {} {} is out of range [0, {})", def.op_type(), what, index,
                              kMaxIndex);
}

Result<TypeSet> MakeTypeSet(const KernelDef& def, const LaminaDataType* types, size_t count) {
  if (!types && count > 0) return InvalidArgumentError("the kernel of {}: types are null", def.op_type());
  TypeSet set;
  for (size_t i = 0; i < count; ++i) {
    const auto type = static_cast<DataType>(types[i]);
    if (DataTypeBits(type) == 0 || type == DataType::kString) {
      return InvalidArgumentError("the kernel of {}: {} is no element type that crosses the interface",
                                  def.op_type(), static_cast<int>(types[i]));
    }
    set = set | TypeSet(type);
  }
  return set;
}

LaminaStatus* CreateBuilder(const char* op_type, const char* domain,
                            LaminaKernelDefBuilder** builder) noexcept {
  return Answer(
      "CreateKernelDefBuilder",
      [&]() -> Status {
        if (*op_type == '\0') return InvalidArgumentError("a kernel without an operator");
        const std::string known_domain = std::string(domain) == "ai.onnx" ? "" : domain;
        *builder = new LaminaKernelDefBuilder{KernelDef(op_type, known_domain)};
        return Status();
      },
      op_type, domain, builder);
}

void ReleaseBuilder(LaminaKernelDefBuilder* builder) noexcept { delete builder; }

LaminaStatus* SetSinceVersion(LaminaKernelDefBuilder* builder, int32_t first, int32_t last) noexcept {
  return Answer(
      "KernelDefBuilder_SetSinceVersion",
      [&]() -> Status {
        const int end = last <= 0 ? std::numeric_limits<int>::max() : last;
        if (first < 1 || end < first) {
          return InvalidArgumentError("the kernel of {}: versions {} to {} do not exist",
                                      builder->def.op_type(), first, last);
        }
        builder->def.Since(first, end);
        return Status();
      },
      builder);
}

LaminaStatus* SetInputTypes(LaminaKernelDefBuilder* builder, size_t index, const LaminaDataType* types,
                            size_t count) noexcept {
  return Answer(
      "KernelDefBuilder_SetInputTypes",
      [&]() -> Status {
        LAMINA_RETURN_IF_ERROR(CheckIndex(builder->def, "input", index));
        LAMINA_ASSIGN_OR_RETURN(const TypeSet set, MakeTypeSet(builder->def, types, count));
        builder->def.Input(static_cast<int>(index), set);
        return Status();
      },
      builder);
}

LaminaStatus* SetOutputTypes(LaminaKernelDefBuilder* builder, size_t index, const LaminaDataType* types,
                             size_t count) noexcept {
  return Answer(
      "KernelDefBuilder_SetOutputTypes",
      [&]() -> Status {
        LAMINA_RETURN_IF_ERROR(CheckIndex(builder->def, "output", index));
        LAMINA_ASSIGN_OR_RETURN(const TypeSet set, MakeTypeSet(builder->def, types, count));
        builder->def.Output(static_cast<int>(index), set);
        return Status();
      },
      builder);
}

LaminaStatus* SetVariadicInputs(LaminaKernelDefBuilder* builder) noexcept {
  return Answer(
      "KernelDefBuilder_SetVariadicInputs",
      [&] {
        builder->def.VariadicInputs();
        return Status();
      },
      builder);
}

LaminaStatus* SetInputMemoryType(LaminaKernelDefBuilder* builder, size_t index,
                                 LaminaMemoryType type) noexcept {
  return Answer(
      "KernelDefBuilder_SetInputMemoryType",
      [&]() -> Status {
        LAMINA_RETURN_IF_ERROR(CheckIndex(builder->def, "input", index));
        if (type == LAMINA_MEMORY_HOST) builder->def.HostInput(static_cast<int>(index));
        return Status();
      },
      builder);
}

LaminaStatus* SetOutputMemoryType(LaminaKernelDefBuilder* builder, size_t index,
                                  LaminaMemoryType type) noexcept {
  return Answer(
      "KernelDefBuilder_SetOutputMemoryType",
      [&]() -> Status {
        LAMINA_RETURN_IF_ERROR(CheckIndex(builder->def, "output", index));
        if (type == LAMINA_MEMORY_HOST) builder->def.HostOutput(static_cast<int>(index));
        return Status();
      },
      builder);
}

LaminaStatus* AddAlias(LaminaKernelDefBuilder* builder, size_t input, size_t output) noexcept {
  return Answer(
      "KernelDefBuilder_AddInputOutputAlias",
      [&]() -> Status {
        LAMINA_RETURN_IF_ERROR(CheckIndex(builder->def, "input", input));
        LAMINA_RETURN_IF_ERROR(CheckIndex(builder->def, "output", output));
        builder->def.Alias(static_cast<int>(input), static_cast<int>(output));
        return Status();
      },
      builder);
}

LaminaStatus* AddMayInplace(LaminaKernelDefBuilder* builder, size_t input, size_t output) noexcept {
  return Answer(
      "KernelDefBuilder_AddInputOutputMayInplace",
      [&]() -> Status {
        LAMINA_RETURN_IF_ERROR(CheckIndex(builder->def, "input", input));
        LAMINA_RETURN_IF_ERROR(CheckIndex(builder->def, "output", output));
        builder->def.MayInplace(static_cast<int>(input), static_cast<int>(output));
        return Status();
      },
      builder);
}

LaminaStatus* SetKvCache(LaminaKernelDefBuilder* builder, size_t past_key, size_t past_value,
                         size_t present_key, size_t present_value) noexcept {
  return Answer(
      "KernelDefBuilder_SetKvCache",
      [&]() -> Status {
        for (const size_t input : {past_key, past_value}) {
          LAMINA_RETURN_IF_ERROR(CheckIndex(builder->def, "input", input));
        }
        for (const size_t output : {present_key, present_value}) {
          LAMINA_RETURN_IF_ERROR(CheckIndex(builder->def, "output", output));
        }
        builder->def.KvCache(static_cast<int>(past_key), static_cast<int>(past_value),
                             static_cast<int>(present_key), static_cast<int>(present_value));
        return Status();
      },
      builder);
}

LaminaStatus* Build(LaminaKernelDefBuilder* builder, LaminaKernelDef** def) noexcept {
  return Answer(
      "KernelDefBuilder_Build",
      [&] {
        *def = new LaminaKernelDef{builder->def};
        return Status();
      },
      builder, def);
}

void ReleaseDef(LaminaKernelDef* def) noexcept { delete def; }

LaminaStatus* CreateRegistry(LaminaKernelRegistry** registry) noexcept {
  return Answer(
      "CreateKernelRegistry",
      [&] {
        *registry = new LaminaKernelRegistry();
        return Status();
      },
      registry);
}

void ReleaseRegistry(LaminaKernelRegistry* registry) noexcept { delete registry; }

LaminaStatus* AddKernelV2(LaminaKernelRegistry* registry, const LaminaKernelDef* def,
                          LaminaKernelCreateFunc create, void* state,
                          LaminaKernelWorkspaceEstimateFunc workspace_estimate) noexcept {
  return Answer(
      "KernelRegistry_AddKernel",
      [&]() -> Status {
        if (!create) {
          return InvalidArgumentError("the kernel of {} was registered without a function that makes it",
                                      def->def.op_type());
        }
        registry->registrations.push_back({def->def, create, state, workspace_estimate});
        return Status();
      },
      registry, def);
}

LaminaStatus* AddKernel(LaminaKernelRegistry* registry, const LaminaKernelDef* def,
                        LaminaKernelCreateFunc create, void* state) noexcept {
  return AddKernelV2(registry, def, create, state, nullptr);
}

}  // namespace

void FillKernelDefApi(LaminaEpApi& api) {
  api.CreateKernelDefBuilder = &CreateBuilder;
  api.ReleaseKernelDefBuilder = &ReleaseBuilder;
  api.KernelDefBuilder_SetSinceVersion = &SetSinceVersion;
  api.KernelDefBuilder_SetInputTypes = &SetInputTypes;
  api.KernelDefBuilder_SetOutputTypes = &SetOutputTypes;
  api.KernelDefBuilder_SetVariadicInputs = &SetVariadicInputs;
  api.KernelDefBuilder_SetInputMemoryType = &SetInputMemoryType;
  api.KernelDefBuilder_SetOutputMemoryType = &SetOutputMemoryType;
  api.KernelDefBuilder_AddInputOutputAlias = &AddAlias;
  api.KernelDefBuilder_AddInputOutputMayInplace = &AddMayInplace;
  api.KernelDefBuilder_SetKvCache = &SetKvCache;
  api.KernelDefBuilder_Build = &Build;
  api.ReleaseKernelDef = &ReleaseDef;
  api.CreateKernelRegistry = &CreateRegistry;
  api.ReleaseKernelRegistry = &ReleaseRegistry;
  api.KernelRegistry_AddKernel = &AddKernel;
  api.KernelRegistry_AddKernelV2 = &AddKernelV2;
}

}  // namespace lamina::plugin
