// The plan as JSON: complete, keys in a fixed order, the same bytes for equal plans.
#pragma once

#include <string>

#include "plan/plan.h"

namespace lamina {

// Two-space indentation and a final newline. Names that are not UTF-8 have U+FFFD in place of what is not.
std::string PlanAsJson(const Plan& plan);

}  // namespace lamina
