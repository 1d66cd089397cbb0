#include "cli/optimize.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "cli/model_flags.h"
#include "model/decoder_contract.h"
#include "model/function_inliner.h"
#include "model/onnx/model_reader.h"
#include "model/onnx/model_writer.h"
#include "placement/layers.h"
#include "rewrite/convert/half_precision.h"
#include "rewrite/convert/quantize_weights.h"
#include "rewrite/rewriter.h"
#include "runtime/constant_evaluator.h"
#include "weights/derived_elements.h"
#include "weights/external_data.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

// Smaller constants stay in the model file.
constexpr uint64_t kExternalFromBytes = 1024;
constexpr uint64_t kCopyPieceBytes = uint64_t{1} << 20;

struct OptimizeFlags {
  std::string model;
  std::string out;
  std::string variant;
  std::string dtype;
  std::string quant;
  std::string block = "32";
  std::string disabled;
  bool copy_weights = false;
};

struct Conversion {
  DataType half = DataType::kUndefined;
  int bits = 0;  // 0: no quantisation
  int64_t block_size = 32;
};

Result<Conversion> ParseConversion(const OptimizeFlags& flags) {
  Conversion conversion;
  const std::map<std::string, DataType> types = {
      {"", DataType::kUndefined}, {"fp16", DataType::kFloat16}, {"bf16", DataType::kBfloat16}};
  const std::map<std::string, int> bits = {{"", 0}, {"int4", 4}, {"int8", 8}};
  const auto type = types.find(flags.dtype);
  if (type == types.end())
    return InvalidArgumentError("--dtype: expected fp16 or bf16, found '{}'", flags.dtype);
  const auto width = bits.find(flags.quant);
  if (width == bits.end())
    return InvalidArgumentError("--quant: expected int4 or int8, found '{}'", flags.quant);
  conversion.half = type->second;
  conversion.bits = width->second;
  LAMINA_ASSIGN_OR_RETURN(conversion.block_size, ParseWholeNumber("--block", flags.block, 16, 1024));
  if ((conversion.block_size & (conversion.block_size - 1)) != 0) {
    return InvalidArgumentError("--block: expected a power of two, found '{}'", flags.block);
  }
  return conversion;
}

// Where the model goes: OUT is a model file, or a folder that gets one of the source's name.
struct Destination {
  fs::path model;
  bool is_folder = false;
};

Result<Destination> DestinationOf(const std::string& out, const std::string& source) {
  Destination destination{out, fs::path(out).extension() != ".onnx"};
  if (destination.is_folder) destination.model /= fs::path(source).filename();
  std::error_code error;
  if (const fs::path folder = destination.model.parent_path(); !folder.empty()) {
    fs::create_directories(folder, error);
    if (error) return IoError("cannot make the folder '{}': {}", folder.string(), error.message());
  }
  if (fs::equivalent(destination.model, source, error)) {
    return InvalidArgumentError("OUT is the model itself: '{}'", destination.model.string());
  }
  return destination;
}

bool SameFolder(const fs::path& a, const fs::path& b) {
  std::error_code error;
  const auto folder_of = [](const fs::path& path) {
    return path.parent_path().empty() ? fs::path(".") : path.parent_path();
  };
  return fs::equivalent(folder_of(a), folder_of(b), error) && !error;
}

// Copies what lies beside the source (tokenizer, configuration) to the folder, but models and their data.
Status CopyCompanions(const ModelFolder& source, const Model& model, const fs::path& out_folder,
                      const std::set<std::string>& data_files) {
  for (const std::string& folder : {source.text_folder, model.folder}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_regular_file() || entry.path().extension() == ".onnx" || data_files.count(name) > 0 ||
          entry.path().extension() == ".data" || fs::exists(out_folder / name)) {
        continue;
      }
      fs::copy_file(entry.path(), out_folder / name, error);
      if (error) return IoError("cannot copy '{}': {}", entry.path().string(), error.message());
    }
  }
  return Status();
}

void CollectDataFiles(const Graph& graph, std::set<std::string>& names) {
  for (const Initializer& initializer : graph.initializers()) {
    const auto* ref = std::get_if<ExternalDataRef>(&initializer.source);
    if (ref && !ref->location.empty()) names.insert(ref->location);
  }
  for (const Node& node : graph.nodes()) {
    if (!node.alive) continue;
    for (const Graph* subgraph : node.Subgraphs()) CollectDataFiles(*subgraph, names);
  }
}

// Hands the bytes of a file's range on, without the whole of it in memory.
Status CopyRange(const FileRange& range, const ModelWriteOptions::Sink& sink) {
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kCopyPieceBytes, range.length_bytes)));
  for (uint64_t done = 0; done < range.length_bytes;) {
    const auto bytes = std::span(piece).first(
        static_cast<size_t>(std::min<uint64_t>(piece.size(), range.length_bytes - done)));
    LAMINA_RETURN_IF_ERROR(range.file->ReadAt(range.offset_bytes + done, bytes));
    LAMINA_RETURN_IF_ERROR(sink(bytes));
    done += bytes.size();
  }
  return Status();
}

class Optimizer {
 public:
  explicit Optimizer(const OptimizeFlags& flags) : flags_(flags) {}

  Result<ExitCode> Run(Output& out) {
    LAMINA_ASSIGN_OR_RETURN(conversion_, ParseConversion(flags_));
    LAMINA_RETURN_IF_ERROR(CheckDisabledRewrites(flags_.disabled));
    LAMINA_ASSIGN_OR_RETURN(const std::string path, FindModel(flags_.model));
    LAMINA_ASSIGN_OR_RETURN(folder_, ModelFolder::Open(path, flags_.variant));
    LAMINA_ASSIGN_OR_RETURN(const Destination destination, DestinationOf(flags_.out, folder_.model_path));
    LAMINA_ASSIGN_OR_RETURN(model_, ReadModel(folder_.model_path));
    LAMINA_RETURN_IF_ERROR(InlineFunctions(*model_));
    LAMINA_ASSIGN_OR_RETURN(data_, ExternalData::Open(*model_, {}));
    std::set<std::string> data_files;
    CollectDataFiles(*model_->graph, data_files);
    LAMINA_RETURN_IF_ERROR(Rewrite(out));
    LAMINA_RETURN_IF_ERROR(Convert(out));
    LAMINA_RETURN_IF_ERROR(Write(destination.model));
    if (destination.is_folder && !SameFolder(destination.model, folder_.model_path)) {
      LAMINA_RETURN_IF_ERROR(CopyCompanions(folder_, *model_, destination.model.parent_path(), data_files));
    }
    out.Print("wrote {}\n", destination.model.string());
    return ExitCode::kSuccess;
  }

 private:
  Status Rewrite(Output& out) {
    InferenceOptions inference;
    inference.read_external = [this](const Initializer& initializer) { return data_->Map(initializer); };
    if (FindDecoderSignature(*model_).ok()) {
      LAMINA_RETURN_IF_ERROR(InferDecoder(*model_, {}, inference).status());
    } else {
      LAMINA_RETURN_IF_ERROR(InferShapes(*model_, inference));
    }
    LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<Env> env, Env::Create({}));
    SessionConstantEvaluator evaluator(env);
    LAMINA_ASSIGN_OR_RETURN(const RewriteReport report,
                            ApplyRewrites(*model_, {flags_.disabled, inference.read_external, &evaluator}));
    out.Print("{} nodes became {}\n", report.nodes_before, report.nodes_after);
    for (const auto& [name, count] : report.counts) out.Print("  {:<24} {}\n", name, count);
    return Status();
  }

  Status Convert(Output& out) {
    if (conversion_.half != DataType::kUndefined) {
      LAMINA_ASSIGN_OR_RETURN(const int converted, ConvertToHalf(*model_, conversion_.half));
      out.Print("{} nodes work in {}\n", converted, DataTypeName(conversion_.half));
    }
    if (conversion_.bits == 0) return Status();
    LAMINA_ASSIGN_OR_RETURN(const std::vector<QuantizedWeight> weights,
                            QuantizeWeights(*model_, {conversion_.bits, conversion_.block_size}));
    return Report(weights, out);
  }

  // How far the weights of each layer moved.
  Status Report(const std::vector<QuantizedWeight>& weights, Output& out) {
    LAMINA_ASSIGN_OR_RETURN(const LayerAssignment layers, AssignLayers(*model_->graph));
    struct LayerError {
      double squares = 0, elements = 0, largest = 0;
      std::string worst;
      double worst_relative = -1;
    };
    std::map<int, LayerError> by_layer;
    for (const QuantizedWeight& weight : weights) {
      const Result<QuantizationError> error = MeasureQuantization(
          *weight.packed, [this](const Initializer& initializer) { return data_->Map(initializer); });
      if (!error.ok()) return error.status();
      LayerError& layer = by_layer[layers.OfNode(weight.node)];
      const double elements = static_cast<double>(weight.k) * static_cast<double>(weight.n);
      layer.squares += error->relative * error->relative * elements;
      layer.elements += elements;
      layer.largest = std::max(layer.largest, error->largest);
      if (error->relative > layer.worst_relative) {
        layer.worst_relative = error->relative;
        layer.worst = weight.name;
      }
    }
    out.Print("{} weights in int{} blocks of {}\n", weights.size(), conversion_.bits, conversion_.block_size);
    out.Print("  {:<16} {:>14} {:>12}  worst weight\n", "layer", "relative error", "largest");
    for (const auto& [layer, error] : by_layer) {
      out.Print("  {:<16} {:>14.5f} {:>12.3g}  {} ({:.5f})\n", layers.NameOf(layer),
                std::sqrt(error.squares / error.elements), error.largest, error.worst, error.worst_relative);
    }
    return Status();
  }

  Status Write(const fs::path& path) {
    const bool keeps_references = !flags_.copy_weights && SameFolder(path, folder_.model_path);
    ModelWriteOptions options;
    options.external_from_bytes = kExternalFromBytes;
    options.stream = [&](const Initializer& initializer,
                         const ModelWriteOptions::Sink& sink) -> Result<bool> {
      if (DerivedTensors::IsDerived(initializer)) {
        LAMINA_RETURN_IF_ERROR(StreamElements(
            *model_->derived->Find(initializer.name),
            [this](const Initializer& source) { return data_->Map(source); }, sink));
        return true;
      }
      if (keeps_references) return false;
      LAMINA_ASSIGN_OR_RETURN(const FileRange range, data_->Locate(initializer));
      LAMINA_RETURN_IF_ERROR(CopyRange(range, sink));
      return true;
    };
    return WriteModel(*model_, path.string(), options);
  }

  const OptimizeFlags& flags_;
  Conversion conversion_;
  ModelFolder folder_;
  std::unique_ptr<Model> model_;
  std::shared_ptr<ExternalData> data_;
};

}  // namespace

void RegisterOptimizeCommand(Commands& commands) {
  auto flags = std::make_shared<OptimizeFlags>();
  CLI::App& app = commands.Add("optimize", "Write a model with its graph rewritten and its weights converted",
                               [flags](Output& out) { return Optimizer(*flags).Run(out); });
  app.add_option("MODEL", flags->model, "Model folder, .onnx file or name")->required();
  app.add_option("OUT", flags->out, "Model file (.onnx) or folder to write")->required();
  app.add_option("--variant", flags->variant, "Which of the folder's models: model_VARIANT.onnx");
  app.add_flag("--copy-weights", flags->copy_weights,
               "Copy weights that stay as they are, also where OUT lies beside their file");
  app.add_option("--dtype", flags->dtype,
                 "Compute in fp16 or bf16 where it is safe, with weights of that type");
  app.add_option("--quant", flags->quant, "Round the weights of products to int4 or int8");
  app.add_option("--block", flags->block, "Weights that share a scale: a power of two");
  app.add_option("--disable", flags->disabled, "Rewrites not to apply, as session.disabled_rewrites");
}

}  // namespace lamina::cli
