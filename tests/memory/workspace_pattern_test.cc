#include "memory/workspace_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace lamina {
namespace {

using ::testing::HasSubstr;

// The example of the seed document: node A of step 0 has two slots that fill 4096 bytes, node B of step 1
// one, node C of step 2 two that fill 8192. All begin at 0 and the peak is the largest step, not the sum.
TEST(WorkspacePatternTest, StepsShareTheSameBytes) {
  const std::array slots = {WorkspaceSlot{10, 0, 3072, 0}, WorkspaceSlot{10, 1, 1024, 0},
                            WorkspaceSlot{11, 0, 2048, 1}, WorkspaceSlot{12, 0, 4096, 2},
                            WorkspaceSlot{12, 1, 4096, 2}};
  const Result<WorkspacePattern> pattern = WorkspacePattern::Create(slots);
  ASSERT_TRUE(pattern.ok()) << pattern.status().ToString();
  EXPECT_EQ(pattern->peak_bytes(), 8192);
  EXPECT_EQ(pattern->GetOffset(10, 0)->offset_bytes, 0);
  EXPECT_EQ(pattern->GetOffset(10, 1)->offset_bytes, 3072);
  EXPECT_EQ(pattern->GetOffset(10, 1)->size_bytes, 1024);
  EXPECT_EQ(pattern->GetOffset(11, 0)->offset_bytes, 0);
  EXPECT_EQ(pattern->GetOffset(12, 0)->offset_bytes, 0);
  EXPECT_EQ(pattern->GetOffset(12, 1)->offset_bytes, 4096);
}

TEST(WorkspacePatternTest, SlotsAreAlignedAndKeepTheirDeclaredSize) {
  const std::array slots = {WorkspaceSlot{0, 3, 1, 5}, WorkspaceSlot{0, 1, 257, 5},
                            WorkspaceSlot{1, 0, 0, 6}};
  const Result<WorkspacePattern> pattern = WorkspacePattern::Create(slots);
  ASSERT_TRUE(pattern.ok());
  EXPECT_EQ(pattern->peak_bytes(), 256 + 512);
  EXPECT_EQ(pattern->GetOffset(0, 1)->offset_bytes, 256);
  EXPECT_EQ(pattern->GetOffset(0, 1)->size_bytes, 257);
  EXPECT_TRUE(pattern->GetOffset(1, 0).has_value());
  EXPECT_FALSE(pattern->GetOffset(0, 0).has_value());
  EXPECT_FALSE(pattern->GetOffset(1, 1).has_value());
  EXPECT_FALSE(pattern->GetOffset(2, 0).has_value());
}

TEST(WorkspacePatternTest, NodesOfOneStepStandSideBySide) {
  const std::array slots = {WorkspaceSlot{0, 0, 256, 4}, WorkspaceSlot{1, 0, 512, 4},
                            WorkspaceSlot{2, 0, 512, 9}};
  const Result<WorkspacePattern> pattern = WorkspacePattern::Create(slots);
  ASSERT_TRUE(pattern.ok());
  EXPECT_EQ(pattern->peak_bytes(), 768);
  EXPECT_EQ(pattern->GetOffset(1, 0)->offset_bytes, 256);
}

TEST(WorkspacePatternTest, OffsetsMayComeFromACommonPlan) {
  const std::array slots = {WorkspaceSlot{4, 0, 100, 0}, WorkspaceSlot{2, 1, 300, 1}};
  const std::array<int64_t, 2> offsets = {1024, 512};
  const Result<WorkspacePattern> pattern = WorkspacePattern::FromOffsets(slots, offsets);
  ASSERT_TRUE(pattern.ok());
  EXPECT_EQ(pattern->GetOffset(4, 0)->offset_bytes, 1024);
  EXPECT_EQ(pattern->GetOffset(2, 1)->offset_bytes, 512);
  EXPECT_EQ(pattern->peak_bytes(), 1280);
  const std::array<int64_t, 2> unaligned = {1024, 100};
  EXPECT_THAT(WorkspacePattern::FromOffsets(slots, unaligned).status().message(),
              HasSubstr("node 2 slot 1: offset 100"));
  EXPECT_FALSE(WorkspacePattern::FromOffsets(slots, std::array<int64_t, 1>{0}).ok());
}

TEST(WorkspacePatternTest, BadDeclarationsAreNamed) {
  const std::array twice = {WorkspaceSlot{1, 2, 8, 0}, WorkspaceSlot{1, 2, 8, 0}};
  EXPECT_THAT(WorkspacePattern::Create(twice).status().message(), HasSubstr("node 1 declares slot 2 twice"));
  const std::array negative = {WorkspaceSlot{1, 2, -8, 0}};
  EXPECT_THAT(WorkspacePattern::Create(negative).status().message(), HasSubstr("node 1 slot 2: size -8"));
  const std::array huge = {WorkspaceSlot{1, 0, int64_t{1} << 60, 3},
                           WorkspaceSlot{1, 1, int64_t{1} << 60, 3}};
  EXPECT_THAT(WorkspacePattern::Create(huge).status().message(),
              HasSubstr("the slots of step 3 need more than"));
}

}  // namespace
}  // namespace lamina
