// Shapes that several tensors have in common.
#pragma once

#include <optional>

#include "model/dim_expr.h"

namespace lamina {

// The dimensions on which both agree, unknown elsewhere; nothing where the ranks differ or are not known.
std::optional<SymbolicShape> CommonElementShape(const std::optional<SymbolicShape>& a,
                                                const std::optional<SymbolicShape>& b);

}  // namespace lamina
