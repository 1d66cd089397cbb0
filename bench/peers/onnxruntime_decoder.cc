#include "peers/onnxruntime_decoder.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace lamina::bench {
namespace {

size_t ElementBytes(ONNXTensorElementDataType type) {
  return type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ? 2 : 4;
}

}  // namespace

OnnxRuntimeDecoder::OnnxRuntimeDecoder(const std::string& model_path, int num_threads, int64_t context_tokens,
                                       int64_t head_size)
    : env_(ORT_LOGGING_LEVEL_ERROR, "bench"),
      memory_info_(Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault)) {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(num_threads);
  options.SetGraphOptimizationLevel(ORT_ENABLE_ALL);
  session_ = Ort::Session(env_, model_path.c_str(), options);
  Ort::AllocatorWithDefaultOptions allocator;
  for (size_t i = 0; i < session_.GetInputCount(); ++i) {
    const std::string name = session_.GetInputNameAllocated(i, allocator).get();
    has_positions_ |= name == "position_ids";
    if (name.rfind("past_key_values.", 0) != 0) continue;
    const auto info = session_.GetInputTypeInfo(i);
    State state;
    state.past = name;
    state.present = "present." + name.substr(std::string("past_key_values.").size());
    state.shape = info.GetTensorTypeAndShapeInfo().GetShape();
    state.shape[0] = 1;
    state.shape[2] = context_tokens;
    if (state.shape[3] < 0) state.shape[3] = head_size;
    state.type = info.GetTensorTypeAndShapeInfo().GetElementType();
    state.bytes =
        ElementBytes(state.type) * static_cast<size_t>(std::accumulate(state.shape.begin(), state.shape.end(),
                                                                       int64_t{1}, std::multiplies<>()));
    state.memory = std::make_unique<std::byte[]>(state.bytes);
    states_.push_back(std::move(state));
  }
  logits_name_ = session_.GetOutputNameAllocated(0, allocator).get();
}

int32_t OnnxRuntimeDecoder::Step(const std::vector<int32_t>& tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  std::vector<int64_t> ids(tokens.begin(), tokens.end());
  std::vector<int64_t> mask(static_cast<size_t>(length_ + count), 1);
  std::vector<int64_t> positions(tokens.size());
  std::iota(positions.begin(), positions.end(), length_);
  const int64_t ids_shape[] = {1, count};
  const int64_t mask_shape[] = {1, length_ + count};
  Ort::IoBinding binding(session_);
  binding.BindInput("input_ids",
                    Ort::Value::CreateTensor<int64_t>(memory_info_, ids.data(), ids.size(), ids_shape, 2));
  binding.BindInput("attention_mask",
                    Ort::Value::CreateTensor<int64_t>(memory_info_, mask.data(), mask.size(), mask_shape, 2));
  if (has_positions_) {
    binding.BindInput("position_ids", Ort::Value::CreateTensor<int64_t>(memory_info_, positions.data(),
                                                                        positions.size(), ids_shape, 2));
  }
  for (State& state : states_) {
    const auto value = [&] {
      return Ort::Value::CreateTensor(memory_info_, state.memory.get(), state.bytes, state.shape.data(),
                                      state.shape.size(), state.type);
    };
    binding.BindInput(state.past.c_str(), value());
    binding.BindOutput(state.present.c_str(), value());
  }
  binding.BindOutput(logits_name_.c_str(), memory_info_);
  session_.Run(Ort::RunOptions{nullptr}, binding);
  const std::vector<Ort::Value> outputs = binding.GetOutputValues();
  const Ort::Value& logits = outputs.back();
  const std::vector<int64_t> shape = logits.GetTensorTypeAndShapeInfo().GetShape();
  const int64_t vocab = shape.back();
  const float* last = logits.GetTensorData<float>() + (shape[1] - 1) * vocab;
  length_ += count;
  return static_cast<int32_t>(std::max_element(last, last + vocab) - last);
}

}  // namespace lamina::bench
