#include "lamina/status.h"

namespace lamina {

const char* StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kInvalidModel:
      return "INVALID_MODEL";
    case StatusCode::kUnsupported:
      return "UNSUPPORTED";
    case StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kDeviceLost:
      return "DEVICE_LOST";
    case StatusCode::kIo:
      return "IO";
    case StatusCode::kInternal:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

Status::Status(StatusCode code, std::string message) {
  if (code != StatusCode::kOk) {
    state_ = std::make_shared<const State>(State{code, std::move(message), std::nullopt});
  }
}

Status Status::OutOfMemory(std::string message, MemoryShortage shortage) {
  Status status;
  status.state_ = std::make_shared<const State>(
      State{StatusCode::kResourceExhausted, std::move(message), std::move(shortage)});
  return status;
}

const std::string& Status::message() const {
  static const std::string empty;
  return state_ ? state_->message : empty;
}

const MemoryShortage* Status::memory_shortage() const {
  return state_ && state_->shortage ? &*state_->shortage : nullptr;
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return std::string(StatusCodeName(state_->code)) + ": " + state_->message;
}

Status Status::WithContext(const std::string& context) const {
  if (ok()) return *this;
  Status status;
  status.state_ =
      std::make_shared<const State>(State{state_->code, context + ": " + state_->message, state_->shortage});
  return status;
}

}  // namespace lamina
