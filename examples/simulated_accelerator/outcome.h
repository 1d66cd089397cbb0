// What became of an operation, before it is told to the host as a LaminaStatus.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "lamina/lamina_ep.h"

namespace sim {

struct Outcome {
  LaminaStatusCode code = LAMINA_OK;
  std::string message;
  uint64_t needed_bytes = 0;  // of a memory shortage
  uint64_t available_bytes = 0;

  bool ok() const { return code == LAMINA_OK; }

  static Outcome Error(LaminaStatusCode code, std::string message) {
    return {code, std::move(message), 0, 0};
  }
  static Outcome Shortage(std::string message, uint64_t needed_bytes, uint64_t available_bytes) {
    return {LAMINA_RESOURCE_EXHAUSTED, std::move(message), needed_bytes, available_bytes};
  }
};

// For the host, who releases it.
inline LaminaStatus* Tell(const LaminaEpApi& api, const Outcome& outcome) {
  if (outcome.ok()) return nullptr;
  if (outcome.needed_bytes > 0) {
    return api.CreateMemoryShortage(outcome.message.c_str(), outcome.needed_bytes, outcome.available_bytes);
  }
  return api.CreateStatus(outcome.code, outcome.message.c_str());
}

// Runs the body of a callback, which returns an Outcome. No exception crosses the interface.
template <typename Body>
LaminaStatus* Answer(const LaminaEpApi& api, Body&& body) noexcept {
  try {
    return Tell(api, std::forward<Body>(body)());
  } catch (const std::bad_alloc&) {
    return api.CreateStatus(LAMINA_RESOURCE_EXHAUSTED, "sim: no host memory");
  } catch (const std::exception& error) {
    return api.CreateStatus(LAMINA_INTERNAL, error.what());
  }
}

}  // namespace sim
