// Products of bytes by maddubs: pairs of an unsigned weight and a signed activation, summed in 16 bits.
// 4-bit weights: a pair is at most 2 * 15 * 127 = 3,810, the eight of a unit 30,480: no sum saturates.
// 2-bit weights: 2 * 3 * 127 = 762, the sixteen of a unit 12,192. 8-bit weights become signed (q - 128), and
// their sign goes to the activation: a pair is at most 2 * 128 * 127 = 32,512, widened at once.
#include <immintrin.h>

#include "providers/cpu/nbits/nbits_int8_kernels_inl.h"

namespace lamina {
namespace {

struct Avx2 {
  template <int kBits>
  static constexpr int kWeightBias = kBits == 8 ? 128 : 0;

  static __m256i Load(const char* source) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
  }

  template <int kBits>
  static LAMINA_INLINE __m256i Field(__m256i word, int field) {
    if constexpr (kBits == 8) return _mm256_xor_si256(word, _mm256_set1_epi8(-128));
    return _mm256_and_si256(_mm256_srli_epi16(word, kBits * field), _mm256_set1_epi8((1 << kBits) - 1));
  }

  static LAMINA_INLINE __m256i Broadcast(const int8_t* four) {
    int32_t bits;
    std::memcpy(&bits, four, sizeof bits);
    return _mm256_set1_epi32(bits);
  }

  template <int kBits>
  struct Sum {
    __m256i sum = _mm256_setzero_si256();  // of 16 bits; of 32 bits for 8-bit weights
    LAMINA_INLINE void Add(__m256i weights, const int8_t* activations) {
      const __m256i x = Broadcast(activations);
      if constexpr (kBits == 8) {
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(x, weights));
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
      } else {
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(weights, x));
      }
    }
    LAMINA_INLINE VecI Total() const {
      if constexpr (kBits == 8) return reinterpret_cast<VecI>(sum);
      return reinterpret_cast<VecI>(_mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
    }
  };
};

}  // namespace

extern const NBitsInt8Kernels kNBitsInt8KernelsAvx2;
const NBitsInt8Kernels kNBitsInt8KernelsAvx2 = {kLanes, NBitsMultiplyInt8<Avx2>};

}  // namespace lamina
