#include "placement/placement.h"

namespace lamina {

std::string_view PlacementReasonName(PlacementReason reason) {
  switch (reason) {
    case PlacementReason::kPriority:
      return "first in order";
    case PlacementReason::kRule:
      return "rule";
    case PlacementReason::kRequested:
      return "requested";
    case PlacementReason::kHostShapes:
      return "computes shapes";
    case PlacementReason::kFallback:
      return "fallback";
    case PlacementReason::kOverBudget:
      return "over the budget";
  }
  return "";
}

}  // namespace lamina
