#include "support/test_data.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace lamina::testing {

namespace fs = std::filesystem;

std::string SourcePath(const std::string& relative) {
  return std::string(LAMINA_SOURCE_DIR) + "/" + relative;
}

std::optional<std::string> SharedPath(const std::string& relative) {
  const char* configured = std::getenv("LAMINA_TEST_DATA");
  const std::string root = configured ? configured : std::string(LAMINA_SOURCE_DIR) + "/../shared";
  const std::string path = root + "/" + relative;
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  return path;
}

TempDir::TempDir() {
  std::string pattern = (fs::temp_directory_path() / "lamina-test-XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("cannot create a temporary folder " + pattern);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code error;
  fs::remove_all(path_, error);
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void WriteWholeFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace lamina::testing
