// Replaces nodes that call local functions by the bodies of those functions.
#pragma once

#include <cstdint>

#include "lamina/status.h"
#include "model/model.h"

namespace lamina {

// Inlines every call in the model, also in subgraphs and in functions that call functions, and drops the
// functions. Nodes and values of a body get the name of the calling node and '/' before theirs; nodes inherit
// the metadata of the calling node where they have none of that key (so a layer annotation reaches them).
// References to attributes become the caller's attribute, else the function's default, else nothing. Nodes
// keep the opset versions that their function imports.
//
// INVALID_MODEL where a call passes more inputs or takes more outputs than the function has. UNSUPPORTED
// where the calls nest deeper than kMaxCallDepth, RESOURCE_EXHAUSTED where what they add takes more memory
// than kMaxInlinedBytes (some 200,000 nodes): a few small functions can call each other into any number of
// nodes.
Status InlineFunctions(Model& model);

inline constexpr int kMaxCallDepth = 64;
inline constexpr uint64_t kMaxInlinedBytes = uint64_t{128} << 20;

}  // namespace lamina
