// What `lamina bench load` loads: the external weights of a model, or of a made-up one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "lamina/status.h"
#include "provider/external_data_loader.h"

namespace lamina::cli {

// Items without destinations, each range of a file once, and what their names lie in.
struct LoadBenchData {
  std::vector<std::string> names;
  std::vector<ExternalDataItem> items;
  std::vector<std::shared_ptr<const File>> files;
  uint64_t item_bytes = 0;
};

// The external initializers of the model at `path`. INVALID_MODEL where it has none.
Result<LoadBenchData> ModelLoadData(const std::string& path);

// A file of `size_bytes` with tensors as a language model has them, made by WriteSyntheticWeights.
Result<LoadBenchData> SyntheticLoadData(const std::string& path);
// Writes pseudo-random bytes, nothing that a disk could leave out. Leaves an existing file of that size.
Status WriteSyntheticWeights(const std::string& path, uint64_t size_bytes);

}  // namespace lamina::cli
