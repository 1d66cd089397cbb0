// The KernelContext of OpTester: hands out outputs and declared scratch, and watches that both are used
// properly.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "provider/kernel.h"
#include "provider/kernel_registry.h"
#include "support/test_node.h"

namespace lamina::testing {

// Memory between two guard zones, filled with a pattern.
class GuardedBuffer {
 public:
  GuardedBuffer(size_t size_bytes, size_t alignment_bytes);
  std::byte* data() { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  bool GuardsIntact() const;

 private:
  std::vector<std::byte> memory_;
  std::byte* data_;
  size_t size_bytes_;
};

class TestKernelContext : public KernelContext {
 public:
  TestKernelContext(const TestNode& node, const KernelDef& def, std::vector<Value> inputs, bool share_memory,
                    ThreadPool& threads, const KvView* kv_view);

  // Declares scratch and prepacks constants as a session does at load.
  Status Prepare(const Kernel& kernel);
  // What the kernel did that it may not do, one line each; empty where it kept the rules.
  std::string Breaches() const;
  // Copies of the outputs.
  std::vector<Value> TakeOutputs();

  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  int num_outputs() const override { return node_.num_outputs(); }
  const Tensor* Input(int index) const override;
  const Value& InputValue(int index) const override;
  PackedWeight Packed(int index) const override;
  Result<Tensor*> Output(int index, const Shape& shape) override;
  Status SetOutputValue(int index, Value value) override;
  bool HasOutput(int index) const override { return node_.HasOutput(index); }
  Result<void*> GetScratchBuffer(int slot_id, size_t bytes) override;
  void* GetPreallocatedWorkspace(int slot_id) override;
  const KvView* kv_view() const override { return kv_view_; }
  ThreadPool& threads() override { return threads_; }
  void* stream() const override { return nullptr; }
  bool cancelled() const override { return false; }
  Status RunSubgraph(std::string_view attribute, std::span<const Value> inputs,
                     std::vector<Value>* outputs) override;
  Result<Tensor> AllocateHost(DataType type, const Shape& shape) override;

 private:
  struct OutputSlot {
    Value value;
    std::unique_ptr<GuardedBuffer> buffer;  // null where it shares memory or is a container
    bool made = false;
  };
  // The input whose memory the output may take, else -1.
  int SharedInput(int output, const Shape& shape) const;

  const TestNode& node_;
  const KernelDef& def_;
  std::vector<Value> inputs_;
  std::vector<bool> released_;  // prepacked or absorbed
  bool share_memory_;
  ThreadPool& threads_;
  const KvView* kv_view_;
  std::vector<OutputSlot> outputs_;
  std::vector<std::unique_ptr<GuardedBuffer>> scratch_;  // by slot id
  std::vector<std::unique_ptr<GuardedBuffer>> packed_;   // by input
  std::string breaches_;
};

}  // namespace lamina::testing
