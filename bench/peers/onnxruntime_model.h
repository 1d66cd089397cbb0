// A model run by ONNX Runtime with fixed inputs. Built where the library and its headers are found
// (bench/peers/README.md).
#pragma once

#include <onnxruntime_cxx_api.h>

#include <memory>
#include <string>
#include <vector>

#include "lamina/value.h"

namespace lamina::bench {

class OnnxRuntimeModel {
 public:
  // Inputs by position: fp32, int32 and int64 tensors, whose memory stays the caller's. Throws
  // Ort::Exception.
  OnnxRuntimeModel(const std::string& model_path, int num_threads, const std::vector<Tensor>& inputs);

  // One run. Its outputs are there until the next.
  void Run();
  const std::vector<Ort::Value>& outputs() const { return outputs_; }

 private:
  Ort::Env env_;
  Ort::Session session_{nullptr};
  std::vector<std::string> input_names_;
  std::vector<std::string> output_names_;
  std::vector<Ort::Value> inputs_;
  std::vector<Ort::Value> outputs_;
};

}  // namespace lamina::bench
