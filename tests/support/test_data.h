// Where tests find their data: files of this repository, and optional material outside it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lamina::testing {

// Absolute path of `relative` inside the source tree.
std::string SourcePath(const std::string& relative);

// Absolute path of `relative` inside the optional test data folder ($LAMINA_TEST_DATA, else ../shared beside
// the checkout), or nothing where it is absent: the caller then skips with a message naming it.
std::optional<std::string> SharedPath(const std::string& relative);

// The folder with the ONNX node tests (one folder `test_*` for each), unpacked from the optional test data
// into the build folder once, or nothing where the data is absent.
std::optional<std::string> NodeTestsPath();

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

// Every model file (*.onnx) that tests may read: of this repository, and of the optional test data where it
// is there. Sorted.
std::vector<std::string> AllModelFiles();

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
