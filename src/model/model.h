// A whole ONNX model: the main graph, opset imports, metadata, and the memory its views point into.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/derived_tensor.h"
#include "model/graph.h"

namespace lamina {

// A local function (FunctionProto): a graph with formal inputs and outputs, inlined by
// model/function_inliner.
struct LocalFunction {
  std::string domain;
  std::string name;
  std::string overload;
  std::string doc_string;
  std::vector<std::string> attributes;  // formal attribute names without default
  std::vector<Attribute> attribute_defaults;
  std::map<std::string, int> opset_imports;  // domain -> version
  MetadataProps metadata_props;
  std::unique_ptr<Graph> body;
};

struct Model {
  int64_t ir_version = 0;
  std::string producer_name;
  std::string producer_version;
  std::string domain;
  int64_t model_version = 0;
  std::string doc_string;
  std::map<std::string, int> opset_imports;  // domain ("" is ai.onnx) -> version
  MetadataProps metadata_props;
  std::shared_ptr<NamePool> names;
  std::unique_ptr<Graph> graph;
  std::vector<LocalFunction> functions;
  // What constants are that are computed from others at load.
  std::shared_ptr<DerivedTensors> derived = std::make_shared<DerivedTensors>();

  // The file it was read from; empty for a model from bytes.
  std::string path;
  // Where external data lies; empty for a model from bytes that was given none.
  std::string folder;
  // Keeps the mapped file or the caller's bytes alive: initializers are views into it.
  std::shared_ptr<const void> storage;
};

}  // namespace lamina
