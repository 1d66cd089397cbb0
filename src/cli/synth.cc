#include "cli/synth.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>

#include "base/byte_size.h"
#include "generate/synth/synthetic_decoder.h"

namespace lamina::cli {
namespace {

struct SynthFlags {
  std::string folder;
  SynthOptions options;
};

Result<ExitCode> Synth(const SynthFlags& flags, Output& out) {
  LAMINA_RETURN_IF_ERROR(WriteSyntheticDecoder(flags.folder, flags.options));
  std::error_code error;
  const auto bytes =
      std::filesystem::file_size(std::filesystem::path(flags.folder) / "model.onnx.data", error);
  out.Print("{}: {} of weights\n", flags.folder, FormatByteSize(error ? 0 : bytes));
  return ExitCode::kSuccess;
}

}  // namespace

void RegisterSynthCommand(Commands& commands) {
  auto flags = std::make_shared<SynthFlags>();
  SynthOptions& options = flags->options;
  CLI::App& app = commands.Add("synth", "Write a random language model of any size",
                               [flags](Output& out) { return Synth(*flags, out); });
  app.add_option("OUT", flags->folder, "Folder to write")->required();
  const std::map<std::string, SynthArchitecture> architectures{{"llama", SynthArchitecture::kLlama},
                                                               {"qwen3", SynthArchitecture::kQwen3},
                                                               {"gpt-oss", SynthArchitecture::kGptOss}};
  const std::map<std::string, DataType> types{{"fp32", DataType::kFloat}, {"fp16", DataType::kFloat16}};
  const std::map<std::string, SynthQuantization> quantizations{{"none", SynthQuantization::kNone},
                                                               {"int4", SynthQuantization::kInt4},
                                                               {"int8", SynthQuantization::kInt8}};
  app.add_option("--arch", options.architecture, "Architecture: llama (default), qwen3 or gpt-oss")
      ->transform(CLI::CheckedTransformer(architectures))
      ->option_text("NAME")
      ->group("Model");
  const auto add = [&](const char* name, int64_t& value, const char* description) {
    app.add_option(name, value, description)
        ->capture_default_str()
        ->option_text(fmt::format("N [{}]", value))
        ->group("Model");
  };
  add("--layers", options.layers, "Layers");
  add("--hidden", options.hidden, "Size of the hidden state");
  add("--heads", options.heads, "Query heads");
  add("--kv-heads", options.kv_heads, "Key and value heads");
  app.add_option("--head-size", options.head_size, "Size of a head (default: hidden / heads)")
      ->option_text("N")
      ->group("Model");
  add("--ffn", options.ffn, "Size of the feed-forward layer, of one expert for gpt-oss");
  add("--experts", options.experts, "Experts of gpt-oss");
  add("--experts-per-token", options.experts_per_token, "Experts that a token uses");
  add("--vocab", options.vocab, "Tokens of the vocabulary");
  add("--context", options.context, "Tokens of the context");
  app.add_option("--dtype", options.type, "Element type: fp32 (default) or fp16")
      ->transform(CLI::CheckedTransformer(types))
      ->option_text("TYPE")
      ->group("Model");
  app.add_option("--quant", options.quantization, "Weights of products: none (default), int4 or int8")
      ->transform(CLI::CheckedTransformer(quantizations))
      ->option_text("KIND")
      ->group("Model");
  add("--block", options.block_size, "Block size of quantised weights");
  app.add_option("--seed", options.seed, "Seed of the weights (default 0)")->option_text("N")->group("Model");
}

}  // namespace lamina::cli
