// A model as text, complete enough that two models with the same text are the same model.
#pragma once

#include <string>

#include "model/model.h"

namespace lamina::testing {

// Nodes in topological order; elements of tensors as they are in memory, external data as its reference.
std::string DumpModel(const Model& model);

// The first line in which two texts differ, of both; empty where they are equal.
std::string FirstDifference(const std::string& a, const std::string& b);

}  // namespace lamina::testing
