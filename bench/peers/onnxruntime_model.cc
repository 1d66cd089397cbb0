#include "peers/onnxruntime_model.h"

namespace lamina::bench {

OnnxRuntimeModel::OnnxRuntimeModel(const std::string& model_path, int num_threads,
                                   const std::vector<Tensor>& inputs)
    : env_(ORT_LOGGING_LEVEL_ERROR, "bench") {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(num_threads);
  options.SetGraphOptimizationLevel(ORT_ENABLE_ALL);
  session_ = Ort::Session(env_, model_path.c_str(), options);
  Ort::AllocatorWithDefaultOptions allocator;
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  for (size_t i = 0; i < session_.GetInputCount(); ++i) {
    input_names_.emplace_back(session_.GetInputNameAllocated(i, allocator).get());
    const Tensor& input = inputs.at(i);
    // The numbers of ONNX Runtime's element types are ONNX's, as ours are.
    inputs_.push_back(Ort::Value::CreateTensor(
        memory, const_cast<void*>(input.raw_data()), input.size_bytes(), input.shape().dims().data(),
        input.shape().dims().size(), static_cast<ONNXTensorElementDataType>(input.type())));
  }
  for (size_t i = 0; i < session_.GetOutputCount(); ++i) {
    output_names_.emplace_back(session_.GetOutputNameAllocated(i, allocator).get());
  }
}

void OnnxRuntimeModel::Run() {
  std::vector<const char*> input_names;
  std::vector<const char*> output_names;
  for (const std::string& name : input_names_) input_names.push_back(name.c_str());
  for (const std::string& name : output_names_) output_names.push_back(name.c_str());
  outputs_ = session_.Run(Ort::RunOptions(), input_names.data(), inputs_.data(), inputs_.size(),
                          output_names.data(), output_names.size());
}

}  // namespace lamina::bench
