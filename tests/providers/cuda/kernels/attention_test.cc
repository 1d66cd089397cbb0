#include <gtest/gtest.h>

#include "cuda_op_test.h"
#include "support/op_tester.h"

namespace lamina::testing {
namespace {

TEST(CudaAttentionTest, RotaryEmbedding) {
  LAMINA_CUDA_OR_SKIP();
  for (const DataType type : kFloatTypesOnCuda) {
    for (const int interleaved : {0, 1}) {
      CudaOpTest("RotaryEmbedding", 1, "com.microsoft")
          .Attr("interleaved", interleaved)
          .Random(type, {2, 3, 64})
          .Random(DataType::kInt64, {2, 3}, 0, 20)
          .Random(type, {20, 8})
          .Random(type, {20, 8})
          .Output(type)
          .Run();
      CudaOpTest("RotaryEmbedding", 1, "com.microsoft")
          .Attr("interleaved", interleaved)
          .Random(type, {2, 4, 3, 16})
          .Random(DataType::kInt64, {1}, 5, 6)
          .Random(type, {20, 8})
          .Random(type, {20, 8})
          .Output(type)
          .Run();
      CudaOpTest("RotaryEmbedding", 23)
          .Attr("interleaved", interleaved)
          .Attr("rotary_embedding_dim", 8)
          .Attr("num_heads", 4)
          .Random(type, {2, 3, 64})
          .Random(type, {2, 3, 4})
          .Random(type, {2, 3, 4})
          .Output(type)
          .Run();
    }
  }
}

struct GqaCase {
  int64_t batch = 1;
  int64_t sequence = 1;
  int64_t past = 0;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_size = 32;
  bool packed = false;
  bool rotary = false;
  bool bias = false;
  bool sinks = false;
  bool norms = false;
  int window = -1;
  float softcap = 0;
  int smooth = 0;
};

void RunGqa(DataType type, const GqaCase& c) {
  SCOPED_TRACE(::testing::Message() << "batch " << c.batch << ", sequence " << c.sequence << ", past "
                                    << c.past << ", heads " << c.heads << "/" << c.kv_heads << " of "
                                    << c.head_size);
  const int64_t total = c.past + c.sequence;
  const int64_t kv_hidden = c.kv_heads * c.head_size;
  const int64_t hidden = c.heads * c.head_size;
  CudaOpTest test("GroupQueryAttention", 1, "com.microsoft");
  test.WithOptions({false, true});
  test.Attr("num_heads", static_cast<int>(c.heads)).Attr("kv_num_heads", static_cast<int>(c.kv_heads));
  test.Attr("local_window_size", c.window).Attr("softcap", c.softcap).Attr("smooth_softmax", c.smooth);
  test.Attr("do_rotary", c.rotary ? 1 : 0);
  if (c.packed) {
    test.Random(type, {c.batch, c.sequence, hidden + 2 * kv_hidden}, -2, 2).Absent().Absent();
  } else {
    test.Random(type, {c.batch, c.sequence, hidden}, -2, 2);
    test.Random(type, {c.batch, c.sequence, kv_hidden}, -2, 2);
    test.Random(type, {c.batch, c.sequence, kv_hidden}, -2, 2);
  }
  const Shape past{c.batch, c.kv_heads, c.past, c.head_size};
  test.Random(type, past, -2, 2).Random(type, past, -2, 2);
  test.Input(OpTester::MakeTensor(
      Shape{c.batch}, std::vector<int32_t>(static_cast<size_t>(c.batch), static_cast<int32_t>(total - 1))));
  test.Input(OpTester::MakeTensor(Shape{1}, std::vector<int32_t>{static_cast<int32_t>(total)}));
  if (c.rotary) {
    test.Random(type, {total + 3, c.head_size / 2}).Random(type, {total + 3, c.head_size / 2});
  } else {
    test.Absent().Absent();
  }
  test.Absent();
  if (c.bias) {
    test.Random(type, {1, c.heads, c.sequence, total});
  } else {
    test.Absent();
  }
  if (c.sinks) {
    test.Random(type, {c.heads}, -2, 2);
  } else {
    test.Absent();
  }
  if (c.norms) test.Absent().Absent().Random(type, {c.head_size}).Random(type, {c.head_size});
  test.Output(type).Output(type).Output(type).Run();
}

TEST(CudaAttentionTest, GroupQueryAttention) {
  LAMINA_CUDA_OR_SKIP();
  GqaCase prompt;
  prompt.sequence = 5;
  GqaCase decode;
  decode.past = 70;
  for (const DataType type : kFloatTypesOnCuda) {
    for (GqaCase c : {prompt, decode}) {
      RunGqa(type, c);
      for (const auto& [heads, kv_heads] : {std::pair{4, 4}, {5, 1}, {8, 1}, {12, 4}}) {
        GqaCase grouped = c;
        grouped.heads = heads;
        grouped.kv_heads = kv_heads;
        RunGqa(type, grouped);
      }
      for (const int64_t head_size : {16, 64, 80, 128, 256}) {
        GqaCase sized = c;
        sized.head_size = head_size;
        sized.rotary = true;
        RunGqa(type, sized);
      }
      GqaCase all = c;
      all.packed = all.rotary = all.bias = all.sinks = all.norms = true;
      all.window = 4;
      all.softcap = 3;
      RunGqa(type, all);
      GqaCase smooth = c;
      smooth.smooth = 1;
      smooth.batch = 2;
      RunGqa(type, smooth);
    }
    GqaCase chunk;
    chunk.sequence = 9;
    chunk.past = 130;
    chunk.rotary = true;
    RunGqa(type, chunk);
  }
}

// Enough queries for the matrix units.
TEST(CudaAttentionTest, GroupQueryAttentionOfLongPrompts) {
  LAMINA_CUDA_OR_SKIP();
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    GqaCase c;
    c.sequence = 70;
    RunGqa(type, c);
    for (const int64_t head_size : {16, 64, 80, 128}) {
      GqaCase sized = c;
      sized.head_size = head_size;
      sized.past = 67;
      sized.rotary = true;
      RunGqa(type, sized);
    }
    GqaCase all = c;
    all.packed = all.rotary = all.bias = all.sinks = all.norms = true;
    all.heads = 6;
    all.window = 20;
    all.softcap = 3;
    RunGqa(type, all);
    GqaCase batch = c;
    batch.batch = 2;
    batch.smooth = 1;
    RunGqa(type, batch);
  }
}

// Prompts of different lengths in one batch end with padding.
TEST(CudaAttentionTest, RaggedPrompts) {
  LAMINA_CUDA_OR_SKIP();
  CudaOpTest test("GroupQueryAttention", 1, "com.microsoft");
  test.WithOptions({false, true}).Attr("num_heads", 4).Attr("kv_num_heads", 2);
  test.Random(DataType::kFloat, {3, 6, 64}).Random(DataType::kFloat, {3, 6, 32});
  test.Random(DataType::kFloat, {3, 6, 32}).Absent().Absent();
  test.Input(OpTester::MakeTensor(Shape{3}, std::vector<int32_t>{5, 0, 3}));
  test.Input(OpTester::MakeTensor(Shape{1}, std::vector<int32_t>{6}));
  test.Output(DataType::kFloat).Output(DataType::kFloat).Output(DataType::kFloat).Run();
}

}  // namespace
}  // namespace lamina::testing
