#include "text/format/text_file.h"

#include <utility>

#include "base/error.h"

namespace lamina::text {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;

}  // namespace

Result<TextFile> TextFile::Open(const std::string& path) {
  LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<const File> opened, SystemFiles().Open(path));
  if (opened->size_bytes() > kMaxFileBytes) {
    return InvalidModelError("{}: {} bytes are more than the {} that a tokenizer's file may have", path,
                             opened->size_bytes(), kMaxFileBytes);
  }
  TextFile file;
  file.path_ = path;
  LAMINA_ASSIGN_OR_RETURN(file.region_, opened->Map(0, opened->size_bytes()));
  return file;
}

Result<std::optional<TextFile>> TextFile::OpenIfThere(const std::string& path) {
  Result<TextFile> file = Open(path);
  if (file.ok()) return std::optional<TextFile>(std::move(file).value());
  if (file.status().code() == StatusCode::kNotFound) return std::optional<TextFile>();
  return file.status();
}

std::string JoinPath(const std::string& folder, const std::string& name) {
  if (folder.empty()) return name;
  return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

}  // namespace lamina::text
