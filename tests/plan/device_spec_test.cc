#include "plan/device_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/byte_size.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;

TEST(DeviceSpecTest, PresetWithChanges) {
  const Result<DeviceDescription> device = ParseDeviceSpec("gpu:0=h200,memory=40GiB,cudnn=9.1");
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  EXPECT_EQ(device->device, (Device{DeviceKind::kGpu, 0}));
  EXPECT_EQ(device->provider, "cuda");
  EXPECT_EQ(device->memory_bytes, 40 * kGiB);
  EXPECT_EQ(device->multiprocessors, 132);
  EXPECT_EQ(device->compute_capability_major, 9);
  EXPECT_EQ(device->granularity_bytes, 2 * kMiB);
  EXPECT_EQ(device->cudnn_version, "9.1");
  EXPECT_TRUE(device->described);
}

TEST(DeviceSpecTest, AllKeys) {
  const Result<DeviceDescription> device = ParseDeviceSpec(
      "gpu:1=memory=8GiB, memory_bandwidth=272GB,link_bandwidth=13GB,compute_capability=8.9,"
      "multiprocessors=24,granularity=64KiB,cudnn=none,reserved=600MiB,provider=sim,name=mine,vendor=sim");
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  EXPECT_EQ(device->device.ordinal, 1);
  EXPECT_EQ(device->memory_bytes, 8 * kGiB);
  EXPECT_EQ(device->memory_bandwidth_bytes_per_s, 272e9);
  EXPECT_EQ(device->link_bandwidth_bytes_per_s, 13e9);
  EXPECT_EQ(device->compute_capability_minor, 9);
  EXPECT_EQ(device->granularity_bytes, 64 * kKiB);
  EXPECT_EQ(device->cudnn_version, "");
  EXPECT_EQ(device->reserved_bytes, 600 * kMiB);
  EXPECT_EQ(device->provider, "sim");
}

std::string ErrorOf(std::string_view text) { return ParseDeviceSpec(text).status().message(); }

TEST(DeviceSpecTest, SaysWhatIsWrong) {
  EXPECT_THAT(ErrorOf("gpu:0"), HasSubstr("expected DEVICE=PRESET"));
  EXPECT_THAT(ErrorOf("tpu=h100"), HasSubstr("expected gpu:N"));
  EXPECT_THAT(ErrorOf("gpu:x=h100"), HasSubstr("found 'gpu:x'"));
  EXPECT_THAT(ErrorOf("gpu:0=voodoo"), HasSubstr("there are h200, h100"));
  EXPECT_THAT(ErrorOf("gpu:0=h100,t4"), HasSubstr("expected KEY=VALUE, found 't4'"));
  EXPECT_THAT(ErrorOf("gpu:0=memory=8GiB,granulrity=1MiB"), HasSubstr("did you mean 'granularity'"));
  EXPECT_THAT(ErrorOf("gpu:0=memory=8G"), HasSubstr("memory"));
  EXPECT_THAT(ErrorOf("gpu:0=reserved=1GiB"), HasSubstr("its memory is not given"));
  EXPECT_THAT(ErrorOf("gpu:0=memory=1GiB,reserved=1GiB"), HasSubstr("leave nothing"));
  EXPECT_THAT(ErrorOf("gpu:0=memory=1GiB,compute_capability=x"), HasSubstr("8.9"));
  EXPECT_THAT(ErrorOf("gpu:0=memory=1GiB,granularity=0"), HasSubstr("at least 1"));
}

TEST(DeviceSpecTest, SeveralDevicesAreOrderedAndComplete) {
  const std::vector<std::string> two = {"gpu:1=l4", "gpu:0=h100"};
  const auto devices = ParseDeviceSpecs(two);
  ASSERT_TRUE(devices.ok()) << devices.status().ToString();
  EXPECT_EQ((*devices)[0].name, "NVIDIA H100 SXM");
  EXPECT_THAT(ParseDeviceSpecs(std::vector<std::string>{"gpu:1=l4"}).status().message(), HasSubstr("gpu:1"));
  EXPECT_THAT(ParseDeviceSpecs(std::vector<std::string>{"gpu=l4", "gpu:0=l4"}).status().message(),
              HasSubstr("described twice"));
}

TEST(DeviceSpecTest, EveryPresetParses) {
  for (const std::string& name : DevicePresetNames()) {
    EXPECT_TRUE(ParseDeviceSpec("gpu:0=" + name).ok()) << name;
  }
}

}  // namespace
}  // namespace lamina
