// Inputs and outputs of a session as its callers see them.
#pragma once

#include <string>

#include "lamina/session.h"
#include "model/graph.h"

namespace lamina {

ValueSpec SpecOf(const Graph& graph, ValueId id);

// Whether a tensor of this shape fits the declaration: rank and constant dimensions.
bool FitsSpec(const ValueSpec& spec, const Shape& shape);

// "float[batch,16]", for messages.
std::string SpecText(const ValueSpec& spec);

}  // namespace lamina
