// What an application does with a model it was given, for fuzzing: everything up to running it.
#pragma once

#include <cstddef>
#include <span>

#include "lamina/status.h"

namespace lamina::testing {

// Reads the model, writes it and reads that, inlines its functions and maps its initializers. Returns the
// first error, which is as good as none: what counts is that there is one of the two.
Status UseHostileModel(std::span<const std::byte> bytes);

}  // namespace lamina::testing
