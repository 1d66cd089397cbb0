// Makers of error statuses with fmt formatting: return InvalidModelError("{}: expected {} bytes", name, n);
#pragma once

#include <fmt/format.h>

#include <utility>

#include "lamina/status.h"

namespace lamina {

#define LAMINA_DEFINE_ERROR_(name, code)                                               \
  template <typename... Args>                                                          \
  Status name(fmt::format_string<Args...> format, Args&&... args) {                    \
    return Status(StatusCode::code, fmt::format(format, std::forward<Args>(args)...)); \
  }

LAMINA_DEFINE_ERROR_(InvalidArgumentError, kInvalidArgument)
LAMINA_DEFINE_ERROR_(NotFoundError, kNotFound)
LAMINA_DEFINE_ERROR_(InvalidModelError, kInvalidModel)
LAMINA_DEFINE_ERROR_(UnsupportedError, kUnsupported)
LAMINA_DEFINE_ERROR_(ResourceExhaustedError, kResourceExhausted)
LAMINA_DEFINE_ERROR_(CancelledError, kCancelled)
LAMINA_DEFINE_ERROR_(DeviceLostError, kDeviceLost)
LAMINA_DEFINE_ERROR_(IoError, kIo)
LAMINA_DEFINE_ERROR_(InternalError, kInternal)

#undef LAMINA_DEFINE_ERROR_

}  // namespace lamina
