// Nodes as a plugin sees them: NodeInfo behind the Node_* functions of LaminaEpApi.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lamina/lamina_ep.h"
#include "model/graph.h"
#include "provider/node_info.h"
#include "providers/plugin/device_map.h"
#include "providers/plugin/host_status.h"

namespace lamina::plugin {

// `tensor` in the C form; refers to its shape and memory.
Result<LaminaTensor> DescribeTensor(const Tensor& tensor, const DeviceMap& devices);

void FillNodeApi(LaminaEpApi& api);

}  // namespace lamina::plugin

// Lives for one callback; holds what its queries return. Thread-safe.
struct LaminaNode {
  // Everything must outlive this. `graph` and `id`: where the node is known as part of a graph, for the names
  // of its values; else null.
  LaminaNode(const lamina::NodeInfo& info, const lamina::plugin::DeviceMap& devices,
             const lamina::Graph* graph = nullptr, lamina::NodeId id = {});

  struct Edge {
    lamina::DataType type = lamina::DataType::kUndefined;
    bool has_rank = false;
    bool bounded = false;
    std::vector<int64_t> min;  // with one element more than the rank, so that a scalar's is not null
    std::vector<int64_t> max;
    std::optional<std::string> name;
  };

  const lamina::NodeInfo& info;
  const lamina::plugin::DeviceMap& devices;
  lamina::NodeId id;
  std::string name;
  std::string op_type;
  std::string domain;
  std::vector<Edge> inputs;
  std::vector<Edge> outputs;

  // Results of queries, at addresses that stay.
  mutable std::mutex mutex;
  mutable std::deque<lamina::Tensor> tensors;
  mutable std::deque<LaminaTensor> tensor_views;
  mutable std::deque<std::vector<const char*>> text_lists;
};
