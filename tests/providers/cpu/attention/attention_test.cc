#include "providers/cpu/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/thread_pool.h"
#include "support/attention_reference.h"
#include "support/cpu_isa_param.h"
#include "support/random_data.h"

namespace lamina {
namespace {

using testing::AttentionReference;
using testing::RandomNumbers;

struct Sequence {
  int64_t q_tokens, kv_tokens;
};

struct Case {
  std::string name;
  std::vector<Sequence> sequences;
  int64_t heads = 4, kv_heads = 2, head_size = 16, value_size = 16;
  int64_t block_tokens = 0;  // 0: contiguous
  float softcap = 0;
  int64_t window_left = -1, window_right = 0;
  bool bias = false, mask = false, sinks = false;
};

// A ragged batch over a paged or contiguous cache whose free space is NaN, beside the double reference.
template <typename T>
class Problem {
 public:
  Problem(const Case& test, DataType type) : test_(test), type_(type) {
    int64_t tokens = 0;
    int64_t capacity = 1;
    for (const Sequence& sequence : test.sequences) {
      sequences_.push_back(
          {tokens, sequence.q_tokens, sequence.kv_tokens, sequence.kv_tokens - sequence.q_tokens});
      tokens += sequence.q_tokens;
      capacity = std::max(capacity, sequence.kv_tokens);
    }
    const auto batch = static_cast<int64_t>(sequences_.size());
    const int64_t block_tokens = test.block_tokens ? test.block_tokens : capacity;
    const int64_t blocks = (capacity + block_tokens - 1) / block_tokens;
    query_ = RandomNumbers<T>(tokens * test.heads * test.head_size, 1, -2, 2);
    output_.assign(static_cast<size_t>(tokens * test.heads * test.value_size), T(-7.0f));
    keys_.assign(static_cast<size_t>(batch * blocks * test.kv_heads * block_tokens * test.head_size), T(NAN));
    values_.assign(static_cast<size_t>(batch * blocks * test.kv_heads * block_tokens * test.value_size),
                   T(NAN));
    for (int64_t i = 0; i < batch * blocks; ++i)
      block_table_.push_back(static_cast<int32_t>(batch * blocks - 1 - i));
    bias_ = RandomNumbers<float>(batch * test.heads * tokens * capacity, 3, -3, 3);
    mask_bytes_ = static_cast<size_t>(batch * capacity);
    for (size_t i = 0; i < mask_bytes_; ++i) mask_.push_back(i % 5 == 2 ? 0 : 1);
    sinks_ = RandomNumbers<float>(test.heads, 4, -2, 4);
    capacity_ = capacity;

    params_.type = type;
    params_.query = query_.data();
    params_.q_token_stride = test.heads * test.head_size;
    params_.q_head_stride = test.head_size;
    params_.output = output_.data();
    params_.out_token_stride = test.heads * test.value_size;
    params_.out_head_stride = test.value_size;
    params_.heads = test.heads;
    KvView& kv = params_.kv;
    kv.type = type;
    kv.kv_heads = static_cast<int32_t>(test.kv_heads);
    kv.block_tokens = static_cast<int32_t>(block_tokens);
    kv.block_table = test.block_tokens ? block_table_.data() : nullptr;
    kv.blocks_per_sequence = static_cast<int32_t>(blocks);
    kv.key = Plane(keys_, test.head_size, block_tokens);
    kv.value = Plane(values_, test.value_size, block_tokens);
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t j = 0; j < sequences_[static_cast<size_t>(b)].kv_tokens; ++j) {
        for (int64_t h = 0; h < test.kv_heads; ++h) {
          Fill(keys_, b, h, j, test.head_size, 10);
          Fill(values_, b, h, j, test.value_size, 20);
        }
      }
    }
    params_.scale = 1 / std::sqrt(static_cast<float>(test.head_size));
    params_.softcap = test.softcap;
    params_.window_left = test.window_left;
    params_.window_right = test.window_right;
    if (test.bias) {
      const int64_t keys = capacity;
      params_.biases[0] = {
          bias_.data(), DataType::kFloat, 0, test.heads * tokens * keys, tokens * keys, keys, 1, keys};
    }
    if (test.mask)
      params_.biases[1] = {mask_.data(), DataType::kBool, -INFINITY, capacity, 0, 0, 1, capacity - 1};
    if (test.sinks) params_.sinks = sinks_.data();
    params_.sequences = nullptr;
    params_.batch = batch;
  }

  std::vector<T> Compute(CpuIsa isa, int threads) {
    ThreadPool pool(threads);
    AttentionLimits limits{params_.batch,    0,      test_.heads, test_.kv_heads, test_.head_size,
                           test_.value_size, threads};
    for (const AttentionSequence& sequence : sequences_) {
      limits.q_tokens = std::max(limits.q_tokens, sequence.q_tokens);
    }
    // Scratch holds NaN: nothing may be read before it is written.
    const size_t floats = AttentionWorkspaceBytes(limits) / sizeof(float);
    std::vector<float> workspace(floats + 1, NAN);
    workspace[floats] = 5.0f;
    std::copy(sequences_.begin(), sequences_.end(), reinterpret_cast<AttentionSequence*>(workspace.data()));
    params_.sequences = reinterpret_cast<AttentionSequence*>(workspace.data());
    RunAttention(pool, isa, params_, limits, workspace.data());
    EXPECT_EQ(workspace[floats], 5.0f);
    return output_;
  }

  double WorstError(const std::vector<T>& output) const {
    double worst = 0;
    double largest = 1e-3;
    for (size_t b = 0; b < sequences_.size(); ++b) {
      const AttentionSequence& sequence = sequences_[b];
      const AttentionReference reference = ReferenceOf(static_cast<int64_t>(b));
      for (int64_t i = 0; i < sequence.q_tokens; ++i) {
        for (int64_t h = 0; h < test_.heads; ++h) {
          const auto row = reference.Row(i, sequence.query_offset + i, h, sequence.kv_tokens);
          for (int64_t d = 0; d < test_.value_size; ++d) {
            const double expected = row[static_cast<size_t>(d)];
            const double actual = output[static_cast<size_t>(
                ((sequence.first_token + i) * test_.heads + h) * test_.value_size + d)];
            worst = std::isnan(actual) ? INFINITY : std::max(worst, std::abs(actual - expected));
            largest = std::max(largest, std::abs(expected));
          }
        }
      }
    }
    return worst / largest;
  }

 private:
  KvPlane Plane(std::vector<T>& memory, int64_t head_size, int64_t block_tokens) const {
    KvPlane plane;
    plane.base = memory.data();
    plane.token_stride_bytes = head_size * static_cast<int64_t>(sizeof(T));
    plane.head_stride_bytes = block_tokens * plane.token_stride_bytes;
    plane.block_stride_bytes = test_.kv_heads * plane.head_stride_bytes;
    plane.head_size = static_cast<int32_t>(head_size);
    return plane;
  }
  size_t Index(int64_t b, int64_t h, int64_t j, int64_t head_size) const {
    const KvView& kv = params_.kv;
    const int64_t number = b * kv.blocks_per_sequence + j / kv.block_tokens;
    const int64_t block = kv.block_table ? kv.block_table[number] : number;
    return static_cast<size_t>(((block * test_.kv_heads + h) * kv.block_tokens + j % kv.block_tokens) *
                               head_size);
  }
  void Fill(std::vector<T>& memory, int64_t b, int64_t h, int64_t j, int64_t head_size, uint32_t seed) const {
    const auto numbers =
        RandomNumbers<T>(head_size, seed + static_cast<uint32_t>(1000 * b + 100000 * h + 7 * j), -2, 2);
    std::copy(numbers.begin(), numbers.end(),
              memory.begin() + static_cast<int64_t>(Index(b, h, j, head_size)));
  }
  AttentionReference ReferenceOf(int64_t b) const {
    AttentionReference reference;
    reference.heads = test_.heads;
    reference.kv_heads = test_.kv_heads;
    reference.head_size = test_.head_size;
    reference.value_size = test_.value_size;
    reference.scale = params_.scale;
    reference.softcap = test_.softcap;
    reference.window_left = test_.window_left;
    reference.window_right = test_.window_right;
    reference.has_sink = test_.sinks;
    const int64_t first = sequences_[static_cast<size_t>(b)].first_token;
    reference.query = [this, first](int64_t i, int64_t h, int64_t d) {
      return static_cast<double>(
          query_[static_cast<size_t>(((first + i) * test_.heads + h) * test_.head_size + d)]);
    };
    reference.key = [this, b](int64_t j, int64_t h, int64_t d) {
      return static_cast<double>(keys_[Index(b, h, j, test_.head_size) + static_cast<size_t>(d)]);
    };
    reference.value = [this, b](int64_t j, int64_t h, int64_t d) {
      return static_cast<double>(values_[Index(b, h, j, test_.value_size) + static_cast<size_t>(d)]);
    };
    reference.bias = [this, b](int64_t h, int64_t i, int64_t j) {
      double bias = 0;
      const AttentionBias& first_bias = params_.biases[0];
      if (test_.bias)
        bias += bias_[static_cast<size_t>(b * first_bias.batch_stride + h * first_bias.head_stride +
                                          i * first_bias.query_stride + j)];
      if (test_.mask && (j >= capacity_ - 1 || mask_[static_cast<size_t>(b * capacity_ + j)] == 0))
        bias = -INFINITY;
      return bias;
    };
    reference.sink = [this](int64_t h) { return double{sinks_[static_cast<size_t>(h)]}; };
    return reference;
  }

  Case test_;
  DataType type_;
  AttentionParams params_;
  std::vector<AttentionSequence> sequences_;
  std::vector<T> query_, output_, keys_, values_;
  std::vector<int32_t> block_table_;
  std::vector<float> bias_, sinks_;
  std::vector<uint8_t> mask_;
  size_t mask_bytes_ = 0;
  int64_t capacity_ = 0;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  cases.push_back({"decode of many lengths", {{1, 1}, {1, 63}, {1, 64}, {1, 65}, {1, 300}, {1, 700}}});
  cases.push_back({"prompt", {{70, 70}}});
  cases.push_back({"chunk after a past", {{33, 190}}});
  cases.push_back({"ragged mix", {{40, 40}, {1, 129}, {0, 5}, {20, 100}}});
  Case wide{"wide heads", {{1, 40}, {30, 40}}};
  wide.head_size = 100;
  wide.value_size = 72;
  cases.push_back(wide);
  Case odd{"odd head size", {{1, 40}, {17, 40}}};
  odd.head_size = 5;
  odd.value_size = 3;
  cases.push_back(odd);
  Case groups{"one kv head, odd group", {{1, 90}, {3, 90}, {25, 90}}};
  groups.heads = 5;
  groups.kv_heads = 1;
  cases.push_back(groups);
  Case plain{"as many kv heads", {{1, 20}, {18, 20}}};
  plain.heads = plain.kv_heads = 3;
  cases.push_back(plain);
  Case paged{"paged", {{1, 50}, {40, 61}, {1, 300}}};
  paged.block_tokens = 16;
  cases.push_back(paged);
  Case window{"window", {{1, 200}, {80, 200}, {100, 100}}};
  window.window_left = 30;
  cases.push_back(window);
  window.name = "window of the token alone";
  window.window_left = 0;
  cases.push_back(window);
  Case both{"not causal", {{1, 20}, {40, 90}}};
  both.window_right = -1;
  cases.push_back(both);
  both.name = "window to both sides";
  both.window_left = 5;
  both.window_right = 7;
  cases.push_back(both);
  Case all{"softcap, bias, mask and sinks", {{1, 90}, {30, 90}}};
  all.softcap = 5;
  all.bias = all.mask = all.sinks = true;
  cases.push_back(all);
  Case fully_masked{"rows without keys", {{40, 20}, {3, 1}}};  // the first queries stand before key 0
  cases.push_back(fully_masked);
  return cases;
}

class AttentionCoreTest : public ::testing::TestWithParam<CpuIsa> {};

TEST_P(AttentionCoreTest, EqualsDouble) {
  for (const Case& test : Cases()) {
    SCOPED_TRACE(test.name);
    Problem<float> floats(test, DataType::kFloat);
    EXPECT_LT(floats.WorstError(floats.Compute(GetParam(), 1)), 2e-6);
    Problem<Float16> halves(test, DataType::kFloat16);
    EXPECT_LT(halves.WorstError(halves.Compute(GetParam(), 1)), 1e-3);
    Problem<Bfloat16> bfloats(test, DataType::kBfloat16);
    EXPECT_LT(bfloats.WorstError(bfloats.Compute(GetParam(), 1)), 8e-3);
  }
}

TEST_P(AttentionCoreTest, ThreadsDoNotChangeABit) {
  for (const Case& test :
       {Case{"long decode", {{1, 5000}, {1, 900}}}, Case{"prompts", {{300, 300}, {200, 700}}}}) {
    SCOPED_TRACE(test.name);
    Problem<float> problem(test, DataType::kFloat);
    const std::vector<float> one = problem.Compute(GetParam(), 1);
    EXPECT_LT(problem.WorstError(one), 2e-6);
    for (const int threads : {2, 4}) EXPECT_EQ(one, problem.Compute(GetParam(), threads));
  }
}

LAMINA_INSTANTIATE_FOR_EACH_ISA(AttentionCoreTest);

}  // namespace
}  // namespace lamina
