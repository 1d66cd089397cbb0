// The accountant of session.resource_cuda_partitioning_settings = "LIMIT_KB,STATS_FILE": counts the bytes of
// weights and outputs, from shapes or from a run's statistics.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "placement/node_stats.h"
#include "placement/resource_accountant.h"

namespace lamina {

class SizeBasedAccountant : public IResourceAccountant {
 public:
  // `threshold_bytes`: nothing is no limit. `stats` may be null; with them a node costs what they say
  // (inputs, initializers, outputs and temporaries) and one that they lack costs nothing.
  SizeBasedAccountant(std::optional<uint64_t> threshold_bytes,
                      std::shared_ptr<const NodeMemoryStatsTable> stats)
      : threshold_bytes_(threshold_bytes), stats_(std::move(stats)) {}

  uint64_t GetConsumedAmount() const override { return consumed_bytes_; }
  // Saturates.
  void AddConsumedAmount(uint64_t bytes) override;
  void RemoveConsumedAmount(uint64_t bytes) override;
  std::optional<uint64_t> GetThreshold() const override { return threshold_bytes_; }

  // Without statistics: outputs whose shape is static, and initializers that no node before used. Weights of
  // subgraphs count with the node that holds them.
  Result<uint64_t> ComputeResourceCount(const Graph& graph, NodeId node) override;
  void CommitWeightsForNode(const Graph& graph, NodeId node) override;

  void SetStopAssignment() override { stopped_ = true; }
  bool IsStopIssued() const override { return stopped_; }
  void ResetForNewPass() override;

 private:
  using Weight = std::pair<const Graph*, int32_t>;  // the graph that has it, and its index

  const std::optional<uint64_t> threshold_bytes_;
  const std::shared_ptr<const NodeMemoryStatsTable> stats_;
  uint64_t consumed_bytes_ = 0;
  std::set<Weight> pending_;
  std::set<Weight> committed_;
  bool stopped_ = false;
};

// "LIMIT_KB,STATS_FILE"; either may be empty.
struct PartitioningSettings {
  std::optional<uint64_t> limit_bytes;
  std::string stats_file;  // relative to the model's folder, or absolute
};
// INVALID_ARGUMENT unless there is exactly one comma and the limit is a number of KiB that fits.
Result<PartitioningSettings> ParsePartitioningSettings(std::string_view text);

}  // namespace lamina
