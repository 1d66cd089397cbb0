#include "runtime/weight_traffic.h"

#include "gtest/gtest.h"

namespace lamina {
namespace {

// Keeps the names of its nodes.
class ShareReadTest : public ::testing::Test {
 protected:
  Node MakeNode(const char* op_type, const char* attribute = nullptr, int64_t value = 0) {
    Node node;
    node.op_type = names_.Intern(op_type);
    if (attribute) {
      Attribute& added = node.attributes.emplace_back();
      added.name = names_.Intern(attribute);
      added.value = value;
    }
    return node;
  }

 private:
  NamePool names_;
};

TEST_F(ShareReadTest, ALookedUpTableIsReadByRows) {
  const Node gather = MakeNode("Gather");
  EXPECT_DOUBLE_EQ(ShareRead(gather, 0, Shape{1000, 64}, 1), 0.001);
  EXPECT_DOUBLE_EQ(ShareRead(gather, 0, Shape{1000, 64}, 250), 0.25);
  EXPECT_DOUBLE_EQ(ShareRead(gather, 0, Shape{10, 64}, 250), 1);
  EXPECT_DOUBLE_EQ(ShareRead(gather, 1, Shape{250}, 250), 1);
  EXPECT_DOUBLE_EQ(ShareRead(MakeNode("Gather", "axis", -1), 0, Shape{1000, 64}, 1), 1.0 / 64);
  // An axis that no tensor has fails in the kernel.
  EXPECT_DOUBLE_EQ(ShareRead(MakeNode("Gather", "axis", 7), 0, Shape{1000, 64}, 1), 1);
  EXPECT_DOUBLE_EQ(ShareRead(MakeNode("GatherBlockQuantized", "gather_axis", 0), 2, Shape{1000, 2}, 1),
                   0.001);
}

TEST_F(ShareReadTest, AMixtureReadsItsChosenExperts) {
  const Node mixture = MakeNode("QMoE", "k", 4);
  EXPECT_DOUBLE_EQ(ShareRead(mixture, 0, Shape{1, 64}, 1), 1);
  EXPECT_DOUBLE_EQ(ShareRead(mixture, 2, Shape{32, 64, 64}, 1), 0.125);
  EXPECT_DOUBLE_EQ(ShareRead(mixture, 2, Shape{32, 64, 64}, 2), 0.25);
  EXPECT_DOUBLE_EQ(ShareRead(mixture, 2, Shape{32, 64, 64}, 100), 1);
}

TEST_F(ShareReadTest, EverythingElseIsReadWhole) {
  EXPECT_DOUBLE_EQ(ShareRead(MakeNode("MatMul"), 1, Shape{64, 64}, 1), 1);
  EXPECT_DOUBLE_EQ(ShareRead(MakeNode("Gather"), 0, Shape{}, 1), 1);
}

}  // namespace
}  // namespace lamina
