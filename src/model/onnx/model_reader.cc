#include "model/onnx/model_reader.h"

#include <filesystem>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "model/function_calls.h"
#include "model/onnx/function_reader.h"
#include "model/onnx/graph_reader.h"
#include "model/onnx/opset_reader.h"
#include "model/onnx/proto_reader.h"
#include "model/onnx/type_reader.h"
#include "model/onnx_fields.h"

namespace lamina {
namespace onnx {
namespace {

constexpr int64_t kNewestIrVersion = 13;

// All but the graph and the functions, which need to know the rest.
void ReadModelFields(ProtoReader message, Model& model) {
  bool has_graph = false;
  while (message.Next()) {
    switch (message.field()) {
      case ModelProto::kIrVersion:
        model.ir_version = message.Int64();
        break;
      case ModelProto::kProducerName:
        model.producer_name = message.Text();
        break;
      case ModelProto::kProducerVersion:
        model.producer_version = message.Text();
        break;
      case ModelProto::kDomain:
        model.domain = message.Text();
        break;
      case ModelProto::kModelVersion:
        model.model_version = message.Int64();
        break;
      case ModelProto::kDocString:
        model.doc_string = message.Text();
        break;
      case ModelProto::kOpsetImport:
        ReadOpsetImport(message.Message(), model.opset_imports);
        break;
      case ModelProto::kMetadataProps:
        ReadMetadataEntry(message.Message(), model.metadata_props);
        break;
      case ModelProto::kGraph:
        if (has_graph) message.Fail("the model has more than one graph");
        has_graph = true;
        break;
      default:
        break;
    }
  }
  if (!message.ok()) return;
  if (model.ir_version <= 0) return message.Fail("not an ONNX model: it has no ir_version");
  if (!has_graph) return message.Fail("the model has no graph");
  if (model.ir_version < 3 && model.opset_imports.empty()) model.opset_imports[""] = 1;
}

void ReadFunctions(ProtoReader message, Model& model) {
  while (message.Next(ModelProto::kFunctions)) {
    model.functions.push_back(ReadFunction(message.Message(), model.ir_version, model.names));
  }
}

Status ReadModelInto(ProtoFile& file, Model& model) {
  const ProtoReader message(&file);
  ReadModelFields(message, model);
  if (model.ir_version > kNewestIrVersion) {
    LogWarning("{}: ONNX IR version {} is newer than {}, the newest known; reading on", file.name(),
               model.ir_version, kNewestIrVersion);
  }
  ReadFunctions(message, model);
  const GraphContext context{&model.opset_imports, model.ir_version};
  ProtoReader fields = message;
  if (fields.Next(ModelProto::kGraph)) ReadGraph(fields.Message(), context, *model.graph);
  if (file.ok()) file.Fail(CheckFunctionCalls(model));
  return file.status();
}

Result<std::unique_ptr<Model>> ReadNamed(const std::string& name, std::span<const std::byte> bytes,
                                         std::shared_ptr<const void> owner) {
  auto model = std::make_unique<Model>();
  model->names = std::make_shared<NamePool>();
  model->graph = std::make_unique<Graph>(model->names, nullptr);
  model->storage = std::move(owner);
  ProtoFile file(name, bytes);
  try {
    LAMINA_RETURN_IF_ERROR(ReadModelInto(file, *model));
  } catch (const std::bad_alloc&) {
    return ResourceExhaustedError("{}: not enough host memory to read the model", name);
  }
  return model;
}

}  // namespace
}  // namespace onnx

Result<std::unique_ptr<Model>> ReadModel(const std::string& path, const FileSystem& files) {
  LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, files.Open(path));
  LAMINA_ASSIGN_OR_RETURN(const MappedRegion mapping, file->Map(0, file->size_bytes()));
  auto owner = std::make_shared<const MappedRegion>(mapping);
  LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                          onnx::ReadNamed(path, mapping.bytes(), std::move(owner)));
  model->path = path;
  model->folder = std::filesystem::path(path).parent_path().string();
  if (model->folder.empty()) model->folder = ".";
  return model;
}

Result<std::unique_ptr<Model>> ReadModelFromBytes(std::span<const std::byte> bytes, const std::string& folder,
                                                  std::shared_ptr<const void> owner) {
  LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                          onnx::ReadNamed("model in memory", bytes, std::move(owner)));
  model->folder = folder;
  return model;
}

}  // namespace lamina
