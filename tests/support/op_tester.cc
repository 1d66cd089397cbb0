#include "support/op_tester.h"

#include <cstring>

#include "base/error.h"
#include "base/thread_pool.h"
#include "providers/cpu/cpu_provider.h"
#include "support/allocation_counter.h"
#include "support/test_kernel_context.h"

namespace lamina::testing {
namespace {

// A pool for each number of threads a test asks for, kept over all tests.
ThreadPool& PoolOf(int threads) {
  static std::vector<std::unique_ptr<ThreadPool>> pools(9);
  auto& pool = pools.at(static_cast<size_t>(threads));
  if (!pool) pool = std::make_unique<ThreadPool>(threads);
  return *pool;
}

Status SameBits(const Value& a, const Value& b) {
  if (a.is_tensor() && b.is_tensor() && a.tensor().type() != DataType::kString) {
    const Tensor& x = a.tensor();
    const Tensor& y = b.tensor();
    if (x.type() != y.type() || !(x.shape() == y.shape())) return CompareTensors(x, y, Tolerance());
    if (x.size_bytes() == 0 || std::memcmp(x.raw_data(), y.raw_data(), x.size_bytes()) == 0) return Status();
    LAMINA_RETURN_IF_ERROR(CompareTensors(x, y, Tolerance()));
    return InvalidArgumentError("the bits differ in the sign of a zero or in a NaN");
  }
  return CompareValues(a, b);
}

}  // namespace

const KernelRegistry& CpuRegistry() {
  static const std::unique_ptr<ExecutionProvider> kProvider = CreateCpuProvider();
  return kProvider->kernel_registry();
}

Tensor OpTester::MakeFloatTensor(DataType type, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor = *Tensor::Allocate(type, shape);
  const bool known = DispatchType<float, double, Float16, Bfloat16>(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    tensor = MakeTensor(shape, std::vector<T>(values.begin(), values.end()));
  });
  if (!known) ADD_FAILURE() << "test error: " << DataTypeName(type) << " is no floating-point type";
  return tensor;
}

OpTester::OpTester(std::string_view op_type, int opset_version, std::string_view domain)
    : node_(op_type, opset_version, domain) {}

OpTester& OpTester::Attr(std::string_view name, AttributeValue value) {
  node_.SetAttribute(name, std::move(value));
  return *this;
}

OpTester& OpTester::Attr(std::string_view name, Tensor value) {
  auto initializer = std::make_shared<Initializer>();
  initializer->type = value.type();
  initializer->shape = value.shape();
  initializer->source = std::move(value);
  return Attr(name, AttributeValue(std::shared_ptr<const Initializer>(std::move(initializer))));
}

OpTester& OpTester::FloatInput(DataType type, const Shape& shape, const std::vector<double>& values) {
  return InputValue(MakeFloatTensor(type, shape, values));
}

OpTester& OpTester::InputValue(Value value) {
  node_.AddInput(value, /*constant=*/false);
  inputs_.push_back(std::move(value));
  return *this;
}

OpTester& OpTester::ConstantValue(Value value) {
  node_.AddInput(value, /*constant=*/true);
  inputs_.push_back(std::move(value));
  return *this;
}

OpTester& OpTester::AbsentInput() { return InputValue(Value()); }

OpTester& OpTester::FloatOutput(DataType type, const Shape& shape, const std::vector<double>& values) {
  return OutputValue(MakeFloatTensor(type, shape, values));
}

OpTester& OpTester::OutputValue(Value expected) {
  node_.AddOutput(expected.type(), expected.is_tensor() ? &expected.tensor() : nullptr);
  expected_.push_back(std::move(expected));
  return *this;
}

OpTester& OpTester::UncheckedOutput(ValueType type) {
  node_.AddOutput(type, nullptr);
  expected_.emplace_back();
  return *this;
}

OpTester& OpTester::AbsentOutput() { return UncheckedOutput(ValueType()); }

OpTester& OpTester::AllowAllocations() {
  allow_allocations_ = true;
  return *this;
}

OpTester& OpTester::WithTolerance(Tolerance tolerance) {
  tolerance_ = std::make_unique<Tolerance>(tolerance);
  return *this;
}

OpTester& OpTester::WithCompareOptions(const CompareOptions& options) {
  compare_options_ = options;
  return *this;
}

OpTester& OpTester::WithKvView(const KvView* view) {
  kv_view_ = view;
  return *this;
}

Result<std::unique_ptr<Kernel>> OpTester::CreateKernel(const KernelCreateInfo** info) const {
  LAMINA_ASSIGN_OR_RETURN(*info, CpuRegistry().Lookup(node_));
  return (*info)->create(node_);
}

Result<std::vector<Value>> OpTester::Compute(const RunSetup& setup) {
  const KernelCreateInfo* info = nullptr;
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, CreateKernel(&info));
  std::vector<Value> inputs;
  for (const Value& input : inputs_) {  // copies, as the kernel may write into them where it is in place
    inputs.push_back(input.is_tensor() ? Value(*input.tensor().Clone()) : input);
  }
  TestKernelContext context(node_, info->def, std::move(inputs), setup.share_memory, PoolOf(setup.threads),
                            kv_view_);
  LAMINA_RETURN_IF_ERROR(context.Prepare(*kernel));
  int64_t allocations = 0;
  Status status;
  {
    const AllocationCounter counter;
    status = kernel->Compute(context);
    allocations = counter.count();
  }
  LAMINA_RETURN_IF_ERROR(status);  // making an error text may allocate
  if (!allow_allocations_) {
    EXPECT_EQ(allocations, 0) << "the kernel allocated from the heap";
  }
  EXPECT_EQ(context.Breaches(), "");
  return context.TakeOutputs();
}

void OpTester::Run() {
  SCOPED_TRACE(std::string(node_.op_type()) + "-" + std::to_string(node_.opset_version()));
  std::vector<RunSetup> setups = {{1, false}, {2, false}, {3, false}, {1, true}, {3, true}};
  if (kv_view_) setups.resize(1);
  std::vector<Value> first;
  for (const RunSetup& setup : setups) {
    SCOPED_TRACE(
        fmt::format("{} threads{}", setup.threads, setup.share_memory ? ", outputs share memory" : ""));
    const Result<std::vector<Value>> outputs = Compute(setup);
    ASSERT_TRUE(outputs.ok()) << outputs.status().ToString();
    for (size_t i = 0; i < expected_.size(); ++i) {
      SCOPED_TRACE(fmt::format("output {}", i));
      if (!first.empty()) {
        const Status same = SameBits(first[i], (*outputs)[i]);
        EXPECT_TRUE(same.ok()) << "differs from the first run: " << same.ToString();
      }
      if (!expected_[i].defined()) continue;
      const Status status = tolerance_ && expected_[i].is_tensor() && (*outputs)[i].is_tensor()
                                ? CompareTensors(expected_[i].tensor(), (*outputs)[i].tensor(), *tolerance_)
                                : CompareValues(expected_[i], (*outputs)[i], compare_options_);
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    if (first.empty()) first = *outputs;
  }
}

void OpTester::ExpectError(StatusCode code, std::string_view text) {
  SCOPED_TRACE(std::string(node_.op_type()) + "-" + std::to_string(node_.opset_version()));
  const Result<std::vector<Value>> outputs = Compute({});
  ASSERT_FALSE(outputs.ok()) << "the kernel should have failed";
  EXPECT_EQ(outputs.status().code(), code) << outputs.status().ToString();
  EXPECT_NE(outputs.status().message().find(text), std::string::npos)
      << outputs.status().ToString() << " does not contain: " << text;
}

}  // namespace lamina::testing
