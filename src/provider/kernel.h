// Kernels: the implementation of an operator on a provider.
//
// A kernel is made once per node at load and is immutable: Compute is const, may run concurrently, and keeps
// no pointer to inputs, weights or scratch between calls, so that residency and buffers can change without
// it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lamina/status.h"
#include "provider/kernel_context.h"
#include "provider/node_info.h"

namespace lamina {

// A scratch buffer that a kernel asks for, live in its node's step only.
struct WorkspaceRequirement {
  size_t size_bytes = 0;
  int slot_id = 0;  // a constant of the kernel class, in [0, WorkspaceRequirements::kMaxSlots)
};

class WorkspaceRequirements {
 public:
  static constexpr int kMaxSlots = 8;
  // INTERNAL where the slot is out of range or was added before.
  Status Add(int slot_id, size_t size_bytes);
  std::span<const WorkspaceRequirement> slots() const { return {slots_.data(), static_cast<size_t>(count_)}; }
  // Sum of the slots, each rounded up to `alignment_bytes`.
  size_t total_bytes(size_t alignment_bytes = 256) const;

 private:
  std::array<WorkspaceRequirement, kMaxSlots> slots_{};
  int count_ = 0;
};

// How a constant input is stored for a kernel instead of its original.
struct PrepackDeclaration {
  bool prepack = false;
  // The kernel cannot compute from the original: packed even where prepacking is turned off.
  bool required = false;
  uint64_t packed_bytes = 0;   // aligned to 64 when it is passed to PrePackWeight
  uint64_t scratch_bytes = 0;  // needed while packing
  // Bit i: input i is read while packing and then no longer needed by the kernel (as scales with their
  // weight).
  uint32_t absorbed_inputs = 0;
};

// Constants of the node while one of them is packed.
class PrepackContext {
 public:
  virtual ~PrepackContext() = default;
  // The constant, on the host for CPU kernels, else on the device; null where the input is absent or no
  // constant.
  virtual const Tensor* Constant(int input) const = 0;
  virtual ThreadPool& threads() = 0;
  virtual void* stream() const = 0;
};

class Kernel {
 public:
  virtual ~Kernel() = default;

  virtual Status Compute(KernelContext& context) const = 0;

  // Scratch slots for everything `node` admits: the maximum over its bounds (sizes need not grow with
  // shapes). Where a bound is missing the function says so with UNSUPPORTED and the heuristic is used.
  virtual Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                              WorkspaceRequirements& requirements) const;

  // Asked once per constant input at planning: sizes only, no weight is read.
  virtual Status DeclarePrepack(const NodeInfo& node, int input, PrepackDeclaration& declaration) const;
  // Fills `packed` [declaration.packed_bytes] from context.Constant(input) and its absorbed inputs.
  virtual Status PrePackWeight(int input, PrepackContext& context, void* packed, void* scratch) const;
};

}  // namespace lamina
