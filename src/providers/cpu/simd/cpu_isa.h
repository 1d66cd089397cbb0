// Which instruction set the hot kernels use. Each kernel family is compiled once per instruction set
// (x_baseline.cc, x_avx2.cc, x_avx512.cc, ...) and offers a table of functions; ActiveIsa() picks the table
// when a kernel is made.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lamina {

// In ascending order: each includes those before it.
enum class CpuIsa : uint8_t {
  kBaseline = 0,  // what the compiler targets without flags (x86-64: SSE2)
  kAvx2,          // AVX2, FMA, F16C, BMI2
  kAvx512,        // and AVX-512 F, BW, VL, DQ
  kAvx512Vnni,    // and AVX-512 VNNI
};

std::string_view CpuIsaName(CpuIsa isa);  // "baseline", "avx2", "avx512", "avx512vnni"

// Those this machine runs, ascending; never empty.
std::span<const CpuIsa> SupportedIsas();

// The highest one supported, or, where $LAMINA_CPU_ISA names a supported one, that (tests). A name that is
// unknown or not supported is ignored with a warning in the log.
CpuIsa ActiveIsa();

}  // namespace lamina
