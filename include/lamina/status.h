// Status and Result<T>: how every function of Lamina reports failure. Nothing throws across this API.
//
//   Result<Session> session = Session::Load("models/tales", options);
//   if (!session.ok()) { std::cerr << session.status().ToString(); return 1; }
//
// The text of a status names the thing, what was expected and what was found.
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lamina {

// The numbers are part of the ABI and the same in C.
enum class StatusCode : int32_t {
  kOk = 0,
  kInvalidArgument = 1,
  kNotFound = 2,
  kInvalidModel = 3,
  kUnsupported = 4,
  kResourceExhausted = 5,
  kCancelled = 6,
  kDeviceLost = 7,
  kIo = 8,
  kInternal = 9,
};

// The name as it is printed: "INVALID_ARGUMENT".
const char* StatusCodeName(StatusCode code);

// What an out-of-memory status knows beyond its text.
struct MemoryShortage {
  struct Contributor {
    std::string name;
    uint64_t bytes = 0;
  };
  std::string device;  // designator, e.g. "gpu:0"
  uint64_t needed_bytes = 0;
  uint64_t available_bytes = 0;
  std::vector<Contributor> largest_contributors;  // largest first
};

// Cheap to copy; OK holds no memory. Thread-safe to read.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message);
  static Status OutOfMemory(std::string message, MemoryShortage shortage);

  bool ok() const { return state_ == nullptr; }
  StatusCode code() const { return state_ ? state_->code : StatusCode::kOk; }
  // Empty for OK.
  const std::string& message() const;
  // Set only for RESOURCE_EXHAUSTED that concerns memory; null otherwise.
  const MemoryShortage* memory_shortage() const;
  // "INVALID_MODEL: model.onnx: ..." or "OK".
  std::string ToString() const;
  // The same status with `context + ": "` before its text; OK stays OK.
  Status WithContext(const std::string& context) const;

 private:
  struct State {
    StatusCode code;
    std::string message;
    std::optional<MemoryShortage> shortage;
  };
  std::shared_ptr<const State> state_;
};

// A value or the status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!status_.ok() && "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // REQUIRES: ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace lamina

// Returns from the enclosing function where `expression` is an error.
#define LAMINA_RETURN_IF_ERROR(expression)           \
  do {                                               \
    ::lamina::Status lamina_status_ = (expression);  \
    if (!lamina_status_.ok()) return lamina_status_; \
  } while (false)

// LAMINA_ASSIGN_OR_RETURN(auto graph, BuildGraph(model)): the value, or return the error.
#define LAMINA_ASSIGN_OR_RETURN(declaration, expression) \
  LAMINA_ASSIGN_OR_RETURN_IMPL_(LAMINA_CONCAT_(lamina_result_, __LINE__), declaration, expression)
#define LAMINA_ASSIGN_OR_RETURN_IMPL_(result, declaration, expression) \
  auto result = (expression);                                          \
  if (!result.ok()) return result.status();                            \
  declaration = std::move(result).value()
#define LAMINA_CONCAT_(a, b) LAMINA_CONCAT_IMPL_(a, b)
#define LAMINA_CONCAT_IMPL_(a, b) a##b
