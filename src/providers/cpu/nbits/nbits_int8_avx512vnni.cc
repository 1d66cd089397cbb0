// Products of bytes by vpdpbusd: four pairs of an unsigned weight and a signed activation, summed in 32 bits.
#include <immintrin.h>

#include "providers/cpu/nbits/nbits_int8_kernels_inl.h"

namespace lamina {
namespace {

struct Avx512Vnni {
  template <int kBits>
  static constexpr int kWeightBias = 0;

  static __m512i Load(const char* source) { return _mm512_loadu_si512(source); }

  template <int kBits>
  static LAMINA_INLINE __m512i Field(__m512i word, int field) {
    if constexpr (kBits == 8) return word;
    const __m512i shifted = _mm512_maskz_srli_epi16(0xffffffff, word, static_cast<unsigned>(kBits * field));
    return _mm512_and_si512(shifted, _mm512_set1_epi8((1 << kBits) - 1));
  }

  template <int kBits>
  struct Sum {
    __m512i sum = _mm512_setzero_si512();
    LAMINA_INLINE void Add(__m512i weights, const int8_t* activations) {
      int32_t four;
      std::memcpy(&four, activations, sizeof four);
      sum = _mm512_dpbusd_epi32(sum, weights, _mm512_set1_epi32(four));
    }
    LAMINA_INLINE VecI Total() const { return reinterpret_cast<VecI>(sum); }
  };
};

}  // namespace

extern const NBitsInt8Kernels kNBitsInt8KernelsAvx512Vnni;
const NBitsInt8Kernels kNBitsInt8KernelsAvx512Vnni = {kLanes, NBitsMultiplyInt8<Avx512Vnni>};

}  // namespace lamina
