#include "base/os.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <vector>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/file.h"
#include "support/fake_clock.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using testing::TempDir;
using testing::WriteWholeFile;

TEST(OsTest, FactsArePlausible) {
  EXPECT_GE(PageSizeBytes(), 4096);
  EXPECT_GE(AvailableCores(), 1);
  const HostMemory memory = GetHostMemory();
  EXPECT_GT(memory.total_bytes, uint64_t{64} << 20);
  EXPECT_GT(memory.available_bytes, 0u);
  EXPECT_LE(memory.available_bytes, memory.total_bytes);
  EXPECT_FALSE(CpuModel().empty());
  EXPECT_EQ(TerminalColumns(-1, 77), 77);
  EXPECT_FALSE(IsTerminal(-1));
}

TEST(OsTest, PeakMemoryGrowsWithUse) {
  const uint64_t before = ResidentBytes();
  ASSERT_GT(before, 0u);
  const std::vector<char> used(64 << 20, 'x');
  EXPECT_GE(ResidentBytes() + (1 << 20), before + used.size());
  EXPECT_GE(PeakResidentBytes() + (1 << 20), ResidentBytes());
}

TEST(OsTest, MappedFilesAreNotMemoryOfTheProcess) {
  const TempDir dir;
  WriteWholeFile(dir.File("data"), std::string(64 << 20, 'x'));
  const auto file = SystemFiles().Open(dir.File("data"));
  ASSERT_TRUE(file.ok());
  const auto mapping = (*file)->Map(0, 64 << 20);
  ASSERT_TRUE(mapping.ok());
  const uint64_t before = UnmappedResidentBytes();
  ASSERT_GT(before, 0u);
  ASSERT_TRUE(mapping->Populate().ok());
  EXPECT_LT(UnmappedResidentBytes(), before + (16 << 20));
  const std::vector<char> used(64 << 20, 'x');
  EXPECT_GE(UnmappedResidentBytes() + (1 << 20), before + used.size());
}

void WriteTree(const TempDir& root, const std::map<std::string, std::string>& files) {
  for (const auto& [path, text] : files) {
    std::filesystem::create_directories(std::filesystem::path(root.File(path)).parent_path());
    WriteWholeFile(root.File(path), text);
  }
}

TEST(CgroupTest, Version2TakesTheSmallestUpTheTree) {
  const TempDir root;
  WriteTree(root, {{"a/cpu.max", "150000 100000\n"},
                   {"a/b/cpu.max", "max 100000\n"},
                   {"a/memory.max", "1000\n"},
                   {"a/memory.current", "700\n"},
                   {"a/memory.stat", "anon 500\ninactive_file 200\n"},
                   {"a/b/memory.max", "max\n"}});
  const CgroupLimits limits = ReadCgroupLimits("0::/a/b\n", root.path());
  EXPECT_DOUBLE_EQ(limits.cpus.value_or(0), 1.5);
  EXPECT_EQ(limits.memory_limit_bytes.value_or(0), 1000u);
  EXPECT_EQ(limits.memory_available_bytes.value_or(0), 500u);
}

TEST(CgroupTest, Version1) {
  const TempDir root;
  WriteTree(root, {{"cpu/x/cpu.cfs_quota_us", "200000\n"},
                   {"cpu/x/cpu.cfs_period_us", "100000\n"},
                   {"cpu/cpu.cfs_quota_us", "-1\n"},
                   {"cpu/cpu.cfs_period_us", "100000\n"},
                   {"memory/x/memory.limit_in_bytes", "5000\n"},
                   {"memory/x/memory.usage_in_bytes", "6000\n"},
                   {"memory/memory.limit_in_bytes", "9223372036854771712\n"}});
  const CgroupLimits limits = ReadCgroupLimits("4:cpu,cpuacct:/x\n2:memory:/x\n", root.path());
  EXPECT_DOUBLE_EQ(limits.cpus.value_or(0), 2.0);
  EXPECT_EQ(limits.memory_limit_bytes.value_or(0), 5000u);
  EXPECT_EQ(limits.memory_available_bytes.value_or(1), 0u);
}

// Inside a container /proc/self/cgroup may name a path of the host.
TEST(CgroupTest, APathThatIsNotMountedLeavesTheRoot) {
  const TempDir root;
  WriteTree(root, {{"cpu.max", "300000 100000\n"}});
  EXPECT_DOUBLE_EQ(ReadCgroupLimits("0::/docker/abc\n", root.path()).cpus.value_or(0), 3.0);
}

TEST(CgroupTest, GarbageIsNoLimit) {
  const TempDir root;
  WriteTree(root, {{"cpu.max", "lots\n"}, {"memory.max", "\n"}});
  for (const char* membership : {"", "0::/\n", "x", "0:", "0::", "0::relative", ":::::"}) {
    const CgroupLimits limits = ReadCgroupLimits(membership, root.path());
    EXPECT_FALSE(limits.cpus || limits.memory_limit_bytes || limits.memory_available_bytes) << membership;
  }
}

TEST(ClockTest, GoesForward) {
  const int64_t first_ns = SystemClock().NowNs();
  EXPECT_GE(SystemClock().NowNs(), first_ns);
  testing::FakeClock fake;
  fake.AdvanceNs(5);
  EXPECT_EQ(fake.NowNs(), 5);
}

}  // namespace
}  // namespace lamina
