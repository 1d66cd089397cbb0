// The tables that plugins are given.
#pragma once

#include <cstdint>

#include "lamina/lamina_ep.h"

struct LaminaLogger {
  const char* provider;  // in front of its messages
};

namespace lamina::plugin {

const LaminaEpApi& EpApi();
const LaminaApiBase& ApiBase();

// The version that a plugin asked ApiBase for on this thread since Begin and that does not exist here; 0
// where there was none. Tells a plugin that is too new from one that offers nothing.
class RefusedVersion {
 public:
  static void Begin();
  static uint32_t Get();
};

}  // namespace lamina::plugin
