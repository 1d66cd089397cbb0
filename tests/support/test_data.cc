#include "support/test_data.h"

#include <algorithm>
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

std::optional<std::string> NodeTestsPath() {
  const auto archive = SharedPath("conformance/onnx-node-tests.tar.xz");
  if (!archive) return std::nullopt;
  const std::string folder = std::string(LAMINA_BINARY_DIR) + "/onnx-node-tests";
  std::error_code error;
  if (!fs::exists(folder, error)) {
    // Tests run in parallel: each unpacks for itself, the first to finish gives the folder its name.
    std::string unpacked = folder + "-XXXXXX";
    if (!mkdtemp(unpacked.data())) throw std::runtime_error("cannot create " + unpacked);
    const std::string command = "tar -xJf '" + *archive + "' -C '" + unpacked + "'";
    if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
    fs::rename(unpacked, folder, error);
    if (error) fs::remove_all(unpacked);
  }
  return folder + "/onnx/backend/test/data/node";
}

std::vector<std::string> AllModelFiles() {
  std::vector<std::string> folders = {SourcePath("models"), SourcePath("tests/data")};
  if (const auto models = SharedPath("models")) folders.push_back(*models);
  if (const auto node_tests = NodeTestsPath()) folders.push_back(*node_tests);
  std::vector<std::string> files;
  for (const std::string& folder : folders) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".onnx") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
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
