// Loading of provider plugins: versions, broken tables, names.
#include "providers/plugin/plugin_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "providers/plugin/test_plugin.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;
using testing::TestPlugin;

std::string LibraryPath(const std::string& name) { return std::string(LAMINA_BINARY_DIR) + "/" + name; }

// The plugin must be refused with `code` and a text that contains `text`, and leave nothing behind.
void ExpectRefused(TestPlugin& test_plugin, StatusCode code, const std::string& text) {
  const Status status = test_plugin.Provider().status();
  EXPECT_EQ(status.code(), code) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr(text));
  EXPECT_EQ(test_plugin.live_factories, 0);
  EXPECT_EQ(test_plugin.live_providers, 0);
}

TEST(PluginLibraryTest, AProviderHasTheNameVendorKindAndDevicesOfItsPlugin) {
  TestPlugin test_plugin;
  const auto factories = test_plugin.Factories();
  ASSERT_TRUE(factories.ok()) << factories.status().ToString();
  const ProviderFactory& factory = *factories->front();
  EXPECT_EQ(factory.name(), "testing");
  EXPECT_EQ(factory.vendor(), "tests");
  EXPECT_EQ(factory.device_kind(), DeviceKind::kNpu);
  const auto provider = factories->front()->Create({.options = {{"speed", "9"}}, .first_ordinal = 3});
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  ASSERT_EQ((*provider)->devices().size(), 1u);
  const DeviceDescription& device = (*provider)->devices()[0];
  EXPECT_EQ(device.device.ToString(), "npu:3");
  EXPECT_EQ(device.name, "test device");
  EXPECT_EQ(device.provider, "testing");
  EXPECT_EQ(device.vendor, "tests");
  EXPECT_EQ(device.memory_bytes, 1u << 20);
  EXPECT_EQ(test_plugin.options, std::vector<std::string>{"speed=9"});
}

TEST(PluginLibraryTest, ARegisteredNameReplacesTheOneOfASingleProvider) {
  TestPlugin test_plugin;
  const auto factories = test_plugin.Factories("other_name");
  ASSERT_TRUE(factories.ok()) << factories.status().ToString();
  EXPECT_EQ(factories->front()->name(), "other_name");
}

TEST(PluginLibraryTest, NamesThatRulesCouldNotSayAreRefused) {
  for (const char* name : {"gpu", "cpu", "accelerator", "Sim", "a-b", "9a", "a:b", "a b"}) {
    TestPlugin test_plugin;
    const Status status = test_plugin.Factories(name).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(test_plugin.live_factories, 0);
  }
  EXPECT_TRUE(plugin::CheckProviderName("sim_2").ok());
}

TEST(PluginLibraryTest, APluginThatAsksForANewerInterfaceIsRefusedWithBothVersions) {
  TestPlugin test_plugin;
  test_plugin.asked_version = LAMINA_EP_API_VERSION + 1;
  ExpectRefused(test_plugin, StatusCode::kUnsupported,
                "built for version 3 of the provider interface; this Lamina has 1 to 2");
}

TEST(PluginLibraryTest, TablesOfANewerVersionAreRefused) {
  TestPlugin factory;
  factory.edit_factories = [](LaminaEpFactory** made, size_t*) { made[0]->lamina_version = 7; };
  ExpectRefused(factory, StatusCode::kUnsupported, "its factory was built for version 7");
  TestPlugin ep;
  ep.edit_ep = [](LaminaEp& made) { made.lamina_version = 7; };
  ExpectRefused(ep, StatusCode::kUnsupported, "built for version 7");
}

TEST(PluginLibraryTest, AVersionOfZeroIsABrokenTable) {
  TestPlugin factory;
  factory.edit_factories = [](LaminaEpFactory** made, size_t*) { made[0]->lamina_version = 0; };
  ExpectRefused(factory, StatusCode::kInternal, "version 0");
  TestPlugin ep;
  ep.edit_ep = [](LaminaEp& made) { made.lamina_version = 0; };
  ExpectRefused(ep, StatusCode::kInternal, "version 0");
}

TEST(PluginLibraryTest, AnOlderPluginRunsAndEntriesThatItLacksAreNotRead) {
  TestPlugin test_plugin;
  test_plugin.asked_version = 1;
  test_plugin.edit_ep = [](LaminaEp& ep) {
    ep.lamina_version = 1;
    // What lies behind a table of version 1 is somebody else's memory.
    std::memset(static_cast<void*>(&ep.GetAvailableResource), 0x5a, 2 * sizeof(void*));
  };
  const auto provider = test_plugin.Provider();
  ASSERT_TRUE(provider.ok()) << provider.status().ToString();
  EXPECT_EQ((*provider)->available_resource_bytes({DeviceKind::kNpu, 0}), std::nullopt);
  EXPECT_EQ((*provider)->external_data_loader(), nullptr);
}

TEST(PluginLibraryTest, EveryRequiredEntryOfAFactoryIsMissedByName) {
  const std::vector<std::pair<std::string, std::function<void(LaminaEpFactory&)>>> entries = {
      {"GetName", [](LaminaEpFactory& f) { f.GetName = nullptr; }},
      {"GetVendor", [](LaminaEpFactory& f) { f.GetVendor = nullptr; }},
      {"GetDeviceKind", [](LaminaEpFactory& f) { f.GetDeviceKind = nullptr; }},
      {"GetSupportedDevices", [](LaminaEpFactory& f) { f.GetSupportedDevices = nullptr; }},
      {"CreateEp", [](LaminaEpFactory& f) { f.CreateEp = nullptr; }},
      {"ReleaseEp", [](LaminaEpFactory& f) { f.ReleaseEp = nullptr; }},
  };
  for (const auto& [name, remove] : entries) {
    TestPlugin test_plugin;
    test_plugin.edit_factories = [remove = remove](LaminaEpFactory** made, size_t*) { remove(*made[0]); };
    ExpectRefused(test_plugin, StatusCode::kInternal, "the required entry " + name + " is null");
  }
}

TEST(PluginLibraryTest, AProviderThatCouldRunNothingIsRefused) {
  TestPlugin test_plugin;
  test_plugin.edit_ep = [](LaminaEp& ep) { ep.GetKernelRegistry = nullptr; };
  ExpectRefused(test_plugin, StatusCode::kInternal, "neither GetKernelRegistry nor Compile");
}

TEST(PluginLibraryTest, AnAllocatorNeedsADataTransferAndARelease) {
  const auto create = [](LaminaEp*, int32_t, LaminaMemoryType, LaminaAllocator**) noexcept {
    return static_cast<LaminaStatus*>(nullptr);
  };
  TestPlugin no_release;
  no_release.edit_ep = [&](LaminaEp& ep) { ep.CreateAllocator = create; };
  ExpectRefused(no_release, StatusCode::kInternal, "ReleaseAllocator");
  TestPlugin no_transfer;
  no_transfer.edit_ep = [&](LaminaEp& ep) {
    ep.CreateAllocator = create;
    ep.ReleaseAllocator = [](LaminaEp*, LaminaAllocator*) noexcept {};
  };
  ExpectRefused(no_transfer, StatusCode::kInternal, "GetDataTransfer");
  TestPlugin null_transfer;
  null_transfer.edit_ep = [&](LaminaEp& ep) {
    ep.CreateAllocator = create;
    ep.ReleaseAllocator = [](LaminaEp*, LaminaAllocator*) noexcept {};
    ep.GetDataTransfer = [](LaminaEp*, LaminaDataTransferImpl**) noexcept {
      return static_cast<LaminaStatus*>(nullptr);
    };
  };
  ExpectRefused(null_transfer, StatusCode::kInternal, "its data transfer is null");
}

TEST(PluginLibraryTest, WhatAFactorySaysOfItselfIsChecked) {
  TestPlugin nothing;
  nothing.offers_nothing = true;
  ExpectRefused(nothing, StatusCode::kUnsupported, "offers no provider");

  TestPlugin cpu_kind;
  cpu_kind.edit_factories = [](LaminaEpFactory** made, size_t*) {
    made[0]->GetDeviceKind = [](const LaminaEpFactory*) noexcept { return LAMINA_DEVICE_CPU; };
  };
  ExpectRefused(cpu_kind, StatusCode::kUnsupported, "devices of kind 0");

  TestPlugin no_name;
  no_name.edit_factories = [](LaminaEpFactory** made, size_t*) {
    made[0]->GetName = [](const LaminaEpFactory*) noexcept { return static_cast<const char*>(nullptr); };
  };
  ExpectRefused(no_name, StatusCode::kInternal, "has no name");
}

TEST(PluginLibraryTest, WhatAPluginSaysOfItsDevicesIsChecked) {
  const std::vector<std::pair<std::string, std::function<void(LaminaDeviceInfo&)>>> flaws = {
      {"has no name", [](LaminaDeviceInfo& d) { d.name = nullptr; }},
      {"is of kind 1", [](LaminaDeviceInfo& d) { d.kind = LAMINA_DEVICE_GPU; }},
      {"has no memory", [](LaminaDeviceInfo& d) { d.memory_bytes = 0; }},
      {"reserves", [](LaminaDeviceInfo& d) { d.reserved_bytes = d.memory_bytes + 1; }},
      {"negative", [](LaminaDeviceInfo& d) { d.link_bandwidth_bytes_per_s = -1; }},
      {"negative", [](LaminaDeviceInfo& d) { d.multiprocessors = -1; }},
  };
  for (const auto& [text, spoil] : flaws) {
    TestPlugin test_plugin;
    test_plugin.edit_device = spoil;
    ExpectRefused(test_plugin, StatusCode::kInternal, text);
  }
}

TEST(PluginLibraryTest, TheReasonWhyAProviderIsNotMadeArrives) {
  TestPlugin test_plugin;
  test_plugin.create_ep_failure = LAMINA_DEVICE_LOST;
  ExpectRefused(test_plugin, StatusCode::kDeviceLost, "provider testing: it does not want to");
  test_plugin.create_ep_failure = static_cast<LaminaStatusCode>(99);
  ExpectRefused(test_plugin, StatusCode::kInternal, "status code 99");
}

TEST(PluginLibraryTest, FilesThatAreNoProviderLibrariesAreRefusedWithTheReason) {
  const Status missing = plugin::LoadProviderLibrary("x", "/nowhere/libx.so").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("/nowhere/libx.so"));

  const testing::TempDir dir;
  testing::WriteWholeFile(dir.File("text.so"), "this is no library");
  const Status text = plugin::LoadProviderLibrary("x", dir.File("text.so")).status();
  EXPECT_EQ(text.code(), StatusCode::kIo);
  EXPECT_THAT(text.message(), HasSubstr("cannot be loaded"));

  const Status empty = plugin::LoadProviderLibrary("x", LibraryPath("libempty_plugin.so")).status();
  EXPECT_EQ(empty.code(), StatusCode::kUnsupported);
  EXPECT_THAT(empty.message(), HasSubstr("does not export CreateEpFactories"));
}

}  // namespace
}  // namespace lamina
