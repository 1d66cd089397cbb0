#include "weights/load/device_loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "base/log.h"
#include "support/fake_files.h"
#include "weights/load/load_test_data.h"

namespace lamina {
namespace {

using testing::DataFile;
using testing::FakeAccelerator;
using testing::LoadTargets;
using testing::TempDir;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kPage = 4096;

// Buffers so small that a file of a few MiB reuses them many times.
DeviceLoaderOptions SmallBuffers(LoadStrategy strategy, std::optional<int> threads) {
  DeviceLoaderOptions options;
  options.strategy = strategy;
  options.reading_threads = threads;
  options.buffer_bytes = kMiB;
  options.block_bytes = kMiB;
  options.window_bytes = 2 * kMiB;
  options.parallel_bytes = 256 * 1024;
  return options;
}

std::unique_ptr<DeviceLoader> Make(FakeAccelerator& accelerator, const DeviceLoaderOptions& options) {
  return DeviceLoader::Create(accelerator, &accelerator, FakeAccelerator::device(), options).value();
}

void ExpectNothingLeft(const FakeAccelerator& accelerator) {
  EXPECT_EQ(accelerator.live_allocations(), 0);
  EXPECT_EQ(accelerator.live_streams(), 0);
  EXPECT_EQ(accelerator.live_registrations(), 0);
  EXPECT_EQ(accelerator.unsafe_copies(), 0);
}

struct Setting {
  LoadStrategy strategy;
  std::optional<int> threads;
};

std::string NameOf(const ::testing::TestParamInfo<Setting>& info) {
  return std::string(LoadStrategyName(info.param.strategy)) +
         (info.param.threads ? std::to_string(*info.param.threads) : "Default");
}

class DeviceLoaderTest : public ::testing::TestWithParam<Setting> {
 protected:
  DeviceLoaderOptions Options() const { return SmallBuffers(GetParam().strategy, GetParam().threads); }
  TempDir folder_;
  FakeAccelerator accelerator_;
};

// Odd sizes, unaligned offsets, empty tensors, 4-bit types, bools, shared and overlapping bytes, the file's
// last byte.
TEST_P(DeviceLoaderTest, AllKindsOfTensorsBitExact) {
  accelerator_.copy_delay = std::chrono::microseconds(200);
  const DataFile file(folder_, "weights", 9 * kMiB + 4321, 1);
  const auto opened = file.Open();
  const uint64_t size = file.content.size();
  LoadTargets targets;
  targets.Add(opened, file.content, 0, 1);
  targets.Add(opened, file.content, 1, kPage);
  targets.Add(opened, file.content, kPage - 1, 2);
  targets.Add(opened, file.content, 8192, 3 * kMiB + 17);
  targets.Add(opened, file.content, 8192, 3 * kMiB + 17);  // the same bytes once more
  targets.Add(opened, file.content, 5 * kMiB - 3, 1234, DataType::kInt4);
  targets.Add(opened, file.content, 5 * kMiB + 100000, 3333, DataType::kBool);
  targets.Add(opened, file.content, 5 * kMiB + 500000, kMiB, DataType::kFloat16);
  targets.Add(opened, file.content, size, 0);
  targets.Add(opened, file.content, 123, 0);
  targets.Add(opened, file.content, size - 700001, 700001);
  targets.Add(opened, file.content, size - 1, 1);
  {
    const auto loader = Make(accelerator_, Options());
    const Status status = loader->LoadBatch(targets.items(), {});
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(targets.Wrong(), "");
    EXPECT_EQ(accelerator_.live_registrations(), 0);
  }
  ExpectNothingLeft(accelerator_);
}

// Buffers are reused with other bytes, over destinations that hold sentinels.
TEST_P(DeviceLoaderTest, RepeatedLoadsOfDifferentBytes) {
  accelerator_.copy_delay = std::chrono::microseconds(100);
  const auto loader = Make(accelerator_, Options());
  for (uint32_t round = 0; round < 4; ++round) {
    const DataFile file(folder_, "weights" + std::to_string(round), 3 * kMiB + round * 1001, 100 + round);
    LoadTargets targets;
    targets.Add(file.Open(), file.content, round * 13, 3 * kMiB);
    for (int repeat = 0; repeat < 2; ++repeat) {
      targets.Clear();
      const Status status = loader->LoadTensor(targets.items().front(), {});
      ASSERT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(targets.Wrong(), "") << round;
    }
  }
  EXPECT_LE(accelerator_.pinned_allocations(), 2) << "the buffers are kept";
  EXPECT_EQ(accelerator_.unsafe_copies(), 0);
}

TEST_P(DeviceLoaderTest, ManyFilesAndManySmallTensors) {
  std::vector<std::unique_ptr<DataFile>> files;
  LoadTargets targets;
  std::mt19937 random(3);
  for (uint32_t i = 0; i < 20; ++i) {
    files.push_back(std::make_unique<DataFile>(folder_, "file" + std::to_string(i), 100000 + i, i));
    const auto opened = files.back()->Open();
    for (int j = 0; j < 20; ++j) {
      const uint64_t offset = random() % 100000;
      targets.Add(opened, files.back()->content, offset, random() % (100000 - offset));
    }
  }
  const auto loader = Make(accelerator_, Options());
  const Status status = loader->LoadBatch(targets.items(), {});
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(targets.Wrong(), "");
  EXPECT_EQ(loader->last_report().files.size(), files.size());
}

TEST_P(DeviceLoaderTest, ProgressIsReportedOnTheCallingThreadAndAddsUp) {
  const DataFile file(folder_, "weights", 5 * kMiB, 9);
  LoadTargets targets;
  targets.Add(file.Open(), file.content, 0, 2 * kMiB);
  targets.Add(file.Open(), file.content, 3 * kMiB, 2 * kMiB);
  uint64_t sum_bytes = 0;
  ExternalDataProgress progress;
  progress.on_loaded = [&, caller = std::this_thread::get_id()](uint64_t bytes) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    sum_bytes += bytes;
    return Status();
  };
  const auto loader = Make(accelerator_, Options());
  ASSERT_TRUE(loader->LoadBatch(targets.items(), progress).ok());
  EXPECT_EQ(sum_bytes, 4 * kMiB);
}

TEST_P(DeviceLoaderTest, TwoSessionsAtOnceWithOneLoaderAndWithTwo) {
  accelerator_.copy_delay = std::chrono::microseconds(50);
  const DataFile file(folder_, "weights", 4 * kMiB, 11);
  const auto shared = Make(accelerator_, Options());
  const auto other = Make(accelerator_, Options());
  std::atomic<int> correct{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      LoadTargets targets;
      targets.Add(file.Open(), file.content, static_cast<uint64_t>(i) * 777, 3 * kMiB);
      DeviceLoader& loader = i % 2 ? *shared : *other;
      if (loader.LoadBatch(targets.items(), {}).ok() && targets.Wrong().empty()) ++correct;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(correct, 4);
  EXPECT_EQ(accelerator_.unsafe_copies(), 0);
}

TEST_P(DeviceLoaderTest, FilesOfAFileSystemWithoutDescriptors) {
  testing::MemoryFiles files;
  const std::string content = testing::RandomBytes(3 * kMiB + 5, 4);
  files.Add("weights", content);
  LoadTargets targets;
  targets.Add(*files.Open("weights"), content, 3, 3 * kMiB);
  const auto loader = Make(accelerator_, Options());
  const Status status = loader->LoadBatch(targets.items(), {});
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(targets.Wrong(), "");
}

INSTANTIATE_TEST_SUITE_P(
    All, DeviceLoaderTest,
    ::testing::Values(Setting{LoadStrategy::kPinned, 0}, Setting{LoadStrategy::kPinned, 1},
                      Setting{LoadStrategy::kPinned, 4}, Setting{LoadStrategy::kPinned, 64},
                      Setting{LoadStrategy::kMapped, 1}, Setting{LoadStrategy::kMapped, {}},
                      Setting{LoadStrategy::kDirect, 1}, Setting{LoadStrategy::kDirect, {}},
                      Setting{LoadStrategy::kAuto, 1}, Setting{LoadStrategy::kAuto, 5},
                      Setting{LoadStrategy::kAuto, {}}),
    NameOf);

class LoaderTest : public ::testing::Test {
 protected:
  TempDir folder_;
  FakeAccelerator accelerator_;
};

TEST_F(LoaderTest, OptionsAreChecked) {
  DeviceLoaderOptions options;
  options.reading_threads = 65;
  EXPECT_EQ(DeviceLoader::Create(accelerator_, nullptr, FakeAccelerator::device(), options).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(LoaderTest, ZeroThreadsLeaveLoadingToTheGenericWay) {
  const auto loader = Make(accelerator_, SmallBuffers(LoadStrategy::kPinned, 0));
  EXPECT_FALSE(loader->CanLoad(FakeAccelerator::device()));
  EXPECT_TRUE(Make(accelerator_, {})->CanLoad(FakeAccelerator::device()));
  EXPECT_FALSE(Make(accelerator_, {})->CanLoad(Device{}));
  const DataFile file(folder_, "weights", 2 * kMiB, 1);
  LoadTargets targets;
  targets.Add(file.Open(), file.content, 0, 2 * kMiB);
  ASSERT_TRUE(loader->LoadBatch(targets.items(), {}).ok());
  EXPECT_EQ(accelerator_.copies(), 0);
  EXPECT_EQ(accelerator_.pinned_allocations(), 0);
  EXPECT_EQ(loader->last_report().files.at(0).bytes_by_way.at(static_cast<size_t>(LoadWay::kPageable)),
            2 * kMiB);
}

// Counts the threads that read.
class ReadingThreads {
 public:
  explicit ReadingThreads(testing::FaultyFiles& files) {
    files.before_read = [this](const std::string&, uint64_t, uint64_t) {
      const std::lock_guard lock(mutex_);
      ids_.insert(std::this_thread::get_id());
      return Status();
    };
  }
  const std::set<std::thread::id>& ids() const { return ids_; }

 private:
  std::mutex mutex_;
  std::set<std::thread::id> ids_;
};

TEST_F(LoaderTest, OneThreadReadsOnTheCallingThread) {
  testing::FaultyFiles files(SystemFiles());
  const ReadingThreads threads(files);
  const DataFile file(folder_, "weights", 3 * kMiB, 1);
  LoadTargets targets;
  targets.Add(file.Open(files), file.content, 0, 3 * kMiB);
  ASSERT_TRUE(
      Make(accelerator_, SmallBuffers(LoadStrategy::kPinned, 1))->LoadBatch(targets.items(), {}).ok());
  EXPECT_EQ(threads.ids(), std::set<std::thread::id>{std::this_thread::get_id()});
}

// At the threshold as the seed has it, with buffers of their real size: below nothing is pinned and one
// thread reads, from it on the range is divided.
TEST_F(LoaderTest, SixteenMebibytesDecideOnPinnedMemoryAndParallelReads) {
  testing::FaultyFiles files(SystemFiles());
  const DataFile file(folder_, "weights", 16 * kMiB + 1, 1);
  DeviceLoaderOptions options;
  options.strategy = LoadStrategy::kPinned;
  const auto loader = Make(accelerator_, options);
  LoadTargets below;
  below.Add(file.Open(files), file.content, 1, 16 * kMiB - 1);
  ASSERT_TRUE(loader->LoadBatch(below.items(), {}).ok());
  EXPECT_EQ(below.Wrong(), "");
  EXPECT_EQ(accelerator_.pinned_allocations(), 0);
  EXPECT_EQ(files.reads(), 1);
  EXPECT_EQ(accelerator_.copies(), 0);

  LoadTargets at;
  at.Add(file.Open(files), file.content, 1, 16 * kMiB);
  ASSERT_TRUE(loader->LoadBatch(at.items(), {}).ok());
  EXPECT_EQ(at.Wrong(), "");
  EXPECT_EQ(accelerator_.pinned_allocations(), 2);
  EXPECT_EQ(files.reads(), 1 + DeviceLoaderOptions::kDefaultReadingThreads);
}

// One thread alone lets a stream finish before its buffer is filled again: the fake's copies read their
// source as late as they can.
TEST_F(LoaderTest, ABufferIsFilledAgainOnlyWhenItsCopiesAreDone) {
  accelerator_.copy_delay = std::chrono::milliseconds(3);
  const DataFile file(folder_, "weights", 12 * kMiB, 5);
  for (const auto strategy : {LoadStrategy::kPinned, LoadStrategy::kDirect, LoadStrategy::kAuto}) {
    LoadTargets targets;
    targets.Add(file.Open(), file.content, 0, 12 * kMiB);
    ASSERT_TRUE(Make(accelerator_, SmallBuffers(strategy, 2))->LoadBatch(targets.items(), {}).ok());
    EXPECT_EQ(targets.Wrong(), "") << LoadStrategyName(strategy);
  }
}

TEST_F(LoaderTest, MappedWithoutRegistrationIsPinned) {
  accelerator_.can_register_read_only = false;
  const DataFile file(folder_, "weights", 3 * kMiB, 5);
  LoadTargets targets;
  targets.Add(file.Open(), file.content, 0, 3 * kMiB);
  const auto loader = Make(accelerator_, SmallBuffers(LoadStrategy::kMapped, {}));
  ASSERT_TRUE(loader->LoadBatch(targets.items(), {}).ok());
  EXPECT_EQ(targets.Wrong(), "");
  EXPECT_EQ(loader->last_report().strategy, LoadStrategy::kPinned);
  EXPECT_EQ(accelerator_.registrations(), 0);
}

TEST_F(LoaderTest, DirectReadsBypassThePageCacheAndFallBackWhereRefused) {
  testing::FaultyFiles files(SystemFiles());
  const DataFile file(folder_, "weights", 3 * kMiB + 99, 5);
  if (!file.Open()->OpenDirect().ok()) GTEST_SKIP() << "the file system has no direct reads";
  LoadTargets targets;
  targets.Add(file.Open(files), file.content, 7, 3 * kMiB + 92);
  const auto loader = Make(accelerator_, SmallBuffers(LoadStrategy::kDirect, {}));
  ASSERT_TRUE(loader->LoadBatch(targets.items(), {}).ok());
  EXPECT_EQ(targets.Wrong(), "");
  EXPECT_GT(files.direct_reads(), 0);
  EXPECT_EQ(files.reads(), 0);

  for (const bool refuse_at_opening : {true, false}) {
    if (refuse_at_opening) {
      files.before_open_direct = [](const std::string&) { return Status(StatusCode::kUnsupported, "no"); };
    } else {
      files.before_open_direct = nullptr;
      files.before_direct_read = [](const std::string&, uint64_t, uint64_t) {
        return Status(StatusCode::kUnsupported, "no");
      };
    }
    targets.Clear();
    const int reads_before = files.reads();
    ASSERT_TRUE(loader->LoadBatch(targets.items(), {}).ok());
    EXPECT_EQ(targets.Wrong(), "");
    EXPECT_GT(files.reads(), reads_before);
  }
}

// Half of the file is in the page cache, the other is not: auto reads each half its way.
TEST_F(LoaderTest, AutoLooksAtWhatIsInThePageCache) {
  testing::FaultyFiles files(SystemFiles());
  const DataFile file(folder_, "weights", 8 * kMiB, 5);
  const auto opened = file.Open(files);
  ASSERT_TRUE(opened->DropCachedPages().ok());
  const MappedRegion first_half = opened->Map(0, 4 * kMiB).value();
  const MappedRegion second_half = opened->Map(4 * kMiB, 4 * kMiB).value();
  first_half.Advise(MappedRegion::Access::kRandom);  // no read-ahead into the other half
  ASSERT_TRUE(first_half.Populate().ok());
  if (*second_half.ResidentBytes() > kMiB || !opened->OpenDirect().ok()) {
    GTEST_SKIP() << "this file system keeps pages in memory or has no direct reads";
  }
  LoadTargets targets;
  targets.Add(opened, file.content, 0, 8 * kMiB);
  const auto loader = Make(accelerator_, SmallBuffers(LoadStrategy::kAuto, 2));
  ASSERT_TRUE(loader->LoadBatch(targets.items(), {}).ok());
  EXPECT_EQ(targets.Wrong(), "");
  const auto bytes = loader->last_report().files.at(0).bytes_by_way;
  EXPECT_GE(bytes.at(static_cast<size_t>(LoadWay::kBuffered)), 4 * kMiB);
  EXPECT_GE(bytes.at(static_cast<size_t>(LoadWay::kDirect)), 2 * kMiB);
}

TEST_F(LoaderTest, PhasesAreReported) {
  const DataFile file(folder_, "weights", 2 * kMiB, 5);
  LoadTargets targets;
  targets.Add(file.Open(), file.content, 0, 2 * kMiB);
  std::string log;
  SetLogLevel(LogLevel::kDebug);
  SetLogSink([&](LogLevel, std::string_view line) { log += std::string(line) + "\n"; });
  const auto loader = Make(accelerator_, SmallBuffers(LoadStrategy::kPinned, 2));
  const Status status = loader->LoadBatch(targets.items(), {});
  SetLogSink({});
  SetLogLevel(LogLevel::kWarning);
  ASSERT_TRUE(status.ok());
  EXPECT_NE(log.find("loading weights to gpu:0: 2097152 bytes in "), std::string::npos) << log;
  EXPECT_NE(log.find("2 reading and 0 mapping threads: read "), std::string::npos) << log;
  const LoadReport report = loader->last_report();
  EXPECT_GT(report.phases.read_ns, 0);
  EXPECT_GT(report.phases.copy_ns, 0);
  EXPECT_GE(report.total_ns, report.setup_ns);
  EXPECT_EQ(report.bytes, 2 * kMiB);
}

TEST_F(LoaderTest, OneStableLineForEachFile) {
  const DataFile file(folder_, "weights", 2 * kMiB, 5);
  LoadTargets targets;
  targets.Add(file.Open(), file.content, 0, 2 * kMiB);
  std::vector<std::string> lines;
  SetLogLevel(LogLevel::kInfo);
  SetLogSink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  const Status status =
      Make(accelerator_, SmallBuffers(LoadStrategy::kPinned, 2))->LoadBatch(targets.items(), {});
  SetLogSink({});
  SetLogLevel(LogLevel::kWarning);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(lines, std::vector<std::string>{
                       "external data: device=gpu:0 strategy=pinned buffered=2097152 direct=0 mapped=0 "
                       "pageable=0 file=" +
                       file.path});
}

}  // namespace
}  // namespace lamina
