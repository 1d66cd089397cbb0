#include "base/open_beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>

#include "base/error.h"

namespace lamina {
namespace {

// O_NONBLOCK: opening a pipe must not wait for its writer.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

UniqueFd OpenFolder(const std::string& folder) {
  return UniqueFd(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// Opens `path` such that the kernel keeps the resolution beneath `folder`; invalid with errno where it fails.
UniqueFd OpenAt2(const UniqueFd& folder, const std::string& path, uint64_t resolve) {
  open_how how{};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve;
  for (int attempt = 0;; ++attempt) {
    UniqueFd descriptor(static_cast<int>(syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof how)));
    // EAGAIN: a rename elsewhere raced with "..", the kernel could not tell whether the path had escaped.
    if (descriptor.valid() || errno != EAGAIN || attempt == 16) return descriptor;
  }
}

bool OpenAt2IsMissing(int error) { return error == ENOSYS || error == EPERM || error == E2BIG; }

// Opens a path without links and "..", one component at a time: no component may have become a link.
UniqueFd WalkWithoutLinks(const std::string& root, const std::string& path) {
  UniqueFd at = OpenFolder(root);
  std::istringstream components(path);
  std::string component;
  while (at.valid() && std::getline(components, component, '/')) {
    const bool last = components.eof();
    const int flags = last ? kOpenFlags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    at = UniqueFd(openat(at.get(), component.c_str(), flags));
  }
  return at;
}

// The absolute path without links, or nothing with errno.
std::optional<std::string> RealPath(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return std::nullopt;
  std::string text(resolved);
  std::free(resolved);
  return text;
}

// `path` relative to `folder`, both real paths; nothing where it is not inside.
std::optional<std::string> PathInside(const std::string& folder, const std::string& path) {
  const std::string prefix = folder == "/" ? folder : folder + "/";
  if (path.rfind(prefix, 0) != 0 || path.size() == prefix.size()) return std::nullopt;
  return path.substr(prefix.size());
}

class Opening {
 public:
  Opening(const FileSystem::Beneath& where, const std::string& location, bool use_openat2)
      : folder_(where.folder.empty() ? "." : where.folder),
        real_folder_(where.real_folder),
        location_(location),
        use_openat2_(use_openat2) {}

  Result<UniqueFd> Run() {
    if (location_.empty()) return Refused("the location is empty");
    if (location_.find('\0') != std::string::npos) return Refused("the location contains a zero byte");
    if (location_[0] == '/')
      return Refused("the location is absolute, expected a path relative to the model");
    if (use_openat2_) {
      const UniqueFd folder = OpenFolder(folder_);
      if (!folder.valid()) return IoError("{}: cannot open the folder: {}", folder_, std::strerror(errno));
      UniqueFd descriptor = OpenAt2(folder, location_, 0);
      if (descriptor.valid()) return descriptor;
      if (OpenAt2IsMissing(errno)) {
        use_openat2_ = false;
      } else if (errno != EXDEV) {
        return Failed();
      }
    }
    return OpenResolved();
  }

 private:
  // For what leaves the folder on its way: where it ends decides. Links of a hub's cache end beside the real
  // model file; absolute links may end inside the folder. The end is then opened without following any link,
  // so that a path that changes after it was resolved cannot lead outside.
  Result<UniqueFd> OpenResolved() {
    const std::optional<std::string> end = RealPath(folder_ + "/" + location_);
    if (!end) return Failed();
    for (const std::string& allowed : {folder_, real_folder_}) {
      if (allowed.empty()) continue;
      const std::optional<std::string> root = RealPath(allowed);
      if (!root) continue;
      const std::optional<std::string> inside = PathInside(*root, *end);
      if (!inside) continue;
      UniqueFd descriptor = use_openat2_ ? OpenAt2(OpenFolder(*root), *inside, RESOLVE_NO_SYMLINKS)
                                         : WalkWithoutLinks(*root, *inside);
      if (descriptor.valid()) return descriptor;
      return Failed();
    }
    return Refused("it leads outside the model's folder, to '" + *end + "'");
  }

  Status Refused(const std::string& why) const {
    return InvalidModelError("external data '{}' of the model in '{}': {}", location_, folder_, why);
  }

  Status Failed() const {
    const int error = errno;
    if (error == ENOENT) return NotFoundError("external data '{}' not found in '{}'", location_, folder_);
    if (error == EXDEV || error == ELOOP || error == ENXIO || error == ENOTDIR || error == ENAMETOOLONG) {
      return Refused(std::strerror(error));
    }
    return IoError("external data '{}' of the model in '{}': cannot open: {}", location_, folder_,
                   std::strerror(error));
  }

  std::string folder_;
  std::string real_folder_;
  std::string location_;
  bool use_openat2_;
};

}  // namespace

Result<UniqueFd> OpenDescriptorBeneath(const FileSystem::Beneath& where, const std::string& location) {
  return Opening(where, location, /*use_openat2=*/true).Run();
}

Result<UniqueFd> OpenDescriptorBeneathByWalking(const FileSystem::Beneath& where,
                                                const std::string& location) {
  return Opening(where, location, /*use_openat2=*/false).Run();
}

}  // namespace lamina
