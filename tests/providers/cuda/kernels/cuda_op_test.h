// Tests of one operator on CUDA: the same node and inputs go to the CPU's kernel and to the CUDA one, whose
// results must agree under the tolerances of value_compare.h.
//
//   CudaOpTest test("Add", /*opset_version=*/14);
//   test.Random(DataType::kFloat16, {2, 3, 4}).Random(DataType::kFloat16, {3, 1}).Output(DataType::kFloat16);
//   test.Run();
//
// Without a GPU the kernels are those of the emulation (support/cuda_emulation), where this build has it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "lamina/value.h"
#include "provider/provider.h"
#include "runtime/value_compare.h"
#include "support/test_node.h"

namespace lamina::testing {

// The provider of a GPU or of the emulation, for the whole process; null where there is neither. From then on
// environments have it too.
ExecutionProvider* CudaProviderForTests();

#define LAMINA_CUDA_OR_SKIP() \
  if (!::lamina::testing::CudaProviderForTests()) GTEST_SKIP() << "no GPU and no emulation of one"

class CudaOpTest {
 public:
  explicit CudaOpTest(std::string_view op_type, int opset_version = 21, std::string_view domain = "");

  CudaOpTest& Attr(std::string_view name, AttributeValue value);
  CudaOpTest& Attr(std::string_view name, int value) { return Attr(name, AttributeValue(int64_t{value})); }
  CudaOpTest& Attr(std::string_view name, float value) { return Attr(name, AttributeValue(value)); }
  CudaOpTest& Attr(std::string_view name, const char* value) {
    return Attr(name, AttributeValue(std::string(value)));
  }

  // Numbers in [low, high), others for each input; as an initializer where `constant`.
  CudaOpTest& Random(DataType type, const Shape& shape, double low = -1, double high = 1,
                     bool constant = false);
  CudaOpTest& Constant(DataType type, const Shape& shape, double low = -1, double high = 1) {
    return Random(type, shape, low, high, true);
  }
  CudaOpTest& Input(Tensor tensor, bool constant = false);
  CudaOpTest& Ints(const std::vector<int64_t>& values, bool constant = true);
  CudaOpTest& Absent();
  CudaOpTest& Output(DataType type);
  CudaOpTest& AbsentOutput();
  CudaOpTest& WithOptions(const CompareOptions& options);

  void Run();

 private:
  Result<std::vector<Value>> ComputeOnCpu();
  Result<std::vector<Value>> ComputeOnCuda(ExecutionProvider& provider);

  TestNode node_;
  std::vector<Value> inputs_;
  CompareOptions options_;
  uint32_t seed_ = 1;
};

// Numbers in [low, high) as any numeric type or bool.
Tensor RandomTensor(DataType type, const Shape& shape, uint32_t seed, double low, double high);

inline constexpr DataType kFloatTypesOnCuda[] = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16};

}  // namespace lamina::testing
