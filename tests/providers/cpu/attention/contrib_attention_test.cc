// Attention and DecoderMaskedMultiHeadAttention of com.microsoft, held against MultiHeadAttention over what a
// test projects, rotates or gathers itself. tests/data/contrib has runs of another implementation.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/op_tester.h"
#include "support/random_data.h"

namespace lamina {
namespace {

using testing::OpTester;
using testing::RandomNumbers;
using Floats = std::vector<float>;

constexpr const char* kDomain = "com.microsoft";

// rows [m, k] times weights [k, n] plus bias, columns [first, first + count) of it.
Floats Project(const Floats& rows, const Floats& weights, const Floats& bias, int64_t k, int64_t first,
               int64_t count) {
  const auto n = static_cast<int64_t>(bias.size());
  const int64_t m = static_cast<int64_t>(rows.size()) / k;
  Floats result;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = first; j < first + count; ++j) {
      double sum = bias[static_cast<size_t>(j)];
      for (int64_t x = 0; x < k; ++x) {
        sum += double{rows[static_cast<size_t>(i * k + x)]} * weights[static_cast<size_t>(x * n + j)];
      }
      result.push_back(static_cast<float>(sum));
    }
  }
  return result;
}

// Turns pairs (i, i + pairs) of every head of [batch, sequence, heads * size] by its position.
void Rotate(Floats& rows, int64_t sequence, int64_t heads, int64_t size, int64_t pairs, int64_t past) {
  const int64_t tokens = static_cast<int64_t>(rows.size()) / (heads * size);
  for (int64_t head = 0; head < tokens * heads; ++head) {
    const auto position = static_cast<double>(past + head / heads % sequence);
    float* x = rows.data() + head * size;
    for (int64_t i = 0; i < pairs; ++i) {
      const double angle = position / std::pow(10000.0, static_cast<double>(i) / static_cast<double>(pairs));
      const double a = x[i], b = x[i + pairs];
      x[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
      x[i + pairs] = static_cast<float>(b * std::cos(angle) + a * std::sin(angle));
    }
  }
}

std::vector<Value> Outputs(OpTester& test, int count) {
  for (int i = 0; i < count; ++i) test.UncheckedOutput(ValueType::Tensor(DataType::kFloat));
  Result<std::vector<Value>> outputs = test.Compute({});
  EXPECT_TRUE(outputs.ok()) << outputs.status().ToString();
  return outputs.ok() ? *outputs : std::vector<Value>(static_cast<size_t>(count));
}

// Sizes of the Attention tests: batch, sequence, features, heads, head size.
constexpr int64_t kB = 2, kS = 3, kF = 7, kN = 2, kH = 8, kD = kN * kH;

struct Projected {
  Floats input = RandomNumbers(kB * kS * kF, 1);
  Floats weights = RandomNumbers(kF * 3 * kD, 2);
  Floats bias = RandomNumbers(3 * kD, 3);
  Floats Part(int part) const { return Project(input, weights, bias, kF, part * kD, kD); }

  OpTester Attention(bool constant_weights) const {
    OpTester test("Attention", 1, kDomain);
    test.Attr("num_heads", static_cast<int>(kN)).Input<float>({kB, kS, kF}, input);
    if (constant_weights) {
      test.Constant<float>({kF, 3 * kD}, weights);
    } else {
      test.Input<float>({kF, 3 * kD}, weights);
    }
    test.Input<float>({3 * kD}, bias);
    return test;
  }
};

OpTester MultiHead(const Floats& q, const Floats& k, const Floats& v) {
  OpTester test("MultiHeadAttention", 1, kDomain);
  test.Attr("num_heads", static_cast<int>(kN));
  for (const Floats* part : {&q, &k, &v}) test.Input<float>({kB, kS, kD}, *part);
  return test;
}

TEST(ContribAttentionTest, ProjectsAndConcatenatesThePast) {
  const Projected p;
  constexpr int64_t kP = 2, kT = kP + kS;
  const Floats past = RandomNumbers(2 * kB * kN * kP * kH, 4);
  const auto half = static_cast<std::ptrdiff_t>(past.size() / 2);
  for (const bool constant : {false, true}) {
    OpTester expected = MultiHead(p.Part(0), p.Part(1), p.Part(2));
    expected.Attr("unidirectional", 1).AbsentInput().AbsentInput().AbsentInput();
    expected.Input<float>({kB, kN, kP, kH}, Floats(past.begin(), past.begin() + half));
    expected.Input<float>({kB, kN, kP, kH}, Floats(past.begin() + half, past.end()));
    const std::vector<Value> values = Outputs(expected, 3);
    Floats present;
    for (const size_t i : {1, 2}) {
      const float* data = values[i].tensor().data<float>();
      present.insert(present.end(), data, data + kB * kN * kT * kH);
    }
    OpTester test = p.Attention(constant);
    test.Attr("unidirectional", 1).AbsentInput().Input<float>({2, kB, kN, kP, kH}, past);
    test.OutputValue(values[0]).Output<float>({2, kB, kN, kT, kH}, present);
    test.Run();
  }
}

TEST(ContribAttentionTest, PastAndPresentInOneBuffer) {
  const Projected p;
  constexpr int64_t kP = 2, kM = 8;
  Floats past = RandomNumbers(2 * kB * kN * kM * kH, 4);
  // The same with a past of its own length.
  Floats short_past;
  for (int64_t head = 0; head < 2 * kB * kN; ++head) {
    const auto first = past.begin() + head * kM * kH;
    short_past.insert(short_past.end(), first, first + kP * kH);
  }
  OpTester separate = p.Attention(true);
  separate.AbsentInput().Input<float>({2, kB, kN, kP, kH}, short_past);
  const std::vector<Value> expected = Outputs(separate, 2);
  const float* present = expected[1].tensor().data<float>();
  Floats buffer = past;
  for (int64_t head = 0; head < 2 * kB * kN; ++head) {
    std::copy_n(present + head * (kP + kS) * kH, (kP + kS) * kH, buffer.begin() + head * kM * kH);
  }
  OpTester shared = p.Attention(true);
  shared.Attr("past_present_share_buffer", 1).AbsentInput().Input<float>({2, kB, kN, kM, kH}, past);
  shared.AbsentInput().Input<int32_t>({1}, {kP});
  shared.OutputValue(expected[0]).Output<float>({2, kB, kN, kM, kH}, buffer);
  shared.Run();
  OpTester full = p.Attention(true);
  full.Attr("past_present_share_buffer", 1).AbsentInput().Input<float>({2, kB, kN, kM, kH}, past);
  full.AbsentInput().Input<int32_t>({1}, {6});
  full.Output<float>({kB, kS, kD}, Floats(kB * kS * kD)).Output<float>({2, kB, kN, kM, kH}, buffer);
  full.ExpectError(StatusCode::kInvalidArgument, "6 past tokens and 3 of this run do not fit a past of 8");
}

TEST(ContribAttentionTest, RotatesQueriesAndKeys) {
  const Projected p;
  for (const int dim : {0, 4}) {
    Floats q = p.Part(0), k = p.Part(1);
    for (Floats* part : {&q, &k}) Rotate(*part, kS, kN, kH, dim == 0 ? kH / 2 : dim / 2, 0);
    OpTester expected = MultiHead(q, k, p.Part(2));
    OpTester test = p.Attention(true);
    test.Attr("do_rotary", 1);
    if (dim != 0) test.Attr("rotary_embedding_dim", dim);
    test.OutputValue(Outputs(expected, 1)[0]);
    test.Run();
  }
}

TEST(ContribAttentionTest, MasksOfEveryForm) {
  const Projected p;
  const auto masked_by = [&](const std::vector<int32_t>& mask) {  // [batch, sequence, total]
    OpTester expected = MultiHead(p.Part(0), p.Part(1), p.Part(2));
    expected.AbsentInput().Input<int32_t>({kB, kS, kS}, mask);
    return Outputs(expected, 1)[0];
  };
  OpTester lengths = p.Attention(true);
  lengths.Input<int32_t>({kB}, {2, 3});
  lengths.OutputValue(masked_by({1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1})).Run();
  OpTester bounds = p.Attention(true);  // ends, then starts
  bounds.Input<int32_t>({2 * kB}, {2, 3, 1, 0});
  bounds.OutputValue(masked_by({0, 1, 0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1})).Run();
  OpTester by_position = p.Attention(true);  // [batch, 1, max, max]
  by_position.Input<int32_t>({kB, 1, 4, 4}, {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1,  //
                                             1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0});
  by_position.OutputValue(masked_by({1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 1, 1})).Run();
  OpTester nothing = p.Attention(true);
  nothing.Input<int32_t>({1, 1}, {0});
  nothing.OutputValue(masked_by(std::vector<int32_t>(18, 1))).Run();
  OpTester wrong = p.Attention(true);
  wrong.Input<int32_t>({kB, 5}, std::vector<int32_t>(10, 1)).Output<float>({kB, kS, kD}, Floats(96));
  wrong.ExpectError(StatusCode::kInvalidArgument, "the mask must have shape [2,3] or [2,3,3], found [2,5]");
}

TEST(ContribAttentionTest, HalfTypesFollow) {
  const Projected p;
  OpTester expected = MultiHead(p.Part(0), p.Part(1), p.Part(2));
  const Tensor exact = Outputs(expected, 1)[0].tensor();
  const auto doubles = [](const float* data, size_t count) {
    return std::vector<double>(data, data + count);
  };
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    OpTester test("Attention", 1, kDomain);
    test.Attr("num_heads", static_cast<int>(kN));
    test.FloatInput(type, {kB, kS, kF}, doubles(p.input.data(), p.input.size()));
    test.FloatInput(type, {kF, 3 * kD}, doubles(p.weights.data(), p.weights.size()));
    test.FloatInput(type, {3 * kD}, doubles(p.bias.data(), p.bias.size()));
    test.FloatOutput(type, {kB, kS, kD}, doubles(exact.data<float>(), kB * kS * kD));
    test.WithTolerance({0.03, 0.03});
    test.Run();
  }
}

// ---- DecoderMaskedMultiHeadAttention ----

constexpr int64_t kM = 6, kPast = 3;  // capacity and valid tokens of the cache

struct DecodeStep {
  Floats q = RandomNumbers(kB * kD, 1), k = RandomNumbers(kB * kD, 2), v = RandomNumbers(kB * kD, 3);
  Floats past_k = RandomNumbers(kB * kN * kM * kH, 4), past_v = RandomNumbers(kB * kN * kM * kH, 5);

  // The cache with the run's token behind the past.
  static Floats Present(const Floats& past, const Floats& token) {
    Floats present = past;
    for (int64_t head = 0; head < kB * kN; ++head) {
      std::copy_n(token.begin() + head * kH, kH, present.begin() + (head * kM + kPast) * kH);
    }
    return present;
  }
  // Valid tokens of a cache, as MultiHeadAttention takes keys: [batch, heads, past + 1, size].
  static Floats Valid(const Floats& present) {
    Floats valid;
    for (int64_t head = 0; head < kB * kN; ++head) {
      const auto first = present.begin() + head * kM * kH;
      valid.insert(valid.end(), first, first + (kPast + 1) * kH);
    }
    return valid;
  }
  static Value Attend(const Floats& q, const Floats& k, const Floats& v) {
    OpTester test("MultiHeadAttention", 1, kDomain);
    test.Attr("num_heads", static_cast<int>(kN)).Input<float>({kB, 1, kD}, q);
    test.Input<float>({kB, kN, kPast + 1, kH}, k).Input<float>({kB, kN, kPast + 1, kH}, v);
    return Outputs(test, 1)[0];
  }
};

OpTester DecoderMasked() {
  OpTester test("DecoderMaskedMultiHeadAttention", 1, kDomain);
  test.Attr("num_heads", static_cast<int>(kN)).Attr("past_present_share_buffer", 1);
  return test;
}

TEST(DecoderMaskedAttentionTest, AppendsATokenToTheSharedBuffer) {
  const DecodeStep step;
  const Floats present_k = DecodeStep::Present(step.past_k, step.k);
  const Floats present_v = DecodeStep::Present(step.past_v, step.v);
  const Value y = DecodeStep::Attend(step.q, DecodeStep::Valid(present_k), DecodeStep::Valid(present_v));
  for (const bool packed : {false, true}) {
    OpTester test = DecoderMasked();
    if (packed) {
      Floats rows;
      for (int64_t b = 0; b < kB; ++b) {
        for (const Floats* part : {&step.q, &step.k, &step.v}) {
          rows.insert(rows.end(), part->begin() + b * kD, part->begin() + (b + 1) * kD);
        }
      }
      test.Input<float>({kB, 1, 3 * kD}, rows).AbsentInput().AbsentInput();
    } else {
      for (const Floats* part : {&step.q, &step.k, &step.v}) test.Input<float>({kB, 1, kD}, *part);
    }
    test.AbsentInput().AbsentInput();
    test.Input<float>({kB, kN, kM, kH}, step.past_k).Input<float>({kB, kN, kM, kH}, step.past_v);
    test.Input<int32_t>({1}, {kPast});
    test.OutputValue(y).Output<float>({kB, kN, kM, kH}, present_k).Output<float>({kB, kN, kM, kH}, present_v);
    test.Run();
  }
}

TEST(DecoderMaskedAttentionTest, BeamsReadTheTokensThatTheyDescendFrom) {
  const DecodeStep step;
  // Two beams of one group; past token t of beam b came from beam source[b][t].
  const std::vector<int32_t> source = {0, 1, 0, 9, 9, 9, 1, 0, 1, 9, 9, 9};
  const auto gathered = [&](const Floats& past, const Floats& token) {
    Floats result = DecodeStep::Present(past, token);
    for (int64_t b = 0; b < kB; ++b) {
      for (int64_t t = 0; t < kPast; ++t) {
        const int64_t from = source[static_cast<size_t>(b * kM + t)];
        for (int64_t h = 0; h < kN; ++h) {
          std::copy_n(past.begin() + ((from * kN + h) * kM + t) * kH, kH,
                      result.begin() + ((b * kN + h) * kM + t) * kH);
        }
      }
    }
    return result;
  };
  OpTester test = DecoderMasked();
  for (const Floats* part : {&step.q, &step.k, &step.v}) test.Input<float>({kB, 1, kD}, *part);
  test.AbsentInput().AbsentInput();
  test.Input<float>({kB, kN, kM, kH}, step.past_k).Input<float>({kB, kN, kM, kH}, step.past_v);
  test.Input<int32_t>({1}, {kPast}).Input<int32_t>({1}, {2}).Input<int32_t>({1, 2, kM}, source);
  test.OutputValue(DecodeStep::Attend(step.q, DecodeStep::Valid(gathered(step.past_k, step.k)),
                                      DecodeStep::Valid(gathered(step.past_v, step.v))));
  test.Output<float>({kB, kN, kM, kH}, DecodeStep::Present(step.past_k, step.k));
  test.Output<float>({kB, kN, kM, kH}, DecodeStep::Present(step.past_v, step.v));
  test.Run();
}

TEST(DecoderMaskedAttentionTest, ErrorsNameWhatDoesNotFit) {
  const DecodeStep step;
  const auto with_past = [&](OpTester& test, int32_t past) {
    for (const Floats* part : {&step.q, &step.k, &step.v}) test.Input<float>({kB, 1, kD}, *part);
    test.AbsentInput().AbsentInput();
    test.Input<float>({kB, kN, kM, kH}, step.past_k).Input<float>({kB, kN, kM, kH}, step.past_v);
    test.Input<int32_t>({1}, {past});
  };
  const auto outputs = [&](OpTester& test) {
    test.Output<float>({kB, 1, kD}, step.q).Output<float>({kB, kN, kM, kH}, step.past_k);
    test.Output<float>({kB, kN, kM, kH}, step.past_v);
  };
  OpTester full = DecoderMasked();
  with_past(full, kM);
  outputs(full);
  full.ExpectError(StatusCode::kInvalidArgument, "6 past tokens and one of this run do not fit a past of 6");
  OpTester no_table = DecoderMasked();
  with_past(no_table, kPast);
  no_table.Input<int32_t>({1}, {2});
  outputs(no_table);
  no_table.ExpectError(StatusCode::kInvalidArgument, "cache_indirection must have shape [1,2,6]");
  OpTester outside = DecoderMasked();
  with_past(outside, kPast);
  outside.Input<int32_t>({1}, {2}).Input<int32_t>({1, 2, kM}, std::vector<int32_t>(2 * kM, 2));
  outputs(outside);
  outside.ExpectError(StatusCode::kInvalidArgument, "cache_indirection names beam 2 of 2");
  OpTester own_past("DecoderMaskedMultiHeadAttention", 1, kDomain);
  own_past.Attr("num_heads", static_cast<int>(kN));
  with_past(own_past, kPast);
  outputs(own_past);
  own_past.ExpectError(StatusCode::kUnsupported, "only past_present_share_buffer=1 is defined");
}

}  // namespace
}  // namespace lamina
