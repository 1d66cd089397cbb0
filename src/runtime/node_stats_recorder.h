// Collects what memory the nodes of a session use (session.collect_node_memory_stats_to_file).
#pragma once

#include <mutex>
#include <string>
#include <utility>

#include "lamina/status.h"
#include "placement/node_stats.h"

namespace lamina {

// Thread-safe.
class NodeStatsRecorder {
 public:
  // `path`: of the file that Write makes.
  explicit NodeStatsRecorder(std::string path) : path_(std::move(path)) {}

  // The largest of every figure over all runs is kept.
  void Record(const Graph& graph, NodeId node, const NodeMemoryStats& stats);
  // IO where the file cannot be written.
  Status Write() const;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  mutable std::mutex mutex_;
  NodeMemoryStatsTable table_;  // guarded by mutex_
};

}  // namespace lamina
