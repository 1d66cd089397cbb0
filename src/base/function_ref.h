// FunctionRef<R(Args...)>: a non-owning reference to a callable, two words, never allocates. For parameters
// that are called before the function returns; the callable must outlive every call.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace lamina {

template <typename Signature>
class FunctionRef;

template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  // Binds to any callable; one that is a temporary lives until the end of the full expression.
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef> &&
                                                    std::is_invocable_r_v<R, F&, Args...>>>
  // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload): like std::function
  FunctionRef(F&& callable) noexcept {
    if constexpr (std::is_function_v<std::remove_reference_t<F>>) {
      target_.function = reinterpret_cast<void (*)()>(&callable);
      call_ = [](Target target, Args... args) -> R {
        return reinterpret_cast<std::remove_reference_t<F>*>(target.function)(std::forward<Args>(args)...);
      };
    } else {
      target_.object = const_cast<void*>(static_cast<const void*>(std::addressof(callable)));
      call_ = [](Target target, Args... args) -> R {
        return (*static_cast<std::remove_reference_t<F>*>(target.object))(std::forward<Args>(args)...);
      };
    }
  }

  R operator()(Args... args) const { return call_(target_, std::forward<Args>(args)...); }

 private:
  union Target {
    void* object;
    void (*function)();
  };
  Target target_;
  R (*call_)(Target, Args...);
};

}  // namespace lamina
