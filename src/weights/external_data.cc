#include "weights/external_data.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/sha1.h"
#include "model/sparse_tensor.h"
#include "weights/derived_elements.h"

namespace lamina {
namespace {

constexpr size_t kChecksumChunkBytes = size_t{4} << 20;

Result<std::string> Sha1OfFile(const File& file) {
  Sha1 digest;
  std::vector<std::byte> chunk(
      static_cast<size_t>(std::min<uint64_t>(kChecksumChunkBytes, file.size_bytes())));
  for (uint64_t offset = 0; offset < file.size_bytes(); offset += chunk.size()) {
    const auto bytes = std::span(chunk).first(
        static_cast<size_t>(std::min<uint64_t>(chunk.size(), file.size_bytes() - offset)));
    LAMINA_RETURN_IF_ERROR(file.ReadAt(offset, bytes));
    digest.Update(bytes);
  }
  return digest.HexDigest();
}

bool IsAligned(const Tensor& tensor) {
  const auto element_bytes = static_cast<uintptr_t>(std::max(1, DataTypeBits(tensor.type()) / 8));
  const uintptr_t alignment = std::min(element_bytes, uintptr_t{8});  // complex elements are pairs
  return reinterpret_cast<uintptr_t>(tensor.raw_data()) % alignment == 0;
}

// A bool that is neither 0 nor 1 has no meaning in C++, but files may hold one.
bool HasOddBools(const Tensor& tensor) {
  if (tensor.type() != DataType::kBool) return false;
  const auto bytes = tensor.elements<uint8_t>();
  return std::any_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte > 1; });
}

// A tensor that kernels can read as the C++ type of its elements.
Result<Tensor> Readable(Tensor tensor) {
  const bool odd_bools = HasOddBools(tensor);
  if (IsAligned(tensor) && !odd_bools) return tensor;
  LAMINA_ASSIGN_OR_RETURN(Tensor copy, tensor.Clone());
  if (odd_bools) {
    for (uint8_t& byte : copy.mutable_elements<uint8_t>()) byte = static_cast<uint8_t>(byte != 0);
  }
  return copy;
}

}  // namespace

struct ExternalData::State {
  struct OpenedFile {
    std::shared_ptr<const File> file;
    MappedRegion mapping;  // of the whole file, made on first use
    bool is_mapped = false;
    std::string sha1;  // empty: not computed
  };

  // All REQUIRE that `mutex` is held.
  Result<std::shared_ptr<OpenedFile>> OpenFile(const std::string& location);
  Result<std::shared_ptr<OpenedFile>> FileOf(const ExternalDataRef& ref);
  Status CheckSha1(const ExternalDataRef& ref, OpenedFile& opened);

  const FileSystem* files = nullptr;
  ExternalDataOptions options;
  bool has_folder = false;
  FileSystem::Beneath where;
  std::shared_ptr<const void> model_storage;
  std::shared_ptr<const DerivedTensors> derived;

  std::mutex mutex;
  std::map<std::string, std::shared_ptr<OpenedFile>, std::less<>> by_location;
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<OpenedFile>> by_identity;
};

Result<std::shared_ptr<ExternalData::State::OpenedFile>> ExternalData::State::OpenFile(
    const std::string& location) {
  if (!has_folder) {
    return InvalidArgumentError(
        "external data '{}': the model was read from memory and no folder was given to look in", location);
  }
  LAMINA_ASSIGN_OR_RETURN(const OpenedBeneath found, files->OpenBeneath(where, location));
  if (found.has_other_hard_links) {
    LogInfo("external data '{}' has other hard links: its content may be shared with another place",
            location);
  }
  // The file may be open under another spelling or name.
  const FileIdentity identity = found.file->identity();
  std::shared_ptr<OpenedFile>& opened = by_identity[{identity.device, identity.inode}];
  if (!opened) opened = std::make_shared<OpenedFile>(OpenedFile{found.file, {}, false, {}});
  return opened;
}

Result<std::shared_ptr<ExternalData::State::OpenedFile>> ExternalData::State::FileOf(
    const ExternalDataRef& ref) {
  auto found = by_location.find(ref.location);
  if (found == by_location.end()) {
    LAMINA_ASSIGN_OR_RETURN(std::shared_ptr<OpenedFile> opened, OpenFile(ref.location));
    found = by_location.emplace(ref.location, std::move(opened)).first;
  }
  const std::shared_ptr<OpenedFile>& opened = found->second;
  const uint64_t size_bytes = opened->file->size_bytes();
  if (!RangeFits(ref.offset_bytes, ref.length_bytes, size_bytes)) {
    return InvalidModelError("external data '{}': expected {} bytes at offset {}, but the file has {} bytes",
                             ref.location, ref.length_bytes, ref.offset_bytes, size_bytes);
  }
  if (options.verify_checksums) LAMINA_RETURN_IF_ERROR(CheckSha1(ref, *opened));
  return opened;
}

Status ExternalData::State::CheckSha1(const ExternalDataRef& ref, OpenedFile& opened) {
  if (ref.checksum.empty()) return {};
  if (opened.sha1.empty()) {
    LAMINA_ASSIGN_OR_RETURN(opened.sha1, Sha1OfFile(*opened.file));
  }
  if (opened.sha1 == ref.checksum) return {};
  return InvalidModelError("external data '{}': expected SHA-1 {}, found {}", ref.location, ref.checksum,
                           opened.sha1);
}

ExternalData::ExternalData(std::unique_ptr<State> state) : state_(std::move(state)) {}
ExternalData::~ExternalData() = default;

Result<std::shared_ptr<ExternalData>> ExternalData::Open(const Model& model,
                                                         const ExternalDataOptions& options,
                                                         const FileSystem& files) {
  auto state = std::make_unique<State>();
  state->files = &files;
  state->options = options;
  state->model_storage = model.storage;
  state->derived = model.derived;
  state->has_folder = !model.folder.empty();
  state->where.folder = model.folder;
  state->where.strict = options.strict;
  if (!model.path.empty()) {
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(model.path, error);
    // A model that only the FileSystem knows has no real folder.
    if (!error) state->where.real_folder = real.parent_path().string();
  }
  return std::shared_ptr<ExternalData>(new ExternalData(std::move(state)));
}

Result<FileRange> ExternalData::Locate(const Initializer& initializer) {
  if (DerivedTensors::IsDerived(initializer)) {
    return InvalidArgumentError("initializer '{}' is derived: it lies in no file", initializer.name.view());
  }
  const auto& ref = std::get<ExternalDataRef>(initializer.source);
  const std::lock_guard lock(state_->mutex);
  Result<std::shared_ptr<State::OpenedFile>> opened = state_->FileOf(ref);
  if (!opened.ok()) return opened.status().WithContext("initializer '" + initializer.name.str() + "'");
  return FileRange{(*opened)->file, ref.offset_bytes, ref.length_bytes};
}

Status ExternalData::VerifyChecksum(const Initializer& initializer) {
  const auto* ref = std::get_if<ExternalDataRef>(&initializer.source);
  if (!ref || ref->checksum.empty()) return {};
  const std::lock_guard lock(state_->mutex);
  Result<std::shared_ptr<State::OpenedFile>> opened = state_->FileOf(*ref);
  Status status = opened.ok() ? state_->CheckSha1(*ref, **opened) : opened.status();
  return status.WithContext("initializer '" + initializer.name.str() + "'");
}

Result<Tensor> ExternalData::Map(const Initializer& initializer) {
  const std::string context = "initializer '" + initializer.name.str() + "'";
  if (DerivedTensors::IsDerived(initializer)) {
    const DerivedTensorPtr derived = state_->derived->Find(initializer.name);
    if (!derived) return InternalError("{} is derived from nothing", context);
    Result<Tensor> tensor =
        ComputeDerived(*derived, [this](const Initializer& source) { return Map(source); });
    if (!tensor.ok()) return tensor.status().WithContext(context);
    return tensor;
  }
  if (const auto* ref = std::get_if<ExternalDataRef>(&initializer.source)) {
    MappedRegion bytes;
    {
      const std::lock_guard lock(state_->mutex);
      Result<std::shared_ptr<State::OpenedFile>> found = state_->FileOf(*ref);
      if (!found.ok()) return found.status().WithContext(context);
      State::OpenedFile& opened = **found;
      if (!opened.is_mapped) {
        LAMINA_ASSIGN_OR_RETURN(opened.mapping, opened.file->Map(0, opened.file->size_bytes()));
        opened.is_mapped = true;
      }
      bytes = opened.mapping.Subregion(static_cast<size_t>(ref->offset_bytes),
                                       static_cast<size_t>(ref->length_bytes));
    }
    auto owner = std::make_shared<const MappedRegion>(bytes);
    auto* data = const_cast<std::byte*>(bytes.bytes().data());  // tensors have one pointer type
    return Readable(
        Tensor::Owning(initializer.type, initializer.shape, data, bytes.bytes().size(), std::move(owner)));
  }
  if (const auto* sparse = std::get_if<std::shared_ptr<const SparseTensor>>(&initializer.source)) {
    Result<Tensor> dense = MakeDense(**sparse);
    if (!dense.ok()) return dense.status().WithContext(context);
    return dense;
  }
  const Tensor view = *initializer.InMemory();
  if (!std::holds_alternative<TensorBytesView>(initializer.source)) return view;
  return Readable(Tensor::Owning(view.type(), view.shape(), const_cast<void*>(view.raw_data()),
                                 view.capacity_bytes(), state_->model_storage));
}

}  // namespace lamina
