// Work of some milliseconds that goes on beside the caller's own.
#pragma once

#include <future>
#include <system_error>
#include <type_traits>

namespace lamina::text {

// Runs `work` on a thread of its own; in get() or wait() of the result where the system gives no thread.
// Destroying the result waits. What `work` refers to must outlive it.
template <typename Work>
std::future<std::invoke_result_t<Work>> RunBeside(Work work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, work);
  }
}

}  // namespace lamina::text
