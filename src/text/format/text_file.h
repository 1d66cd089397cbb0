// Reading the small text files of a tokenizer.
#pragma once

#include <optional>
#include <string>

#include "base/file.h"
#include "lamina/status.h"

namespace lamina::text {

// The content of a file, mapped. NOT_FOUND, INVALID_ARGUMENT or IO; INVALID_MODEL where it is absurdly large.
class TextFile {
 public:
  static Result<TextFile> Open(const std::string& path);
  // Nothing where the file is missing.
  static Result<std::optional<TextFile>> OpenIfThere(const std::string& path);

  const std::string& path() const { return path_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(region_.bytes().data()), region_.bytes().size()};
  }

 private:
  std::string path_;
  MappedRegion region_;
};

// "folder/name", or "name" where `folder` is "".
std::string JoinPath(const std::string& folder, const std::string& name);

}  // namespace lamina::text
