// Random language models of any shape and size, in the layout of ONNX Runtime GenAI: for measuring and for
// tests.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lamina/status.h"
#include "lamina/types.h"

namespace lamina {

enum class SynthArchitecture { kLlama, kQwen3, kGptOss };
enum class SynthQuantization { kNone, kInt4, kInt8 };

struct SynthOptions {
  SynthArchitecture architecture = SynthArchitecture::kLlama;
  int64_t layers = 4;
  int64_t hidden = 256;
  int64_t heads = 8;
  int64_t kv_heads = 2;
  int64_t head_size = 0;  // 0: hidden / heads
  int64_t ffn = 1024;
  int64_t experts = 4;            // of gpt-oss
  int64_t experts_per_token = 2;  // of gpt-oss, at most experts
  int64_t vocab = 1024;
  int64_t context = 4096;
  DataType type = DataType::kFloat;  // kFloat or kFloat16
  SynthQuantization quantization = SynthQuantization::kNone;
  int64_t block_size = 32;  // of quantised weights
  uint64_t seed = 0;

  // INVALID_ARGUMENT naming the option, what it must be and what it is.
  Status Validate() const;
};

// Writes model.onnx, model.onnx.data, genai_config.json, tokenizer.json and tokenizer_config.json into
// `folder`, which is made where it is missing. Weights are written as they are drawn: memory does not depend
// on the size of the model. The same options give the same files. `progress` is called with the bytes of
// weights written so far.
Status WriteSyntheticDecoder(const std::string& folder, const SynthOptions& options,
                             const std::function<Status(uint64_t written_bytes)>& progress = {});

}  // namespace lamina
