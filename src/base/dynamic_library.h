// Libraries that are loaded while the process runs.
#pragma once

#include <memory>
#include <string>

#include "lamina/status.h"

namespace lamina {

// Unloaded when destroyed: whatever came from it must be gone by then.
class DynamicLibrary {
 public:
  // Resolves all symbols now; the library's own stay its own. NOT_FOUND where there is no such file, IO with
  // the loader's text where it cannot be loaded.
  static Result<std::unique_ptr<DynamicLibrary>> Open(const std::string& path);
  ~DynamicLibrary();
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;

  const std::string& path() const { return path_; }
  // Null where the library does not export it.
  void* Symbol(const char* name) const;
  // The same as a function of type F.
  template <typename F>
  F Function(const char* name) const {
    return reinterpret_cast<F>(Symbol(name));
  }

 private:
  DynamicLibrary(std::string path, void* handle) : path_(std::move(path)), handle_(handle) {}
  std::string path_;
  void* handle_;
};

}  // namespace lamina
