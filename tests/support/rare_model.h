// A model with what models at hand do not have: local functions, every kind of attribute, subgraphs, sparse
// and string initializers, external data, documentation and metadata everywhere.
#pragma once

#include <memory>

#include "model/model.h"

namespace lamina::testing {

std::unique_ptr<Model> MakeRareModel();

}  // namespace lamina::testing
