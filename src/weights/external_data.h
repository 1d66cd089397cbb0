// The bytes of a model's initializers, wherever they are: external data files opened and mapped on first use.
//
//   LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<ExternalData> data, ExternalData::Open(*model));
//   LAMINA_ASSIGN_OR_RETURN(const Tensor weight, data->Map(*model->graph->ConstantOf(id)));
//
// External data is named by the model, which is not trusted. A location is relative and stays, links
// included, inside the model's folder or the folder of the real file behind a linked model; only regular
// files open. The range is checked against the file that was opened. A file is opened and mapped once,
// however many tensors lie in it and however its name is written; mapped bytes become resident as they are
// read.
#pragma once

#include <cstdint>
#include <memory>

#include "base/file.h"
#include "lamina/status.h"
#include "lamina/value.h"
#include "model/model.h"

namespace lamina {

struct ExternalDataOptions {
  // session.external_data_strict: refuse files that have other hard links. Otherwise they are a notice.
  bool strict = false;
  // Check every file that has a checksum when it is first used.
  bool verify_checksums = false;
};

// Where external data lies in an opened file, for those who read it themselves.
struct FileRange {
  std::shared_ptr<const File> file;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
};

// Thread-safe.
class ExternalData {
 public:
  // Opens no file yet. The initializers given to the object later are those of `model`; what they need of it
  // stays alive with the tensors, the model itself need not. `files` must outlive the object.
  static Result<std::shared_ptr<ExternalData>> Open(const Model& model,
                                                    const ExternalDataOptions& options = {},
                                                    const FileSystem& files = SystemFiles());
  ~ExternalData();
  ExternalData(const ExternalData&) = delete;
  ExternalData& operator=(const ExternalData&) = delete;

  // The constant as a host tensor that must not be written to and keeps its memory alive. Bytes of the model
  // file or of a data file are mapped, not copied, where they are aligned for the element type; strings,
  // sparse and derived tensors, misaligned bytes and bools that are neither 0 nor 1 become memory of their
  // own.
  // INVALID_MODEL (NOT_FOUND for a missing file) naming initializer and file where the data cannot be had;
  // INVALID_ARGUMENT for external data of a model in memory that was given no folder.
  Result<Tensor> Map(const Initializer& initializer);

  // Where the bytes of an external initializer are, with the same checks; INVALID_ARGUMENT for a derived one.
  // REQUIRES: initializer.is_external().
  Result<FileRange> Locate(const Initializer& initializer);

  // Reads the file of an external initializer and compares its SHA-1 with the initializer's; OK where it has
  // none. Each file is read once. INVALID_MODEL where they differ. Does nothing for other initializers.
  Status VerifyChecksum(const Initializer& initializer);

 private:
  struct State;
  explicit ExternalData(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lamina
