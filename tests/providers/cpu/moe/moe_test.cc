// MoE and QMoE against all experts computed densely in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "providers/cpu/moe/moe_core.h"
#include "support/nbits_data.h"
#include "support/op_tester.h"

namespace lamina {
namespace {

using testing::NBitsData;
using testing::OpTester;
using testing::RandomNumbers;
using Zeros = NBitsData::Zeros;

struct Case {
  int64_t tokens = 7, experts = 4, hidden = 64, inter = 32, k = 2;
  std::string activation = "silu";
  int fusion = 0;
  bool normalize = false, fc3 = false, bias = false;
  float limit = 0, alpha = 1, beta = 0;  // limit 0: none
  DataType type = DataType::kFloat;

  bool fused() const { return activation == "swiglu" && fusion != 0; }
  int64_t fc1_rows() const { return (fused() ? 2 : 1) * inter; }
};

// weight(layer 0..2, expert, output, input)
using Weight = std::function<double(int layer, int64_t expert, int64_t row, int64_t column)>;

class Dense {
 public:
  Dense(const Case& test, Weight weight) : c(test), weight_(std::move(weight)) {
    x = Rounded(RandomNumbers<double>(c.tokens * c.hidden, 1));
    router = Rounded(RandomNumbers<double>(c.tokens * c.experts, 2, -2, 2));
    for (int layer = 0; layer < 3; ++layer) {
      biases[layer] =
          Rounded(RandomNumbers<double>(c.experts * Outputs(layer), 3 + static_cast<uint32_t>(layer)));
    }
  }

  int64_t Outputs(int layer) const { return layer == 0 ? c.fc1_rows() : layer == 1 ? c.hidden : c.inter; }
  int64_t Inputs(int layer) const { return layer == 1 ? c.inter : c.hidden; }

  std::vector<double> Output() const {
    std::vector<double> y(static_cast<size_t>(c.tokens * c.hidden), 0.0);
    for (int64_t t = 0; t < c.tokens; ++t) {
      const double* logits = router.data() + t * c.experts;
      std::vector<int64_t> order(static_cast<size_t>(c.experts));
      for (int64_t e = 0; e < c.experts; ++e) order[static_cast<size_t>(e)] = e;
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
      double sum = 0;
      for (int64_t i = 0; i < (c.normalize ? c.k : c.experts); ++i)
        sum += std::exp(logits[order[static_cast<size_t>(i)]]);
      for (int64_t i = 0; i < c.k; ++i) {
        const int64_t expert = order[static_cast<size_t>(i)];
        const std::vector<double> row = Expert(expert, x.data() + t * c.hidden);
        for (int64_t d = 0; d < c.hidden; ++d) {
          y[static_cast<size_t>(t * c.hidden + d)] +=
              std::exp(logits[expert]) / sum * row[static_cast<size_t>(d)];
        }
      }
    }
    return y;
  }

  const Case c;
  std::vector<double> x, router, biases[3];

 private:
  std::vector<double> Rounded(std::vector<double> values) const {
    for (double& value : values) {
      value = c.type == DataType::kFloat16 ? static_cast<float>(Float16(static_cast<float>(value)))
                                           : static_cast<float>(value);
    }
    return values;
  }

  std::vector<double> Layer(int layer, int64_t expert, const double* input) const {
    std::vector<double> rows;
    for (int64_t n = 0; n < Outputs(layer); ++n) {
      double sum = c.bias ? biases[layer][static_cast<size_t>(expert * Outputs(layer) + n)] : 0.0;
      for (int64_t i = 0; i < Inputs(layer); ++i) sum += input[i] * weight_(layer, expert, n, i);
      rows.push_back(sum);
    }
    return rows;
  }

  std::vector<double> Expert(int64_t expert, const double* input) const {
    const std::vector<double> fc1 = Layer(0, expert, input);
    const std::vector<double> fc3 = c.fc3 ? Layer(2, expert, input) : std::vector<double>();
    std::vector<double> inner;
    const double limit = c.limit > 0 ? c.limit : INFINITY;
    for (size_t i = 0; i < static_cast<size_t>(c.inter); ++i) {
      if (c.activation == "swiglu") {
        double gate = fc1[c.fusion == 1 ? 2 * i : i];
        double linear =
            c.fusion == 0 ? fc3[i] : fc1[c.fusion == 1 ? 2 * i + 1 : static_cast<size_t>(c.inter) + i];
        gate = std::min(gate, limit);
        linear = std::clamp(linear, -limit, limit);
        inner.push_back(gate / (1 + std::exp(-c.alpha * gate)) * (linear + c.beta));
        continue;
      }
      const double v = fc1[i];
      double activated = v;
      if (c.activation == "relu") activated = std::max(v, 0.0);
      if (c.activation == "silu") activated = v / (1 + std::exp(-v));
      if (c.activation == "gelu")
        activated = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      inner.push_back(activated * (c.fc3 ? fc3[i] : 1.0));
    }
    return Layer(1, expert, inner.data());
  }

  Weight weight_;
};

OpTester Attributes(const Case& c, const char* op_type) {
  OpTester test(op_type, 1, "com.microsoft");
  test.Attr("k", static_cast<int>(c.k)).Attr("activation_type", c.activation.c_str());
  if (c.normalize) test.Attr("normalize_routing_weights", 1);
  if (c.fusion) test.Attr("swiglu_fusion", c.fusion);
  if (c.limit > 0) test.Attr("swiglu_limit", c.limit);
  test.Attr("activation_alpha", c.alpha).Attr("activation_beta", c.beta);
  return test;
}

void RunMoeCase(const Case& c, bool constant) {
  std::vector<double> weights[3];
  Case sized = c;
  for (int layer = 0; layer < 3; ++layer) {
    weights[layer] = RandomNumbers<double>(c.experts * c.hidden * c.inter * 2,
                                           10 + static_cast<uint32_t>(layer), -0.3, 0.3);
    for (double& value : weights[layer]) value = static_cast<float>(Float16(static_cast<float>(value)));
  }
  const Dense dense(sized, [&](int layer, int64_t expert, int64_t row, int64_t column) {
    const int64_t outputs = layer == 0 ? c.fc1_rows() : layer == 1 ? c.hidden : c.inter;
    const int64_t inputs = layer == 1 ? c.inter : c.hidden;
    return weights[layer][static_cast<size_t>((expert * outputs + row) * inputs + column)];
  });
  OpTester test = Attributes(c, "MoE");
  test.FloatInput(c.type, {c.tokens, c.hidden}, dense.x)
      .FloatInput(c.type, {c.tokens, c.experts}, dense.router);
  for (int layer = 0; layer < (c.fc3 ? 3 : 2); ++layer) {
    const Shape shape{c.experts, dense.Outputs(layer), dense.Inputs(layer)};
    std::vector<double> values(weights[layer].begin(), weights[layer].begin() + shape.num_elements());
    if (constant && c.type == DataType::kFloat) {
      test.Constant<float>(shape, std::vector<float>(values.begin(), values.end()));
    } else {
      test.FloatInput(c.type, shape, values);
    }
    c.bias ? test.FloatInput(c.type, {c.experts, dense.Outputs(layer)}, dense.biases[layer])
           : test.AbsentInput();
  }
  test.FloatOutput(c.type, {c.tokens, c.hidden}, dense.Output());
  Tolerance tolerance;
  tolerance.rtol = c.type == DataType::kFloat ? 1e-5 : 1e-2;
  tolerance.of_largest = true;
  test.WithTolerance(tolerance);
  test.Run();
}

TEST(MoeTest, ActivationsRoutingAndLayouts) {
  for (const char* activation : {"relu", "gelu", "silu", "identity"}) {
    for (const bool fc3 : {false, true}) {
      Case c;
      c.activation = activation;
      c.fc3 = fc3;
      c.bias = fc3;
      SCOPED_TRACE(activation);
      RunMoeCase(c, fc3);
    }
  }
  Case normalized;
  normalized.normalize = true;
  normalized.k = 3;
  normalized.type = DataType::kFloat16;
  RunMoeCase(normalized, false);
  for (const int fusion : {0, 1, 2}) {
    Case swiglu;
    swiglu.activation = "swiglu";
    swiglu.fusion = fusion;
    swiglu.fc3 = fusion == 0;
    swiglu.limit = 0.8f;
    swiglu.alpha = 1.702f;
    swiglu.beta = 1;
    swiglu.normalize = swiglu.bias = true;
    SCOPED_TRACE(fusion);
    RunMoeCase(swiglu, true);
  }
  Case one;  // decode: one token, all experts but one idle
  one.tokens = one.k = 1;
  RunMoeCase(one, true);
}

void RunQMoeCase(const Case& c, int bits, int64_t block_size, bool with_zeros) {
  const int64_t pack = 8 / bits;
  std::vector<NBitsData> data;
  for (int layer = 0; layer < 3; ++layer) {
    const int64_t outputs = layer == 0 ? c.fc1_rows() : layer == 1 ? c.hidden : c.inter;
    const int64_t inputs = layer == 1 ? c.inter : c.hidden;
    data.emplace_back(bits, c.experts * outputs, inputs, block_size ? block_size : inputs, 20 + layer);
  }
  // Zero points of whole rows are packed along the rows.
  const auto row_zero = [&](int layer, int64_t row) {
    return static_cast<int>((row * 7 + layer) % (1 << bits));
  };
  const Dense dense(c, [&](int layer, int64_t expert, int64_t row, int64_t column) {
    const NBitsData& layer_data = data[static_cast<size_t>(layer)];
    const int64_t outputs = layer_data.n / c.experts;
    const int64_t r = expert * outputs + row;
    if (!with_zeros) return layer_data.Weight(Zeros::kDefault, r, column);
    if (block_size) return layer_data.Weight(Zeros::kPacked, r, column);
    const double quant = layer_data.quants[static_cast<size_t>(r * layer_data.k + column)];
    return (quant - row_zero(layer, r)) * static_cast<double>(layer_data.scales[static_cast<size_t>(r)]);
  });
  OpTester test = Attributes(c, "QMoE");
  test.Attr("expert_weight_bits", bits);
  if (block_size) test.Attr("block_size", static_cast<int>(block_size));
  test.FloatInput(c.type, {c.tokens, c.hidden}, dense.x)
      .FloatInput(c.type, {c.tokens, c.experts}, dense.router);
  for (int layer = 0; layer < 3; ++layer) {
    if (layer == 2 && !c.fc3) {
      test.AbsentInput().AbsentInput().AbsentInput();
      continue;
    }
    const NBitsData& layer_data = data[static_cast<size_t>(layer)];
    const int64_t outputs = dense.Outputs(layer);
    test.Constant<uint8_t>({c.experts, outputs, dense.Inputs(layer) / pack}, layer_data.packed);
    const Shape scales =
        block_size ? Shape{c.experts, outputs, layer_data.blocks} : Shape{c.experts, outputs};
    test.Constant<float>(scales, layer_data.scales);
    c.bias ? test.FloatInput(c.type, {c.experts, outputs}, dense.biases[layer]) : test.AbsentInput();
  }
  for (int layer = 0; with_zeros && layer < (c.fc3 ? 3 : 2); ++layer) {
    const NBitsData& layer_data = data[static_cast<size_t>(layer)];
    const int64_t outputs = dense.Outputs(layer);
    if (block_size) {
      test.Constant<uint8_t>({c.experts, outputs, (layer_data.blocks * bits + 7) / 8}, layer_data.zeros);
    } else {
      std::vector<uint8_t> zeros(static_cast<size_t>(c.experts * outputs / pack), 0);
      for (int64_t r = 0; r < c.experts * outputs; ++r) {
        zeros[static_cast<size_t>(r / pack)] |= static_cast<uint8_t>(row_zero(layer, r) << (r % pack * bits));
      }
      test.Constant<uint8_t>({c.experts, outputs / pack}, zeros);
    }
  }
  test.FloatOutput(c.type, {c.tokens, c.hidden}, dense.Output());
  Tolerance tolerance;
  tolerance.rtol = c.type == DataType::kFloat ? 1e-5 : 1e-2;
  tolerance.of_largest = true;
  test.WithTolerance(tolerance);
  test.Run();
}

TEST(QMoeTest, BitsBlocksAndZeroPoints) {
  for (const int bits : {2, 4, 8}) {
    for (const int64_t block_size : {0, 16, 32}) {
      for (const bool with_zeros : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << bits << " bits, block " << block_size << ", zeros " << with_zeros);
        Case c;
        c.activation = "swiglu";
        c.fusion = 1;
        c.normalize = c.bias = true;
        c.limit = 7;
        c.alpha = 1.702f;
        c.beta = 1;
        RunQMoeCase(c, bits, block_size, with_zeros);
      }
    }
  }
  Case many;  // enough tokens for an expert to take the path of dequantised panels
  many.tokens = 60;
  many.normalize = true;
  many.fc3 = true;
  RunQMoeCase(many, 4, 32, true);
  many.type = DataType::kFloat16;
  RunQMoeCase(many, 4, 0, false);
}

TEST(MoeRoutingTest, TiesGoToTheLowerExpertAndSparseMixerDropsFarLogits) {
  MoeAttributes attributes;
  attributes.k = 2;
  attributes.normalize = true;
  int32_t chosen[2];
  float weights[2];
  const float ties[4] = {1, 3, 3, 3};
  RouteToken(attributes, ties, 4, chosen, weights);
  EXPECT_EQ(chosen[0], 1);
  EXPECT_EQ(chosen[1], 2);
  EXPECT_FLOAT_EQ(weights[0], 0.5f);
  attributes.sparse_mixer = true;
  // Near: within 2 % of the larger magnitude. The first choice competes with 1.99 only, the second with none.
  const float logits[4] = {2.0f, 1.99f, 1.0f, -3.0f};
  RouteToken(attributes, logits, 4, chosen, weights);
  EXPECT_EQ(chosen[0], 0);
  EXPECT_EQ(chosen[1], 1);
  EXPECT_NEAR(weights[0], 1 / (1 + std::exp(-0.01)), 1e-6);
  EXPECT_FLOAT_EQ(weights[1], 1.0f);
}

TEST(MoeTest, ErrorsSayWhatIsWrong) {
  const auto inputs = [](OpTester& test) {
    test.Input<float>({1, 8}, std::vector<float>(8)).Input<float>({1, 2}, {0, 0});
    test.Input<float>({2, 4, 8}, std::vector<float>(64))
        .AbsentInput()
        .Input<float>({2, 8, 4}, std::vector<float>(64));
    test.Output<float>({1, 8}, std::vector<float>(8));
  };
  OpTester unknown("MoE", 1, "com.microsoft");
  unknown.Attr("activation_type", "mish");
  inputs(unknown);
  unknown.ExpectError(StatusCode::kInvalidModel, "found 'mish'");
  OpTester many("MoE", 1, "com.microsoft");
  many.Attr("k", 3);
  inputs(many);
  many.ExpectError(StatusCode::kInvalidArgument, "k = 3 experts of 2");
  OpTester swiglu("MoE", 1, "com.microsoft");
  swiglu.Attr("activation_type", "swiglu");
  inputs(swiglu);
  swiglu.ExpectError(StatusCode::kInvalidArgument, "swiglu needs either swiglu_fusion or fc3");
  OpTester mixer("MoE", 1, "com.microsoft");
  mixer.Attr("use_sparse_mixer", 1);
  inputs(mixer);
  mixer.ExpectError(StatusCode::kInvalidModel, "use_sparse_mixer needs k = 2, found 1");
}

}  // namespace
}  // namespace lamina
