#include "rewrite/rewriter.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "base/edit_distance.h"
#include "base/error.h"
#include "base/log.h"

namespace lamina {
namespace {

constexpr int kMaxRounds = 64;
// Replacements in one graph: far more than patterns that end need.
constexpr int64_t kReplacementsPerNode = 8;
constexpr int64_t kMinReplacements = 1000;

// Providers that may have a table of their own.
constexpr std::string_view kProvidersWithRewrites[] = {"cpu", "cuda"};

constexpr std::string_view kAll = "all", kLevel1 = "level1", kLevel2 = "level2";

using Table = std::span<const std::unique_ptr<const Rewrite>>;

std::vector<std::string> SplitNames(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, comma);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    if (!name.empty()) names.emplace_back(name);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return names;
}

// A table, and the provider whose nodes it is for; empty: all.
struct ProviderTable {
  Table table;
  std::string_view provider;
};

// Rewrites of some tables that are not disabled, by root operator.
class Selection {
 public:
  Selection(std::span<const ProviderTable> tables, std::string_view disabled, std::string_view level) {
    const std::vector<std::string> names = SplitNames(disabled);
    const std::set<std::string_view> off(names.begin(), names.end());
    if (off.count(kAll) > 0 || off.count(level) > 0) return;
    for (const ProviderTable& table : tables) {
      for (const std::unique_ptr<const Rewrite>& rewrite : table.table) {
        if (off.count(rewrite->name()) > 0) continue;
        rewrites_.push_back(rewrite.get());
        providers_.push_back(table.provider);
      }
    }
    counts_.resize(rewrites_.size());
    for (size_t i = 0; i < rewrites_.size(); ++i) {
      const std::vector<std::string_view> roots = rewrites_[i]->roots();
      if (roots.empty()) of_any_.push_back(i);
      for (const std::string_view root : roots) by_root_[root].push_back(i);
    }
  }

  bool empty() const { return rewrites_.empty(); }

  int num_stages() const {
    int last = 0;
    for (const Rewrite* rewrite : rewrites_) last = std::max(last, rewrite->stage());
    return last + 1;
  }

  // Tries the rewrites up to a stage at a node; the number that fired. At most `budget` do.
  int64_t ApplyAt(GraphEditor& editor, const NodeAssignment* assignment, NodeId root, int stage,
                  int64_t budget) {
    int64_t fired = 0;
    const auto found = by_root_.find(editor.node(root).op_type.view());
    static const std::vector<size_t> kNone;
    for (const std::vector<size_t>* candidates : {found != by_root_.end() ? &found->second : &kNone,
                                                  static_cast<const std::vector<size_t>*>(&of_any_)}) {
      for (const size_t i : *candidates) {
        if (!editor.node(root).alive || fired == budget) return fired;
        if (rewrites_[i]->stage() > stage || !IsFor(providers_[i], editor, assignment, root)) continue;
        if (!rewrites_[i]->Apply(editor, root)) continue;
        ++counts_[i];
        ++fired;
      }
    }
    return fired;
  }

  std::vector<std::pair<std::string_view, int>> Counts() const {
    std::vector<std::pair<std::string_view, int>> fired;
    for (size_t i = 0; i < rewrites_.size(); ++i) {
      if (counts_[i] > 0) fired.emplace_back(rewrites_[i]->name(), counts_[i]);
    }
    return fired;
  }

 private:
  static bool IsFor(std::string_view provider, const GraphEditor& editor, const NodeAssignment* assignment,
                    NodeId root) {
    return provider.empty() || (assignment && assignment->ProviderOf(editor.graph(), root) == provider);
  }

  std::vector<const Rewrite*> rewrites_;
  std::vector<std::string_view> providers_;  // by rewrite
  std::vector<int> counts_;
  std::map<std::string_view, std::vector<size_t>> by_root_;
  std::vector<size_t> of_any_;
};

// Applies the rewrites up to a stage until none fires; takes their number from the budget.
Status RunStage(GraphEditor& editor, const NodeAssignment* assignment, Selection& selection, int stage,
                int64_t& budget) {
  Graph& graph = editor.graph();
  for (int round = 0; round < kMaxRounds && budget > 0; ++round) {
    LAMINA_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph.TopologicalOrder());
    int64_t fired = 0;
    for (const NodeId id : order) {
      if (!graph.node(id).alive) continue;
      fired += selection.ApplyAt(editor, assignment, id, stage, budget - fired);
      if (fired >= budget) break;
    }
    budget -= fired;
    if (fired == 0) break;
  }
  return Status();
}

Status RunOnGraph(Graph& graph, const RewriteEnvironment& environment, Selection& selection) {
  GraphEditor editor(graph, environment);
  int64_t budget = std::max(kMinReplacements, kReplacementsPerNode * graph.num_alive_nodes());
  for (int stage = 0; stage < selection.num_stages(); ++stage) {
    LAMINA_RETURN_IF_ERROR(RunStage(editor, environment.assignment, selection, stage, budget));
  }
  if (budget <= 0) LogWarning("graph '{}': rewrites were stopped, they find no end", graph.name());
  // By index: rewrites may be added to nodes while subgraphs are visited.
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (!graph.nodes()[i].alive) continue;
    for (Graph* subgraph : graph.nodes()[i].Subgraphs()) {
      LAMINA_RETURN_IF_ERROR(RunOnGraph(*subgraph, environment, selection));
    }
  }
  return Status();
}

// Constants that nothing reads give way to empty ones: ids stay valid, and nothing is loaded for them.
void DropUnusedInitializers(Graph& graph) {
  for (size_t i = 0; i < graph.values().size(); ++i) {
    ValueInfo& value = graph.mutable_value(ValueId{static_cast<int32_t>(i)});
    if (!value.initializer.valid() || !value.uses.empty() || value.is_graph_input || value.is_graph_output) {
      continue;
    }
    Result<Tensor> nothing = Tensor::Allocate(DataType::kUint8, Shape{0});
    if (!nothing.ok()) continue;
    Initializer empty;
    empty.name = value.name;
    empty.type = DataType::kUint8;
    empty.shape = Shape{0};
    empty.source = *std::move(nothing);
    graph.mutable_initializer(value.initializer) = std::move(empty);
    value.initializer = InitializerId();
  }
  for (const Node& node : graph.nodes()) {
    if (!node.alive) continue;
    for (Graph* subgraph : node.Subgraphs()) DropUnusedInitializers(*subgraph);
  }
}

Result<RewriteReport> Run(Model& model, Selection& selection, const RewriteOptions& options,
                          NodeAssignment* assignment, std::string_view level) {
  RewriteReport report;
  report.nodes_before = report.nodes_after = model.graph->num_alive_nodes();
  if (selection.empty()) return report;
  InferenceOptions inference;
  inference.read_external = options.read_external;
  KnownElements known_elements;
  inference.known_elements = &known_elements;
  LAMINA_RETURN_IF_ERROR(InferShapes(model, inference));
  RewriteEnvironment environment;
  environment.model = &model;
  environment.read_external = options.read_external;
  environment.known_elements = &known_elements;
  environment.evaluator = options.evaluator;
  environment.assignment = assignment;
  LAMINA_RETURN_IF_ERROR(RunOnGraph(*model.graph, environment, selection));
  report.counts = selection.Counts();
  report.nodes_after = model.graph->num_alive_nodes();
  if (report.counts.empty()) return report;
  DropUnusedInitializers(*model.graph);
  inference.known_elements = nullptr;
  const Status inferred = InferShapes(model, inference);
  if (!inferred.ok()) {
    return InternalError("after {} rewrites ({}): {}", level, report.ToString(), inferred.message());
  }
  LogInfo("{} rewrites: {} nodes became {}: {}", level, report.nodes_before, report.nodes_after,
          report.ToString());
  return report;
}

std::vector<Table> AllTables() {
  std::vector<Table> tables = {Level1Rewrites(), Level2Rewrites()};
  for (const std::string_view provider : kProvidersWithRewrites) {
    tables.push_back(ProviderRewrites(provider));
  }
  return tables;
}

}  // namespace

int RewriteReport::total() const {
  int sum = 0;
  for (const auto& [name, count] : counts) sum += count;
  return sum;
}

std::string RewriteReport::ToString() const {
  std::string text;
  for (const auto& [name, count] : counts) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", name, count);
  }
  return text;
}

Status CheckDisabledRewrites(std::string_view disabled) {
  std::vector<std::string_view> known = {kAll, kLevel1, kLevel2};
  for (const Table& table : AllTables()) {
    for (const std::unique_ptr<const Rewrite>& rewrite : table) known.push_back(rewrite->name());
  }
  for (const std::string& name : SplitNames(disabled)) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string_view nearest = *std::min_element(known.begin(), known.end(), [&](auto a, auto b) {
      return EditDistance(a, name) < EditDistance(b, name);
    });
    return InvalidArgumentError("session.disabled_rewrites: there is no rewrite '{}'; the nearest is '{}'",
                                name, nearest);
  }
  return Status();
}

Result<RewriteReport> ApplyRewrites(Model& model, const RewriteOptions& options) {
  LAMINA_RETURN_IF_ERROR(CheckDisabledRewrites(options.disabled));
  const ProviderTable tables[] = {{Level1Rewrites(), {}}};
  Selection selection(tables, options.disabled, kLevel1);
  return Run(model, selection, options, nullptr, "level-1");
}

Result<RewriteReport> ApplyLevel2Rewrites(Model& model, NodeAssignment& assignment,
                                          const RewriteOptions& options) {
  LAMINA_RETURN_IF_ERROR(CheckDisabledRewrites(options.disabled));
  std::vector<ProviderTable> tables = {{Level2Rewrites(), {}}};
  for (const std::string_view provider : kProvidersWithRewrites) {
    tables.push_back({ProviderRewrites(provider), provider});
  }
  Selection selection(tables, options.disabled, kLevel2);
  return Run(model, selection, options, &assignment, "level-2");
}

}  // namespace lamina
