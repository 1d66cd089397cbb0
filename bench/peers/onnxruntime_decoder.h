// A language model run by ONNX Runtime as fairly as it can be: KV buffers bound once, past and present
// shared, logits bound. Built where the library and its headers are found (bench/peers/README.md).
#pragma once

#include <onnxruntime_cxx_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lamina::bench {

// Greedy decoding of one sequence. `head_size`: of keys and values, which exports may leave symbolic. Throws
// Ort::Exception.
class OnnxRuntimeDecoder {
 public:
  OnnxRuntimeDecoder(const std::string& model_path, int num_threads, int64_t context_tokens,
                     int64_t head_size);

  // Forgets all tokens.
  void Clear() { length_ = 0; }
  // Appends the tokens and returns the most likely next one.
  int32_t Step(const std::vector<int32_t>& tokens);

 private:
  struct State {
    std::string past;
    std::string present;
    std::vector<int64_t> shape;  // [1, kv_heads, context, head_size]
    ONNXTensorElementDataType type;
    std::unique_ptr<std::byte[]> memory;
    size_t bytes = 0;
  };

  Ort::Env env_;
  Ort::Session session_{nullptr};
  Ort::MemoryInfo memory_info_;
  std::vector<State> states_;
  bool has_positions_ = false;
  std::string logits_name_;
  int64_t length_ = 0;
};

}  // namespace lamina::bench
