#include "runtime/kv_cache.h"

#include <gtest/gtest.h>

#include "providers/cpu/cpu_provider.h"

namespace lamina {
namespace {

SessionDevices HostOnly() {
  SessionDevices devices(1);
  devices[0].memory = std::make_unique<HostAllocator>();
  return devices;
}

KvLayout TwoLayers() {
  KvLayout layout;
  layout.in_place.resize(2);
  for (InPlaceKv& layer : layout.in_place) {
    layer.type = DataType::kFloat;
    layer.kv_heads = 2;
    layer.key_head_size = 8;
    layer.value_head_size = 4;
  }
  return layout;
}

KvLayout OneCarried() {
  KvLayout layout;
  layout.batch_symbol = "batch";
  layout.past_symbol = "past";
  layout.carried.push_back({0,
                            0,
                            DataType::kInt32,
                            {{DimExpr::Symbol("batch"), 2, DimExpr::Symbol("past"), 3}},
                            /*token_axis=*/2,
                            /*device=*/0});
  return layout;
}

TEST(KvCacheTest, PlanesLieApartAndViewsFollowTheRows) {
  const SessionDevices devices = HostOnly();
  const KvLayout layout = TwoLayers();
  auto cache = KvCacheStorage::Allocate(layout, /*slots=*/3, /*capacity_tokens=*/16, devices);
  ASSERT_TRUE(cache.ok());
  const KvRow rows[] = {{2, 5}, {0, 16}};
  const auto views = (*cache)->Bind(rows);
  ASSERT_TRUE(views.ok());
  ASSERT_EQ(views->size(), 2u);
  const KvView& view = (*views)[0];
  EXPECT_EQ(view.block_table[0], 2);
  EXPECT_EQ(view.past_lengths[1], 16);
  EXPECT_EQ(view.capacity_tokens, 16);
  EXPECT_EQ(view.key.token_stride_bytes, 32);
  EXPECT_EQ(view.key.head_stride_bytes, 512);
  EXPECT_EQ(view.key.block_stride_bytes, 1024);
  const auto* key = static_cast<std::byte*>(view.key.base);
  const auto* value = static_cast<std::byte*>(view.value.base);
  EXPECT_GE(value - key, 3 * 1024);
  EXPECT_GE(static_cast<std::byte*>((*views)[1].key.base) - value, 3 * 512);
}

TEST(KvCacheTest, RowsAreChecked) {
  const SessionDevices devices = HostOnly();
  const KvLayout layout = TwoLayers();
  auto cache = KvCacheStorage::Allocate(layout, 2, 16, devices);
  ASSERT_TRUE(cache.ok());
  EXPECT_FALSE((*cache)->Bind({}).ok());
  for (const std::vector<KvRow>& rows :
       std::vector<std::vector<KvRow>>{{{2, 0}}, {{-1, 0}}, {{0, 0}, {0, 1}}, {{0, 17}}, {{0, -1}}}) {
    EXPECT_EQ((*cache)->Bind(rows).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(KvCacheTest, AbsurdSizesAreRefused) {
  const SessionDevices devices = HostOnly();
  const KvLayout layout = TwoLayers();
  EXPECT_EQ(KvCacheStorage::Allocate(layout, 65536, INT32_MAX, devices).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(KvCacheTest, CarriedStateSwapsAndIsCutBack) {
  const SessionDevices devices = HostOnly();
  const KvLayout layout = OneCarried();
  auto made = KvCacheStorage::Allocate(layout, 1, 4, devices);
  ASSERT_TRUE(made.ok());
  KvCacheStorage& cache = **made;
  Tensor present = cache.CarriedPresent(0, {0, 0});
  EXPECT_GE(present.capacity_bytes(), 2u * 4 * 3 * 4);
  // [1, heads 2, tokens 4, 3], each element head * 100 + token * 10 + channel
  int32_t* data = present.mutable_data<int32_t>();
  for (int i = 0; i < 24; ++i) data[i] = (i / 12) * 100 + (i / 3 % 4) * 10 + i % 3;
  cache.SwapCarried({0, 0});
  ASSERT_TRUE(cache.Truncate({0, 4}, 2).ok());
  const Tensor past = *cache.CarriedPast(0, {0, 2});
  EXPECT_EQ(past.shape(), (Shape{1, 2, 2, 3}));
  const std::vector<int32_t> kept(past.data<int32_t>(), past.data<int32_t>() + 12);
  EXPECT_EQ(kept, (std::vector<int32_t>{0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112}));
  EXPECT_FALSE(cache.Truncate({0, 2}, 3).ok());
  const KvRow two[] = {{0, 0}, {1, 0}};
  EXPECT_EQ(cache.Bind(two).status().code(), StatusCode::kUnsupported);
}

TEST(KvCachePoolTest, HandsOutWhatItHas) {
  const SessionDevices devices = HostOnly();
  const KvLayout layout = TwoLayers();
  KvCachePool pool;
  pool.Add(*KvCacheStorage::Allocate(layout, 1, 4, devices));
  std::unique_ptr<KvCacheStorage> cache = pool.Take();
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(pool.Take(), nullptr);
  pool.Add(std::move(cache));
  EXPECT_NE(pool.Take(), nullptr);
  EXPECT_EQ(devices[0].memory->GetStats().in_use_bytes, 0u);
}

}  // namespace
}  // namespace lamina
