#include "runtime/node_stats_recorder.h"

#include "base/file_writer.h"

namespace lamina {

void NodeStatsRecorder::Record(const Graph& graph, NodeId node, const NodeMemoryStats& stats) {
  const std::string name = NodeStatsName(graph, node);
  const std::lock_guard lock(mutex_);
  table_.UpdateIfGreater(name, stats);
}

Status NodeStatsRecorder::Write() const {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = table_.ToCsv();
  }
  LAMINA_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path_));
  LAMINA_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

}  // namespace lamina
