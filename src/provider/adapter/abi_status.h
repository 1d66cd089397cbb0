// Statuses of a plugin that is written in C++, across the C interface (lamina_ep.h).
#pragma once

#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "lamina/lamina_ep.h"
#include "lamina/status.h"

namespace lamina::adapter {

// For the host. OK is null.
inline LaminaStatus* ToAbi(const LaminaEpApi& api, const Status& status) {
  if (status.ok()) return nullptr;
  if (const MemoryShortage* shortage = status.memory_shortage()) {
    return api.CreateMemoryShortage(status.message().c_str(), shortage->needed_bytes,
                                    shortage->available_bytes);
  }
  return api.CreateStatus(static_cast<LaminaStatusCode>(status.code()), status.message().c_str());
}

// From the host; released.
inline Status FromAbi(const LaminaEpApi& api, LaminaStatus* status) {
  if (!status) return Status();
  Status copy(static_cast<StatusCode>(api.GetStatusCode(status)), api.GetStatusMessage(status));
  api.ReleaseStatus(status);
  return copy;
}

// Runs the body of a callback: what it throws becomes a status, nothing crosses the interface.
// `body` returns a Status.
template <typename Body>
LaminaStatus* Guarded(const LaminaEpApi& api, Body&& body) noexcept {
  try {
    return ToAbi(api, std::forward<Body>(body)());
  } catch (const std::bad_alloc&) {
    return api.CreateStatus(LAMINA_RESOURCE_EXHAUSTED, "the provider is out of host memory");
  } catch (const std::exception& error) {
    return api.CreateStatus(LAMINA_INTERNAL, error.what());
  } catch (...) {
    return api.CreateStatus(LAMINA_INTERNAL, "the provider threw something that is no std::exception");
  }
}

}  // namespace lamina::adapter
