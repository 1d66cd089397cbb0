// libFuzzer target of the reader of ONNX models, built with clang and -DLAMINA_FUZZ=ON: `make fuzz` runs it.
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
