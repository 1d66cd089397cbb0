// Statuses on their way across the C interface, seen from the host.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "lamina/lamina_ep.h"
#include "lamina/status.h"

// What a LaminaStatus* points to. Never OK.
struct LaminaStatus {
  lamina::Status status;
};

namespace lamina::plugin {

// Null for OK.
LaminaStatus* GiveStatus(const Status& status) noexcept;

// A status from a plugin, released. A memory shortage without a device gets `device`; codes that do not exist
// become INTERNAL.
Status TakeStatus(LaminaStatus* status, std::string_view device = "");

// The body of a function of LaminaEpApi: INVALID_ARGUMENT where one of `required` is null, else what `body`
// returns. Nothing is thrown.
template <typename Body, typename... Pointers>
LaminaStatus* Answer(const char* function, Body&& body, const Pointers*... required) noexcept {
  try {
    if (((required == nullptr) || ...)) {
      return GiveStatus(InvalidArgumentError("{} was called with a null pointer", function));
    }
    return GiveStatus(std::forward<Body>(body)());
  } catch (const std::bad_alloc&) {
    return GiveStatus(Status(StatusCode::kResourceExhausted, "no host memory"));
  } catch (const std::exception& error) {
    return GiveStatus(Status(StatusCode::kInternal, error.what()));
  }
}

void FillStatusApi(LaminaEpApi& api);

}  // namespace lamina::plugin
