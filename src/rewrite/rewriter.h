// Runs the rewrites of a level over a model, to a fixed point.
//
//   LAMINA_ASSIGN_OR_RETURN(const RewriteReport report, ApplyRewrites(model, options));
//
// Level 1 runs before placement, on a model with inferred types; level 2 after it, when every node has a
// provider, and keeps the provider of what it replaces. Both visit the main graph and all subgraphs. A graph
// is visited again until nothing fires, but the number of replacements is bounded by a multiple of its nodes,
// so that rewrites that undo each other come to an end.
//
// Names, annotations and module paths: a replacement is named after the node that made its output ("/" and
// what it is appended) and keeps the metadata of that node. Outputs keep their names.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "rewrite/rewrite.h"

namespace lamina {

struct RewriteOptions {
  // session.disabled_rewrites: names of rewrites, `all`, `level1` or `level2`, separated by commas.
  std::string disabled;
  ConstantReader read_external;
  ConstantEvaluator* evaluator = nullptr;
};

struct RewriteReport {
  // Rewrites that fired, in the order of the table, and how often.
  std::vector<std::pair<std::string_view, int>> counts;
  int nodes_before = 0;
  int nodes_after = 0;

  int total() const;
  // "rms-norm 9, merge-qkv 4"
  std::string ToString() const;
};

// The table of level 1, of level 2 for every provider, and of level 2 for nodes of one provider; in the order
// in which they are tried at a node.
std::span<const std::unique_ptr<const Rewrite>> Level1Rewrites();
std::span<const std::unique_ptr<const Rewrite>> Level2Rewrites();
std::span<const std::unique_ptr<const Rewrite>> ProviderRewrites(std::string_view provider);

// INVALID_ARGUMENT for a name that is no rewrite, with the nearest one.
Status CheckDisabledRewrites(std::string_view disabled);

// Level 1. REQUIRES: InferShapes or InferDecoder was OK; types and shapes are inferred again where something
// changed. Errors: those of inference (INTERNAL naming the rewrites), an unknown name in `disabled`.
Result<RewriteReport> ApplyRewrites(Model& model, const RewriteOptions& options = {});

// Level 2, after placement. `assignment` is asked for providers and told of new nodes.
Result<RewriteReport> ApplyLevel2Rewrites(Model& model, NodeAssignment& assignment,
                                          const RewriteOptions& options = {});

}  // namespace lamina
