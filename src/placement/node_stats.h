// Memory statistics of nodes, measured by running a model and read back to place it: the CSV files of ONNX
// Runtime (session.collect_node_memory_stats_to_file and the second part of
// session.resource_cuda_partitioning_settings).
//
//   #name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations
//   layers.1/relu_6214874688972982532,8,0,256,0
//
// A node is known by its name (its operator where it has none) and a hash of the names of its inputs and
// outputs, so a file holds as long as these names do.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lamina/status.h"
#include "model/graph.h"

namespace lamina {

// Bytes of one node in one run.
struct NodeMemoryStats {
  uint64_t input_bytes = 0;
  uint64_t initializer_bytes = 0;
  uint64_t dynamic_bytes = 0;  // outputs
  uint64_t temporary_bytes = 0;
};

// The name under which statistics know the node.
std::string NodeStatsName(const Graph& graph, NodeId node);

// Not thread-safe.
class NodeMemoryStatsTable {
 public:
  // Lines that are empty or begin with '#' are skipped, and so are those without a name. INVALID_ARGUMENT
  // names the line where there are not five fields, or one that is no number.
  static Result<NodeMemoryStatsTable> Parse(std::string_view text);
  // NOT_FOUND and IO for the file; as Parse.
  static Result<NodeMemoryStatsTable> Read(const std::string& path);

  // Null where the node is not there.
  const NodeMemoryStats* Find(std::string_view name) const;
  // Keeps the larger of each figure.
  void UpdateIfGreater(const std::string& name, const NodeMemoryStats& stats);
  // The file's text, nodes by name.
  std::string ToCsv() const;
  size_t size() const { return stats_.size(); }

 private:
  std::map<std::string, NodeMemoryStats, std::less<>> stats_;
};

}  // namespace lamina
