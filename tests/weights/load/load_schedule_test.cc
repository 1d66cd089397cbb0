#include "weights/load/load_schedule.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

#include "support/fake_files.h"

namespace lamina {
namespace {

constexpr uint64_t kPage = 4096;

class LoadScheduleTest : public ::testing::Test {
 protected:
  LoadScheduleTest() {
    files_.Add("a", std::string(100 * kPage, 'a'));
    files_.Add("b", std::string(100 * kPage, 'b'));
  }
  ExternalDataItem Item(const std::string& file, uint64_t offset, uint64_t size) {
    return {"w", *files_.Open(file), offset, size, DataType::kUint8, nullptr, Device{}};
  }
  testing::MemoryFiles files_;
};

TEST_F(LoadScheduleTest, FilesOneAfterTheOtherFromFrontToBack) {
  const std::vector<ExternalDataItem> items = {Item("b", 50 * kPage, 10), Item("a", 90 * kPage, 10),
                                               Item("b", 0, 10), Item("a", 0, 10)};
  const auto schedule = ScheduleLoad(items, {kPage, 0});
  ASSERT_TRUE(schedule.ok());
  ASSERT_EQ(schedule->files.size(), 2u);
  ASSERT_EQ(schedule->blocks.size(), 4u);
  std::vector<size_t> order;
  for (const LoadBlock& block : schedule->blocks) order.push_back(block.pieces.at(0).item);
  EXPECT_EQ(order, (std::vector<size_t>{2, 0, 3, 1}));
  EXPECT_EQ(schedule->item_bytes, 40u);
  EXPECT_EQ(schedule->read_bytes, 40u);
}

TEST_F(LoadScheduleTest, SmallTensorsShareABlockAndGapsAreReadOnlyWhereTheyAreSmall) {
  const std::vector<ExternalDataItem> items = {Item("a", 100, 50), Item("a", 200, 50), Item("a", 1000, 8)};
  const auto schedule = ScheduleLoad(items, {kPage, /*largest_gap_bytes=*/50});
  ASSERT_TRUE(schedule.ok());
  ASSERT_EQ(schedule->blocks.size(), 2u);
  EXPECT_EQ(schedule->blocks[0].offset_bytes, 100u);
  EXPECT_EQ(schedule->blocks[0].size_bytes, 150u);
  EXPECT_EQ(schedule->blocks[0].pieces.size(), 2u);
  EXPECT_EQ(schedule->blocks[0].pieces[1].offset_in_block, 100u);
  EXPECT_EQ(schedule->read_bytes, 158u);
  EXPECT_EQ(schedule->item_bytes, 108u);
}

TEST_F(LoadScheduleTest, EmptyTensorsTakeNoPart) {
  const std::vector<ExternalDataItem> items = {Item("a", 100 * kPage, 0), Item("a", 0, 0)};
  const auto schedule = ScheduleLoad(items);
  ASSERT_TRUE(schedule.ok());
  EXPECT_TRUE(schedule->blocks.empty());
  EXPECT_TRUE(schedule->files.empty());
}

TEST_F(LoadScheduleTest, RangesThatLeaveTheFileOrOverflowAreErrors) {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  for (const auto& [offset, size] : std::vector<std::pair<uint64_t, uint64_t>>{{100 * kPage, 1},
                                                                               {0, 100 * kPage + 1},
                                                                               {most, 1},
                                                                               {1, most},
                                                                               {most, most},
                                                                               {100 * kPage + 1, 0}}) {
    const auto schedule = ScheduleLoad(std::vector<ExternalDataItem>{Item("a", offset, size)});
    ASSERT_FALSE(schedule.ok()) << offset << " " << size;
    EXPECT_EQ(schedule.status().code(), StatusCode::kIo);
    EXPECT_NE(schedule.status().message().find("initializer 'w'"), std::string::npos);
  }
}

// Every byte of every item lies in exactly one piece, and blocks keep to their cell of the file.
TEST_F(LoadScheduleTest, PiecesCoverRandomItemsExactly) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<ExternalDataItem> items;
    for (int i = 0; i < 30; ++i) {
      const uint64_t offset = random() % (100 * kPage);
      const uint64_t size =
          random() % std::min<uint64_t>(100 * kPage - offset, 1 + (random() % (20 * kPage)));
      items.push_back(Item(random() % 2 ? "a" : "b", offset, size));
    }
    const uint64_t block_bytes = kPage * (1 + random() % 8);
    const auto schedule = ScheduleLoad(items, {block_bytes, random() % 10000});
    ASSERT_TRUE(schedule.ok());
    std::vector<uint64_t> next(items.size(), 0);
    uint64_t read_bytes = 0;
    for (const LoadBlock& block : schedule->blocks) {
      ASSERT_GT(block.size_bytes, 0u);
      ASSERT_EQ(block.offset_bytes / block_bytes, (block.offset_bytes + block.size_bytes - 1) / block_bytes);
      read_bytes += block.size_bytes;
      for (const LoadPiece& piece : block.pieces) {
        ASSERT_EQ(piece.offset_in_item, next[piece.item]);
        ASSERT_EQ(block.offset_bytes + piece.offset_in_block,
                  items[piece.item].offset_bytes + piece.offset_in_item);
        ASSERT_LE(piece.offset_in_block + piece.size_bytes, block.size_bytes);
        next[piece.item] += piece.size_bytes;
      }
    }
    EXPECT_EQ(read_bytes, schedule->read_bytes);
    for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(next[i], items[i].size_bytes);
  }
}

}  // namespace
}  // namespace lamina
