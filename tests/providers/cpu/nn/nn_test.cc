#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/op_tester.h"
#include "support/random_data.h"

namespace lamina::testing {
namespace {

using Ints = std::vector<int64_t>;

// A convolution by its definition, in double.
struct PlainConv {
  Shape x_shape;  // [batch, channels, height, width]
  Shape w_shape;  // [filters, channels / groups, kernel height, kernel width]
  int64_t groups = 1;
  Ints strides = {1, 1};
  Ints pads = {0, 0, 0, 0};
  Ints dilations = {1, 1};

  int64_t Output(int axis) const {
    const auto a = static_cast<size_t>(axis);
    return (x_shape[axis + 2] + pads[a] + pads[a + 2] - dilations[a] * (w_shape[axis + 2] - 1) - 1) /
               strides[a] +
           1;
  }
  std::vector<double> Run(const std::vector<double>& x, const std::vector<double>& w,
                          const std::vector<double>& bias) const {
    std::vector<double> y;
    const int64_t filters = w_shape[0];
    const int64_t group_filters = std::max<int64_t>(filters / groups, 1);
    for (int64_t n = 0; n < x_shape[0]; ++n) {
      for (int64_t f = 0; f < filters; ++f) {
        for (int64_t i = 0; i < Output(0); ++i) {
          for (int64_t j = 0; j < Output(1); ++j) {
            double sum = bias.empty() ? 0 : bias[static_cast<size_t>(f)];
            for (int64_t c = 0; c < w_shape[1]; ++c) {
              const int64_t channel = f / group_filters * w_shape[1] + c;
              for (int64_t ki = 0; ki < w_shape[2]; ++ki) {
                for (int64_t kj = 0; kj < w_shape[3]; ++kj) {
                  const int64_t row = i * strides[0] - pads[0] + ki * dilations[0];
                  const int64_t column = j * strides[1] - pads[1] + kj * dilations[1];
                  if (row < 0 || row >= x_shape[2] || column < 0 || column >= x_shape[3]) continue;
                  sum += x[static_cast<size_t>(((n * x_shape[1] + channel) * x_shape[2] + row) * x_shape[3] +
                                               column)] *
                         w[static_cast<size_t>(((f * w_shape[1] + c) * w_shape[2] + ki) * w_shape[3] + kj)];
                }
              }
            }
            y.push_back(sum);
          }
        }
      }
    }
    return y;
  }
};

std::vector<double> Pattern(int64_t count, int seed) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>((i * 29 + seed * 7) % 17 - 8) / 8);
  return values;
}

void CheckConv(const PlainConv& conv) {
  const std::vector<double> x = Pattern(conv.x_shape.num_elements(), 1);
  const std::vector<double> w = Pattern(conv.w_shape.num_elements(), 2);
  const std::vector<double> bias = Pattern(conv.w_shape[0], 3);
  const Shape out{conv.x_shape[0], conv.w_shape[0], conv.Output(0), conv.Output(1)};
  const std::vector<double> expected = conv.Run(x, w, bias);
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBfloat16}) {
    for (const bool constant : {false, true}) {
      OpTester test("Conv", 22);
      test.Attr("group", AttributeValue(conv.groups)).Attr("strides", AttributeValue(conv.strides));
      test.Attr("pads", AttributeValue(conv.pads)).Attr("dilations", AttributeValue(conv.dilations));
      test.FloatInput(type, conv.x_shape, x);
      if (constant) {
        test.ConstantValue(OpTester::MakeFloatTensor(type, conv.w_shape, w));
      } else {
        test.FloatInput(type, conv.w_shape, w);
      }
      test.FloatInput(type, {conv.w_shape[0]}, bias).FloatOutput(type, out, expected);
      test.Run();
    }
  }
}

TEST(Conv, GeneralWindows) {
  CheckConv({{2, 3, 9, 11}, {5, 3, 3, 2}, 1, {2, 1}, {1, 0, 2, 1}, {1, 2}});
  CheckConv({{1, 4, 6, 70}, {6, 2, 1, 3}, 2, {1, 2}, {0, 1, 0, 1}, {1, 1}});
}

TEST(Conv, PointwiseAndDepthwise) {
  CheckConv({{2, 5, 7, 9}, {4, 5, 1, 1}});
  CheckConv({{1, 6, 8, 300}, {12, 1, 3, 3}, 6, {1, 1}, {1, 1, 1, 1}, {1, 1}});
  CheckConv({{1, 4, 9, 9}, {4, 1, 3, 3}, 4, {2, 2}, {1, 1, 0, 0}, {2, 2}});
}

TEST(Conv, BlocksOfFiltersColumnsAndChannels) {
  CheckConv({{1, 50, 5, 7}, {100, 50, 3, 3}, 1, {1, 1}, {1, 1, 1, 1}, {1, 1}});
  CheckConv({{1, 140, 3, 67}, {7, 140, 1, 1}});
  CheckConv({{2, 8, 9, 70}, {6, 4, 3, 3}, 2, {2, 2}, {1, 1, 1, 1}, {1, 1}});
}

TEST(Conv, DepthwiseRowsOfEveryStride) {
  CheckConv({{1, 3, 6, 131}, {3, 1, 5, 5}, 3, {1, 1}, {2, 2, 2, 2}, {1, 1}});
  CheckConv({{2, 3, 7, 150}, {3, 1, 3, 3}, 3, {2, 2}, {1, 1, 1, 1}, {1, 1}});
  CheckConv({{1, 2, 5, 149}, {4, 1, 2, 3}, 2, {1, 3}, {0, 2, 1, 0}, {1, 2}});
  CheckConv({{1, 2, 3, 4}, {2, 1, 3, 7}, 2, {1, 2}, {1, 3, 1, 3}, {1, 1}});
}

TEST(Conv, OneAndThreeSpatialAxes) {
  OpTester one("Conv", 22);
  one.Attr("pads", AttributeValue(Ints{1, 1}));
  one.Input<float>({1, 1, 4}, {1, 2, 3, 4}).Constant<float>({1, 1, 3}, {1, 0, -1});
  one.Output<float>({1, 1, 4}, {-2, -2, -2, 3});
  one.Run();
  OpTester three("Conv", 22);
  three.Input<float>({1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})
      .Constant<float>({1, 1, 2, 2, 2}, std::vector<float>(8, 1));
  three.Output<float>({1, 1, 1, 1, 1}, {36});
  three.Run();
}

TEST(Conv, ShapesThatDoNotFitAreErrors) {
  OpTester test("Conv", 22);
  test.Input<float>({1, 2, 4}, std::vector<float>(8)).Input<float>({1, 3, 1}, std::vector<float>(3));
  test.UncheckedOutput(ValueType::Tensor(DataType::kFloat));
  test.ExpectError(StatusCode::kInvalidArgument, "do not fit input [1,2,4]");
}

TEST(FusedConv, AddsAndActivates) {
  OpTester test("FusedConv", 1, kMsDomain);
  test.Attr("activation", "Relu");
  test.Input<float>({1, 1, 3}, {1, -2, 3}).Constant<float>({1, 1, 1}, {1}).Input<float>({1}, {0.5f});
  test.Input<float>({1, 1, 3}, {1, 1, -10}).Output<float>({1, 1, 3}, {2.5f, 0, 0});
  test.Run();
}

TEST(ConvTranspose, UndoesAStride) {
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kFloat16}) {
    OpTester test("ConvTranspose", 22);
    test.Attr("strides", AttributeValue(Ints{2, 2})).Attr("output_padding", AttributeValue(Ints{0, 1}));
    test.FloatInput(type, {1, 1, 2, 2}, {1, 2, 3, 4}).FloatInput(type, {1, 1, 2, 2}, {1, 10, 100, 1000});
    test.FloatOutput(type, {1, 1, 4, 5},
                     {1, 10, 2, 20, 0, 100, 1000, 200, 2000, 0, 3, 30, 4, 40, 0, 300, 3000, 400, 4000, 0});
    test.Run();
  }
}

// A transposed convolution by definition, [batch, channels, h, w] and [channels, filters / groups, kh, kw].
struct PlainConvTranspose {
  Shape x_shape;
  Shape w_shape;
  int64_t groups = 1;
  Ints strides = {1, 1};
  Ints pads = {0, 0, 0, 0};
  Ints dilations = {1, 1};
  Ints output_padding = {0, 0};

  int64_t Output(size_t axis) const {
    const int at = static_cast<int>(axis) + 2;
    return strides[axis] * (x_shape[at] - 1) + output_padding[axis] + (w_shape[at] - 1) * dilations[axis] +
           1 - pads[axis] - pads[axis + 2];
  }
  std::vector<double> Run(const std::vector<double>& x, const std::vector<double>& w,
                          const std::vector<double>& bias) const {
    const int64_t filters = w_shape[1] * groups;
    const int64_t channels = x_shape[1] / groups;
    std::vector<double> y(static_cast<size_t>(x_shape[0] * filters * Output(0) * Output(1)));
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = bias[i / static_cast<size_t>(Output(0) * Output(1)) % static_cast<size_t>(filters)];
    }
    for (int64_t element = 0; element < x_shape.num_elements(); ++element) {
      const int64_t column = element % x_shape[3];
      const int64_t row = element / x_shape[3] % x_shape[2];
      const int64_t channel = element / x_shape[3] / x_shape[2] % x_shape[1];
      const int64_t n = element / x_shape[3] / x_shape[2] / x_shape[1];
      for (int64_t tap = 0; tap < w_shape[1] * w_shape[2] * w_shape[3]; ++tap) {
        const int64_t kj = tap % w_shape[3];
        const int64_t ki = tap / w_shape[3] % w_shape[2];
        const int64_t f = channel / channels * w_shape[1] + tap / w_shape[3] / w_shape[2];
        const int64_t i = row * strides[0] - pads[0] + ki * dilations[0];
        const int64_t j = column * strides[1] - pads[1] + kj * dilations[1];
        if (i < 0 || i >= Output(0) || j < 0 || j >= Output(1)) continue;
        y[static_cast<size_t>(((n * filters + f) * Output(0) + i) * Output(1) + j)] +=
            x[static_cast<size_t>(element)] *
            w[static_cast<size_t>(channel * w_shape[1] * w_shape[2] * w_shape[3] + tap)];
      }
    }
    return y;
  }
  void Check() const {
    const std::vector<double> x = Pattern(x_shape.num_elements(), 1);
    const std::vector<double> w = Pattern(w_shape.num_elements(), 2);
    const std::vector<double> bias = Pattern(w_shape[1] * groups, 3);
    for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
      OpTester test("ConvTranspose", 22);
      test.Attr("group", AttributeValue(groups)).Attr("strides", AttributeValue(strides));
      test.Attr("pads", AttributeValue(pads)).Attr("dilations", AttributeValue(dilations));
      test.Attr("output_padding", AttributeValue(output_padding));
      test.FloatInput(type, x_shape, x).FloatInput(type, w_shape, w);
      test.FloatInput(type, {w_shape[1] * groups}, bias);
      test.FloatOutput(type, {x_shape[0], w_shape[1] * groups, Output(0), Output(1)}, Run(x, w, bias));
      test.Run();
    }
  }
};

TEST(ConvTranspose, WindowsApartAndOverlapping) {
  PlainConvTranspose{{2, 5, 9, 70}, {5, 3, 2, 2}, 1, {2, 2}}.Check();
  PlainConvTranspose{{1, 4, 40, 33}, {4, 2, 2, 3}, 2, {3, 2}, {1, 1, 1, 0}, {1, 1}, {1, 0}}.Check();
  PlainConvTranspose{{1, 6, 5, 20}, {6, 9, 3, 3}, 1, {1, 1}, {1, 1, 1, 1}}.Check();
  PlainConvTranspose{{2, 4, 5, 7}, {4, 10, 4, 5}, 2, {2, 1}, {1, 2, 0, 1}, {2, 1}, {1, 0}}.Check();
  PlainConvTranspose{{1, 130, 3, 4}, {130, 1, 10, 10}, 1, {10, 10}}.Check();
}

TEST(LinearAttention, AStateOfAnotherTypeIsRefused) {
  OpTester test("LinearAttention", 27);
  test.Attr("q_num_heads", 1).Attr("kv_num_heads", 1).Attr("update_rule", "linear");
  for (int i = 0; i < 3; ++i) test.FloatInput(DataType::kFloat16, {1, 1, 2}, {1, 2});
  test.Input<float>({1, 1, 2, 2}, {1, 2, 3, 4});
  test.UncheckedOutput(ValueType::Tensor(DataType::kFloat16));
  test.UncheckedOutput(ValueType::Tensor(DataType::kFloat));
  test.ExpectError(StatusCode::kUnsupported, "the state is float, the tokens are float16");
}

TEST(MaxPool, CeilModePaddingAndIndices) {
  OpTester test("MaxPool", 22);
  test.Attr("kernel_shape", AttributeValue(Ints{2}))
      .Attr("strides", AttributeValue(Ints{2}))
      .Attr("ceil_mode", 1);
  test.Input<float>({1, 1, 5}, {1, 3, 2, NAN, 5})
      .Output<float>({1, 1, 3}, {3, NAN, 5})
      .Output<int64_t>({1, 1, 3}, {1, 3, 4});
  test.Run();
}

// Pools of planes by definition, against the kernel, which shares what neighbouring windows have in common.
struct PlainPool {
  Shape input;  // [batch, channels, height, width]
  Ints kernel, strides, pads, dilations;
  bool is_max = true;
  bool counts_padding = false;

  void Check() const {
    const std::vector<float> x = RandomNumbers(input.num_elements(), 7);
    Shape shape = input;
    for (int axis = 0; axis < 2; ++axis) {
      const auto i = static_cast<size_t>(axis);
      const int64_t reach = (kernel[i] - 1) * dilations[i] + 1;
      shape[axis + 2] = (input[axis + 2] + pads[i] + pads[i + 2] - reach) / strides[i] + 1;
    }
    std::vector<float> y;
    for (int64_t plane = 0; plane < input[0] * input[1]; ++plane) {
      for (int64_t row = 0; row < shape[2]; ++row) {
        for (int64_t column = 0; column < shape[3]; ++column) {
          y.push_back(At(x.data() + plane * input[2] * input[3], row, column));
        }
      }
    }
    OpTester test(is_max ? "MaxPool" : "AveragePool", 22);
    test.Attr("kernel_shape", AttributeValue(kernel)).Attr("strides", AttributeValue(strides));
    test.Attr("pads", AttributeValue(pads)).Attr("dilations", AttributeValue(dilations));
    if (!is_max) test.Attr("count_include_pad", counts_padding ? 1 : 0);
    test.Input<float>(input, x).Output<float>(shape, y);
    test.Run();
  }

  float At(const float* plane, int64_t row, int64_t column) const {
    float best = -std::numeric_limits<float>::infinity();
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < kernel[0]; ++i) {
      for (int64_t j = 0; j < kernel[1]; ++j) {
        const int64_t y = row * strides[0] - pads[0] + i * dilations[0];
        const int64_t x = column * strides[1] - pads[1] + j * dilations[1];
        const bool inside = y >= 0 && y < input[2] && x >= 0 && x < input[3];
        if (inside || counts_padding) ++count;
        if (!inside) continue;
        best = std::max(best, plane[y * input[3] + x]);
        sum += static_cast<double>(plane[y * input[3] + x]);
      }
    }
    return is_max ? best : static_cast<float>(sum / static_cast<double>(count));
  }
};

TEST(Pool, RowsOfAnyGeometryAreThatOfTheirWindows) {
  for (const bool is_max : {true, false}) {
    PlainPool{{2, 3, 7, 9}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, is_max}.Check();
    PlainPool{{1, 2, 8, 6}, {2, 3}, {1, 1}, {0, 2, 1, 1}, {3, 2}, is_max, true}.Check();
    // Several blocks of a row; windows wider than a block; gaps wider than a block.
    PlainPool{{1, 1, 2, 1500}, {2, 3}, {1, 1}, {0, 1, 0, 1}, {1, 1}, is_max}.Check();
    PlainPool{{1, 1, 1, 2000}, {1, 1200}, {1, 7}, {0, 40, 0, 40}, {1, 1}, is_max}.Check();
    PlainPool{{1, 1, 1, 2000}, {1, 3}, {1, 900}, {0, 0, 0, 0}, {1, 700}, is_max}.Check();
    PlainPool{{1, 5, 6, 6}, {6, 6}, {1, 1}, {0, 0, 0, 0}, {1, 1}, is_max}.Check();
  }
}

TEST(AveragePool, CountsThePaddingOnRequest) {
  OpTester test("AveragePool", 22);
  test.Attr("kernel_shape", AttributeValue(Ints{3}))
      .Attr("pads", AttributeValue(Ints{1, 1}))
      .Attr("count_include_pad", 1);
  test.Input<float>({1, 1, 3}, {3, 6, 9}).Output<float>({1, 1, 3}, {3, 6, 5});
  test.Run();
}

TEST(BatchNormalization, EveryTypeInPlace) {
  for (const DataType type : {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBfloat16}) {
    OpTester test("BatchNormalization", 15);
    test.Attr("epsilon", AttributeValue(0.0f));
    test.FloatInput(type, {1, 2, 2}, {1, 2, 3, 4})
        .FloatInput(type, {2}, {2, 1})
        .FloatInput(type, {2}, {0, 1});
    test.Input<float>({2}, {1, 3}).Input<float>({2}, {4, 1}).FloatOutput(type, {1, 2, 2}, {0, 1, 1, 2});
    test.Run();
  }
}

// An LSTM with one input, one unit and two sequences of different lengths, computed by hand from its
// formulas.
TEST(Lstm, SequenceLengthsAndReverse) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const double w[4] = {0.5, -0.25, 0.75, 1.0};  // i o f c
  const double r[4] = {0.1, 0.2, -0.3, 0.4};
  const double x[2][3] = {{1, 2, 3}, {-1, 0.5, 9}};
  const size_t length[2] = {3, 2};
  std::vector<double> y(12);  // [step, direction, sequence, 1]
  std::vector<double> last(4);
  for (size_t d = 0; d < 2; ++d) {
    for (size_t b = 0; b < 2; ++b) {
      double h = 0;
      double c = 0;
      for (size_t step = 0; step < length[b]; ++step) {
        const size_t t = d == 0 ? step : length[b] - 1 - step;
        const double i = sigmoid(w[0] * x[b][t] + r[0] * h);
        const double o = sigmoid(w[1] * x[b][t] + r[1] * h);
        const double f = sigmoid(w[2] * x[b][t] + r[2] * h);
        c = f * c + i * std::tanh(w[3] * x[b][t] + r[3] * h);
        h = o * std::tanh(c);
        y[t * 4 + d * 2 + b] = h;
      }
      last[d * 2 + b] = h;
    }
  }
  for (const bool constant : {false, true}) {
    for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kDouble}) {
      OpTester test("LSTM", 22);
      test.Attr("direction", "bidirectional").Attr("hidden_size", 1);
      test.FloatInput(type, {3, 2, 1}, {1, -1, 2, 0.5, 3, 9});
      for (const double* weights : {w, r}) {
        const std::vector<double> both = {weights[0], weights[1], weights[2], weights[3],
                                          weights[0], weights[1], weights[2], weights[3]};
        const Tensor tensor = OpTester::MakeFloatTensor(type, {2, 4, 1}, both);
        constant ? test.ConstantValue(tensor) : test.InputValue(tensor);
      }
      test.AbsentInput().Input<int32_t>({2}, {3, 2});
      test.FloatOutput(type, {3, 2, 2, 1}, y).FloatOutput(type, {2, 2, 1}, last);
      test.Run();
    }
  }
}

// A GRU and an RNN of two steps, computed by hand from their formulas.
TEST(Gru, BothWaysToReset) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const double w[3] = {0.5, -0.25, 0.75};  // z r h
  const double r[3] = {0.1, 0.2, -0.3};
  const double b[6] = {0.1, 0.2, 0.3, -0.1, -0.2, 0.5};
  for (const int resets_last : {0, 1}) {
    std::vector<double> y;
    double h = 0;
    for (const double x : {1.0, -2.0}) {
      const double z = sigmoid(w[0] * x + b[0] + r[0] * h + b[3]);
      const double reset = sigmoid(w[1] * x + b[1] + r[1] * h + b[4]);
      const double product = resets_last ? reset * (r[2] * h + b[5]) : r[2] * (reset * h) + b[5];
      h = (1 - z) * std::tanh(w[2] * x + b[2] + product) + z * h;
      y.push_back(h);
    }
    for (const DataType type : {DataType::kFloat, DataType::kDouble}) {
      OpTester test("GRU", 22);
      test.Attr("hidden_size", 1).Attr("linear_before_reset", resets_last);
      test.FloatInput(type, {2, 1, 1}, {1, -2}).FloatInput(type, {1, 3, 1}, {w[0], w[1], w[2]});
      test.FloatInput(type, {1, 3, 1}, {r[0], r[1], r[2]});
      test.FloatInput(type, {1, 6}, {b[0], b[1], b[2], b[3], b[4], b[5]});
      test.FloatOutput(type, {2, 1, 1, 1}, y).FloatOutput(type, {1, 1, 1}, {h});
      test.Run();
    }
  }
}

TEST(Rnn, ActivationsOfEveryType) {
  struct Case {
    const char* name;
    double (*function)(double);
  };
  for (const Case& activation : {Case{"Tanh", [](double v) { return std::tanh(v); }},
                                 Case{"Relu", [](double v) { return std::max(v, 0.0); }},
                                 Case{"Softsign", [](double v) { return v / (1 + std::abs(v)); }}}) {
    const double first = activation.function(0.5);
    const double second = activation.function(0.5 * -3 + 0.25 * first);
    for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kDouble}) {
      OpTester test("RNN", 22);
      test.Attr("hidden_size", 1).Attr("activations", std::vector<std::string>{activation.name});
      test.FloatInput(type, {2, 1, 1}, {1, -3})
          .FloatInput(type, {1, 1, 1}, {0.5})
          .FloatInput(type, {1, 1, 1}, {0.25});
      test.FloatOutput(type, {2, 1, 1, 1}, {first, second}).FloatOutput(type, {1, 1, 1}, {second});
      test.Run();
    }
  }
}

TEST(Resize, FloorOfFractionalScalesAndHalfTypes) {
  OpTester test("Resize", 19);
  test.Attr("mode", "linear").FloatInput(DataType::kFloat16, {1, 4}, {0, 1, 2, 3}).AbsentInput();
  test.Constant<float>({2}, {1, 0.6f}).FloatOutput(DataType::kFloat16, {1, 2}, {1.0 / 3, 2});
  test.Run();
}

}  // namespace
}  // namespace lamina::testing
