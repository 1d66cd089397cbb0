// Tests of one operator: builds a node from attributes and inputs, runs its CPU kernel and compares.
//
//   OpTester test("ReduceSum", /*opset_version=*/13);
//   test.Attr("keepdims", 0).Input<float>({2, 2}, {1, 2, 3, 4}).Constant<int64_t>({1}, {0});
//   test.Output<float>({2}, {4, 6});
//   test.Run();
//
// Run computes with 1, 2 and 3 threads, and again with outputs that share memory with inputs where the kernel
// allows it (Alias, MayInplace); every run must give the same bits. A run fails the test when a kernel asks
// for scratch that it did not declare, allocates from the heap, or leaves part of an output unwritten or
// writes past its end. Constants are prepacked where the kernel asks for it, and are then no longer readable.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/element_type.h"
#include "lamina/value.h"
#include "model/attribute.h"
#include "provider/kernel_registry.h"
#include "runtime/value_compare.h"
#include "support/test_node.h"

namespace lamina::testing {

class OpTester {
 public:
  explicit OpTester(std::string_view op_type, int opset_version, std::string_view domain = "");

  OpTester& Attr(std::string_view name, AttributeValue value);
  OpTester& Attr(std::string_view name, int value) { return Attr(name, AttributeValue(int64_t{value})); }
  OpTester& Attr(std::string_view name, float value) { return Attr(name, AttributeValue(value)); }
  OpTester& Attr(std::string_view name, const char* value) {
    return Attr(name, AttributeValue(std::string(value)));
  }
  OpTester& Attr(std::string_view name, Tensor value);

  template <typename T>
  OpTester& Input(const Shape& shape, const std::vector<T>& values) {
    return InputValue(MakeTensor(shape, values));
  }
  // An input that is an initializer of the model.
  template <typename T>
  OpTester& Constant(const Shape& shape, const std::vector<T>& values) {
    return ConstantValue(MakeTensor(shape, values));
  }
  // `values` rounded to fp16, bf16 or kept as fp32 or fp64: one test for all floating-point types.
  OpTester& FloatInput(DataType type, const Shape& shape, const std::vector<double>& values);
  OpTester& InputValue(Value value);
  OpTester& ConstantValue(Value value);
  OpTester& AbsentInput();

  template <typename T>
  OpTester& Output(const Shape& shape, const std::vector<T>& values) {
    return OutputValue(MakeTensor(shape, values));
  }
  OpTester& FloatOutput(DataType type, const Shape& shape, const std::vector<double>& values);
  OpTester& OutputValue(Value expected);
  // An output that is computed and compared between runs, but has no expected value.
  OpTester& UncheckedOutput(ValueType type);
  OpTester& AbsentOutput();

  // For kernels that hand out containers or strings, or whose output size the data decides.
  OpTester& AllowAllocations();
  OpTester& WithTolerance(Tolerance tolerance);
  OpTester& WithCompareOptions(const CompareOptions& options);
  // The cache that the node's session has bound. The view's memory is the caller's; as every run appends to
  // it, Run computes once only.
  OpTester& WithKvView(const KvView* view);

  void Run();
  // The node must be refused with `code` and a text that contains `text`: at lookup, creation or by Compute.
  void ExpectError(StatusCode code, std::string_view text);

  struct RunSetup {
    int threads = 1;
    bool share_memory = false;  // outputs take the memory of inputs as Alias and MayInplace allow
  };
  // One computation, for tests that judge the outputs themselves. Breaches of the rules above fail the test.
  Result<std::vector<Value>> Compute(const RunSetup& setup);

  template <typename T>
  static Tensor MakeTensor(const Shape& shape, const std::vector<T>& values);
  // `values` as fp16, bf16, fp32 or fp64.
  static Tensor MakeFloatTensor(DataType type, const Shape& shape, const std::vector<double>& values);

 private:
  Result<std::unique_ptr<Kernel>> CreateKernel(const KernelCreateInfo** info) const;

  TestNode node_;
  std::vector<Value> inputs_;
  std::vector<Value> expected_;  // undefined: not compared
  std::unique_ptr<Tolerance> tolerance_;
  CompareOptions compare_options_;
  bool allow_allocations_ = false;
  const KvView* kv_view_ = nullptr;
};

// The registry of the CPU provider.
const KernelRegistry& CpuRegistry();

template <typename T>
Tensor OpTester::MakeTensor(const Shape& shape, const std::vector<T>& values) {
  static_assert(DataTypeOf<T> != DataType::kUndefined, "not the C++ type of an element type");
  if (static_cast<int64_t>(values.size()) != shape.num_elements()) {
    ADD_FAILURE() << "test error: " << values.size() << " values for shape " << shape.ToString();
  }
  Tensor tensor = *Tensor::Allocate(DataTypeOf<T>, shape);
  const auto count = static_cast<size_t>(shape.num_elements());
  for (size_t i = 0; i < count && i < values.size(); ++i) tensor.mutable_data<T>()[i] = values[i];
  return tensor;
}

}  // namespace lamina::testing
