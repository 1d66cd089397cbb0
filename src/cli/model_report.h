// What `lamina show` tells of a model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "generate/model_folder.h"
#include "lamina/status.h"
#include "model/model.h"

namespace lamina::cli {

struct ModelReport {
  struct Layer {
    std::string name;  // "embedding", the layers, "head"
    uint64_t weight_bytes = 0;
  };
  struct Value {
    std::string name;
    ValueType type;
    std::optional<SymbolicShape> shape;
  };

  std::string model_path;
  std::string architecture;  // "llama"; empty where no file says
  std::string producer;      // with its version
  int64_t ir_version = 0;
  std::map<std::string, int> opset_imports;
  // Weights as they were before quantisation: a 4-bit matrix counts its elements; scales, zero points and
  // rotary tables do not count.
  uint64_t parameters = 0;
  std::map<std::string, uint64_t> bytes_by_type;  // element type -> bytes of all initializers
  uint64_t weight_bytes = 0;
  int64_t context_length_tokens = 0;  // 0: no file says
  std::vector<Layer> layers;
  std::string layers_from;
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  std::map<std::string, int> operators;  // without domain -> nodes, those of subgraphs included
  MetadataProps metadata;
};

// Reads the model's file but no weights: external data need not be there. Local functions are inlined first,
// so that the operators are what runs.
Result<ModelReport> ReportModel(const ModelFolder& folder);

std::string ReportAsJson(const ModelReport& report);
std::string ReportAsText(const ModelReport& report);

}  // namespace lamina::cli
