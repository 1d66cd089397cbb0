// Runs a TEST_P suite once for every instruction set this machine supports.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "providers/cpu/simd/cpu_isa.h"

#define LAMINA_INSTANTIATE_FOR_EACH_ISA(suite)                                                 \
  INSTANTIATE_TEST_SUITE_P(                                                                    \
      AllIsas, suite,                                                                          \
      ::testing::ValuesIn(::lamina::SupportedIsas().begin(), ::lamina::SupportedIsas().end()), \
      [](const auto& param_info) { return std::string(::lamina::CpuIsaName(param_info.param)); })
