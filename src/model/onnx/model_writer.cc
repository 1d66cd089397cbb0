#include "model/onnx/model_writer.h"

#include <filesystem>
#include <limits>
#include <new>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "base/error.h"
#include "base/file_writer.h"
#include "model/onnx/external_data_writer.h"
#include "model/onnx/graph_writer.h"
#include "model/onnx/type_writer.h"
#include "model/onnx_fields.h"

namespace lamina {
namespace onnx {
namespace {

using protozero::pbf_writer;

// What other readers of the format take: their lengths are signed 32-bit numbers.
constexpr uint64_t kMaxModelBytes = std::numeric_limits<int32_t>::max();

Status TooLarge(uint64_t bytes) {
  return UnsupportedError(
      "the model has {} bytes without external data, more than the {} that the format holds; write large "
      "initializers to a data file",
      bytes, kMaxModelBytes);
}

std::span<const std::byte> BytesOf(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw_data()), static_cast<size_t>(tensor.size_bytes())};
}

// Puts initializers where the options say, and keeps what stays in the model within the format.
class Placer {
 public:
  Placer(const ModelWriteOptions& options, ExternalDataWriter* data) : options_(options), data_(data) {}

  Result<Initializer> operator()(const Initializer& initializer) {
    Initializer placed = initializer;
    if (initializer.is_external() && options_.stream && data_) {
      LAMINA_RETURN_IF_ERROR(data_->Begin());
      LAMINA_ASSIGN_OR_RETURN(const bool streamed, options_.stream(initializer, [this](auto piece) {
        return data_->Append(piece);
      }));
      if (streamed) {
        placed.source = data_->End();
        return placed;
      }
    }
    if (DerivedTensors::IsDerived(placed)) {
      return UnsupportedError("initializer '{}' is derived: it has to be computed before it can be written",
                              placed.name.view());
    }
    if (initializer.is_external() && options_.load_external) {
      LAMINA_ASSIGN_OR_RETURN(placed.source, options_.load_external(initializer));
    }
    const std::optional<Tensor> elements = placed.InMemory();
    if (!elements) return Kept(std::move(placed));
    const uint64_t bytes = elements->size_bytes();
    if (data_ && bytes > 0 && bytes >= *options_.external_from_bytes && placed.type != DataType::kString) {
      LAMINA_ASSIGN_OR_RETURN(placed.source, data_->Write(BytesOf(*elements)));
      return placed;
    }
    inline_bytes_ += bytes;
    if (inline_bytes_ > kMaxModelBytes) return TooLarge(inline_bytes_);
    return placed;
  }

 private:
  // External data that stays where it is.
  Result<Initializer> Kept(Initializer initializer) const {
    const auto* ref = std::get_if<ExternalDataRef>(&initializer.source);
    if (data_ && ref && ref->location == data_->location()) {
      return InvalidArgumentError(
          "cannot write the data file '{}': initializer '{}' refers to the one that is there", ref->location,
          initializer.name.view());
    }
    return initializer;
  }

  const ModelWriteOptions& options_;
  ExternalDataWriter* data_;
  uint64_t inline_bytes_ = 0;
};

void WriteHead(const Model& model, pbf_writer& message) {
  const auto add_optional = [&message](uint32_t field, const std::string& text) {
    if (!text.empty()) message.add_string(field, text);
  };
  message.add_int64(ModelProto::kIrVersion, model.ir_version);
  add_optional(ModelProto::kProducerName, model.producer_name);
  add_optional(ModelProto::kProducerVersion, model.producer_version);
  add_optional(ModelProto::kDomain, model.domain);
  if (model.model_version != 0) message.add_int64(ModelProto::kModelVersion, model.model_version);
  add_optional(ModelProto::kDocString, model.doc_string);
}

Result<std::string> Encode(const Model& model, const ModelWriteOptions& options, ExternalDataWriter* data) {
  std::string bytes;
  pbf_writer message(bytes);
  WriteHead(model, message);
  Placer placer(options, data);
  const GraphWriter graphs(model.ir_version, model.opset_imports,
                           [&placer](const Initializer& initializer) { return placer(initializer); });
  {
    pbf_writer graph(message, ModelProto::kGraph);
    LAMINA_RETURN_IF_ERROR(graphs.WriteGraph(*model.graph, graph));
  }
  WriteOpsetImports(model.opset_imports, ModelProto::kOpsetImport, message);
  WriteMetadata(model.metadata_props, ModelProto::kMetadataProps, message);
  for (const LocalFunction& function : model.functions) {
    pbf_writer function_message(message, ModelProto::kFunctions);
    LAMINA_RETURN_IF_ERROR(WriteFunction(function, model.ir_version, function_message));
  }
  if (bytes.size() > kMaxModelBytes) return TooLarge(bytes.size());
  return bytes;
}

Result<std::string> EncodeGuarded(const Model& model, const ModelWriteOptions& options,
                                  ExternalDataWriter* data) {
  try {
    return Encode(model, options, data);
  } catch (const std::bad_alloc&) {
    return ResourceExhaustedError("not enough host memory to encode the model");
  }
}

}  // namespace
}  // namespace onnx

Result<std::string> EncodeModel(const Model& model) { return onnx::EncodeGuarded(model, {}, nullptr); }

Status WriteModel(const Model& model, const std::string& path, const ModelWriteOptions& options) {
  const std::filesystem::path model_path(path);
  std::optional<ExternalDataWriter> data;
  if (options.external_from_bytes) {
    const std::string name =
        options.data_file_name.empty() ? model_path.filename().string() + ".data" : options.data_file_name;
    LAMINA_ASSIGN_OR_RETURN(ExternalDataWriter created,
                            ExternalDataWriter::Create(model_path.parent_path(), name));
    data.emplace(std::move(created));
  }
  Result<std::string> bytes = onnx::EncodeGuarded(model, options, data ? &*data : nullptr);
  if (!bytes.ok()) return bytes.status().WithContext(path);
  LAMINA_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path));
  LAMINA_RETURN_IF_ERROR(file.Append(*bytes));
  if (data && data->bytes_written() > 0) LAMINA_RETURN_IF_ERROR(data->Commit());
  return file.Commit();
}

}  // namespace lamina
