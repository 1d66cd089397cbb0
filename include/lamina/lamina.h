// The C++ interface of Lamina: run ONNX models inside a memory budget.
#pragma once

#include "lamina/env.h"      // IWYU pragma: export
#include "lamina/session.h"  // IWYU pragma: export
#include "lamina/status.h"   // IWYU pragma: export
#include "lamina/types.h"    // IWYU pragma: export
#include "lamina/value.h"    // IWYU pragma: export
