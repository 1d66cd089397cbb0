#include "providers/cuda/cuda_provider.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/host_pages.h"
#include "providers/cuda/cuda_library.h"
#include "support/test_data.h"
#include "weights/load/device_loader.h"
#include "weights/load/load_test_data.h"

namespace lamina {
namespace {

using testing::DataFile;
using testing::LoadTargets;
using testing::TempDir;

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(CudaLibraryTest, SaysWhyThereIsNone) {
  const TempDir folder;
  const auto missing = cuda::CudaLibrary::Open(folder.File("liblamina_cuda.so"));
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find(folder.path()), std::string::npos);
  testing::WriteWholeFile(folder.File("liblamina_cuda.so"), "no library");
  EXPECT_EQ(cuda::CudaLibrary::Open(folder.File("liblamina_cuda.so")).status().code(), StatusCode::kIo);
}

TEST(CudaLibraryTest, AFileMayBeNamedInTheEnvironment) {
  ASSERT_EQ(setenv("LAMINA_CUDA_LIBRARY", "/no/such/file.so", 1), 0);
  EXPECT_EQ(cuda::CudaLibraryPaths(), std::vector<std::string>{"/no/such/file.so"});
  const auto provider = CreateCudaProviderFactory()->Create({});
  unsetenv("LAMINA_CUDA_LIBRARY");
  EXPECT_EQ(provider.status().code(), StatusCode::kNotFound);
  EXPECT_NE(provider.status().message().find("/no/such/file.so"), std::string::npos);
  EXPECT_FALSE(cuda::CudaLibraryPaths().empty());
}

TEST(CudaProviderTest, OptionsAreCheckedBeforeTheDevice) {
  EXPECT_TRUE(CudaProviderOptionTable().CheckConsistent().ok());
  const auto create = [](const std::string& key, const std::string& value) {
    return CreateCudaProviderFactory()->Create({{{key, value}}, 0}).status();
  };
  for (const char* threads : {"-1", "65", "four", ""}) {
    EXPECT_EQ(create("external_data_loader_reading_threads", threads).code(), StatusCode::kInvalidArgument)
        << threads;
  }
  EXPECT_EQ(create("external_data_loader_strategy", "fast").code(), StatusCode::kInvalidArgument);
  const Status unknown = create("gpu_memory_limit", "1GiB");
  EXPECT_EQ(unknown.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.message().find("gpu_mem_limit"), std::string::npos) << unknown.ToString();
}

// With a GPU.
class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override { Open({}); }
  void Open(const ProviderOptions& options) {
    const auto provider = CreateCudaProviderFactory()->Create({options, 0});
    if (!provider.ok()) GTEST_SKIP() << "no GPU: " << provider.status().ToString();
    provider_ = *provider;
    device_ = provider_->devices().front().device;
  }
  std::string Download(const void* memory, size_t size_bytes) {
    std::string bytes(size_bytes, '\0');
    EXPECT_TRUE(provider_->data_transfer()
                    ->CopyAsync({memory, device_, bytes.data(), Device{}, size_bytes}, nullptr)
                    .ok());
    return bytes;
  }
  std::shared_ptr<ExecutionProvider> provider_;
  Device device_;
};

TEST_F(CudaDeviceTest, DescribesItsDevices) {
  for (const DeviceDescription& device : provider_->devices()) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GT(device.memory_bytes, uint64_t{1} << 30);
    EXPECT_GE(device.compute_capability_major, 7);
    EXPECT_GT(device.multiprocessors, 0);
    const auto available = provider_->available_resource_bytes(device.device);
    ASSERT_TRUE(available.has_value());
    EXPECT_LE(*available, device.memory_bytes);
  }
  EXPECT_EQ(provider_->CreateAllocator(Device{DeviceKind::kGpu, 99}, MemoryKind::kDevice).status().code(),
            StatusCode::kNotFound);
}

TEST_F(CudaDeviceTest, AllocatorsKeepToTheLimitAndGiveBack) {
  for (const char* pool : {"0", "1"}) {
    Open({{"gpu_mem_limit", "64MiB"}, {"arena.use_cuda_mempool", pool}});
    const auto allocator = provider_->CreateAllocator(device_, MemoryKind::kDevice).value();
    const auto stream = provider_->CreateStream(device_, StreamPurpose::kCompute).value();
    const Result<void*> first = allocator->Alloc(40 * kMiB);
    ASSERT_TRUE(first.ok()) << first.status().ToString();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*first) % 256, 0u);
    const Status refused = allocator->Alloc(40 * kMiB).status();
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
    ASSERT_NE(refused.memory_shortage(), nullptr);
    EXPECT_EQ(refused.memory_shortage()->available_bytes, 24 * kMiB);
    allocator->Free(*first);
    const Result<void*> on_stream = allocator->AllocOnStream(40 * kMiB, *stream);
    ASSERT_TRUE(on_stream.ok()) << on_stream.status().ToString();
    allocator->Free(*on_stream);
    EXPECT_EQ(allocator->GetStats().in_use_bytes, 0u);
    EXPECT_EQ(allocator->GetStats().num_allocs, 2u);
  }
}

TEST_F(CudaDeviceTest, MoreThanTheDeviceHasIsAShortage) {
  const auto allocator = provider_->CreateAllocator(device_, MemoryKind::kDevice).value();
  const Status refused = allocator->Alloc(uint64_t{1} << 44).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused.ToString();
  ASSERT_NE(refused.memory_shortage(), nullptr);
  EXPECT_EQ(refused.memory_shortage()->device, device_.ToString());
  const Result<void*> afterwards = allocator->Alloc(1);
  ASSERT_TRUE(afterwards.ok()) << "an error is not reported twice: " << afterwards.status().ToString();
  allocator->Free(*afterwards);
}

TEST_F(CudaDeviceTest, CopiesOnStreamsWithNotifications) {
  const auto pinned = provider_->CreateAllocator(device_, MemoryKind::kPinned).value();
  const auto memory = provider_->CreateAllocator(device_, MemoryKind::kDevice).value();
  for (const size_t size : {size_t{1}, size_t{1000}, size_t{3} << 20}) {
    const std::string content = testing::RandomBytes(size, 3);
    void* const host = pinned->Alloc(size).value();
    void* const first = memory->Alloc(size).value();
    void* const second = memory->Alloc(size).value();
    std::memcpy(host, content.data(), size);
    const auto producer = provider_->CreateStream(device_, StreamPurpose::kCopy).value();
    const auto consumer = provider_->CreateStream(device_, StreamPurpose::kCompute).value();
    const auto copied = producer->CreateNotification().value();
    DataTransfer& transfer = *provider_->data_transfer();
    ASSERT_TRUE(transfer.CopyAsync({host, Device{}, first, device_, size}, producer.get()).ok());
    ASSERT_TRUE(copied->Record().ok());
    ASSERT_TRUE(copied->WaitOnStream(*consumer).ok());
    ASSERT_TRUE(transfer.CopyAsync({first, device_, second, device_, size}, consumer.get()).ok());
    ASSERT_TRUE(consumer->Synchronize().ok());
    ASSERT_TRUE(copied->WaitOnHost().ok());
    EXPECT_EQ(Download(second, size), content);
    pinned->Free(host);
    memory->Free(first);
    memory->Free(second);
  }
}

// The weights arrive bit for bit, whichever way they come; sizes around the limits of blocks and pages.
TEST_F(CudaDeviceTest, LoadsAreBitExact) {
  const TempDir folder;
  const DataFile file(folder, "weights", 40 * kMiB + 4321, 1);
  const auto allocator = provider_->CreateAllocator(device_, MemoryKind::kDevice).value();
  struct Range {
    uint64_t offset;
    uint64_t size;
  };
  const std::vector<Range> ranges = {{0, 1},
                                     {1, 4096},
                                     {8191, 16 * kMiB},
                                     {17 * kMiB + 5, 16 * kMiB - 1},
                                     {33 * kMiB + 7, 0},
                                     {34 * kMiB, 6 * kMiB + 4321}};
  uint64_t total = 0;
  for (const Range& range : ranges) total += (range.size + 511) / 256 * 256;
  void* const block = allocator->Alloc(total).value();
  for (const auto strategy :
       {LoadStrategy::kAuto, LoadStrategy::kPinned, LoadStrategy::kMapped, LoadStrategy::kDirect}) {
    for (const std::optional<int> threads :
         {std::optional<int>(), std::optional<int>(1), std::optional<int>(0)}) {
      DeviceLoaderOptions options;
      options.strategy = strategy;
      options.reading_threads = threads;
      const auto loader =
          DeviceLoader::Create(*provider_, provider_->host_registration(), device_, options).value();
      for (int repeat = 0; repeat < 2; ++repeat) {
        const std::string sentinel(total, '\x5A');
        ASSERT_TRUE(provider_->data_transfer()
                        ->CopyAsync({sentinel.data(), Device{}, block, device_, total}, nullptr)
                        .ok());
        std::vector<ExternalDataItem> items;
        uint64_t at = 0;
        const auto opened = file.Open();
        for (const Range& range : ranges) {
          items.push_back({"w", opened, range.offset, range.size, DataType::kUint8,
                           static_cast<std::byte*>(block) + at, device_});
          at += (range.size + 511) / 256 * 256;
        }
        const Status status = loader->LoadBatch(items, {});
        ASSERT_TRUE(status.ok()) << status.ToString();
        std::string expected = sentinel;
        for (const ExternalDataItem& item : items) {
          const auto begin =
              static_cast<size_t>(static_cast<std::byte*>(item.destination) - static_cast<std::byte*>(block));
          expected.replace(begin, item.size_bytes, file.content, item.offset_bytes, item.size_bytes);
        }
        ASSERT_TRUE(Download(block, total) == expected) << LoadStrategyName(strategy);
      }
    }
  }
  allocator->Free(block);
}

TEST_F(CudaDeviceTest, TwoLoadersAtOnce) {
  const TempDir folder;
  const DataFile file(folder, "weights", 33 * kMiB, 2);
  const auto allocator = provider_->CreateAllocator(device_, MemoryKind::kDevice).value();
  std::vector<std::thread> threads;
  std::vector<std::string> loaded(2);
  for (size_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      void* const memory = allocator->Alloc(file.content.size()).value();
      const auto loader =
          DeviceLoader::Create(*provider_, provider_->host_registration(), device_, {}).value();
      const ExternalDataItem item{"w",    file.Open(), 0, file.content.size(), DataType::kUint8,
                                  memory, device_};
      EXPECT_TRUE(loader->LoadTensor(item, {}).ok());
      loaded[i] = Download(memory, file.content.size());
      allocator->Free(memory);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& bytes : loaded) EXPECT_TRUE(bytes == file.content);
}

TEST_F(CudaDeviceTest, RegistersHostMemoryOnce) {
  HostRegistration& registration = *provider_->host_registration();
  const HostPages pages = HostPages::Allocate(4 * kMiB).value();
  ASSERT_TRUE(registration.Register(pages.bytes(), HostAccess::kReadWrite).ok());
  EXPECT_EQ(registration.Register(pages.bytes(), HostAccess::kReadWrite).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(registration.Unregister(pages.bytes()).ok());
}

}  // namespace
}  // namespace lamina
