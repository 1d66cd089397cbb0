// Where tests find their data: files of this repository, and optional material outside it.
#pragma once

#include <optional>
#include <string>

namespace lamina::testing {

// Absolute path of `relative` inside the source tree.
std::string SourcePath(const std::string& relative);

// Absolute path of `relative` inside the optional test data folder ($LAMINA_TEST_DATA, else ../shared beside
// the checkout), or nothing where it is absent: the caller then skips with a message naming it.
std::optional<std::string> SharedPath(const std::string& relative);

// A fresh empty folder below the system's temporary folder, removed when the object goes.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string ReadWholeFile(const std::string& path);
void WriteWholeFile(const std::string& path, const std::string& bytes);

}  // namespace lamina::testing

// Skips the running test where `relative` of the optional test data is absent; else declares `variable`.
#define LAMINA_SHARED_PATH_OR_SKIP(variable, relative)                                  \
  const auto variable##_optional = ::lamina::testing::SharedPath(relative);             \
  if (!variable##_optional) {                                                           \
    GTEST_SKIP() << "test data '" << (relative) << "' not found; set LAMINA_TEST_DATA"; \
  }                                                                                     \
  const std::string& variable = *variable##_optional
