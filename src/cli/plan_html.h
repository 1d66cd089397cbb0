// A plan as one web page that needs nothing else: bars per device, the strip of layers, and a map of each
// execution buffer.
#pragma once

#include <string>

#include "plan/plan.h"

namespace lamina::cli {

// `title`: of the model.
std::string PlanAsHtml(const Plan& plan, const std::string& title);

}  // namespace lamina::cli
