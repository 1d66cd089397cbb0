// Writes GraphProto and FunctionProto.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <string>

#include "lamina/status.h"
#include "model/model.h"

namespace lamina::onnx {

// Each import as a message in field `field` of `message`.
void WriteOpsetImports(const std::map<std::string, int>& imports, uint32_t field,
                       protozero::pbf_writer& message);

// Decides where the elements of an initializer are written: returns it as it is, or with another source.
using InitializerPlacer = std::function<Result<Initializer>(const Initializer&)>;

Status WriteFunction(const LocalFunction& function, int64_t ir_version, protozero::pbf_writer& message);

class GraphWriter {
 public:
  // `placer` may be empty: then initializers are written as they are.
  GraphWriter(int64_t ir_version, const std::map<std::string, int>& opset_imports, InitializerPlacer placer)
      : ir_version_(ir_version), opset_imports_(opset_imports), placer_(std::move(placer)) {}

  // INVALID_MODEL where the graph has a cycle; UNSUPPORTED where a value of a subgraph hides an outer value
  // that the subgraph reads, and where a node is of another opset version than the imports say (an inlined
  // function may bring such nodes); errors of the placer.
  Status WriteGraph(const Graph& graph, protozero::pbf_writer& message) const;

  // The parts that functions have too.
  Status WriteNodes(const Graph& graph, uint32_t node_field, protozero::pbf_writer& message) const;
  Status WriteAttribute(const Attribute& attribute, protozero::pbf_writer& message) const;

 private:
  Status WriteNode(const Graph& graph, const Node& node, protozero::pbf_writer& message) const;
  Status WriteInitializers(const Graph& graph, protozero::pbf_writer& message) const;

  int64_t ir_version_;
  const std::map<std::string, int>& opset_imports_;
  InitializerPlacer placer_;
};

}  // namespace lamina::onnx
