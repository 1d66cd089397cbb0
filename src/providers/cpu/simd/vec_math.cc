#include "providers/cpu/simd/vec_math.h"

#include <cstring>

#include "base/thread_pool.h"

namespace lamina {

extern const VecMath kVecMathBaseline;
extern const VecMath kVecMathAvx2;
extern const VecMath kVecMathAvx512;

const VecMath& VecMathFor(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return kVecMathBaseline;
    case CpuIsa::kAvx2:
      return kVecMathAvx2;
    case CpuIsa::kAvx512:
    case CpuIsa::kAvx512Vnni:
      return kVecMathAvx512;
  }
  return kVecMathBaseline;
}

const VecMath& ActiveVecMath() {
  static const VecMath& active = VecMathFor(ActiveIsa());
  return active;
}

void ConvertToFloat(DataType type, const void* input, float* output, int64_t count) {
  if (type == DataType::kFloat) {
    std::memmove(output, input, static_cast<size_t>(count) * sizeof(float));
  } else if (type == DataType::kFloat16) {
    ActiveVecMath().half_to_float(static_cast<const Float16*>(input), output, count);
  } else {
    ActiveVecMath().bfloat16_to_float(static_cast<const Bfloat16*>(input), output, count);
  }
}

void ConvertFromFloat(DataType type, const float* input, void* output, int64_t count) {
  if (type == DataType::kFloat) {
    std::memmove(output, input, static_cast<size_t>(count) * sizeof(float));
  } else if (type == DataType::kFloat16) {
    ActiveVecMath().float_to_half(input, static_cast<Float16*>(output), count);
  } else {
    ActiveVecMath().float_to_bfloat16(input, static_cast<Bfloat16*>(output), count);
  }
}

void ConvertToFloat(ThreadPool& threads, DataType type, const void* input, float* output, int64_t count) {
  constexpr int64_t kGrain = 32768;
  const int64_t element_bytes = DataTypeBits(type) / 8;
  threads.ParallelFor(count, kGrain, [&](int64_t begin, int64_t end, int) {
    ConvertToFloat(type, static_cast<const char*>(input) + begin * element_bytes, output + begin,
                   end - begin);
  });
}

}  // namespace lamina
