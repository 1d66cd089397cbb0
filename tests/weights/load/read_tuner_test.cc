#include "weights/load/read_tuner.h"

#include <gtest/gtest.h>

#include <functional>

namespace lamina {
namespace {

// Reads 1 MB at a time from a disk whose rate depends on the setting, until the tuner has settled.
ReadSetting Settle(ReadTuner& tuner, const std::function<double(ReadSetting)>& bytes_per_s) {
  int64_t now_ns = 0;
  for (int i = 0; i < 100000 && !tuner.settled(); ++i) {
    const ReadSetting setting = tuner.current();
    now_ns += static_cast<int64_t>(1e6 / bytes_per_s(setting) * 1e9);
    tuner.Finished(setting, 1'000'000, now_ns);
  }
  EXPECT_TRUE(tuner.settled());
  return tuner.current();
}

TEST(ReadTunerTest, AVirtualDiskIsReadOneByOne) {
  ReadTuner tuner(true, 16, 20'000'000);
  const ReadSetting found = Settle(
      tuner, [](ReadSetting setting) { return setting.direct ? 2.4e9 - 0.1e9 * setting.depth : 1.6e9; });
  EXPECT_EQ(found, (ReadSetting{true, 1}));
}

TEST(ReadTunerTest, AnArrayOfDrivesWantsManyReads) {
  ReadTuner tuner(true, 16, 20'000'000);
  const ReadSetting found =
      Settle(tuner, [](ReadSetting setting) { return setting.direct ? 1.5e9 * setting.depth : 4e9; });
  EXPECT_EQ(found, (ReadSetting{true, 16}));
}

TEST(ReadTunerTest, ReadAheadMayBeFaster) {
  ReadTuner tuner(true, 16, 20'000'000);
  const ReadSetting found = Settle(tuner, [](ReadSetting setting) { return setting.direct ? 0.2e9 : 1e9; });
  EXPECT_EQ(found, (ReadSetting{false, 4}));
}

TEST(ReadTunerTest, DepthIsBounded) {
  ReadTuner tuner(true, 3, 20'000'000);
  const ReadSetting found =
      Settle(tuner, [](ReadSetting setting) { return setting.direct ? 1.0e9 * setting.depth : 0.5e9; });
  EXPECT_EQ(found, (ReadSetting{true, 2}));
}

TEST(ReadTunerTest, WithoutDirectReadsBufferedOnesAreStepped) {
  ReadTuner tuner(true, 16, 20'000'000);
  tuner.GiveUpDirect();
  EXPECT_FALSE(tuner.current().direct);
  const ReadSetting found = Settle(tuner, [](ReadSetting setting) {
    EXPECT_FALSE(setting.direct);
    return setting.depth <= 4 ? 1e9 * setting.depth : 4e9;
  });
  EXPECT_EQ(found, (ReadSetting{false, 4}));
}

TEST(ReadTunerTest, ReadsOfAnotherSettingAreIgnored) {
  ReadTuner tuner(true, 16, 2'000'000);
  tuner.Finished({true, 1}, 1'000'000, 0);
  tuner.Finished({true, 2}, 1'000'000'000, 1);
  tuner.Finished({false, 4}, 1'000'000'000, 2);
  EXPECT_EQ(tuner.current(), (ReadSetting{true, 1}));
}

}  // namespace
}  // namespace lamina
