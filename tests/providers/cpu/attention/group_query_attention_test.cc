// GroupQueryAttention as an operator, against its specification computed in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
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

struct Case {
  std::string name;
  int64_t batch = 1, sequence = 5, past_capacity = 0;
  std::vector<int64_t> totals;  // of each row, past included
  int64_t heads = 4, kv_heads = 2, head_size = 16;
  bool packed = false, rotary = false, interleaved = false, position_ids = false, bias = false, sinks = false,
       smooth = false, qk_norm = false, causal = true, sliding_cache = false;
  int64_t rotary_pairs = 8;
  float softcap = 0, scale = 0;
  int64_t window = -1;
  int qk_output = 0;
  DataType type = DataType::kFloat;

  int64_t total() const { return *std::max_element(totals.begin(), totals.end()); }
  bool first_prompt() const { return sequence == total(); }
  int64_t past(int64_t b) const { return first_prompt() ? 0 : totals[static_cast<size_t>(b)] - sequence; }
};

constexpr int64_t kPositions = 64;

class Gqa {
 public:
  explicit Gqa(const Case& test) : c(test) {
    const int64_t tokens = c.batch * c.sequence;
    q_ = Rounded(RandomNumbers<double>(tokens * c.heads * c.head_size, 1, -2, 2));
    k_ = Rounded(RandomNumbers<double>(tokens * c.kv_heads * c.head_size, 2, -2, 2));
    v_ = Rounded(RandomNumbers<double>(tokens * c.kv_heads * c.head_size, 3, -2, 2));
    past_k_ = Rounded(RandomNumbers<double>(c.batch * c.kv_heads * c.past_capacity * c.head_size, 4, -2, 2));
    past_v_ = Rounded(RandomNumbers<double>(c.batch * c.kv_heads * c.past_capacity * c.head_size, 5, -2, 2));
    for (int64_t i = 0; i < kPositions * c.rotary_pairs; ++i) {
      const double angle = static_cast<double>(i / c.rotary_pairs) *
                           std::pow(100.0, -static_cast<double>(i % c.rotary_pairs) / 8);
      cos_.push_back(std::cos(angle));
      sin_.push_back(std::sin(angle));
    }
    cos_ = Rounded(cos_);
    sin_ = Rounded(sin_);
    for (int64_t i = 0; i < tokens; ++i) ids_.push_back((i * 7 + 3) % kPositions);
    bias_ = Rounded(RandomNumbers<double>(c.heads * c.sequence * c.total(), 6, -2, 2));
    sinks_ = Rounded(RandomNumbers<double>(c.heads, 7, -1, 3));
    q_norm_ = Rounded(RandomNumbers<double>(c.head_size, 8, 0.5, 1.5));
    k_norm_ = Rounded(RandomNumbers<double>(c.head_size, 9, 0.5, 1.5));
    BuildKeys();
  }

  OpTester Inputs(bool with_past) const {
    OpTester test("GroupQueryAttention", 1, "com.microsoft");
    test.Attr("num_heads", static_cast<int>(c.heads)).Attr("kv_num_heads", static_cast<int>(c.kv_heads));
    if (c.rotary) test.Attr("do_rotary", 1);
    if (c.interleaved) test.Attr("rotary_interleaved", 1);
    if (c.softcap > 0) test.Attr("softcap", c.softcap);
    if (c.scale > 0) test.Attr("scale", c.scale);
    if (c.window > 0) test.Attr("local_window_size", static_cast<int>(c.window));
    if (c.smooth) test.Attr("smooth_softmax", 1);
    if (!c.causal) test.Attr("causal", 0);
    if (c.qk_output) test.Attr("qk_output", c.qk_output);
    if (c.sliding_cache) test.Attr("sliding_window_cache", 1);
    const int64_t q_hidden = c.heads * c.head_size, kv_hidden = c.kv_heads * c.head_size;
    if (c.packed) {
      std::vector<double> packed;
      for (int64_t t = 0; t < c.batch * c.sequence; ++t) {
        packed.insert(packed.end(), q_.begin() + t * q_hidden, q_.begin() + (t + 1) * q_hidden);
        packed.insert(packed.end(), k_.begin() + t * kv_hidden, k_.begin() + (t + 1) * kv_hidden);
        packed.insert(packed.end(), v_.begin() + t * kv_hidden, v_.begin() + (t + 1) * kv_hidden);
      }
      test.FloatInput(c.type, {c.batch, c.sequence, q_hidden + 2 * kv_hidden}, packed)
          .AbsentInput()
          .AbsentInput();
    } else {
      test.FloatInput(c.type, {c.batch, c.sequence, q_hidden}, q_);
      test.FloatInput(c.type, {c.batch, c.sequence, kv_hidden}, k_);
      test.FloatInput(c.type, {c.batch, c.sequence, kv_hidden}, v_);
    }
    if (with_past && c.past_capacity > 0) {
      const Shape shape{c.batch, c.kv_heads, c.past_capacity, c.head_size};
      test.FloatInput(c.type, shape, past_k_).FloatInput(c.type, shape, past_v_);
    } else {
      test.AbsentInput().AbsentInput();
    }
    std::vector<int32_t> seqlens;
    for (const int64_t total : c.totals) seqlens.push_back(static_cast<int32_t>(total - 1));
    test.Input<int32_t>({c.batch}, seqlens).Input<int32_t>({1}, {static_cast<int32_t>(c.total())});
    if (c.rotary) {
      test.FloatInput(c.type, {kPositions, c.rotary_pairs}, cos_)
          .FloatInput(c.type, {kPositions, c.rotary_pairs}, sin_);
    } else {
      test.AbsentInput().AbsentInput();
    }
    c.position_ids ? test.Input<int64_t>({c.batch, c.sequence}, ids_) : test.AbsentInput();
    c.bias ? test.FloatInput(c.type, {1, c.heads, c.sequence, c.total()}, bias_) : test.AbsentInput();
    c.sinks ? test.FloatInput(c.type, {c.heads}, sinks_) : test.AbsentInput();
    if (c.qk_norm) {
      test.AbsentInput().AbsentInput();
      test.FloatInput(c.type, {c.head_size}, q_norm_).FloatInput(c.type, {c.head_size}, k_norm_);
    }
    return test;
  }

  void Run() const {
    OpTester test = Inputs(true);
    test.FloatOutput(c.type, {c.batch, c.sequence, c.heads * c.head_size}, Output());
    if (c.sliding_cache) {
      test.UncheckedOutput(ValueType::Tensor(c.type)).UncheckedOutput(ValueType::Tensor(c.type));
    } else {
      const Shape shape{c.batch, c.kv_heads, std::max(c.past_capacity, c.total()), c.head_size};
      test.FloatOutput(c.type, shape, Present(keys_)).FloatOutput(c.type, shape, Present(values_));
    }
    if (c.qk_output) test.FloatOutput(c.type, {c.batch, c.heads, c.sequence, c.total()}, Scores());
    // Rows of padding are not judged: their outputs are taken as expected.
    if (HasPadding()) {
      RunWithoutPadding();
      return;
    }
    test.Run();
  }

  // The same with the cache bound in place: blocks of four tokens in reversed order.
  void RunBound() const {
    constexpr int64_t kBlock = 4;
    const int64_t blocks = (c.total() + kBlock - 1) / kBlock;
    ASSERT_EQ(c.type, DataType::kFloat);
    std::vector<float> memory[2];
    std::vector<int32_t> table, past;
    KvView view;
    view.type = DataType::kFloat;
    view.kv_heads = static_cast<int32_t>(c.kv_heads);
    view.block_tokens = kBlock;
    view.blocks_per_sequence = static_cast<int32_t>(blocks);
    view.capacity_tokens = static_cast<int32_t>(blocks * kBlock);
    for (int64_t i = c.batch * blocks - 1; i >= 0; --i) table.push_back(static_cast<int32_t>(i));
    for (int64_t b = 0; b < c.batch; ++b) past.push_back(static_cast<int32_t>(c.past(b)));
    view.block_table = table.data();
    view.past_lengths = past.data();
    for (const bool is_key : {true, false}) {
      std::vector<float>& bytes = memory[is_key ? 0 : 1];
      bytes.assign(static_cast<size_t>(c.batch * blocks * c.kv_heads * kBlock * c.head_size), NAN);
      KvPlane& plane = is_key ? view.key : view.value;
      plane = PlaneOfHeads(bytes.data(), DataType::kFloat, c.kv_heads, kBlock, c.head_size);
      for (int64_t b = 0; b < c.batch; ++b) {
        for (int64_t h = 0; h < c.kv_heads; ++h) {
          for (int64_t j = 0; j < c.past(b); ++j) {
            auto* token = reinterpret_cast<float*>(KvTokenAddress(view, plane, b, h, j));
            for (int64_t d = 0; d < c.head_size; ++d)
              token[d] = static_cast<float>(At(is_key ? keys_ : values_, b, j, h, d));
          }
        }
      }
    }
    OpTester test = Inputs(false);
    test.FloatOutput(c.type, {c.batch, c.sequence, c.heads * c.head_size}, Output());
    test.AbsentOutput().AbsentOutput();
    test.WithKvView(&view);
    test.Run();
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t h = 0; h < c.kv_heads; ++h) {
        for (int64_t j = 0; j < c.past(b) + c.sequence; ++j) {
          const auto* key = reinterpret_cast<const float*>(KvTokenAddress(view, view.key, b, h, j));
          const auto* value = reinterpret_cast<const float*>(KvTokenAddress(view, view.value, b, h, j));
          for (int64_t d = 0; d < c.head_size; ++d) {
            ASSERT_NEAR(key[d], At(keys_, b, j, h, d), 1e-5);
            ASSERT_NEAR(value[d], At(values_, b, j, h, d), 1e-6);
          }
        }
      }
    }
  }

  const Case c;

  // Keys and values of a row by (row, token, kv head, channel).
  double At(const std::vector<double>& tokens, int64_t b, int64_t j, int64_t h, int64_t d) const {
    return tokens[static_cast<size_t>(((b * length_ + j) * c.kv_heads + h) * c.head_size + d)];
  }
  const std::vector<double>& keys() const { return keys_; }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> Rounded(std::vector<double> values) const {
    for (double& value : values) {
      if (c.type == DataType::kFloat) value = static_cast<float>(value);
      if (c.type == DataType::kFloat16) value = Float16(static_cast<float>(value));
      if (c.type == DataType::kBfloat16) value = Bfloat16(static_cast<float>(value));
    }
    return values;
  }

  bool HasPadding() const {
    return std::any_of(c.totals.begin(), c.totals.end(), [&](int64_t total) { return total < c.sequence; });
  }

  void RunWithoutPadding() const {
    OpTester test = Inputs(true);
    test.UncheckedOutput(ValueType::Tensor(c.type));
    const Shape shape{c.batch, c.kv_heads, std::max(c.past_capacity, c.total()), c.head_size};
    test.FloatOutput(c.type, shape, Present(keys_)).FloatOutput(c.type, shape, Present(values_));
    Result<std::vector<Value>> outputs = test.Compute({});
    ASSERT_TRUE(outputs.ok()) << outputs.status().ToString();
    const std::vector<double> expected = Output();
    const int64_t hidden = c.heads * c.head_size;
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t i = 0; i < c.totals[static_cast<size_t>(b)] * hidden; ++i) {
        const auto at = static_cast<size_t>(b * c.sequence * hidden + i);
        ASSERT_NEAR((*outputs)[0].tensor().data<float>()[at], expected[at], 1e-5);
      }
    }
  }

  // One head, normalised and rotated for a position.
  std::vector<double> Prepared(const double* head, const std::vector<double>& norm, int64_t position) const {
    std::vector<double> x(head, head + c.head_size);
    if (c.qk_norm) {
      double square = 0;
      for (const double value : x) square += value * value / static_cast<double>(c.head_size);
      for (size_t d = 0; d < x.size(); ++d) x[d] *= norm[d] / std::sqrt(square + 1e-6);
    }
    for (int64_t i = 0; c.rotary && i < c.rotary_pairs; ++i) {
      const auto first = static_cast<size_t>(c.interleaved ? 2 * i : i);
      const auto second = static_cast<size_t>(c.interleaved ? 2 * i + 1 : i + c.rotary_pairs);
      const double cosine = cos_[static_cast<size_t>(position * c.rotary_pairs + i)];
      const double sine = sin_[static_cast<size_t>(position * c.rotary_pairs + i)];
      const double a = x[first], b = x[second];
      x[first] = cosine * a - sine * b;
      x[second] = sine * a + cosine * b;
    }
    return x;
  }
  int64_t Position(int64_t b, int64_t s) const {
    return c.position_ids ? ids_[static_cast<size_t>(b * c.sequence + s)] : c.past(b) + s;
  }

  // keys_ and values_ [batch, length_, kv_heads, head_size]: past, then this run's.
  void BuildKeys() {
    length_ = c.total();
    keys_.assign(static_cast<size_t>(c.batch * length_ * c.kv_heads * c.head_size), 0.0);
    values_ = keys_;
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t h = 0; h < c.kv_heads; ++h) {
        for (int64_t j = 0; j < length_; ++j) {
          const int64_t s = j - c.past(b);
          const int64_t target = ((b * length_ + j) * c.kv_heads + h) * c.head_size;
          const double* key = nullptr;
          const double* value = nullptr;
          std::vector<double> prepared;
          if (s < 0) {
            const int64_t source = ((b * c.kv_heads + h) * c.past_capacity + j) * c.head_size;
            key = past_k_.data() + source;
            value = past_v_.data() + source;
          } else if (s < c.sequence) {
            const int64_t source = ((b * c.sequence + s) * c.kv_heads + h) * c.head_size;
            prepared = Prepared(k_.data() + source, k_norm_, Position(b, s));
            key = prepared.data();
            value = v_.data() + source;
          } else {
            continue;
          }
          std::copy_n(key, c.head_size, keys_.begin() + target);
          std::copy_n(value, c.head_size, values_.begin() + target);
        }
      }
    }
  }

  std::vector<double> Present(const std::vector<double>& tokens) const {
    const int64_t capacity = std::max(c.past_capacity, c.total());
    std::vector<double> present(static_cast<size_t>(c.batch * c.kv_heads * capacity * c.head_size), 0.0);
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t h = 0; h < c.kv_heads; ++h) {
        for (int64_t j = 0; j < c.totals[static_cast<size_t>(b)]; ++j) {
          for (int64_t d = 0; d < c.head_size; ++d) {
            present[static_cast<size_t>(((b * c.kv_heads + h) * capacity + j) * c.head_size + d)] =
                At(tokens, b, j, h, d);
          }
        }
      }
    }
    return present;
  }

  AttentionReference ReferenceOf(int64_t b) const {
    AttentionReference reference;
    reference.heads = c.heads;
    reference.kv_heads = c.kv_heads;
    reference.head_size = reference.value_size = c.head_size;
    reference.scale = c.scale > 0 ? c.scale : 1 / std::sqrt(static_cast<double>(c.head_size));
    reference.softcap = c.softcap;
    reference.window_left = c.window > 0 ? c.window - 1 : -1;
    reference.window_right = c.causal ? 0 : -1;
    reference.has_sink = c.sinks || c.smooth;
    reference.query = [this, b](int64_t i, int64_t h, int64_t d) {
      const int64_t source = ((b * c.sequence + i) * c.heads + h) * c.head_size;
      return Prepared(q_.data() + source, q_norm_, Position(b, i))[static_cast<size_t>(d)];
    };
    reference.key = [this, b](int64_t j, int64_t h, int64_t d) { return At(keys_, b, j, h, d); };
    reference.value = [this, b](int64_t j, int64_t h, int64_t d) { return At(values_, b, j, h, d); };
    if (c.bias) {
      reference.bias = [this](int64_t h, int64_t i, int64_t j) {
        return bias_[static_cast<size_t>((h * c.sequence + i) * c.total() + j)];
      };
    }
    if (c.sinks) reference.sink = [this](int64_t h) { return sinks_[static_cast<size_t>(h)]; };
    return reference;
  }

  std::vector<double> Output() const {
    std::vector<double> output;
    for (int64_t b = 0; b < c.batch; ++b) {
      const AttentionReference reference = ReferenceOf(b);
      for (int64_t i = 0; i < c.sequence; ++i) {
        for (int64_t h = 0; h < c.heads; ++h) {
          const auto row = reference.Row(i, c.past(b) + i, h, c.totals[static_cast<size_t>(b)]);
          output.insert(output.end(), row.begin(), row.end());
        }
      }
    }
    return output;
  }

  // Causal scores without other features, 0 where a key is not seen.
  std::vector<double> Scores() const {
    std::vector<double> scores;
    for (int64_t b = 0; b < c.batch; ++b) {
      const AttentionReference reference = ReferenceOf(b);
      for (int64_t h = 0; h < c.heads; ++h) {
        for (int64_t i = 0; i < c.sequence; ++i) {
          std::vector<double> row;
          double sum = 0;
          for (int64_t j = 0; j < c.total(); ++j) {
            double score = 0;
            for (int64_t d = 0; d < c.head_size; ++d) {
              score += reference.query(i, h, d) * reference.key(j, h / (c.heads / c.kv_heads), d) *
                       reference.scale;
            }
            const bool seen = j <= c.past(b) + i;
            sum += seen ? std::exp(score) : 0;
            row.push_back(!seen ? 0 : c.qk_output == 2 ? std::exp(score) : score);
          }
          for (const double value : row) scores.push_back(c.qk_output == 2 ? value / sum : value);
        }
      }
    }
    return scores;
  }

  std::vector<double> q_, k_, v_, past_k_, past_v_, cos_, sin_, bias_, sinks_, q_norm_, k_norm_, keys_,
      values_;
  std::vector<int64_t> ids_;
  int64_t length_ = 0;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, auto change) {
    Case test;
    test.name = name;
    test.totals = {5};
    change(test);
    cases.push_back(test);
  };
  const auto decode = [](Case& c) {
    c.batch = 3;
    c.sequence = 1;
    c.past_capacity = 9;
    c.totals = {4, 9, 1};
  };
  add("prompt", [](Case&) {});
  add("prompt into a larger buffer", [](Case& c) { c.past_capacity = 12; });
  add("packed", [](Case& c) { c.packed = true; });
  add("packed, rotary", [](Case& c) { c.packed = c.rotary = true; });
  add("rotary, interleaved", [](Case& c) { c.rotary = c.interleaved = true; });
  add("rotary of part of the head", [](Case& c) { c.rotary = true, c.head_size = 32; });
  add("rotary by position_ids", [](Case& c) { c.rotary = c.position_ids = true; });
  add("softcap and scale", [](Case& c) { c.softcap = 2, c.scale = 0.7f; });
  add("bias", [](Case& c) { c.bias = true; });
  add("sinks", [](Case& c) { c.sinks = true; });
  add("smooth softmax", [](Case& c) { c.smooth = true; });
  add("window", [](Case& c) { c.window = 2; });
  add("window larger than the context", [](Case& c) { c.window = 100; });
  add("not causal", [](Case& c) { c.causal = false; });
  add("normalised heads", [](Case& c) { c.qk_norm = c.rotary = true; });
  add("scores before the softmax", [](Case& c) { c.qk_output = 1; });
  add("scores after the softmax", [](Case& c) { c.qk_output = 2; });
  add("batch of prompts, right-padded", [](Case& c) { c.batch = 2, c.totals = {5, 3}, c.rotary = true; });
  add("ragged decode", decode);
  add("ragged decode with everything", [&](Case& c) {
    decode(c);
    c.packed = c.rotary = c.sinks = c.bias = c.qk_norm = true;
    c.softcap = 3;
    c.window = 3;
  });
  add("decode that grows the buffer", [](Case& c) { c.sequence = 1, c.past_capacity = 6, c.totals = {7}; });
  add("chunk", [](Case& c) { c.sequence = 3, c.past_capacity = 8, c.totals = {7}, c.rotary = true; });
  add("long chunk", [](Case& c) { c.sequence = 40, c.past_capacity = 20, c.totals = {60}, c.rotary = true; });
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    add("16 bits", [&](Case& c) {
      decode(c);
      c.type = type;
      c.rotary = true;
    });
  }
  return cases;
}

TEST(GroupQueryAttentionTest, FollowsItsSpecification) {
  for (const Case& test : Cases()) {
    SCOPED_TRACE(test.name);
    Gqa(test).Run();
  }
}

TEST(GroupQueryAttentionTest, BoundCacheGivesTheSame) {
  for (const Case& test : Cases()) {
    const bool padded = test.batch == 2;
    if (test.type != DataType::kFloat || test.qk_output != 0 || padded) continue;
    SCOPED_TRACE(test.name);
    Gqa(test).RunBound();
  }
}

// Step after step through a windowed cache: outputs as with a full cache, and the promised tokens kept.
TEST(GroupQueryAttentionTest, WindowedCacheKeepsTheLastTokens) {
  constexpr int64_t kWindow = 3, kCapacity = 5, kHead = 8, kLength = 23;
  const auto keys = RandomNumbers<double>(kLength * kHead, 1, -2, 2);
  const auto values = RandomNumbers<double>(kLength * kHead, 2, -2, 2);
  const auto queries = RandomNumbers<double>(kLength * kHead, 3, -2, 2);
  AttentionReference reference;
  reference.head_size = reference.value_size = kHead;
  reference.scale = 1 / std::sqrt(8.0);
  reference.window_left = kWindow - 1;
  reference.window_right = 0;
  reference.key = [&](int64_t j, int64_t, int64_t d) { return keys[static_cast<size_t>(j * kHead + d)]; };
  reference.value = [&](int64_t j, int64_t, int64_t d) { return values[static_cast<size_t>(j * kHead + d)]; };
  std::vector<float> cache[2] = {std::vector<float>(kCapacity * kHead),
                                 std::vector<float>(kCapacity * kHead)};
  int64_t past = 0;
  for (const int64_t step : {4, 1, 1, 1, 7, 1, 1, 6, 1}) {
    const auto slice = [&](const std::vector<double>& all) {
      return std::vector<float>(all.begin() + past * kHead, all.begin() + (past + step) * kHead);
    };
    reference.query = [&](int64_t i, int64_t, int64_t d) {
      return queries[static_cast<size_t>((past + i) * kHead + d)];
    };
    const int64_t total = past + step;
    OpTester test("GroupQueryAttention", 1, "com.microsoft");
    test.Attr("num_heads", 1)
        .Attr("kv_num_heads", 1)
        .Attr("local_window_size", 3)
        .Attr("sliding_window_cache", 1);
    for (const auto* tokens : {&queries, &keys, &values}) test.Input<float>({1, step, kHead}, slice(*tokens));
    for (const auto& plane : cache) test.Input<float>({1, 1, kCapacity, kHead}, plane);
    test.Input<int32_t>({1}, {static_cast<int32_t>(total - 1)})
        .Input<int32_t>({1}, {static_cast<int32_t>(total)});
    std::vector<float> expected;
    for (int64_t i = 0; i < step; ++i) {
      for (const double value : reference.Row(i, past + i, 0, total))
        expected.push_back(static_cast<float>(value));
    }
    test.Output<float>({1, step, kHead}, expected);
    test.UncheckedOutput(ValueType::Tensor(DataType::kFloat))
        .UncheckedOutput(ValueType::Tensor(DataType::kFloat));
    test.Run();
    const Result<std::vector<Value>> outputs = test.Compute({});
    ASSERT_TRUE(outputs.ok());
    past = total;
    const int64_t block = kCapacity - kWindow + 1;
    const int64_t kept =
        total <= kCapacity ? total : total - block * ((total - kCapacity + block - 1) / block);
    for (int plane = 0; plane < 2; ++plane) {
      const float* present = (*outputs)[static_cast<size_t>(plane) + 1].tensor().data<float>();
      cache[plane].assign(present, present + kCapacity * kHead);
      for (int64_t i = 0; i < kept * kHead; ++i) {
        ASSERT_FLOAT_EQ(
            present[i],
            static_cast<float>((plane == 0 ? keys : values)[static_cast<size_t>((total - kept) * kHead + i)]))
            << total << " " << i;
      }
    }
  }
}

void ExpectRefused(
    const Case& test, StatusCode code, const std::string& text,
    const std::function<void(OpTester&)>& change = [](OpTester&) {}) {
  OpTester tester = Gqa(test).Inputs(true);
  change(tester);
  tester.UncheckedOutput(ValueType::Tensor(DataType::kFloat));
  tester.UncheckedOutput(ValueType::Tensor(DataType::kFloat))
      .UncheckedOutput(ValueType::Tensor(DataType::kFloat));
  tester.ExpectError(code, text);
}

TEST(GroupQueryAttentionTest, ErrorsSayWhatIsWrong) {
  Case base;
  base.totals = {5};
  Case head = base;
  head.head_size = 12;
  ExpectRefused(head, StatusCode::kInvalidArgument,
                "head_size must be a multiple of 8. Got head_size % 8 == 4");
  Case rotary = base;
  rotary.rotary = true;
  rotary.head_size = 24;
  ExpectRefused(rotary, StatusCode::kInvalidArgument, "Got head_size % 16 == 8");
  rotary.head_size = 16;
  rotary.rotary_pairs = 4;
  ExpectRefused(rotary, StatusCode::kInvalidArgument, "multiple of 8, found 4");
  Case long_past = base;
  long_past.rotary = true;
  long_past.sequence = 1;
  long_past.past_capacity = 70;
  long_past.totals = {65};
  ExpectRefused(long_past, StatusCode::kInvalidArgument,
                "cos_cache dimension 0 shall not be less than total_sequence_length.");
  Case batch = base;
  batch.batch = 2;
  batch.sequence = 2;
  batch.past_capacity = 8;
  batch.totals = {5, 4};
  ExpectRefused(batch, StatusCode::kInvalidArgument,
                "batch_size must be 1 when sequence_length > 1 and past context is given.");
  Case past = base;
  past.sequence = 1;
  past.past_capacity = 3;
  past.totals = {7};
  ExpectRefused(past, StatusCode::kInvalidArgument, "asks for 6 past tokens, past_key holds 3");
  Case window = base;
  ExpectRefused(window, StatusCode::kInvalidModel, "local_window_size must be -1 or positive, found 0",
                [](OpTester& test) { test.Attr("local_window_size", 0); });
  Case groups = base;
  groups.kv_heads = 3;
  ExpectRefused(groups, StatusCode::kInvalidModel, "num_heads must be a multiple of kv_num_heads");
  ExpectRefused(base, StatusCode::kInvalidModel,
                "sliding_window_cache=1 requires past_key and past_value to be present.",
                [](OpTester& test) { test.Attr("sliding_window_cache", 1); });
  ExpectRefused(base, StatusCode::kUnsupported, "k_quant_type=PER_TENSOR",
                [](OpTester& test) { test.Attr("k_quant_type", "PER_TENSOR"); });
}

TEST(GroupQueryAttentionTest, LengthsOutOfRangeAreRefused) {
  OpTester test("GroupQueryAttention", 1, "com.microsoft");
  test.Attr("num_heads", 1).Attr("kv_num_heads", 1);
  for (int i = 0; i < 3; ++i) test.Input<float>({1, 4, 8}, std::vector<float>(32));
  test.AbsentInput().AbsentInput().Input<int32_t>({1}, {4}).Input<int32_t>({1}, {4});
  for (int i = 0; i < 3; ++i) test.UncheckedOutput(ValueType::Tensor(DataType::kFloat));
  test.ExpectError(StatusCode::kInvalidArgument, "seqlens_k[0] = 4 is out of range [0, 4)");
}

}  // namespace
}  // namespace lamina
