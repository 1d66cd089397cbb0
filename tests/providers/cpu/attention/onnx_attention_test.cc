// Attention-23 to 25 and MultiHeadAttention as operators. The core has its own tests; here is what the
// operators make of their inputs.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "providers/cpu/attention/kv_address.h"
#include "support/attention_reference.h"
#include "support/op_tester.h"
#include "support/random_data.h"

namespace lamina {
namespace {

using testing::AttentionReference;
using testing::OpTester;
using testing::RandomNumbers;

// Tokens of one tensor, by (batch, token, head, channel).
struct Tokens {
  int64_t batch, tokens, heads, size;
  std::vector<float> values;

  Tokens(int64_t batch_arg, int64_t tokens_arg, int64_t heads_arg, int64_t size_arg, uint32_t seed)
      : batch(batch_arg),
        tokens(tokens_arg),
        heads(heads_arg),
        size(size_arg),
        values(RandomNumbers(batch * tokens * heads * size, seed, -2, 2)) {}

  float At(int64_t b, int64_t t, int64_t h, int64_t d) const {
    return values[static_cast<size_t>(((b * tokens + t) * heads + h) * size + d)];
  }
  std::vector<float> ByHead() const {
    std::vector<float> result;
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t t = 0; t < tokens; ++t) {
          for (int64_t d = 0; d < size; ++d) result.push_back(At(b, t, h, d));
        }
      }
    }
    return result;
  }
  Tokens Slice(int64_t first, int64_t count) const {
    Tokens part = *this;
    part.tokens = count;
    part.values.clear();
    for (int64_t b = 0; b < batch; ++b) {
      const auto begin = values.begin() + (b * tokens + first) * heads * size;
      part.values.insert(part.values.end(), begin, begin + count * heads * size);
    }
    return part;
  }
  Shape shape3() const { return {batch, tokens, heads * size}; }
  Shape shape4() const { return {batch, heads, tokens, size}; }
};

struct Expectation {
  int64_t offset = 0;
  std::function<void(AttentionReference&, int64_t b)> change = [](AttentionReference&, int64_t) {};
  std::function<int64_t(int64_t b)> kv_tokens;   // default: all
  std::function<int64_t(int64_t b)> row_offset;  // default: offset
};

// Outputs by token: [batch, tokens, heads * value size].
Tokens Expected(const Tokens& q, const Tokens& k, const Tokens& v, const Expectation& expectation) {
  Tokens y(q.batch, q.tokens, q.heads, v.size, 0);
  y.values.clear();
  for (int64_t b = 0; b < q.batch; ++b) {
    AttentionReference reference;
    reference.heads = q.heads;
    reference.kv_heads = k.heads;
    reference.head_size = q.size;
    reference.value_size = v.size;
    reference.scale = 1 / std::sqrt(static_cast<double>(q.size));
    reference.query = [&, b](int64_t i, int64_t h, int64_t d) { return q.At(b, i, h, d); };
    reference.key = [&, b](int64_t j, int64_t h, int64_t d) { return k.At(b, j, h, d); };
    reference.value = [&, b](int64_t j, int64_t h, int64_t d) { return v.At(b, j, h, d); };
    expectation.change(reference, b);
    const int64_t kv_tokens = expectation.kv_tokens ? expectation.kv_tokens(b) : k.tokens;
    const int64_t offset = expectation.row_offset ? expectation.row_offset(b) : expectation.offset;
    for (int64_t i = 0; i < q.tokens; ++i) {
      for (int64_t h = 0; h < q.heads; ++h) {
        for (const double value : reference.Row(i, offset + i, h, kv_tokens))
          y.values.push_back(static_cast<float>(value));
      }
    }
  }
  return y;
}

TEST(OnnxAttentionTest, ThreeAndFourDimensions) {
  const Tokens q(2, 20, 4, 8, 1), k(2, 9, 2, 8, 2), v(2, 9, 2, 5, 3);
  const Tokens y = Expected(q, k, v, {});
  OpTester four("Attention", 23);
  four.Input<float>(q.shape4(), q.ByHead())
      .Input<float>(k.shape4(), k.ByHead())
      .Input<float>(v.shape4(), v.ByHead());
  four.Output<float>(y.shape4(), y.ByHead());
  four.Run();
  OpTester three("Attention", 23);
  three.Attr("q_num_heads", 4).Attr("kv_num_heads", 2);
  three.Input<float>(q.shape3(), q.values)
      .Input<float>(k.shape3(), k.values)
      .Input<float>(v.shape3(), v.values);
  three.Output<float>(y.shape3(), y.values);
  three.Run();
}

TEST(OnnxAttentionTest, PastIsConcatenatedAndCausalityAlignedAtItsEnd) {
  const Tokens q(2, 3, 2, 8, 1), k(2, 10, 2, 8, 2), v(2, 10, 2, 8, 3);
  Expectation causal{7, [](AttentionReference& reference, int64_t) { reference.window_right = 0; }};
  const Tokens y = Expected(q, k, v, causal);
  OpTester test("Attention", 23);
  test.Attr("is_causal", 1).Attr("q_num_heads", 2).Attr("kv_num_heads", 2);
  test.Input<float>(q.shape3(), q.values);
  for (const Tokens* tokens : {&k, &v})
    test.Input<float>(tokens->Slice(7, 3).shape3(), tokens->Slice(7, 3).values);
  test.AbsentInput();
  for (const Tokens* tokens : {&k, &v})
    test.Input<float>(tokens->Slice(0, 7).shape4(), tokens->Slice(0, 7).ByHead());
  test.Output<float>(y.shape3(), y.values)
      .Output<float>(k.shape4(), k.ByHead())
      .Output<float>(v.shape4(), v.ByHead());
  test.Run();

  // The same with a bound cache.
  std::vector<float> memory[2] = {std::vector<float>(2 * 2 * 12 * 8), std::vector<float>(2 * 2 * 12 * 8)};
  KvView view =
      ContiguousKv(PlaneOfHeads(memory[0].data(), DataType::kFloat, 2, 12, 8),
                   PlaneOfHeads(memory[1].data(), DataType::kFloat, 2, 12, 8), DataType::kFloat, 2, 12);
  const int32_t lengths[2] = {7, 7};
  view.past_lengths = lengths;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t t = 0; t < 7; ++t) {
        for (int64_t d = 0; d < 8; ++d) {
          reinterpret_cast<float*>(KvTokenAddress(view, view.key, b, h, t))[d] = k.At(b, t, h, d);
          reinterpret_cast<float*>(KvTokenAddress(view, view.value, b, h, t))[d] = v.At(b, t, h, d);
        }
      }
    }
  }
  OpTester bound("Attention", 23);
  bound.Attr("is_causal", 1).Attr("q_num_heads", 2).Attr("kv_num_heads", 2);
  bound.Input<float>(q.shape3(), q.values);
  for (const Tokens* tokens : {&k, &v})
    bound.Input<float>(tokens->Slice(7, 3).shape3(), tokens->Slice(7, 3).values);
  bound.Output<float>(y.shape3(), y.values).WithKvView(&view);
  bound.Run();
  EXPECT_EQ(reinterpret_cast<float*>(KvTokenAddress(view, view.key, 1, 1, 9))[7], k.At(1, 9, 1, 7));
}

TEST(OnnxAttentionTest, MasksBroadcastAndHide) {
  const Tokens q(2, 3, 2, 8, 1), k(2, 4, 2, 8, 2), v(2, 4, 2, 8, 3);
  const std::vector<float> mask = RandomNumbers(2 * 4, 4);
  Expectation added{0, [&](AttentionReference& reference, int64_t b) {
                      reference.bias = [&mask, b](int64_t, int64_t, int64_t j) {
                        return mask[static_cast<size_t>(b * 4 + j)];
                      };
                    }};
  const Tokens y = Expected(q, k, v, added);
  OpTester floats("Attention", 23);
  floats.Input<float>(q.shape4(), q.ByHead())
      .Input<float>(k.shape4(), k.ByHead())
      .Input<float>(v.shape4(), v.ByHead());
  floats.Input<float>({2, 1, 1, 4}, mask).Output<float>(y.shape4(), y.ByHead());
  floats.Run();

  // True attends; the second query sees nothing and gives zeros.
  const bool seen[3][4] = {
      {true, false, true, true}, {false, false, false, false}, {true, true, true, false}};
  Expectation hidden{0, [&](AttentionReference& reference, int64_t) {
                       reference.bias = [&seen](int64_t, int64_t i, int64_t j) {
                         return seen[i][j] ? 0.0 : -INFINITY;
                       };
                     }};
  const Tokens z = Expected(q, k, v, hidden);
  Tensor bools = *Tensor::Allocate(DataType::kBool, {3, 4});
  for (int i = 0; i < 12; ++i) bools.mutable_data<bool>()[i] = seen[i / 4][i % 4];
  OpTester masked("Attention", 23);
  masked.Input<float>(q.shape4(), q.ByHead())
      .Input<float>(k.shape4(), k.ByHead())
      .Input<float>(v.shape4(), v.ByHead());
  masked.InputValue(bools).Output<float>(z.shape4(), z.ByHead());
  masked.Run();

  // A mask of fewer keys hides the others.
  Expectation shorter{0, [](AttentionReference&, int64_t) {}, [](int64_t) { return int64_t{3}; }};
  const Tokens w = Expected(q, k, v, shorter);
  OpTester few("Attention", 24);
  few.Input<float>(q.shape4(), q.ByHead())
      .Input<float>(k.shape4(), k.ByHead())
      .Input<float>(v.shape4(), v.ByHead());
  few.Input<float>({3, 3}, std::vector<float>(9, 0.0f)).Output<float>(w.shape4(), w.ByHead());
  few.Run();
}

TEST(OnnxAttentionTest, ExternalCacheWindowsSoftcapAndScores) {
  const Tokens q(2, 2, 2, 8, 1), k(2, 9, 2, 8, 2), v(2, 9, 2, 8, 3);
  const int64_t lengths[2] = {9, 4};
  Expectation external{0,
                       [](AttentionReference& reference, int64_t) {
                         reference.window_right = 0;
                         reference.window_left = 2;
                         reference.softcap = 1.5;
                       },
                       [&](int64_t b) { return lengths[b]; }, [&](int64_t b) { return lengths[b] - 2; }};
  const Tokens y = Expected(q, k, v, external);
  OpTester test("Attention", 25);
  test.Attr("is_causal", 1).Attr("left_window_size", 2).Attr("softcap", 1.5f);
  test.Input<float>(q.shape4(), q.ByHead())
      .Input<float>(k.shape4(), k.ByHead())
      .Input<float>(v.shape4(), v.ByHead());
  test.AbsentInput().AbsentInput().AbsentInput().Input<int64_t>({2}, {9, 4});
  test.Output<float>(y.shape4(), y.ByHead());
  test.Run();

  for (const int mode : {0, 1, 2, 3}) {
    const Tokens one(1, 1, 1, 8, 5), keys(1, 3, 1, 8, 6);
    std::vector<float> scores;
    double sum = 0;
    for (int64_t j = 0; j < 3; ++j) {
      double score = 0;
      for (int64_t d = 0; d < 8; ++d) score += one.At(0, 0, 0, d) * keys.At(0, j, 0, d) / std::sqrt(8.0);
      if (mode >= 1) score = 0.5 * std::tanh(score / 0.5);
      if (mode >= 2) score += j == 1 ? 1.0 : 0.0;
      if (mode == 3) score = std::exp(score);
      sum += score;
      scores.push_back(static_cast<float>(score));
    }
    if (mode == 3) {
      for (float& score : scores) score = static_cast<float>(score / sum);
    }
    OpTester output("Attention", 23);
    output.Attr("qk_matmul_output_mode", mode).Attr("softcap", 0.5f);
    output.Input<float>(one.shape4(), one.ByHead())
        .Input<float>(keys.shape4(), keys.ByHead())
        .Input<float>(keys.shape4(), keys.ByHead());
    output.Input<float>({1, 3}, {0, 1, 0});
    output.UncheckedOutput(ValueType::Tensor(DataType::kFloat)).AbsentOutput().AbsentOutput();
    output.Output<float>({1, 1, 1, 3}, scores);
    output.Run();
  }
}

TEST(OnnxAttentionTest, Errors) {
  OpTester heads("Attention", 23);
  for (int i = 0; i < 3; ++i) heads.Input<float>({1, 2, 8}, std::vector<float>(16));
  heads.Output<float>({1, 2, 8}, std::vector<float>(16));
  heads.ExpectError(StatusCode::kInvalidArgument, "needs the number of heads as an attribute");
  OpTester mask("Attention", 23);
  for (int i = 0; i < 3; ++i) mask.Input<float>({1, 1, 2, 8}, std::vector<float>(16));
  mask.Input<float>({3, 2}, std::vector<float>(6)).Output<float>({1, 1, 2, 8}, std::vector<float>(16));
  mask.ExpectError(StatusCode::kInvalidArgument, "attn_mask of shape [3,2] does not broadcast to [1,1,2,2]");
}

// ---- MultiHeadAttention ----

OpTester Mha(int heads) {
  OpTester test("MultiHeadAttention", 1, "com.microsoft");
  test.Attr("num_heads", heads);
  return test;
}

TEST(MultiHeadAttentionTest, SeparateAndPackedInputs) {
  const Tokens q(2, 6, 2, 8, 1), k(2, 6, 2, 8, 2), v(2, 6, 2, 8, 3);
  const Tokens y = Expected(q, k, v, {});
  OpTester separate = Mha(2);
  for (const Tokens* tokens : {&q, &k, &v}) separate.Input<float>(tokens->shape3(), tokens->values);
  separate.Output<float>(y.shape3(), y.values);
  separate.Run();
  OpTester heads = Mha(2);
  heads.Input<float>(q.shape3(), q.values)
      .Input<float>(k.shape4(), k.ByHead())
      .Input<float>(v.shape4(), v.ByHead());
  heads.Output<float>(y.shape3(), y.values);
  heads.Run();
  for (const bool with_query : {false, true}) {
    std::vector<float> packed;
    for (int64_t t = 0; t < 12; ++t) {
      for (int64_t h = 0; h < 2; ++h) {
        for (const Tokens* tokens : {&q, &k, &v}) {
          if (!with_query && tokens == &q) continue;
          for (int64_t d = 0; d < 8; ++d) packed.push_back(tokens->At(t / 6, t % 6, h, d));
        }
      }
    }
    OpTester test = Mha(2);
    if (with_query) {
      test.Input<float>({2, 6, 2, 3, 8}, packed);
    } else {
      test.Input<float>(q.shape3(), q.values).Input<float>({2, 6, 2, 2, 8}, packed);
    }
    test.Output<float>(y.shape3(), y.values);
    test.Run();
  }
}

TEST(MultiHeadAttentionTest, BiasPastMasksAndCausality) {
  const Tokens q(2, 3, 2, 8, 1), k(2, 8, 2, 8, 2), v(2, 8, 2, 4, 3);
  const std::vector<float> bias = RandomNumbers(16 + 16 + 8, 4);
  const std::vector<float> attention_bias = RandomNumbers(1 * 1 * 3 * 8, 5);
  Tokens biased_q = q, biased_k = k, biased_v = v;
  for (size_t i = 0; i < biased_q.values.size(); ++i) biased_q.values[i] += bias[i % 16];
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 5; t < 8; ++t) {  // the run's own tokens
      for (int64_t c = 0; c < 16; ++c)
        biased_k.values[static_cast<size_t>((b * 8 + t) * 16 + c)] += bias[static_cast<size_t>(16 + c)];
      for (int64_t c = 0; c < 8; ++c)
        biased_v.values[static_cast<size_t>((b * 8 + t) * 8 + c)] += bias[static_cast<size_t>(32 + c)];
    }
  }
  Expectation expectation{5, [&](AttentionReference& reference, int64_t b) {
                            reference.window_right = 0;
                            reference.bias = [&attention_bias, b](int64_t, int64_t i, int64_t j) {
                              return attention_bias[static_cast<size_t>(i * 8 + j)] +
                                     (b == 1 && j < 2 ? -10000.0 : 0.0);
                            };
                          }};
  const Tokens y = Expected(biased_q, biased_k, biased_v, expectation);
  std::vector<int32_t> mask(16, 1);
  mask[8] = mask[9] = 0;
  OpTester test = Mha(2);
  test.Attr("unidirectional", 1).Input<float>(q.shape3(), q.values);
  for (const Tokens* tokens : {&k, &v})
    test.Input<float>(tokens->Slice(5, 3).shape3(), tokens->Slice(5, 3).values);
  test.Input<float>({40}, bias).Input<int32_t>({2, 8}, mask).Input<float>({1, 1, 3, 8}, attention_bias);
  for (const Tokens* tokens : {&k, &v})
    test.Input<float>(tokens->Slice(0, 5).shape4(), tokens->Slice(0, 5).ByHead());
  test.Output<float>(y.shape3(), y.values);
  test.Output<float>(k.shape4(), biased_k.ByHead()).Output<float>(v.shape4(), biased_v.ByHead());
  test.Run();
}

TEST(MultiHeadAttentionTest, BiasWithoutPresentAndLengthMask) {
  const Tokens q(2, 4, 2, 8, 1), k(2, 4, 2, 8, 2), v(2, 4, 2, 8, 3);
  const std::vector<float> bias = RandomNumbers(48, 4);
  Tokens biased[3] = {q, k, v};
  for (size_t part = 0; part < 3; ++part) {
    for (size_t i = 0; i < biased[part].values.size(); ++i)
      biased[part].values[i] += bias[part * 16 + i % 16];
  }
  const int64_t lengths[2] = {4, 2};
  Expectation expectation{0, [](AttentionReference&, int64_t) {}, [&](int64_t b) { return lengths[b]; }};
  const Tokens y = Expected(biased[0], biased[1], biased[2], expectation);
  OpTester test = Mha(2);
  for (const Tokens* tokens : {&q, &k, &v}) test.Input<float>(tokens->shape3(), tokens->values);
  test.Input<float>({48}, bias).Input<int32_t>({2}, {4, 2}).Output<float>(y.shape3(), y.values);
  test.Run();
}

}  // namespace
}  // namespace lamina
