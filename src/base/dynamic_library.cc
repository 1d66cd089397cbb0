#include "base/dynamic_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include "base/error.h"

namespace lamina {

Result<std::unique_ptr<DynamicLibrary>> DynamicLibrary::Open(const std::string& path) {
  // A name without a slash would be searched for in the system's folders.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  if (::access(file.c_str(), F_OK) != 0) return NotFoundError("library '{}': there is no such file", path);
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = ::dlerror();
    return IoError("library '{}': it cannot be loaded: {}", path, reason ? reason : "no reason is given");
  }
  return std::unique_ptr<DynamicLibrary>(new DynamicLibrary(path, handle));
}

DynamicLibrary::~DynamicLibrary() { ::dlclose(handle_); }

void* DynamicLibrary::Symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace lamina
