// libFuzzer target of the reader of ONNX models. Built with clang and -DLAMINA_FUZZ=ON:
//
//   cmake -S . -B build/fuzz -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang -DLAMINA_FUZZ=ON
//   cmake --build build/fuzz --target fuzz_onnx_reader
//   mkdir -p corpus && cp tests/data/zoo/*-fp32/model.onnx corpus/ --backup=numbered
//   build/fuzz/fuzz_onnx_reader -max_len=65536 -rss_limit_mb=1024 -timeout=20 corpus
#include <cstdint>
#include <cstdlib>

#include "base/log.h"
#include "support/hostile_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lamina::SetLogLevel(lamina::LogLevel::kOff);
  const lamina::Status status = lamina::testing::UseHostileModel(std::as_bytes(std::span(data, size)));
  if (status.code() == lamina::StatusCode::kInternal) std::abort();
  return 0;
}
