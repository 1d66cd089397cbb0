// What a kernel sees of its node while it packs a weight.
#pragma once

#include "provider/kernel.h"
#include "runtime/executable.h"

namespace lamina {

class NodePrepackContext : public PrepackContext {
 public:
  // `stream`: of the step's device; null on the host.
  NodePrepackContext(const Step& step, ThreadPool& threads, void* stream)
      : step_(step), threads_(threads), stream_(stream) {}
  const Tensor* Constant(int input) const override {
    if (input < 0 || input >= static_cast<int>(step_.inputs.size())) return nullptr;
    const Value* constant = step_.inputs[static_cast<size_t>(input)].constant;
    return constant && constant->is_tensor() ? &constant->tensor() : nullptr;
  }
  ThreadPool& threads() override { return threads_; }
  void* stream() const override { return stream_; }

 private:
  const Step& step_;
  ThreadPool& threads_;
  void* stream_;
};

// Whether packing input `input` as declared replaces the original of input `index`.
inline bool IsAbsorbedByPacking(size_t index, int input, const PrepackDeclaration& declaration) {
  return index == static_cast<size_t>(input) ||
         (index < 32 && (declaration.absorbed_inputs >> index & 1) != 0);
}

}  // namespace lamina
