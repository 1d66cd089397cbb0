// The simulated accelerator, as the host sees it through the bridge.
#include "../examples/simulated_accelerator/simulated_accelerator.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <numeric>

#include "providers/plugin/plugin_library.h"
#include "providers/plugin/plugin_provider.h"

namespace lamina {
namespace {

using plugin::PluginProvider;
using ::testing::HasSubstr;

constexpr Device kSim0{DeviceKind::kGpu, 0};
constexpr Device kSim1{DeviceKind::kGpu, 1};
constexpr uint64_t kGranularityBytes = 64 << 10;

Result<std::unique_ptr<ProviderFactory>> LoadSim() {
  LAMINA_ASSIGN_OR_RETURN(
      auto factories,
      plugin::LoadProviderLibrary("", std::string(LAMINA_BINARY_DIR) + "/libsimulated_accelerator.so"));
  return std::move(factories.front());
}

class SimTest : public ::testing::Test {
 protected:
  void Open(const ProviderOptions& options = {}) {
    auto factory = LoadSim();
    ASSERT_TRUE(factory.ok()) << factory.status().ToString();
    factory_ = std::move(*factory);
    const auto provider = factory_->Create({options, 0});
    ASSERT_TRUE(provider.ok()) << provider.status().ToString();
    provider_ = *provider;
    control_ = static_cast<const SimControl*>(
        static_cast<PluginProvider&>(*provider_).Extension(SIM_CONTROL_EXTENSION));
    ASSERT_NE(control_, nullptr);
  }
  void TearDown() override {
    if (!control_) return;
    for (int32_t device = 0; device < control_->GetNumDevices(control_->self); ++device) {
      const SimCounters counters = Counters(device);
      EXPECT_EQ(counters.resident_bytes, 0u) << "device " << device;
      EXPECT_EQ(counters.live_allocations, 0u) << "device " << device;
      EXPECT_EQ(counters.in_flight, 0u) << "device " << device;
      EXPECT_EQ(counters.live_streams, 0u) << "device " << device;
    }
  }
  SimCounters Counters(int32_t device) const {
    SimCounters counters;
    control_->GetCounters(control_->self, device, &counters);
    return counters;
  }
  void Inject(int32_t device, SimFailure failure, uint64_t nth) const {
    control_->Inject(control_->self, device, failure, nth);
  }
  std::unique_ptr<Allocator> MakeAllocator(const Device& device,
                                           MemoryKind kind = MemoryKind::kDevice) const {
    auto allocator = provider_->CreateAllocator(device, kind);
    EXPECT_TRUE(allocator.ok()) << allocator.status().ToString();
    return std::move(*allocator);
  }
  std::unique_ptr<Stream> MakeStream(const Device& device, StreamPurpose purpose) const {
    auto stream = provider_->CreateStream(device, purpose);
    EXPECT_TRUE(stream.ok()) << stream.status().ToString();
    return std::move(*stream);
  }
  Status Copy(const void* source, const Device& from, void* destination, const Device& to, uint64_t bytes,
              Stream* stream = nullptr) const {
    return provider_->data_transfer()->CopyAsync({source, from, destination, to, bytes}, stream);
  }

  std::unique_ptr<ProviderFactory> factory_;
  std::shared_ptr<ExecutionProvider> provider_;
  const SimControl* control_ = nullptr;
};

TEST_F(SimTest, HasTwoDevicesThatAnswerAsGpusOfVendorSim) {
  Open();
  EXPECT_EQ(provider_->name(), "sim");
  EXPECT_EQ(provider_->vendor(), "sim");
  EXPECT_EQ(provider_->device_kind(), DeviceKind::kGpu);
  ASSERT_EQ(provider_->devices().size(), 2u);
  EXPECT_EQ(provider_->devices()[1].device, kSim1);
  EXPECT_EQ(provider_->devices()[1].memory_bytes, 1u << 30);
  EXPECT_EQ(provider_->devices()[1].granularity_bytes, kGranularityBytes);
  EXPECT_EQ(provider_->available_resource_bytes(kSim0), 1u << 30);
}

TEST_F(SimTest, OptionsSetWhatTheDevicesAre) {
  Open({{"devices", "3"}, {"memory", "2MiB"}, {"granularity", "4096"}, {"link_bandwidth", "1GiB"}});
  ASSERT_EQ(provider_->devices().size(), 3u);
  EXPECT_EQ(provider_->devices()[2].memory_bytes, 2u << 20);
  EXPECT_EQ(provider_->devices()[2].granularity_bytes, 4096u);
  EXPECT_EQ(provider_->devices()[2].link_bandwidth_bytes_per_s, 1u << 30);
}

TEST_F(SimTest, WrongOptionsAreRefusedByName) {
  const auto factory = LoadSim();
  ASSERT_TRUE(factory.ok());
  const std::vector<std::pair<ProviderOptions, std::string>> cases = {
      {{{"speed", "1"}}, "there is no option 'speed'"},
      {{{"devices", "0"}}, "option 'devices': expected a number from 1 to 16, found '0'"},
      {{{"devices", "two"}}, "found 'two'"},
      {{{"memory", "1GB?"}}, "option 'memory'"},
      {{{"memory", "99999999999GiB"}}, "option 'memory'"},
      {{{"granularity", "100"}}, "option 'granularity'"},
      {{{"memory", "100KiB"}}, "a multiple of the granularity"},
      {{{"without_types", "float,quarter"}}, "there is no element type 'quarter'"},
  };
  for (const auto& [options, text] : cases) {
    const Status status = (*factory)->Create({options, 0}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr(text));
  }
}

TEST_F(SimTest, MemoryOfADeviceCannotBeTouchedByTheHost) {
  Open();
  const auto allocator = MakeAllocator(kSim0);
  const auto memory = allocator->Alloc(1000);
  ASSERT_TRUE(memory.ok()) << memory.status().ToString();
  // The system, asked to read or write there, says what would happen to the process.
  const int pipe_end = ::open("/dev/zero", O_RDONLY);
  EXPECT_EQ(::read(pipe_end, *memory, 16), -1);
  EXPECT_EQ(errno, EFAULT);
  ::close(pipe_end);
  const int pipe_ends[2] = {0, 0};
  ASSERT_EQ(::pipe(const_cast<int*>(pipe_ends)), 0);
  EXPECT_EQ(::write(pipe_ends[1], *memory, 16), -1);
  EXPECT_EQ(errno, EFAULT);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  allocator->Free(*memory);
}

TEST_F(SimTest, CapacityIsHardAndCountedInGranules) {
  Open({{"memory", "256KiB"}});
  const auto allocator = MakeAllocator(kSim0);
  const auto first = allocator->Alloc(1);
  const auto second = allocator->Alloc(kGranularityBytes + 1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(Counters(0).resident_bytes, 3 * kGranularityBytes);
  EXPECT_EQ(provider_->available_resource_bytes(kSim0), kGranularityBytes);
  const auto too_much = allocator->Alloc(2 * kGranularityBytes);
  ASSERT_FALSE(too_much.ok());
  EXPECT_EQ(too_much.status().code(), StatusCode::kResourceExhausted);
  ASSERT_NE(too_much.status().memory_shortage(), nullptr);
  EXPECT_EQ(too_much.status().memory_shortage()->device, "gpu:0");
  EXPECT_EQ(too_much.status().memory_shortage()->needed_bytes, 2 * kGranularityBytes);
  EXPECT_EQ(too_much.status().memory_shortage()->available_bytes, kGranularityBytes);
  EXPECT_THAT(too_much.status().message(), HasSubstr("sim:0"));
  EXPECT_FALSE(allocator->Alloc(UINT64_MAX).ok());
  allocator->Free(*first);
  const auto again = allocator->Alloc(0);  // a unique address
  ASSERT_TRUE(again.ok());
  const AllocatorStats stats = allocator->GetStats();
  EXPECT_EQ(stats.limit_bytes, 256u << 10);
  EXPECT_EQ(stats.in_use_bytes, 3 * kGranularityBytes);
  EXPECT_EQ(stats.max_in_use_bytes, 3 * kGranularityBytes);
  EXPECT_EQ(stats.num_allocs, 3u);
  allocator->Free(*again);
  allocator->Free(*second);
  allocator->Free(nullptr);
  EXPECT_EQ(Counters(1).peak_bytes, 0u) << "the devices do not share memory";
}

TEST_F(SimTest, BytesTravelBetweenHostAndDevices) {
  Open();
  const auto allocator0 = MakeAllocator(kSim0);
  const auto allocator1 = MakeAllocator(kSim1);
  std::vector<int32_t> sent(1000);
  std::iota(sent.begin(), sent.end(), 7);
  std::vector<int32_t> received(1000, 0);
  const uint64_t bytes = sent.size() * sizeof(int32_t);
  void* on0 = *allocator0->Alloc(bytes);
  void* on1 = *allocator1->Alloc(bytes);
  ASSERT_TRUE(Copy(sent.data(), {}, on0, kSim0, bytes).ok());
  ASSERT_TRUE(Copy(on0, kSim0, on1, kSim1, bytes).ok());
  ASSERT_TRUE(Copy(on1, kSim1, received.data(), {}, bytes).ok());
  EXPECT_EQ(received, sent);
  EXPECT_EQ(Counters(0).copies_from_host, 1u);
  EXPECT_EQ(Counters(0).bytes_from_host, bytes);
  EXPECT_EQ(Counters(1).copies_between_devices, 1u);
  EXPECT_EQ(Counters(1).copies_to_host, 1u);
  EXPECT_FALSE(provider_->data_transfer()->CanCopy({}, {}));
  EXPECT_FALSE(provider_->data_transfer()->CanCopy({}, {DeviceKind::kGpu, 2}));
  // An address of the host that is said to be the device's.
  EXPECT_FALSE(Copy(sent.data(), kSim0, received.data(), {}, 4).ok());
  allocator0->Free(on0);
  allocator1->Free(on1);
}

TEST_F(SimTest, CopiesOnAStreamAreAsynchronousAndInOrder) {
  Open({{"latency_us", "20000"}});
  const auto allocator = MakeAllocator(kSim0);
  const auto stream = MakeStream(kSim0, StreamPurpose::kCopy);
  int32_t sent = 41;
  int32_t received = 0;
  void* memory = *allocator->Alloc(sizeof(sent));
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(Copy(&sent, {}, memory, kSim0, sizeof(sent), stream.get()).ok());
  ASSERT_TRUE(Copy(memory, kSim0, &received, {}, sizeof(sent), stream.get()).ok());
  EXPECT_GT(Counters(0).in_flight, 0u);
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(received, 41);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(40));
  allocator->Free(memory);
}

TEST_F(SimTest, AStreamWaitsForANotificationOfAnother) {
  Open({{"latency_us", "10000"}});
  const auto allocator0 = MakeAllocator(kSim0);
  const auto allocator1 = MakeAllocator(kSim1);
  const auto copy_stream = MakeStream(kSim0, StreamPurpose::kCopy);
  const auto other_stream = MakeStream(kSim1, StreamPurpose::kCompute);
  int32_t sent = 5;
  int32_t received = 0;
  void* on0 = *allocator0->Alloc(sizeof(sent));
  void* on1 = *allocator1->Alloc(sizeof(sent));
  const auto notification = copy_stream->CreateNotification();
  ASSERT_TRUE(notification.ok());
  for (int round = 0; round < 3; ++round) {
    sent += round;
    ASSERT_TRUE(Copy(&sent, {}, on0, kSim0, sizeof(sent), copy_stream.get()).ok());
    ASSERT_TRUE((*notification)->Record().ok());
    ASSERT_TRUE((*notification)->WaitOnStream(*other_stream).ok());
    ASSERT_TRUE(Copy(on0, kSim0, on1, kSim1, sizeof(sent), other_stream.get()).ok());
    ASSERT_TRUE(Copy(on1, kSim1, &received, {}, sizeof(sent), other_stream.get()).ok());
    ASSERT_TRUE(other_stream->Synchronize().ok());
    EXPECT_EQ(received, sent);
    EXPECT_TRUE((*notification)->WaitOnHost().ok());
  }
  allocator0->Free(on0);
  allocator1->Free(on1);
}

TEST_F(SimTest, TheNthAllocationFails) {
  Open();
  const auto allocator = MakeAllocator(kSim1);
  Inject(1, SIM_FAIL_ALLOCATION, 2);
  const auto first = allocator->Alloc(100);
  ASSERT_TRUE(first.ok());
  const auto second = allocator->Alloc(100);
  EXPECT_EQ(second.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(second.status().message(), HasSubstr("gpu:1"));
  const auto third = allocator->Alloc(100);
  EXPECT_TRUE(third.ok());
  allocator->Free(*first);
  allocator->Free(*third);
}

TEST_F(SimTest, AFailedCopyIsToldWhenItsStreamIsWaitedForAndOnce) {
  Open();
  const auto allocator = MakeAllocator(kSim0);
  const auto stream = MakeStream(kSim0, StreamPurpose::kCopy);
  int32_t number = 3;
  int32_t received = 0;
  void* memory = *allocator->Alloc(sizeof(number));
  Inject(0, SIM_FAIL_COPY, 1);
  ASSERT_TRUE(Copy(&number, {}, memory, kSim0, sizeof(number), stream.get()).ok());
  ASSERT_TRUE(Copy(memory, kSim0, &received, {}, sizeof(number), stream.get()).ok());
  const Status status = stream->Synchronize();
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_THAT(status.message(), HasSubstr("sim:0: the copy fails on demand"));
  EXPECT_EQ(Counters(0).copies_to_host, 0u) << "what comes after a failed copy is left out";
  EXPECT_TRUE(stream->Synchronize().ok());
  ASSERT_TRUE(Copy(&number, {}, memory, kSim0, sizeof(number), stream.get()).ok());
  EXPECT_TRUE(stream->Synchronize().ok());
  allocator->Free(memory);
}

TEST_F(SimTest, AnErrorReachesTheStreamThatWaitsForIt) {
  Open();
  const auto allocator = MakeAllocator(kSim0);
  const auto copy_stream = MakeStream(kSim0, StreamPurpose::kCopy);
  const auto compute_stream = MakeStream(kSim0, StreamPurpose::kCompute);
  int32_t number = 3;
  void* memory = *allocator->Alloc(sizeof(number));
  const auto notification = copy_stream->CreateNotification();
  Inject(0, SIM_FAIL_COPY, 1);
  ASSERT_TRUE(Copy(&number, {}, memory, kSim0, sizeof(number), copy_stream.get()).ok());
  ASSERT_TRUE((*notification)->Record().ok());
  ASSERT_TRUE((*notification)->WaitOnStream(*compute_stream).ok());
  EXPECT_EQ(compute_stream->Synchronize().code(), StatusCode::kIo);
  EXPECT_EQ((*notification)->WaitOnHost().code(), StatusCode::kIo);
  EXPECT_EQ(copy_stream->Synchronize().code(), StatusCode::kIo);
  allocator->Free(memory);
}

TEST_F(SimTest, ALostDeviceStaysLostAndTheOtherWorks) {
  Open();
  const auto allocator0 = MakeAllocator(kSim0);
  const auto allocator1 = MakeAllocator(kSim1);
  const auto stream = MakeStream(kSim0, StreamPurpose::kCopy);
  int32_t number = 3;
  void* on0 = *allocator0->Alloc(sizeof(number));
  void* on1 = *allocator1->Alloc(sizeof(number));
  Inject(0, SIM_LOSE_AT_COPY, 1);
  ASSERT_TRUE(Copy(&number, {}, on0, kSim0, sizeof(number), stream.get()).ok());
  for (int i = 0; i < 2; ++i) {
    const Status status = stream->Synchronize();
    EXPECT_EQ(status.code(), StatusCode::kDeviceLost);
    EXPECT_THAT(status.message(), HasSubstr("sim:0 is lost"));
  }
  EXPECT_EQ(allocator0->Alloc(1).status().code(), StatusCode::kDeviceLost);
  EXPECT_EQ(provider_->CreateStream(kSim0, StreamPurpose::kCompute).status().code(), StatusCode::kDeviceLost);
  EXPECT_TRUE(Copy(&number, {}, on1, kSim1, sizeof(number)).ok());
  allocator0->Free(on0);  // memory goes back all the same
  allocator1->Free(on1);
}

TEST_F(SimTest, RunsAreCounted) {
  Open();
  const auto stream = MakeStream(kSim1, StreamPurpose::kCompute);
  Stream* streams[] = {stream.get()};
  ASSERT_TRUE(provider_->OnRunStart({1, "run"}, streams).ok());
  EXPECT_EQ(Counters(1).runs, 1u);
  EXPECT_EQ(Counters(0).runs, 0u);
  ASSERT_TRUE(provider_->OnRunEnd({1, "run"}, streams).ok());
  EXPECT_EQ(Counters(1).runs, 0u);
}

TEST_F(SimTest, PinnedMemoryIsTheHosts) {
  Open();
  const auto allocator = MakeAllocator(kSim0, MemoryKind::kPinned);
  EXPECT_TRUE(allocator->device().is_host());
  const auto memory = allocator->Alloc(100);
  ASSERT_TRUE(memory.ok());
  std::memset(*memory, 1, 100);
  allocator->Free(*memory);
}

TEST_F(SimTest, KernelsOfTypesThatTheDeviceLacksDoNotExist) {
  Open({{"without_types", "float16,bfloat16"}});
  for (const KernelCreateInfo* info : provider_->kernel_registry().All()) {
    if (info->def.op_type() != "MatMul") continue;
    EXPECT_FALSE(info->def.input_types(0).Contains(DataType::kFloat16));
    EXPECT_TRUE(info->def.input_types(0).Contains(DataType::kFloat));
  }
}

}  // namespace
}  // namespace lamina
