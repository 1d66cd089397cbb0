#include "weights/load/load_options.h"

#include <gtest/gtest.h>

namespace lamina {
namespace {

TEST(LoadOptionsTest, StrategiesHaveNames) {
  for (const auto strategy :
       {LoadStrategy::kAuto, LoadStrategy::kPinned, LoadStrategy::kMapped, LoadStrategy::kDirect}) {
    EXPECT_EQ(*ParseLoadStrategy(LoadStrategyName(strategy)), strategy);
  }
  const auto unknown = ParseLoadStrategy("fast");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("found 'fast'"), std::string::npos);
}

// The struct is checked like the text of an option: callers fill it without a parser.
TEST(LoadOptionsTest, FieldsAreChecked) {
  DeviceLoaderOptions options;
  EXPECT_TRUE(options.Validate().ok());
  for (const int threads : {0, 1, 4, 64}) {
    options.reading_threads = threads;
    EXPECT_TRUE(options.Validate().ok()) << threads;
  }
  for (const int threads : {-1, 65, 1 << 30}) {
    options.reading_threads = threads;
    EXPECT_EQ(options.Validate().code(), StatusCode::kInvalidArgument) << threads;
  }
  options = {};
  options.strategy = static_cast<LoadStrategy>(9);
  EXPECT_EQ(options.Validate().code(), StatusCode::kInvalidArgument);
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1000}, uint64_t{1} << 41, (uint64_t{1} << 20) + 1}) {
    options = {};
    options.buffer_bytes = bytes;
    EXPECT_EQ(options.Validate().code(), StatusCode::kInvalidArgument) << bytes;
    options = {};
    options.block_bytes = bytes;
    EXPECT_EQ(options.Validate().code(), StatusCode::kInvalidArgument) << bytes;
    options = {};
    options.window_bytes = bytes;
    EXPECT_EQ(options.Validate().code(), StatusCode::kInvalidArgument) << bytes;
  }
  options = {};
  options.clock = nullptr;
  EXPECT_EQ(options.Validate().code(), StatusCode::kInvalidArgument);
}

TEST(LoadOptionsTest, FromTheOptionsOfAProvider) {
  const auto none = DeviceLoaderOptions::FromProviderOptions({{"gpu_mem_limit", "1GiB"}});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->strategy, LoadStrategy::kAuto);
  EXPECT_FALSE(none->reading_threads.has_value());
  const auto both = DeviceLoaderOptions::FromProviderOptions(
      {{"external_data_loader_reading_threads", "7"}, {"external_data_loader_strategy", "pinned"}});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->strategy, LoadStrategy::kPinned);
  EXPECT_EQ(both->reading_threads, 7);
  for (const char* threads : {"", "-1", "65", "4x", "99999999999"}) {
    const auto wrong =
        DeviceLoaderOptions::FromProviderOptions({{"external_data_loader_reading_threads", threads}});
    EXPECT_EQ(wrong.status().code(), StatusCode::kInvalidArgument) << threads;
    EXPECT_NE(wrong.status().message().find("external_data_loader_reading_threads"), std::string::npos);
  }
  EXPECT_EQ(
      DeviceLoaderOptions::FromProviderOptions({{"external_data_loader_strategy", "x"}}).status().code(),
      StatusCode::kInvalidArgument);
}

TEST(LoadOptionsTest, StagingIsTwoBuffers) {
  DeviceLoaderOptions options;
  EXPECT_EQ(options.StagingBytes(), uint64_t{128} << 20);
  options.strategy = LoadStrategy::kMapped;
  EXPECT_EQ(options.StagingBytes(), 0u);
  options = {};
  options.reading_threads = 0;
  EXPECT_EQ(options.StagingBytes(), 0u);
}

}  // namespace
}  // namespace lamina
