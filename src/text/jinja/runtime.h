// What every part of a rendering needs: failure, limits, and makers of values.
//
// Failure is sticky: the first one is kept, and evaluation then only unwinds. Functions that fail return a
// missing Value; loops ask failed() or charge a step, which also says no after a failure.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/template.h"
#include "text/jinja/value.h"

namespace lamina::jinja {

class Runtime {
 public:
  explicit Runtime(const RenderOptions& options);
  virtual ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // --- Failure.
  template <typename... Args>
  Value Fail(fmt::format_string<Args...> format, Args&&... args) {
    return FailWith(StatusCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...));
  }
  // What Python can do and this engine cannot.
  template <typename... Args>
  Value FailUnsupported(fmt::format_string<Args...> format, Args&&... args) {
    return FailWith(StatusCode::kUnsupported, fmt::format(format, std::forward<Args>(args)...));
  }
  Value FailWith(StatusCode code, std::string reason);
  // Use of an undefined value where Python raises.
  Value FailUndefined(const Value& undefined);
  bool failed() const { return failed_; }
  // The first failure with its line.
  Status status() const;
  // The line of the template that is being evaluated.
  int line = 1;

  // --- Limits. False where the rendering has failed, also by this call.
  bool Charge(uint64_t steps = 1) {
    budget_.steps += steps;
    return !failed_ && (budget_.steps <= limits_.max_steps || FailSteps());
  }
  bool ChargeBytes(size_t bytes) { return Charge(1 + bytes / 64); }
  // Whether `bytes` more fit into memory; fails where not. Asked before something large is built.
  bool Reserve(size_t bytes);
  size_t free_bytes() const;
  const RenderLimits& limits() const { return limits_; }
  // Nesting of evaluation; see DepthGuard.
  int depth = 0;
  // Bytes of stack below the frame that made this object (it may itself lie deeper than the first use).
  // Instrumented builds need several times as many a level as others.
  size_t stack_bytes() const {
    const ptrdiff_t bytes = stack_begin_ - static_cast<const char*>(__builtin_frame_address(0));
    return static_cast<size_t>(std::max<ptrdiff_t>(bytes, 0));
  }

  // --- Makers. They charge for what they make.
  Value MakeString(std::string text) { return NewString(std::move(text), false); }
  // Markup is contagious: a string derived from `like` is markup where that one is.
  Value MakeStringLike(const Value& like, std::string text) {
    return NewString(std::move(text), like.is_string() && like.string().markup);
  }
  Value MakeMarkup(std::string text) { return NewString(std::move(text), true); }
  Value MakeList(std::vector<Value> items) { return NewSequence(Kind::kList, std::move(items)); }
  Value MakeTuple(std::vector<Value> items) { return NewSequence(Kind::kTuple, std::move(items)); }
  Value MakeRange(Int start, Int stop, Int step);
  Value MakeUndefined(std::string message, bool unsafe = false);
  Value MakeUndefinedName(std::string_view name);  // "'name' is undefined"
  // A dict that the caller fills with AddToDict before anybody else sees it.
  std::shared_ptr<Dict> NewDict();
  // False where the key cannot be one (a failure).
  bool AddToDict(Dict& dict, const Value& key, const Value& value);
  static Value FromDict(std::shared_ptr<Dict> dict) { return Value(Kind::kDict, std::move(dict)); }
  // Any other object; `nesting` is checked against the bound on nested containers.
  template <typename T, typename... Args>
  std::shared_ptr<T> New(Args&&... args) {
    Reserve(sizeof(T));
    return std::make_shared<T>(&budget_, std::forward<Args>(args)...);
  }
  // One more level of nesting than `inner`; fails beyond the bound.
  int NestOver(int inner);

  // --- Objects that can change.
  void Register(const std::shared_ptr<MutableObject>& object);
  // At the end of an object's own use: forgets it where nobody else holds it.
  void ReleaseIfUnshared(std::shared_ptr<MutableObject> object);
  Value MakeNamespace();

  std::chrono::system_clock::time_point now() const;
  Budget* budget() { return &budget_; }

 private:
  bool FailSteps();
  Value NewString(std::string text, bool markup);
  Value NewSequence(Kind kind, std::vector<Value> items);

  const RenderLimits limits_;
  const char* const stack_begin_ = static_cast<const char*>(__builtin_frame_address(0));
  const std::optional<std::chrono::system_clock::time_point> now_;
  Budget budget_;
  bool failed_ = false;
  StatusCode code_ = StatusCode::kOk;
  std::string reason_;
  int failure_line_ = 0;
  std::vector<std::shared_ptr<MutableObject>> mutable_objects_;
};

// Counts one level of nesting; ok() is false where the rendering has failed, also by being too deep.
class DepthGuard {
 public:
  explicit DepthGuard(Runtime& runtime) : runtime_(runtime) {
    if (++runtime_.depth > runtime_.limits().max_depth ||
        runtime_.stack_bytes() > runtime_.limits().max_stack_bytes) {
      runtime_.FailWith(StatusCode::kResourceExhausted, "maximum recursion depth exceeded");
    }
  }
  ~DepthGuard() { --runtime_.depth; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  bool ok() const { return !runtime_.failed(); }

 private:
  Runtime& runtime_;
};

// A string under construction that stays within the memory limit.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime), limit_(runtime.free_bytes()) {}
  void Append(std::string_view text) {
    if (text.size() > limit_ - text_.size()) {
      runtime_.Reserve(text_.size() + text.size());
      return;
    }
    text_.append(text);
  }
  void Append(char byte) { Append(std::string_view(&byte, 1)); }
  void Repeat(std::string_view text, Int count) {
    if (count <= 0 || text.empty()) return;
    if (count > static_cast<Int>((limit_ - text_.size()) / text.size())) {
      runtime_.Reserve(limit_ + 1);
      return;
    }
    for (Int i = 0; i < count; ++i) text_.append(text);
  }
  const std::string& text() const { return text_; }
  std::string Take() { return std::move(text_); }
  Runtime& runtime() { return runtime_; }

 private:
  Runtime& runtime_;
  size_t limit_;
  std::string text_;
};

}  // namespace lamina::jinja
