// What the host halves of all CUDA kernels share. A kernel checks its inputs, makes its outputs, and passes
// pointers and sizes to the device half (device/kernel_api.h); it needs no CUDA header and exists without a
// device half too, so that plans can be made: only launching then fails.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "lamina/types.h"
#include "provider/kernel.h"
#include "provider/kernel_registry.h"
#include "provider/recordable_kernel.h"
#include "providers/cuda/cuda_library.h"
#include "providers/cuda/device/kernel_api.h"

namespace lamina::cuda {

// How kernels reach the device half.
struct KernelLauncher {
  std::shared_ptr<const CudaLibrary> library;  // null: the host half alone
  int16_t first_ordinal = 0;                   // of the provider's devices
};

class CudaKernel : public Kernel, public RecordableKernel {
 public:
  CudaKernel(const NodeInfo& node, const KernelLauncher& launcher);

 protected:
  // Puts the family's work on the stream:
  //   Launch(context.stream(), "unary", &KernelApi::unary, arguments)
  // Errors name the kernel; UNSUPPORTED where the family has no kernel for the type or size.
  template <typename Arguments>
  Status Launch(void* stream, const char* name,
                int (*KernelApi::*family)(const LaunchTarget&, const Arguments&),
                const Arguments& arguments) const {
    LAMINA_RETURN_IF_ERROR(CheckLibrary());
    return ToStatus(name, (kernels_->*family)(TargetOf(stream), arguments));
  }
  // The same for a family that serves some cases only: false where it is not this one, and nothing was
  // launched.
  template <typename Arguments>
  Result<bool> LaunchWhereServed(void* stream, const char* name,
                                 int (*KernelApi::*family)(const LaunchTarget&, const Arguments&),
                                 const Arguments& arguments) const {
    LAMINA_RETURN_IF_ERROR(CheckLibrary());
    const int error = (kernels_->*family)(TargetOf(stream), arguments);
    if (error == kErrorNotServed) return false;
    LAMINA_RETURN_IF_ERROR(ToStatus(name, error));
    return true;
  }
  // Copies bytes within the device.
  Status CopyBytes(void* stream, const void* source, void* target, uint64_t bytes) const;

  // Multiprocessors that work is divided over; planning for a described device uses its number.
  int multiprocessors() const { return multiprocessors_; }

 private:
  static constexpr int kErrorNotServed = 801;  // cudaErrorNotSupported

  Status CheckLibrary() const;
  Status ToStatus(const char* name, int error) const;
  LaunchTarget TargetOf(void* stream) const;

  std::shared_ptr<const CudaLibrary> library_;
  const KernelApi* kernels_ = nullptr;
  int device_;
  int multiprocessors_;
  int compute_capability_;
};

// Registers kernels that all reach the device half in one way.
class KernelRegistrar {
 public:
  KernelRegistrar(KernelRegistry& registry, KernelLauncher launcher)
      : registry_(registry), launcher_(std::move(launcher)) {}

  // K has a constructor K(const NodeInfo&, const KernelLauncher&); where it cannot compute every node of the
  // definition, a static Status Validate(const NodeInfo&); where it needs scratch, a static
  // Status Workspace(const NodeInfo&, WorkspaceRequirements&), which serves estimate and declaration.
  template <typename K>
  void Add(KernelDef def) {  // NOLINT(performance-unnecessary-value-param): it is moved on
    const auto create = [launcher = launcher_](const NodeInfo& node) -> Result<std::unique_ptr<Kernel>> {
      if constexpr (requires { K::Validate(node); }) {
        LAMINA_RETURN_IF_ERROR(K::Validate(node).WithContext(std::string(node.op_type())));
      }
      return std::unique_ptr<Kernel>(std::make_unique<K>(node, launcher));
    };
    if constexpr (requires(WorkspaceRequirements & requirements, const NodeInfo& node) {
                    K::Workspace(node, requirements);
                  }) {
      registry_.Add(std::move(def), create, EstimateWorkspace<K>);
    } else {
      registry_.Add(std::move(def), create, EstimateNoWorkspace);
    }
  }

 private:
  static Status EstimateNoWorkspace(const NodeInfo&, size_t* estimated_workspace_bytes) {
    *estimated_workspace_bytes = 0;
    return Status();
  }

  KernelRegistry& registry_;
  KernelLauncher launcher_;
};

inline ElementType ElementTypeOf(DataType type) { return static_cast<ElementType>(type); }
inline int32_t ElementBytesOf(DataType type) { return DataTypeBits(type) / 8; }

// Types that are moved and converted: whole bytes, up to 8 of them.
inline constexpr TypeSet kMovedTypes = kNumericTypes | DataType::kBool;

// The tensor input; INVALID_ARGUMENT where it is absent. Null for an optional one.
Result<const Tensor*> Required(const KernelContext& context, int index);
const Tensor* Optional(const KernelContext& context, int index);
// Null where the output is absent or not wanted.
Result<Tensor*> OptionalOutput(KernelContext& context, int index, const Shape& shape);

// An axis in [-rank, rank) counted from the front.
Result<int> NormalizedAxis(int64_t axis, int rank);
// Elements of a host tensor of int32 or int64.
Result<std::vector<int64_t>> HostInts(const Tensor& tensor);

// The shape of the upper bounds of an input; UNSUPPORTED where it is not known or has no bound.
Result<Shape> LargestInput(const NodeInfo& node, int input);

}  // namespace lamina::cuda
