#include "providers/cpu/simd/cpu_isa.h"

#include <array>
#include <cstdlib>

#include "base/log.h"

namespace lamina {
namespace {

constexpr std::array kAllIsas{CpuIsa::kBaseline, CpuIsa::kAvx2, CpuIsa::kAvx512, CpuIsa::kAvx512Vnni};

bool Supports(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return true;
    case CpuIsa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
    case CpuIsa::kAvx512:
      return Supports(CpuIsa::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq");
    case CpuIsa::kAvx512Vnni:
      return Supports(CpuIsa::kAvx512) && __builtin_cpu_supports("avx512vnni");
  }
  return false;
}

CpuIsa ChooseIsa() {
  const CpuIsa best = SupportedIsas().back();
  const char* wanted = std::getenv("LAMINA_CPU_ISA");
  if (!wanted || *wanted == '\0') return best;
  for (const CpuIsa isa : SupportedIsas()) {
    if (CpuIsaName(isa) == wanted) return isa;
  }
  LogWarning("LAMINA_CPU_ISA={} is not an instruction set of this machine: using {}", wanted,
             CpuIsaName(best));
  return best;
}

}  // namespace

std::string_view CpuIsaName(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kBaseline:
      return "baseline";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvx512Vnni:
      return "avx512vnni";
  }
  return "?";
}

std::span<const CpuIsa> SupportedIsas() {
  static const size_t count = [] {
    size_t supported = 1;
    while (supported < kAllIsas.size() && Supports(kAllIsas[supported])) ++supported;
    return supported;
  }();
  return std::span<const CpuIsa>(kAllIsas).first(count);
}

CpuIsa ActiveIsa() {
  static const CpuIsa active = ChooseIsa();
  return active;
}

}  // namespace lamina
