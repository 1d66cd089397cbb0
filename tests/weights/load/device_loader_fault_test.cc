// Every operation fails in turn; files change; loads are cancelled: an error or the right bytes, and nothing
// is left.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <random>
#include <stdexcept>
#include <thread>

#include "base/log.h"
#include "support/fake_clock.h"
#include "support/fake_files.h"
#include "weights/load/device_loader.h"
#include "weights/load/load_test_data.h"

namespace lamina {
namespace {

using testing::DataFile;
using testing::FakeAccelerator;
using testing::FaultyFiles;
using testing::LoadTargets;
using testing::TempDir;

constexpr uint64_t kMiB = uint64_t{1} << 20;

int ThreadsOfThisProcess() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

// The count once it has come down to `expected`, or after a second: a joined thread stays in the list a
// moment.
int ThreadsLeft(int expected) {
  for (int i = 0; i < 100 && ThreadsOfThisProcess() > expected; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return ThreadsOfThisProcess();
}

// Some sanitizers start a thread of their own beside the first.
int ThreadsBesideSanitizers() {
  std::thread([] {}).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the joined one is out of the list
  return ThreadsOfThisProcess();
}

std::string NameOf(const ::testing::TestParamInfo<LoadStrategy>& strategy) {
  return std::string(LoadStrategyName(strategy.param));
}

class LoaderFaultTest : public ::testing::TestWithParam<LoadStrategy> {
 protected:
  LoaderFaultTest() : file_(folder_, "weights", 6 * kMiB + 77, 1) {
    SetLogSink([this](LogLevel, std::string_view line) {
      const std::lock_guard lock(log_mutex_);
      log_ += std::string(line) + "\n";
    });
  }
  ~LoaderFaultTest() override { SetLogSink({}); }

  DeviceLoaderOptions Options() const {
    DeviceLoaderOptions options;
    options.strategy = GetParam();
    options.reading_threads = 3;
    options.buffer_bytes = kMiB;
    options.block_bytes = kMiB;
    options.window_bytes = kMiB;
    options.parallel_bytes = 64 * 1024;
    return options;
  }

  LoadTargets Targets() {
    LoadTargets targets;
    const auto opened = file_.Open(files_);
    targets.Add(opened, file_.content, 5, 3 * kMiB);
    targets.Add(opened, file_.content, 4 * kMiB, 2 * kMiB + 77);
    return targets;
  }

  std::unique_ptr<DeviceLoader> Make(const DeviceLoaderOptions& options) {
    return DeviceLoader::Create(accelerator_, &accelerator_, FakeAccelerator::device(), options).value();
  }

  void ExpectNothingLeft() {
    EXPECT_EQ(accelerator_.live_allocations(), 0);
    EXPECT_EQ(accelerator_.live_streams(), 0);
    EXPECT_EQ(accelerator_.live_registrations(), 0);
    EXPECT_EQ(accelerator_.unsafe_copies(), 0);
    EXPECT_EQ(ThreadsLeft(threads_before_), threads_before_);
  }

  const int threads_before_ = ThreadsBesideSanitizers();
  TempDir folder_;
  DataFile file_;
  FaultyFiles files_{SystemFiles()};
  FakeAccelerator accelerator_;
  std::mutex log_mutex_;
  std::string log_;
};

// Runs a load with the n-th call of each operation failing, for every n until none is reached.
TEST_P(LoaderFaultTest, EveryOperationOfTheDeviceFailsInTurn) {
  accelerator_.copy_delay = std::chrono::microseconds(300);
  const Status injected(StatusCode::kDeviceLost, "injected");
  for (const std::string operation : {"alloc pinned", "create stream", "create notification", "record",
                                      "copy", "copy now", "synchronize", "wait", "register", "unregister"}) {
    int errors = 0;
    for (int failing = 0; failing < 200; ++failing) {
      std::atomic<int> calls{0};
      accelerator_.before = [&](const std::string& name) {
        return name == operation && calls++ == failing ? injected : Status();
      };
      LoadTargets targets = Targets();
      Status status;
      {
        const auto loader = Make(Options());
        status = loader->LoadBatch(targets.items(), {});
        EXPECT_EQ(accelerator_.live_registrations(), 0);
        if (calls <= failing && status.ok()) {  // the failure came after the load or not at all
          EXPECT_EQ(targets.Wrong(), "");
        }
      }
      if (status.ok()) {
        EXPECT_EQ(targets.Wrong(), "") << operation << " " << failing;
      } else {
        EXPECT_EQ(status.code(), StatusCode::kDeviceLost) << status.ToString();
        ++errors;
      }
      if (calls <= failing) break;
    }
    accelerator_.before = nullptr;
    if (operation == "copy") {
      EXPECT_GT(errors, 0);
    }
  }
  ExpectNothingLeft();
}

TEST_P(LoaderFaultTest, EveryReadFailsInTurn) {
  accelerator_.copy_delay = std::chrono::microseconds(300);
  int errors = 0;
  for (int failing = 0; failing < 200; ++failing) {
    std::atomic<int> calls{0};
    const auto fail = [&](const std::string& path, uint64_t, uint64_t) {
      return calls++ == failing ? Status(StatusCode::kIo, path + ": injected") : Status();
    };
    files_.before_read = fail;
    files_.before_direct_read = fail;
    files_.before_map = fail;
    LoadTargets targets = Targets();
    const Status status = Make(Options())->LoadBatch(targets.items(), {});
    if (status.ok()) {  // also where only the question what is resident failed
      EXPECT_EQ(targets.Wrong(), "");
    } else {
      ++errors;
      EXPECT_EQ(status.code(), StatusCode::kIo);
      EXPECT_NE(status.message().find(file_.path + ": injected"), std::string::npos) << status.ToString();
      EXPECT_NE(status.message().find("initializer 'w"), std::string::npos) << status.ToString();
    }
    if (calls <= failing) break;
  }
  EXPECT_GT(errors, 3);
  ExpectNothingLeft();
}

// An exception of one reader ends the others too; all are joined and the copies under way are waited for.
TEST_P(LoaderFaultTest, AReaderThatThrows) {
  accelerator_.copy_delay = std::chrono::milliseconds(2);
  for (int throwing = 0; throwing < 6; ++throwing) {
    std::atomic<int> calls{0};
    const auto raise = [&](const std::string&, uint64_t, uint64_t) -> Status {
      if (calls++ == throwing) throw std::runtime_error("thrown by a reader");
      return Status();
    };
    files_.before_read = raise;
    files_.before_direct_read = raise;
    LoadTargets targets = Targets();
    const Status status = Make(Options())->LoadBatch(targets.items(), {});
    if (calls > throwing) {
      EXPECT_EQ(status.code(), StatusCode::kInternal);
      EXPECT_NE(status.message().find("thrown by a reader"), std::string::npos);
    }
  }
  ExpectNothingLeft();
}

// A failed load leaves the loader usable.
TEST_P(LoaderFaultTest, TheNextLoadWorks) {
  const auto loader = Make(Options());
  std::atomic<bool> failing{true};
  accelerator_.before = [&](const std::string& name) {
    return failing && (name == "copy" || name == "copy now") ? Status(StatusCode::kInternal, "injected")
                                                             : Status();
  };
  LoadTargets targets = Targets();
  EXPECT_EQ(loader->LoadBatch(targets.items(), {}).code(), StatusCode::kInternal);
  failing = false;
  ASSERT_TRUE(loader->LoadBatch(targets.items(), {}).ok());
  EXPECT_EQ(targets.Wrong(), "");
}

TEST_P(LoaderFaultTest, AFileThatIsCutShortBeforeTheLoad) {
  LoadTargets targets = Targets();
  for (const uint64_t left : {uint64_t{0}, kMiB, 3 * kMiB + 100, 6 * kMiB + 76}) {
    std::filesystem::resize_file(file_.path, left);
    const Status status = Make(Options())->LoadBatch(targets.items(), {});
    EXPECT_EQ(status.code(), StatusCode::kIo) << left << " " << status.ToString();
    EXPECT_NE(status.message().find(file_.path), std::string::npos) << status.ToString();
  }
  ExpectNothingLeft();
}

TEST_P(LoaderFaultTest, AFileThatIsCutShortOrWrittenToDuringTheLoad) {
  for (const bool cut : {true, false}) {
    testing::WriteWholeFile(file_.path, file_.content);
    std::atomic<bool> done{false};
    accelerator_.before = [&](const std::string& name) {
      if ((name == "copy" || name == "copy now") && !done.exchange(true)) {
        if (cut) {
          std::filesystem::resize_file(file_.path, 6 * kMiB + 76);
        } else {
          std::filesystem::last_write_time(
              file_.path, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
        }
      }
      return Status();
    };
    LoadTargets targets = Targets();
    const Status status = Make(Options())->LoadBatch(targets.items(), {});
    EXPECT_EQ(status.code(), StatusCode::kIo) << status.ToString();
    EXPECT_NE(status.message().find(file_.path), std::string::npos) << status.ToString();
  }
  ExpectNothingLeft();
}

// What was opened is what is read, whatever its name leads to by now.
TEST_P(LoaderFaultTest, AFileThatIsReplacedAfterItWasOpened) {
  LoadTargets targets = Targets();
  testing::WriteWholeFile(folder_.File("other"), std::string(7 * kMiB, 'x'));
  std::filesystem::rename(folder_.File("other"), file_.path);
  const Status status = Make(Options())->LoadBatch(targets.items(), {});
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(targets.Wrong(), "");
}

TEST_P(LoaderFaultTest, CancelledAtRandomTimes) {
  accelerator_.copy_delay = std::chrono::microseconds(200);
  std::mt19937 random(5);
  const auto loader = Make(Options());
  for (int round = 0; round < 30; ++round) {
    std::atomic<bool> cancelled{false};
    const auto delay = std::chrono::microseconds(random() % 4000);
    std::thread canceller([&] {
      std::this_thread::sleep_for(delay);
      cancelled = true;
    });
    ExternalDataProgress progress;
    progress.on_loaded = [&](uint64_t) {
      return cancelled ? Status(StatusCode::kCancelled, "cancelled") : Status();
    };
    LoadTargets targets = Targets();
    const Status status = loader->LoadBatch(targets.items(), progress);
    canceller.join();
    EXPECT_EQ(accelerator_.live_registrations(), 0);
    const int expected_threads = threads_before_ + accelerator_.live_streams();
    EXPECT_EQ(ThreadsLeft(expected_threads), expected_threads);
    if (status.ok()) {
      EXPECT_EQ(targets.Wrong(), "");
    } else {
      EXPECT_EQ(status.code(), StatusCode::kCancelled);
    }
  }
  EXPECT_EQ(accelerator_.unsafe_copies(), 0);
}

// Cancelling does not wait for the rest of the file, however slow the disk.
TEST_P(LoaderFaultTest, CancelledOnASlowDisk) {
  const auto slow = [](const std::string&, uint64_t, uint64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return Status();
  };
  files_.before_read = slow;
  files_.before_direct_read = slow;
  std::atomic<int> polls{0};
  ExternalDataProgress progress;
  progress.on_loaded = [&](uint64_t) {
    return ++polls > 1 ? Status(StatusCode::kCancelled, "cancelled") : Status();
  };
  LoadTargets targets = Targets();
  const Status status = Make(Options())->LoadBatch(targets.items(), progress);
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::kCancelled) << status.ToString();
  if (GetParam() != LoadStrategy::kMapped) {
    EXPECT_EQ(status.code(), StatusCode::kCancelled);
  }
  ExpectNothingLeft();
}

INSTANTIATE_TEST_SUITE_P(All, LoaderFaultTest,
                         ::testing::Values(LoadStrategy::kAuto, LoadStrategy::kPinned, LoadStrategy::kMapped,
                                           LoadStrategy::kDirect),
                         NameOf);

class PinnedFaultTest : public LoaderFaultTest {};
INSTANTIATE_TEST_SUITE_P(Staged, PinnedFaultTest,
                         ::testing::Values(LoadStrategy::kPinned, LoadStrategy::kDirect), NameOf);

// Set-up that fails is tried once, reported once, and the bytes come through ordinary memory.
TEST_P(PinnedFaultTest, PinnedMemoryThatCannotBeHadIsRemembered) {
  for (const std::string operation : {"alloc pinned", "create stream", "create notification"}) {
    for (const int failing : {0, 1}) {
      // The readers' own slots share one stream.
      if (operation == "create stream" && failing == 1 && GetParam() == LoadStrategy::kDirect) continue;
      log_.clear();
      std::atomic<int> calls{0};
      accelerator_.before = [&](const std::string& name) {
        if (name != operation) return Status();
        return calls++ >= failing ? Status(StatusCode::kResourceExhausted, "injected") : Status();
      };
      const auto loader = Make(Options());
      for (int load = 0; load < 3; ++load) {
        LoadTargets targets = Targets();
        const Status status = loader->LoadBatch(targets.items(), {});
        ASSERT_TRUE(status.ok()) << status.ToString();
        EXPECT_EQ(targets.Wrong(), "");
      }
      EXPECT_EQ(calls, failing + 1) << operation;
      const size_t reported = log_.find("RESOURCE_EXHAUSTED: injected");
      EXPECT_NE(reported, std::string::npos);
      EXPECT_EQ(log_.find("injected", reported + 25), std::string::npos) << log_;
      EXPECT_EQ(accelerator_.live_allocations(), 0) << "nothing stays of what was made before the failure";
      EXPECT_EQ(accelerator_.live_streams(), 0);
    }
  }
  EXPECT_EQ(accelerator_.copies(), 0);
}

// Both streams are drained before an error is returned: the destinations do not change afterwards.
TEST_P(PinnedFaultTest, NothingIsCopiedAfterAnError) {
  accelerator_.copy_delay = std::chrono::milliseconds(5);
  std::atomic<int> calls{0};
  const auto fail = [&](const std::string&, uint64_t, uint64_t) {
    return ++calls == 9 ? Status(StatusCode::kIo, "injected") : Status();
  };
  files_.before_read = fail;
  files_.before_direct_read = fail;
  const auto loader = Make([this] {
    DeviceLoaderOptions options = Options();
    options.reading_threads = 1;
    options.block_bytes = kMiB;
    return options;
  }());
  LoadTargets targets;
  std::vector<std::string> before;
  for (int i = 0; i < 12; ++i) {
    targets.Add(file_.Open(files_), file_.content, static_cast<uint64_t>(i) * 512 * 1024, 512 * 1024);
  }
  calls = 4;
  ASSERT_FALSE(loader->LoadBatch(targets.items(), {}).ok());
  for (const ExternalDataItem& item : targets.items()) {
    before.emplace_back(static_cast<const char*>(item.destination), item.size_bytes);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  for (size_t i = 0; i < before.size(); ++i) {
    const ExternalDataItem& item = targets.items()[i];
    EXPECT_EQ(before[i], std::string(static_cast<const char*>(item.destination), item.size_bytes)) << i;
  }
}

// A stream's own error at the last synchronisation is an error of the load.
TEST_P(PinnedFaultTest, TheLastSynchronizationIsLookedAt) {
  accelerator_.before = [](const std::string& name) {
    return name == "synchronize" ? Status(StatusCode::kDeviceLost, "injected") : Status();
  };
  LoadTargets targets = Targets();
  EXPECT_EQ(Make(Options())->LoadBatch(targets.items(), {}).code(), StatusCode::kDeviceLost);
}

TEST_P(PinnedFaultTest, AStallIsReportedOnce) {
  testing::FakeClock clock;
  DeviceLoaderOptions options = Options();
  options.clock = &clock;
  std::atomic<int> polls{0};
  std::atomic<bool> go{false};
  const auto wait = [&](const std::string&, uint64_t, uint64_t) {
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Status();
  };
  files_.before_read = wait;
  files_.before_direct_read = wait;
  ExternalDataProgress progress;
  progress.on_loaded = [&](uint64_t) {
    clock.AdvanceNs(int64_t{6} * 1'000'000'000);
    if (++polls == 6) go = true;
    return Status();
  };
  LoadTargets targets = Targets();
  ASSERT_TRUE(Make(options)->LoadBatch(targets.items(), progress).ok());
  const size_t reported = log_.find("nothing has arrived for 12 s");
  EXPECT_NE(reported, std::string::npos) << log_;
  EXPECT_EQ(log_.find("nothing has arrived", reported + 1), std::string::npos) << log_;
}

// What the driver does not register is copied from ordinary memory.
TEST(MappedFaultTest, WindowsThatCannotBeRegistered) {
  std::string log;
  SetLogSink([&](LogLevel, std::string_view line) { log += std::string(line) + "\n"; });
  const TempDir folder;
  const DataFile file(folder, "weights", 6 * kMiB, 1);
  FakeAccelerator accelerator;
  std::atomic<int> calls{0};
  accelerator.before = [&](const std::string& name) {
    return name == "register" && ++calls > 2 ? Status(StatusCode::kResourceExhausted, "injected") : Status();
  };
  DeviceLoaderOptions options;
  options.strategy = LoadStrategy::kMapped;
  options.reading_threads = 1;
  options.parallel_bytes = kMiB;
  options.block_bytes = kMiB;
  options.window_bytes = kMiB;
  const auto loader =
      DeviceLoader::Create(accelerator, &accelerator, FakeAccelerator::device(), options).value();
  LoadTargets targets;
  targets.Add(file.Open(), file.content, 0, 6 * kMiB);
  const Status status = loader->LoadBatch(targets.items(), {});
  SetLogSink({});
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(targets.Wrong(), "");
  EXPECT_EQ(calls, 3);
  EXPECT_NE(log.find("not registered"), std::string::npos);
  EXPECT_EQ(accelerator.live_registrations(), 0);
}

}  // namespace
}  // namespace lamina
