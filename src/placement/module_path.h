// Where in a PyTorch module tree a node comes from, as the dynamo exporter keeps it in node metadata.
#pragma once

#include <string>

#include "model/graph.h"

namespace lamina {

// "model/layers.3/self_attn/" from `pkg.torch.onnx.name_scopes`, a list of qualified module names from the
// root to the operation: each entry without the prefix of the one before it, the last (the operation) left
// out. Empty where the node has no such metadata or it cannot be read.
std::string ModulePath(const Node& node);

}  // namespace lamina
