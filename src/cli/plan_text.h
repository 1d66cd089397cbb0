// A plan as tables for a person.
#pragma once

#include <string>

#include "plan/plan.h"

namespace lamina::cli {

std::string PlanAsText(const Plan& plan);

}  // namespace lamina::cli
