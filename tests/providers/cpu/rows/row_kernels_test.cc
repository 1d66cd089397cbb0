#include "providers/cpu/rows/row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/half.h"
#include "support/cpu_isa_param.h"
#include "support/random_data.h"

namespace lamina {
namespace {

using testing::RandomNumbers;

class RowKernelsTest : public ::testing::TestWithParam<CpuIsa> {
 protected:
  const RowKernels& kernels() const { return RowKernelsFor(GetParam()); }
};

constexpr int64_t kCounts[] = {1, 7, 8, 15, 16, 17, 33, 384, 1000};

TEST_P(RowKernelsTest, NormalizeEqualsDouble) {
  for (const int64_t count : kCounts) {
    const auto size = static_cast<size_t>(count);
    const auto x = RandomNumbers(count, 1, -2, 3), skip = RandomNumbers(count, 2),
               bias = RandomNumbers(count, 3);
    const auto scale = RandomNumbers(count, 4), shift = RandomNumbers(count, 5);
    for (const bool rms : {false, true}) {
      for (const bool with_skip : {false, true}) {
        std::vector<double> v(size);
        double mean = 0, square = 0;
        for (size_t i = 0; i < size; ++i) {
          v[i] = double{x[i]} + (with_skip ? double{skip[i]} + bias[i] : 0.0);
          mean += v[i] / static_cast<double>(count);
        }
        if (rms) mean = 0;
        for (size_t i = 0; i < size; ++i)
          square += (v[i] - mean) * (v[i] - mean) / static_cast<double>(count);
        std::vector<float> y(size + 1, -9.0f), sum(size + 1, -9.0f);
        NormalizeRow row;
        row.count = count;
        row.x = x.data();
        row.skip = with_skip ? skip.data() : nullptr;
        row.bias = with_skip ? bias.data() : nullptr;
        row.scale = scale.data();
        row.shift = rms ? nullptr : shift.data();
        row.y = y.data();
        row.sum = sum.data();
        row.epsilon = 1e-5f;
        row.rms = rms;
        kernels().of_float.normalize(row);
        for (size_t i = 0; i < size; ++i) {
          const double expected =
              (v[i] - mean) / std::sqrt(square + 1e-5) * scale[i] + (rms ? 0.0 : shift[i]);
          ASSERT_NEAR(y[i], expected, 2e-6 * std::max(1.0, std::abs(expected))) << count << " " << i;
          ASSERT_NEAR(sum[i], v[i], 1e-6);
        }
        EXPECT_EQ(y[size], -9.0f);
        EXPECT_EQ(sum[size], -9.0f);
        EXPECT_NEAR(row.inverse_deviation, 1 / std::sqrt(square + 1e-5), 1e-4 * row.inverse_deviation);
      }
    }
  }
}

// To the bit, in the order of ONNX Runtime's kernels: int8 models follow its records only so.
TEST_P(RowKernelsTest, RmsNormalizeSumsAndRoundsAsOnnxRuntime) {
  constexpr size_t kCount = 384;
  for (uint64_t seed = 10; seed < 40; ++seed) {
    const auto x = RandomNumbers(kCount, seed, -2, 3), skip = RandomNumbers(kCount, seed + 100),
               scale = RandomNumbers(kCount, seed + 200);
    for (const bool residual : {false, true}) {
      float eight[8] = {}, one_by_one = 0;
      std::vector<float> v(kCount);
      for (size_t i = 0; i < kCount; ++i) {
        v[i] = residual ? x[i] + skip[i] : x[i];
        const float square = v[i] * v[i];
        eight[i % 8] += square;
        one_by_one += square;
      }
      const float total =
          ((eight[0] + eight[4]) + (eight[2] + eight[6])) + ((eight[1] + eight[5]) + (eight[3] + eight[7]));
      const float mean = residual ? one_by_one / kCount : total * (1.0f / kCount);
      const float deviation = std::sqrt(mean + 1e-5f);
      std::vector<float> y(kCount);
      NormalizeRow row;
      row.count = kCount;
      row.x = x.data();
      row.skip = residual ? skip.data() : nullptr;
      row.scale = scale.data();
      row.y = y.data();
      row.epsilon = 1e-5f;
      row.rms = true;
      kernels().of_float.normalize(row);
      for (size_t i = 0; i < kCount; ++i) {
        const float normalized = residual ? v[i] / deviation : v[i] * (1.0f / deviation);
        ASSERT_EQ(y[i], normalized * scale[i]) << seed << " " << i;
      }
    }
  }
}

TEST_P(RowKernelsTest, HalfNormalizeRoundsWhereItShould) {
  constexpr int64_t kCount = 37;
  const auto x = RandomNumbers<Float16>(kCount, 6), scale = RandomNumbers<Float16>(kCount, 7);
  double square = 0;
  for (const Float16 value : x) square += double{value} * double{value} / kCount;
  for (const bool round : {false, true}) {
    std::vector<Float16> y(kCount);
    NormalizeRow row;
    row.count = kCount;
    row.x = x.data();
    row.scale = scale.data();
    row.y = y.data();
    row.epsilon = 1e-6f;
    row.rms = true;
    row.round_before_scale = round;
    kernels().of_half.normalize(row);
    int differ = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const float normalized = static_cast<float>(static_cast<double>(x[i]) / std::sqrt(square + 1e-6));
      const float before = round ? static_cast<float>(Float16(normalized)) : normalized;
      differ += y[i].bits != Float16(before * static_cast<float>(scale[i])).bits ? 1 : 0;
    }
    // Ties between two neighbours may fall either way.
    EXPECT_LE(differ, 1) << round;
  }
}

TEST_P(RowKernelsTest, SoftmaxRowsAndColumnsEqualDouble) {
  for (const int64_t count : kCounts) {
    constexpr int64_t kColumns = 21;
    const auto x = RandomNumbers(count * kColumns, 8, -20, 20);
    for (const bool logarithm : {false, true}) {
      std::vector<float> by_column(x.size(), NAN);
      kernels().of_float.softmax_columns(x.data(), by_column.data(), count, kColumns, 0, 16, logarithm);
      kernels().of_float.softmax_columns(x.data(), by_column.data(), count, kColumns, 16, kColumns,
                                         logarithm);
      for (int64_t column = 0; column < kColumns; ++column) {
        std::vector<float> row, result(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i) row.push_back(x[static_cast<size_t>(i * kColumns + column)]);
        kernels().of_float.softmax(row.data(), result.data(), count, logarithm);
        double sum = 0;
        for (const float value : row) sum += std::exp(double{value});
        for (size_t i = 0; i < row.size(); ++i) {
          const double expected = logarithm ? row[i] - std::log(sum) : std::exp(double{row[i]}) / sum;
          ASSERT_NEAR(result[i], expected, logarithm ? 4e-6 : 1e-6);
          ASSERT_NEAR(by_column[i * kColumns + static_cast<size_t>(column)], expected,
                      logarithm ? 4e-6 : 1e-6);
        }
      }
    }
  }
}

TEST_P(RowKernelsTest, SoftmaxOfInfinities) {
  const std::vector<float> some{-INFINITY, 0, -INFINITY}, none{-INFINITY, -INFINITY};
  std::vector<float> y(3);
  kernels().of_float.softmax(some.data(), y.data(), 3, false);
  EXPECT_EQ(y, (std::vector<float>{0, 1, 0}));
  kernels().of_float.softmax(none.data(), y.data(), 2, false);
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST_P(RowKernelsTest, RotateTurnsPairs) {
  for (const int64_t pairs : {1, 4, 8, 13, 32}) {
    const int64_t head_size = 2 * pairs + 3;
    const auto x = RandomNumbers(head_size, 9), cos = RandomNumbers(pairs, 10),
               sin = RandomNumbers(pairs, 11);
    for (const bool interleaved : {false, true}) {
      for (const bool in_place : {false, true}) {
        std::vector<float> y = in_place ? x : std::vector<float>(x.size(), NAN);
        RotateHead head{
            in_place ? y.data() : x.data(), y.data(), cos.data(), sin.data(), head_size, pairs, interleaved};
        kernels().of_float.rotate(head);
        for (int64_t i = 0; i < pairs; ++i) {
          const auto first = static_cast<size_t>(interleaved ? 2 * i : i);
          const auto second = static_cast<size_t>(interleaved ? 2 * i + 1 : pairs + i);
          const double c = cos[static_cast<size_t>(i)], s = sin[static_cast<size_t>(i)];
          ASSERT_NEAR(y[first], c * x[first] - s * x[second], 1e-6);
          ASSERT_NEAR(y[second], s * x[first] + c * x[second], 1e-6);
        }
        for (size_t i = static_cast<size_t>(2 * pairs); i < x.size(); ++i) ASSERT_EQ(y[i], x[i]);
      }
    }
  }
}

LAMINA_INSTANTIATE_FOR_EACH_ISA(RowKernelsTest);

}  // namespace
}  // namespace lamina
