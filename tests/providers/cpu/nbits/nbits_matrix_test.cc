#include "providers/cpu/nbits/nbits_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/half.h"
#include "providers/cpu/nbits/nbits_pack.h"
#include "support/cpu_isa_param.h"
#include "support/nbits_data.h"

namespace lamina {
namespace {

using testing::NBitsData;
using testing::RandomNumbers;
using Zeros = NBitsData::Zeros;

class NBitsMatrixTest : public ::testing::TestWithParam<CpuIsa> {
 protected:
  static std::vector<float> Multiply(CpuIsa isa, const NBitsData& data, Zeros zeros, bool int8,
                                     const std::vector<float>& x, int64_t rows, int threads = 1) {
    NBitsFormat format;
    format.bits = data.bits;
    format.n = data.n;
    format.k = data.k;
    format.block_size = data.block_size;
    NBitsSource source{data.packed.data(), data.blocks * data.block_size * data.bits / 8, data.scales.data(),
                       data.blocks};
    if (zeros == Zeros::kPacked) {
      format.zeros = NBitsZeros::kBytes;
      source.zeros = data.zeros.data();
      source.zero_row_bits = (data.blocks * data.bits + 7) / 8 * 8;
    } else if (zeros == Zeros::kFloat) {
      format.zeros = NBitsZeros::kFloats;
      source.zeros = data.float_zeros.data();
      source.zero_type = DataType::kFloat;
    }
    ThreadPool pool(threads);
    const NBitsMatrix matrix(isa, format, int8);
    std::vector<char> packed(static_cast<size_t>(matrix.format().packed_bytes()));
    PackNBits(pool, matrix.format(), source, packed.data());
    std::vector<char> workspace(matrix.WorkspaceBytes(DataType::kFloat, rows) + 1, '\x7f');
    std::vector<float> y(static_cast<size_t>(rows * data.n), NAN);
    matrix.Multiply(pool, DataType::kFloat, x.data(), data.k, rows, packed.data(), workspace.data(),
                    [&](int64_t row, int64_t column, int64_t count, const float* values) {
                      std::copy_n(values, count, y.begin() + row * data.n + column);
                    });
    EXPECT_EQ(workspace.back(), '\x7f');
    return y;
  }

  // Activations as accuracy level 4 rounds them.
  static std::vector<double> Quantized(const NBitsData& data, const std::vector<float>& x, int64_t rows) {
    std::vector<double> result(x.size());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t begin = 0; begin < data.k; begin += data.block_size) {
        const int64_t end = std::min(begin + data.block_size, data.k);
        float largest = 0;
        for (int64_t k = begin; k < end; ++k)
          largest = std::max(largest, std::abs(x[static_cast<size_t>(row * data.k + k)]));
        for (int64_t k = begin; k < end; ++k) {
          const auto i = static_cast<size_t>(row * data.k + k);
          result[i] = largest == 0
                          ? 0.0
                          : std::nearbyint(x[i] * (127.0f / largest)) * static_cast<double>(largest / 127.0f);
        }
      }
    }
    return result;
  }

  static void ExpectEqual(const NBitsData& data, Zeros zeros, const std::vector<double>& x, int64_t rows,
                          const std::vector<float>& y, double tolerance) {
    double worst = 0;
    double largest = 0;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t n = 0; n < data.n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < data.k; ++k)
          sum += x[static_cast<size_t>(row * data.k + k)] * data.Weight(zeros, n, k);
        const double actual = y[static_cast<size_t>(row * data.n + n)];
        worst = std::isnan(actual) ? INFINITY : std::max(worst, std::abs(actual - sum));
        largest = std::max(largest, std::abs(sum));
      }
    }
    EXPECT_LE(worst, tolerance * largest);
  }
};

TEST_P(NBitsMatrixTest, EqualsDoubleForEveryBitsBlocksAndZeroPoints) {
  for (const int bits : {2, 4, 8}) {
    for (const int64_t block_size : {16, 32, 64, 128, 256}) {
      for (const int64_t k : {block_size * 2, block_size * 3 - 5, int64_t{300}}) {
        for (const int64_t rows : {1, 3, 4, 14}) {
          const NBitsData data(bits, 37, k, block_size, 5);
          const std::vector<float> x = RandomNumbers(rows * k, 6);
          const std::vector<double> exact(x.begin(), x.end());
          for (const Zeros zeros : {Zeros::kDefault, Zeros::kPacked, Zeros::kFloat}) {
            SCOPED_TRACE(::testing::Message() << bits << " bits, block " << block_size << ", k " << k
                                              << ", rows " << rows << ", zeros " << static_cast<int>(zeros));
            ExpectEqual(data, zeros, exact, rows, Multiply(GetParam(), data, zeros, false, x, rows), 2e-6);
            // The rounded activations exactly, and the real ones within what rounding them costs.
            const std::vector<float> y = Multiply(GetParam(), data, zeros, true, x, rows);
            ExpectEqual(data, zeros, Quantized(data, x, rows), rows, y, 2e-6);
            ExpectEqual(data, zeros, exact, rows, y, 2e-2);
          }
        }
      }
    }
  }
}

TEST_P(NBitsMatrixTest, LargestValuesDoNotSaturate) {
  for (const int bits : {2, 4, 8}) {
    for (const int64_t block_size : {16, 32, 256}) {
      for (const float sign : {1.0f, -1.0f}) {
        for (const uint8_t quant : {0, (1 << bits) - 1}) {
          NBitsData data(bits, 16, 512, block_size, 7);
          std::fill(data.quants.begin(), data.quants.end(), quant);
          std::fill(data.packed.begin(), data.packed.end(), quant == 0 ? 0 : 0xff);
          const std::vector<float> x(512, sign * 127);
          const std::vector<float> y = Multiply(GetParam(), data, Zeros::kPacked, true, x, 1);
          ExpectEqual(data, Zeros::kPacked, std::vector<double>(x.begin(), x.end()), 1, y, 1e-6);
        }
      }
    }
  }
}

TEST_P(NBitsMatrixTest, ZeroActivationsGiveZero) {
  const NBitsData data(4, 20, 64, 32, 8);
  for (const float value : Multiply(GetParam(), data, Zeros::kPacked, true, std::vector<float>(64), 1))
    EXPECT_EQ(value, 0);
}

TEST_P(NBitsMatrixTest, ThreadsDoNotChangeABit) {
  const NBitsData data(4, 1500, 512, 32, 9);
  for (const int64_t rows : {1, 40}) {
    const std::vector<float> x = RandomNumbers(rows * data.k, 10);
    for (const bool int8 : {false, true}) {
      const std::vector<float> one = Multiply(GetParam(), data, Zeros::kDefault, int8, x, rows);
      for (const int threads : {2, 4})
        EXPECT_EQ(one, Multiply(GetParam(), data, Zeros::kDefault, int8, x, rows, threads));
    }
  }
}

// Every weight lands where it belongs: one activation at a time.
TEST_P(NBitsMatrixTest, OneHotActivationsReadTheMatrix) {
  for (const int bits : {2, 4, 8}) {
    const NBitsData data(bits, 19, 100, 16, 11);
    for (int64_t k = 0; k < data.k; ++k) {
      std::vector<float> x(static_cast<size_t>(data.k), 0.0f);
      x[static_cast<size_t>(k)] = 1;
      const std::vector<float> y = Multiply(GetParam(), data, Zeros::kPacked, false, x, 1);
      for (int64_t n = 0; n < data.n; ++n) {
        ASSERT_NEAR(y[static_cast<size_t>(n)], data.Weight(Zeros::kPacked, n, k), 1e-6)
            << bits << " " << n << " " << k;
      }
    }
  }
}

// scale = max / 127, its reciprocal and the product are each rounded: near the middle between two integers
// another way of computing them gives another integer.
TEST_P(NBitsMatrixTest, ActivationsAreQuantisedInRoundedSteps) {
  constexpr int64_t kK = 1 << 20, kBlock = 32;
  const std::vector<float> x = RandomNumbers(kK, 77);
  NBitsFormat format;
  format.n = 8;
  format.k = kK;
  format.block_size = kBlock;
  const NBitsFloatKernels& kernels = NBitsFloatKernelsFor(GetParam());
  format.lanes = kernels.lanes;
  std::vector<int8_t> quants(kK);
  std::vector<float> scales(kK / kBlock);
  std::vector<int32_t> sums(kK / kBlock);
  kernels.quantize(format, DataType::kFloat, x.data(), {quants.data(), scales.data(), sums.data()}, 0);
  for (int64_t block = 0; block < kK / kBlock; ++block) {
    const float* values = x.data() + block * kBlock;
    float maximum = 0;
    for (int64_t i = 0; i < kBlock; ++i) maximum = std::max(maximum, std::fabs(values[i]));
    const float scale = maximum / 127.0f;
    const float inverse = 1.0f / scale;
    int32_t sum = 0;
    for (int64_t i = 0; i < kBlock; ++i) {
      const float scaled = values[i] * inverse;
      const auto expected = static_cast<int32_t>(std::nearbyint(scaled));
      sum += expected;
      ASSERT_EQ(quants[static_cast<size_t>(block * kBlock + i)], expected) << block << " " << i;
    }
    ASSERT_EQ(scales[static_cast<size_t>(block)], scale);
    ASSERT_EQ(sums[static_cast<size_t>(block)], sum);
  }
}

// A block too small for a scale's inverse to be finite counts as zeros.
TEST_P(NBitsMatrixTest, SubnormalActivationsAreZeros) {
  const std::vector<float> x(32, 1e-40f);
  NBitsFormat format;
  format.n = 8;
  format.k = 32;
  const NBitsFloatKernels& kernels = NBitsFloatKernelsFor(GetParam());
  format.lanes = kernels.lanes;
  std::vector<int8_t> quants(static_cast<size_t>(format.padded_k()), 1);
  std::vector<float> scales(1);
  std::vector<int32_t> sums(1);
  kernels.quantize(format, DataType::kFloat, x.data(), {quants.data(), scales.data(), sums.data()}, 0);
  for (const int8_t quant : quants) EXPECT_EQ(quant, 0);
}

LAMINA_INSTANTIATE_FOR_EACH_ISA(NBitsMatrixTest);

}  // namespace
}  // namespace lamina
