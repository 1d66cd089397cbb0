#include "cuda_op_test.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/element_type.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "providers/cuda/cuda_provider.h"
#include "support/op_tester.h"
#include "support/random_data.h"
#include "support/test_kernel_context.h"

namespace lamina::testing {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr std::byte kPattern{0xCD};

// Memory of the device between two guard zones, filled with a pattern.
class DeviceBuffer {
 public:
  DeviceBuffer(ExecutionProvider& provider, Allocator& allocator, size_t size_bytes)
      : provider_(provider), allocator_(allocator), size_bytes_(size_bytes) {
    base_ = static_cast<std::byte*>(allocator.Alloc(size_bytes + 2 * kGuardBytes).value());
    const std::vector<std::byte> pattern(size_bytes + 2 * kGuardBytes, kPattern);
    Copy(pattern.data(), Device{}, base_, allocator_.device(), pattern.size());
  }
  ~DeviceBuffer() { allocator_.Free(base_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* data() { return base_ + kGuardBytes; }
  size_t size_bytes() const { return size_bytes_; }
  void Upload(const Tensor& tensor) {
    Copy(tensor.raw_data(), Device{}, data(), allocator_.device(), tensor.size_bytes());
  }
  void Download(void* target, size_t bytes) { Copy(data(), allocator_.device(), target, Device{}, bytes); }
  bool GuardsIntact() {
    std::vector<std::byte> all(size_bytes_ + 2 * kGuardBytes);
    Copy(base_, allocator_.device(), all.data(), Device{}, all.size());
    const auto untouched = [](std::byte byte) { return byte == kPattern; };
    const auto end = all.begin() + static_cast<ptrdiff_t>(kGuardBytes + size_bytes_);
    return std::all_of(all.begin(), all.begin() + kGuardBytes, untouched) &&
           std::all_of(end, all.end(), untouched);
  }

 private:
  void Copy(const void* from, Device from_device, void* to, Device to_device, size_t bytes) {
    const Status status =
        provider_.data_transfer()->CopyAsync({from, from_device, to, to_device, bytes}, nullptr);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  ExecutionProvider& provider_;
  Allocator& allocator_;
  size_t size_bytes_;
  std::byte* base_;
};

// What a session hands to a kernel on a device: inputs there or, as the definition says, on the host.
class CudaContext : public KernelContext, public PrepackContext {
 public:
  CudaContext(const TestNode& node, const KernelDef& def, ExecutionProvider& provider)
      : node_(node),
        def_(def),
        provider_(provider),
        device_(provider.devices().front().device),
        allocator_(provider.CreateAllocator(device_, MemoryKind::kDevice).value()),
        stream_(provider.CreateStream(device_, StreamPurpose::kCompute).value()),
        outputs_(static_cast<size_t>(node.num_outputs())),
        output_buffers_(outputs_.size()),
        scratch_(WorkspaceRequirements::kMaxSlots) {}

  Status Prepare(const Kernel& kernel, const std::vector<Value>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto index = static_cast<int>(i);
      inputs_.push_back(inputs[i]);
      input_buffers_.emplace_back();
      packed_.emplace_back();
      if (!inputs[i].is_tensor() || def_.is_host_input(index)) continue;
      const Tensor& tensor = inputs[i].tensor();
      input_buffers_[i] = NewBuffer(tensor.size_bytes());
      input_buffers_[i]->Upload(tensor);
      inputs_[i] = Value(Tensor::View(tensor.type(), tensor.shape(), input_buffers_[i]->data(),
                                      tensor.size_bytes(), device_));
    }
    WorkspaceRequirements requirements;
    LAMINA_RETURN_IF_ERROR(kernel.DeclareWorkspaceRequirements(node_, requirements));
    for (const WorkspaceRequirement& slot : requirements.slots()) {
      scratch_[static_cast<size_t>(slot.slot_id)] = NewBuffer(slot.size_bytes);
    }
    for (int i = 0; i < num_inputs(); ++i) {
      if (!node_.is_constant_input(i)) continue;
      PrepackDeclaration declaration;
      LAMINA_RETURN_IF_ERROR(kernel.DeclarePrepack(node_, i, declaration));
      if (!declaration.prepack) continue;
      auto& packed = packed_[static_cast<size_t>(i)];
      packed = NewBuffer(declaration.packed_bytes);
      const auto scratch = NewBuffer(declaration.scratch_bytes);
      LAMINA_RETURN_IF_ERROR(kernel.PrePackWeight(i, *this, packed->data(), scratch->data()));
      LAMINA_RETURN_IF_ERROR(stream_->Synchronize());
      EXPECT_TRUE(scratch->GuardsIntact()) << "packing input " << i << " wrote outside its scratch";
      inputs_[static_cast<size_t>(i)] = Value();
    }
    return Status();
  }

  Result<std::vector<Value>> TakeOutputs() {
    LAMINA_RETURN_IF_ERROR(stream_->Synchronize());
    std::vector<Value> host;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!output_buffers_[i]) {
        host.push_back(outputs_[i]);
        continue;
      }
      const Tensor& tensor = outputs_[i].tensor();
      LAMINA_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(tensor.type(), tensor.shape()));
      output_buffers_[i]->Download(copy.mutable_raw_data(), copy.size_bytes());
      host.emplace_back(std::move(copy));
    }
    for (const auto* buffers : {&input_buffers_, &output_buffers_, &scratch_, &packed_}) {
      for (const auto& buffer : *buffers) {
        EXPECT_TRUE(!buffer || buffer->GuardsIntact()) << "a kernel wrote outside its buffers";
      }
    }
    return host;
  }

  // Of PrepackContext.
  const Tensor* Constant(int input) const override { return Input(input); }

  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  int num_outputs() const override { return node_.num_outputs(); }
  const Tensor* Input(int index) const override {
    const Value& value = InputValue(index);
    return value.is_tensor() ? &value.tensor() : nullptr;
  }
  const Value& InputValue(int index) const override {
    static const Value kAbsent;
    return index < num_inputs() ? inputs_[static_cast<size_t>(index)] : kAbsent;
  }
  PackedWeight Packed(int index) const override {
    const auto& buffer = packed_[static_cast<size_t>(index)];
    return buffer ? PackedWeight{buffer->data(), buffer->size_bytes()} : PackedWeight();
  }
  Result<Tensor*> Output(int index, const Shape& shape) override {
    if (!HasOutput(index)) return static_cast<Tensor*>(nullptr);
    const DataType type = node_.output_type(index).element;
    const auto i = static_cast<size_t>(index);
    if (def_.is_host_output(index)) {
      LAMINA_ASSIGN_OR_RETURN(outputs_[i], Tensor::Allocate(type, shape));
      return &outputs_[i].tensor();
    }
    LAMINA_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(type, shape));
    output_buffers_[i] = NewBuffer(bytes);
    outputs_[i] = Value(Tensor::View(type, shape, output_buffers_[i]->data(), bytes, device_));
    return &outputs_[i].tensor();
  }
  Status SetOutputValue(int, Value) override { return UnsupportedError("a container on a device"); }
  bool HasOutput(int index) const override { return node_.HasOutput(index); }
  Result<void*> GetScratchBuffer(int slot_id, size_t bytes) override {
    const auto& buffer = scratch_[static_cast<size_t>(slot_id)];
    if (buffer && bytes <= buffer->size_bytes()) return buffer->data();
    return ResourceExhaustedError("slot {}: {} bytes are asked for, {} were declared", slot_id, bytes,
                                  buffer ? buffer->size_bytes() : 0);
  }
  void* GetPreallocatedWorkspace(int slot_id) override {
    const auto& buffer = scratch_[static_cast<size_t>(slot_id)];
    return buffer ? buffer->data() : nullptr;
  }
  const KvView* kv_view() const override { return nullptr; }
  ThreadPool& threads() override {
    static ThreadPool pool(1);
    return pool;
  }
  void* stream() const override { return stream_->handle(); }
  bool cancelled() const override { return false; }
  Status RunSubgraph(std::string_view, std::span<const Value>, std::vector<Value>*) override {
    return UnsupportedError("a subgraph on a device");
  }
  Result<Tensor> AllocateHost(DataType type, const Shape& shape) override {
    return Tensor::Allocate(type, shape);
  }

 private:
  std::unique_ptr<DeviceBuffer> NewBuffer(size_t size_bytes) {
    return std::make_unique<DeviceBuffer>(provider_, *allocator_, size_bytes);
  }

  const TestNode& node_;
  const KernelDef& def_;
  ExecutionProvider& provider_;
  Device device_;
  std::unique_ptr<Allocator> allocator_;
  std::unique_ptr<Stream> stream_;
  std::vector<Value> inputs_;
  std::vector<std::unique_ptr<DeviceBuffer>> input_buffers_;
  std::vector<std::unique_ptr<DeviceBuffer>> packed_;
  std::vector<Value> outputs_;
  std::vector<std::unique_ptr<DeviceBuffer>> output_buffers_;
  std::vector<std::unique_ptr<DeviceBuffer>> scratch_;
};

std::shared_ptr<ExecutionProvider> FindProvider() {
  Result<std::shared_ptr<ExecutionProvider>> provider = CreateCudaProviderFactory()->Create({});
  if (provider.ok()) return *provider;
  const std::string emulation = std::string(LAMINA_BINARY_DIR) + "/libemulated_cuda.so";
  if (!std::filesystem::exists(emulation)) return nullptr;
  setenv("LAMINA_CUDA_LIBRARY", emulation.c_str(), /*replace=*/1);
  provider = CreateCudaProviderFactory()->Create({});
  return provider.ok() ? *provider : nullptr;
}

}  // namespace

ExecutionProvider* CudaProviderForTests() {
  static const std::shared_ptr<ExecutionProvider> kProvider = FindProvider();
  return kProvider.get();
}

Tensor RandomTensor(DataType type, const Shape& shape, uint32_t seed, double low, double high) {
  Tensor tensor = *Tensor::Allocate(type, shape);
  const std::vector<double> numbers = RandomNumbers<double>(shape.num_elements(), seed, low, high);
  const bool known = DispatchType<float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t,
                                  uint8_t, uint16_t, uint32_t, uint64_t, bool>(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < numbers.size(); ++i) {
      if constexpr (std::is_same_v<T, bool>) {
        tensor.mutable_data<T>()[i] = numbers[i] > 0;
      } else if constexpr (kIsHalf<T>) {
        tensor.mutable_data<T>()[i] = T(static_cast<float>(numbers[i]));
      } else {
        tensor.mutable_data<T>()[i] =
            static_cast<T>(std::is_integral_v<T> ? std::floor(numbers[i]) : numbers[i]);
      }
    }
  });
  EXPECT_TRUE(known) << DataTypeName(type);
  return tensor;
}

CudaOpTest::CudaOpTest(std::string_view op_type, int opset_version, std::string_view domain)
    : node_(op_type, opset_version, domain) {
  if (const ExecutionProvider* provider = CudaProviderForTests()) {
    node_.set_device(provider->devices().front());
  }
}

CudaOpTest& CudaOpTest::Attr(std::string_view name, AttributeValue value) {
  node_.SetAttribute(name, std::move(value));
  return *this;
}

CudaOpTest& CudaOpTest::Random(DataType type, const Shape& shape, double low, double high, bool constant) {
  return Input(RandomTensor(type, shape, ++seed_, low, high), constant);
}

CudaOpTest& CudaOpTest::Input(Tensor tensor, bool constant) {
  inputs_.emplace_back(std::move(tensor));
  node_.AddInput(inputs_.back(), constant);
  return *this;
}

CudaOpTest& CudaOpTest::Ints(const std::vector<int64_t>& values, bool constant) {
  return Input(OpTester::MakeTensor(Shape{static_cast<int64_t>(values.size())}, values), constant);
}

CudaOpTest& CudaOpTest::Absent() {
  inputs_.emplace_back();
  node_.AddInput(inputs_.back(), false);
  return *this;
}

CudaOpTest& CudaOpTest::Output(DataType type) {
  node_.AddOutput(ValueType::Tensor(type), nullptr);
  return *this;
}

CudaOpTest& CudaOpTest::AbsentOutput() {
  node_.AddOutput(ValueType(), nullptr);
  return *this;
}

CudaOpTest& CudaOpTest::WithOptions(const CompareOptions& options) {
  options_ = options;
  return *this;
}

Result<std::vector<Value>> CudaOpTest::ComputeOnCpu() {
  LAMINA_ASSIGN_OR_RETURN(const KernelCreateInfo* info, CpuRegistry().Lookup(node_));
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, info->create(node_));
  static ThreadPool pool(1);
  TestKernelContext context(node_, info->def, inputs_, /*share_memory=*/false, pool, nullptr);
  LAMINA_RETURN_IF_ERROR(context.Prepare(*kernel));
  LAMINA_RETURN_IF_ERROR(kernel->Compute(context));
  return context.TakeOutputs();
}

Result<std::vector<Value>> CudaOpTest::ComputeOnCuda(ExecutionProvider& provider) {
  LAMINA_ASSIGN_OR_RETURN(const KernelCreateInfo* info, provider.kernel_registry().Lookup(node_));
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, info->create(node_));
  CudaContext context(node_, info->def, provider);
  LAMINA_RETURN_IF_ERROR(context.Prepare(*kernel, inputs_));
  LAMINA_RETURN_IF_ERROR(kernel->Compute(context));
  return context.TakeOutputs();
}

void CudaOpTest::Run() {
  SCOPED_TRACE(std::string(node_.op_type()) + " of " +
               (node_.num_inputs() > 0 ? node_.input_type(0).ToString() : ""));
  const Result<std::vector<Value>> expected = ComputeOnCpu();
  ASSERT_TRUE(expected.ok()) << "CPU: " << expected.status().ToString();
  const Result<std::vector<Value>> found = ComputeOnCuda(*CudaProviderForTests());
  ASSERT_TRUE(found.ok()) << "CUDA: " << found.status().ToString();
  for (size_t i = 0; i < expected->size(); ++i) {
    if (!(*expected)[i].defined()) continue;
    const Status same = CompareValues((*expected)[i], (*found)[i], options_);
    EXPECT_TRUE(same.ok()) << "output " << i << ": " << same.ToString();
  }
}

}  // namespace lamina::testing
