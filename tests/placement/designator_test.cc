#include "placement/designator.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

DeviceDescription Describe(DeviceKind kind, int16_t ordinal, const char* provider, const char* vendor) {
  DeviceDescription device;
  device.device = {kind, ordinal};
  device.provider = provider;
  device.vendor = vendor;
  return device;
}

std::vector<DeviceDescription> Machine() {
  return {Describe(DeviceKind::kGpu, 0, "cuda", "nvidia"), Describe(DeviceKind::kGpu, 1, "cuda", "nvidia"),
          Describe(DeviceKind::kGpu, 2, "sim", "sim"), Describe(DeviceKind::kNpu, 0, "Qnn", "qualcomm"),
          Describe(DeviceKind::kCpu, 0, "cpu", "")};
}

TEST(DesignatorTest, KindsOrdinalsVendorsAndProviders) {
  const std::vector<DeviceDescription> devices = Machine();
  const auto find = [&](std::string_view designator) -> int {
    const std::optional<size_t> found = FindDevice(designator, devices);
    return found ? static_cast<int>(*found) : -1;
  };
  EXPECT_EQ(find("cpu"), 4);
  EXPECT_EQ(find("gpu"), 0);
  EXPECT_EQ(find("GPU:1"), 1);
  EXPECT_EQ(find("gpu:2"), 2);
  EXPECT_EQ(find("gpu:3"), -1);
  EXPECT_EQ(find("gpu:nvidia"), 0);
  EXPECT_EQ(find("gpu:Sim"), 2);
  EXPECT_EQ(find("gpu:amd"), -1);
  EXPECT_EQ(find("accelerator"), 0);
  EXPECT_EQ(find("npu"), 3);
  EXPECT_EQ(find("fpga"), -1);
  EXPECT_EQ(find("cuda"), 0);
  EXPECT_EQ(find("cuda:1"), 1);
  EXPECT_EQ(find("sim:0"), 2);
  EXPECT_EQ(find("sim:1"), -1);
  EXPECT_EQ(find("Qnn"), 3);
  EXPECT_EQ(find("qnn"), -1);
  EXPECT_EQ(find(""), -1);
  EXPECT_NE(UnknownDeviceError("tpu", devices).message().find("gpu:2 (sim)"), std::string::npos);
}

TEST(DesignatorTest, AcceleratorIsNeverTheCpu) {
  EXPECT_FALSE(FindDevice("accelerator", std::vector<DeviceDescription>{Machine().back()}));
}

}  // namespace
}  // namespace lamina
