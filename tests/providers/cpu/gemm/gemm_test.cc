#include "providers/cpu/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/half.h"
#include "providers/cpu/gemm/packed_matrix.h"
#include "support/cpu_isa_param.h"
#include "support/random_data.h"

namespace lamina {
namespace {

using testing::RandomNumbers;

class GemmCoreTest : public ::testing::TestWithParam<CpuIsa> {
 protected:
  const GemmKernels& kernels() const { return GemmKernelsFor(GetParam()); }

  std::vector<float> Multiply(int threads, const GemmShape& shape, const std::vector<float>& a,
                              const PlainMatrix& b, bool pack) const {
    ThreadPool pool(threads);
    std::vector<float> c(static_cast<size_t>(shape.m * shape.n), NAN);
    std::vector<char> packed(PackedMatrixBytes(b.type, shape.k, shape.n));
    if (pack) PackMatrix(pool, kernels(), b, packed.data());
    RunGemm(
        pool, kernels(), shape, [&](int64_t) { return a.data(); }, shape.k,
        [&](const GemmPanelRequest& request) {
          return pack ? PackedPanel(kernels(), b.type, packed.data(), shape.k, request)
                      : PlainPanel(kernels(), b, shape.m, request);
        },
        [&](int64_t, int64_t row, int64_t column, int64_t count, const float* values) {
          for (int64_t i = 0; i < count; ++i) c[static_cast<size_t>(row * shape.n + column + i)] = values[i];
        });
    return c;
  }
};

TEST_P(GemmCoreTest, EqualsDoubleForTailsOfEveryKind) {
  for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 97}) {
    for (const int64_t n : {1, 15, 16, 31, 33, 70}) {
      for (const int64_t k : {0, 1, 3, 255, 256, 259, 600}) {
        const std::vector<float> a = RandomNumbers(m * k, 1);
        const std::vector<float> b = RandomNumbers(k * n, 2);
        std::vector<float> b_transposed(b.size());
        for (int64_t i = 0; i < k; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            b_transposed[static_cast<size_t>(j * k + i)] = b[static_cast<size_t>(i * n + j)];
          }
        }
        std::vector<double> expected(static_cast<size_t>(m * n), 0.0);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            for (int64_t x = 0; x < k; ++x) {
              expected[static_cast<size_t>(i * n + j)] +=
                  double{a[static_cast<size_t>(i * k + x)]} * b[static_cast<size_t>(x * n + j)];
            }
          }
        }
        const PlainMatrix plain{b.data(), DataType::kFloat, k, n, false};
        const PlainMatrix transposed{b_transposed.data(), DataType::kFloat, k, n, true};
        for (const bool pack : {false, true}) {
          const std::vector<float> c = Multiply(1, {1, m, n, k}, a, plain, pack);
          const std::vector<float> c_transposed = Multiply(1, {1, m, n, k}, a, transposed, pack);
          for (size_t i = 0; i < c.size(); ++i) {
            ASSERT_NEAR(c[i], expected[i], 1e-5 * std::sqrt(static_cast<double>(k + 1)))
                << m << " " << n << " " << k;
            ASSERT_EQ(c[i], c_transposed[i]) << m << " " << n << " " << k;
          }
        }
      }
    }
  }
}

TEST_P(GemmCoreTest, HalfWeightsAreTheirFloatValues) {
  constexpr int64_t kM = 7, kN = 40, kK = 300;
  const std::vector<float> a = RandomNumbers(kM * kK, 3);
  const auto halves = RandomNumbers<Float16>(kK * kN, 4);
  const auto bfloats = RandomNumbers<Bfloat16>(kK * kN, 5);
  const std::vector<float> half_values(halves.begin(), halves.end());
  const std::vector<float> bfloat_values(bfloats.begin(), bfloats.end());
  for (const bool pack : {false, true}) {
    const GemmShape shape{1, kM, kN, kK};
    EXPECT_EQ(Multiply(1, shape, a, {halves.data(), DataType::kFloat16, kK, kN, false}, pack),
              Multiply(1, shape, a, {half_values.data(), DataType::kFloat, kK, kN, false}, pack));
    EXPECT_EQ(Multiply(1, shape, a, {bfloats.data(), DataType::kBfloat16, kK, kN, false}, pack),
              Multiply(1, shape, a, {bfloat_values.data(), DataType::kFloat, kK, kN, false}, pack));
  }
}

TEST_P(GemmCoreTest, ThreadsDoNotChangeABit) {
  constexpr int64_t kM = 200, kN = 130, kK = 500;
  const std::vector<float> a = RandomNumbers(kM * kK, 6);
  const std::vector<float> b = RandomNumbers(kK * kN, 7);
  const PlainMatrix plain{b.data(), DataType::kFloat, kK, kN, false};
  const std::vector<float> one = Multiply(1, {1, kM, kN, kK}, a, plain, true);
  for (const int threads : {2, 4}) EXPECT_EQ(one, Multiply(threads, {1, kM, kN, kK}, a, plain, true));
}

LAMINA_INSTANTIATE_FOR_EACH_ISA(GemmCoreTest);

}  // namespace
}  // namespace lamina
