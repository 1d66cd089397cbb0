// What a kernel has while it computes: inputs, outputs, scratch, threads. Kernels never allocate: outputs and
// scratch come from here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "lamina/value.h"
#include "provider/kv_view.h"

namespace lamina {

class ThreadPool;

// Bytes a kernel keeps of a prepacked weight (see Kernel::DeclarePrepack); null where it was not prepacked.
struct PackedWeight {
  const void* data = nullptr;
  uint64_t size_bytes = 0;
};

class KernelContext {
 public:
  virtual ~KernelContext() = default;

  virtual int num_inputs() const = 0;
  virtual int num_outputs() const = 0;
  // Null for an absent optional input, for a container (see InputValue), and for a weight that was prepacked
  // and whose original was released.
  virtual const Tensor* Input(int index) const = 0;
  virtual const Value& InputValue(int index) const = 0;
  virtual PackedWeight Packed(int index) const = 0;

  // The tensor to fill, of the output's type and this shape; null where the output is not wanted. May share
  // memory with an input as the kernel's definition allows (alias, in-place). Errors: the shape contradicts
  // the plan; no memory. REQUIRES: called at most once per output.
  virtual Result<Tensor*> Output(int index, const Shape& shape) = 0;
  // Hands over a container (or a tensor the kernel passes on from an input) as output.
  virtual Status SetOutputValue(int index, Value value) = 0;
  virtual bool HasOutput(int index) const = 0;

  // Scratch declared for the slot (kernel.h), valid until Compute returns, aligned to 256 bytes. In arena
  // sessions memory of the arena where nothing was planned; else RESOURCE_EXHAUSTED naming node, slot,
  // planned and asked bytes where `bytes` exceeds the plan.
  virtual Result<void*> GetScratchBuffer(int slot_id, size_t bytes) = 0;
  // The planned slot, or null where it was not planned.
  virtual void* GetPreallocatedWorkspace(int slot_id) = 0;

  // The cache bound to this attention node, or null: then past and present are ordinary tensors.
  virtual const KvView* kv_view() const = 0;

  // Threads of the session. Results must not depend on their number.
  virtual ThreadPool& threads() = 0;
  // The queue of the device the kernel works on; null on the CPU.
  virtual void* stream() const = 0;
  // Polled by kernels that may run long (Loop); a cancelled run returns CANCELLED.
  virtual bool cancelled() const = 0;

  // Runs the graph attribute `attribute` (If, Loop, Scan) with `inputs` for its formal inputs; captured
  // values come from the enclosing run. Outputs are appended to `outputs` in order.
  virtual Status RunSubgraph(std::string_view attribute, std::span<const Value> inputs,
                             std::vector<Value>* outputs) = 0;
  // A host tensor for values whose size the data decides (NonZero, Loop); from the run's host arena.
  virtual Result<Tensor> AllocateHost(DataType type, const Shape& shape) = 0;
};

// The scratch as an array of T.
template <typename T>
Result<T*> GetScratch(KernelContext& context, int slot_id, int64_t count) {
  LAMINA_ASSIGN_OR_RETURN(void* memory,
                          context.GetScratchBuffer(slot_id, static_cast<size_t>(count) * sizeof(T)));
  return static_cast<T*>(memory);
}

}  // namespace lamina
