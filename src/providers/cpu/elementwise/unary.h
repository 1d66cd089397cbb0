// Operators of one element each: a kernel over a function of arrays.
#pragma once

#include "providers/cpu/kernel_util.h"

namespace lamina {

// Attributes of an activation, under the names of its formula.
struct UnaryParams {
  float alpha = 0;
  float beta = 0;
};

// `output` may be `input`. An element's result does not depend on where it lies in the array.
using UnaryFunction = void (*)(const void* input, void* output, int64_t count, const UnaryParams& params);

// output = Op::Apply(x, params) for every element; T: input, R: output.
template <typename Op, typename T, typename R = T>
void ApplyUnary(const void* input, void* output, int64_t count, const UnaryParams& params) {
  const T* x = static_cast<const T*>(input);
  R* y = static_cast<R*>(output);
  for (int64_t i = 0; i < count; ++i) y[i] = Op::Apply(x[i], params);
}

// Runs `function` over the input. With `through_float` the elements are fp16 or bf16 and the function is one
// of floats (with float results). `work`: cost of an element in simple operations.
class UnaryKernel : public Kernel {
 public:
  UnaryKernel(UnaryFunction function, UnaryParams params, bool through_float, int64_t work)
      : function_(function), params_(params), through_float_(through_float), work_(work) {}
  Status Compute(KernelContext& context) const override;

 private:
  UnaryFunction function_;
  UnaryParams params_;
  bool through_float_;
  int64_t work_;
};

// The kernel for floating-point elements, from the functions of float and double.
Result<std::unique_ptr<Kernel>> CreateFloatUnary(const NodeInfo& node, UnaryFunction of_float,
                                                 UnaryFunction of_double, UnaryParams params, int64_t work);

template <typename Op>
Result<std::unique_ptr<Kernel>> CreateFloatUnary(const NodeInfo& node, UnaryParams params, int64_t work) {
  return CreateFloatUnary(node, &ApplyUnary<Op, float>, &ApplyUnary<Op, double>, params, work);
}

}  // namespace lamina
