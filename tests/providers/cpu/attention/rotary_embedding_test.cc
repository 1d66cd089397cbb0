#include <gtest/gtest.h>

#include <vector>

#include "support/op_tester.h"

namespace lamina {
namespace {

using testing::OpTester;

// cos and sin caches of three positions, one pair: 0, 90 and 180 degrees.
const std::vector<float> kCos{1, 0, -1};
const std::vector<float> kSin{0, 1, 0};

TEST(RotaryEmbeddingTest, OffsetAndIdsOfTheMicrosoftOperator) {
  OpTester offset("RotaryEmbedding", 1, "com.microsoft");
  offset.Input<float>({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}).Input<int64_t>({1}, {1});
  offset.Input<float>({3, 1}, kCos).Input<float>({3, 1}, kSin);
  offset.Output<float>({1, 2, 4}, {-2, 1, -4, 3, -5, -6, -7, -8});
  offset.Run();
  OpTester ids("RotaryEmbedding", 1, "com.microsoft");
  ids.Input<float>({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}).Input<int64_t>({1, 2}, {2, 0});
  ids.Input<float>({3, 1}, kCos).Input<float>({3, 1}, kSin);
  ids.Output<float>({1, 2, 2, 2}, {-1, -2, 3, 4, -5, -6, 7, 8});
  ids.Run();
}

TEST(RotaryEmbeddingTest, PartialAndInterleaved) {
  OpTester partial("RotaryEmbedding", 1, "com.microsoft");
  partial.Attr("rotary_embedding_dim", 2).Attr("num_heads", 1).Attr("interleaved", 1);
  partial.Input<float>({1, 1, 4}, {1, 2, 3, 4}).Input<int64_t>({1, 1}, {1});
  partial.Input<float>({3, 1}, kCos).Input<float>({3, 1}, kSin);
  partial.Output<float>({1, 1, 4}, {-2, 1, 3, 4});
  partial.Run();
}

TEST(RotaryEmbeddingTest, OnnxOrderOfInputs) {
  OpTester ids("RotaryEmbedding", 23);
  ids.Attr("num_heads", 2)
      .Input<float>({1, 1, 4}, {1, 2, 3, 4})
      .Input<float>({3, 1}, kCos)
      .Input<float>({3, 1}, kSin);
  ids.Input<int64_t>({1, 1}, {1}).Output<float>({1, 1, 4}, {-2, 1, -4, 3});
  ids.Run();
  OpTester caches("RotaryEmbedding", 23);
  caches.Input<float>({1, 1, 2, 2}, {1, 2, 3, 4})
      .Input<float>({1, 2, 1}, {0, -1})
      .Input<float>({1, 2, 1}, {1, 0});
  caches.Output<float>({1, 1, 2, 2}, {-2, 1, -3, -4});
  caches.Run();
}

TEST(RotaryEmbeddingTest, PositionsOutsideTheCachesAreRefused) {
  OpTester test("RotaryEmbedding", 1, "com.microsoft");
  test.Input<float>({1, 3, 2}, std::vector<float>(6)).Input<int64_t>({1}, {15});
  test.Input<float>({16, 1}, std::vector<float>(16)).Input<float>({16, 1}, std::vector<float>(16));
  test.Output<float>({1, 3, 2}, std::vector<float>(6));
  test.ExpectError(StatusCode::kInvalidArgument,
                   "position_ids base value 15 with sequence_length 3 exceeds cos/sin cache range [0, 16)");
  OpTester negative("RotaryEmbedding", 23);
  negative.Input<float>({1, 1, 1, 2}, {1, 2}).Input<float>({3, 1}, kCos).Input<float>({3, 1}, kSin);
  negative.Input<int64_t>({1, 1}, {-1}).Output<float>({1, 1, 1, 2}, {1, 2});
  negative.ExpectError(StatusCode::kInvalidArgument,
                       "position_ids value -1 exceeds cos/sin cache range [0, 3)");
}

}  // namespace
}  // namespace lamina
