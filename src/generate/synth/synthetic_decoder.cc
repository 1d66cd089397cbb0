#include "generate/synth/synthetic_decoder.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_writer.h"
#include "generate/synth/decoder_graph.h"
#include "generate/synth/weight_writer.h"
#include "model/onnx/model_writer.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kDataFile = "model.onnx.data";
constexpr int kEosId = 0;

const char* ModelType(SynthArchitecture architecture) {
  switch (architecture) {
    case SynthArchitecture::kLlama:
      return "llama";
    case SynthArchitecture::kQwen3:
      return "qwen3";
    case SynthArchitecture::kGptOss:
      return "gptoss";
  }
  return "llama";
}

Status WriteText(const fs::path& path, const std::string& text) {
  LAMINA_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path.string()));
  LAMINA_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

ordered_json GenaiConfig(const SynthOptions& options) {
  const int64_t head_size = options.head_size > 0 ? options.head_size : options.hidden / options.heads;
  const ordered_json decoder = {
      {"session_options", {{"log_id", "onnxruntime-genai"}, {"provider_options", ordered_json::array()}}},
      {"filename", "model.onnx"},
      {"head_size", head_size},
      {"hidden_size", options.hidden},
      {"inputs",
       {{"input_ids", "input_ids"},
        {"attention_mask", "attention_mask"},
        {"past_key_names", "past_key_values.%d.key"},
        {"past_value_names", "past_key_values.%d.value"}}},
      {"outputs",
       {{"logits", "logits"},
        {"present_key_names", "present.%d.key"},
        {"present_value_names", "present.%d.value"}}},
      {"num_attention_heads", options.heads},
      {"num_hidden_layers", options.layers},
      {"num_key_value_heads", options.kv_heads}};
  return {{"model",
           {{"bos_token_id", kEosId},
            {"context_length", options.context},
            {"decoder", decoder},
            {"eos_token_id", kEosId},
            {"pad_token_id", kEosId},
            {"type", ModelType(options.architecture)},
            {"vocab_size", options.vocab}}},
          {"search",
           {{"do_sample", false}, {"max_length", options.context}, {"past_present_share_buffer", true}}}};
}

// Bytes as the byte-level alphabet of GPT-2 writes them: printable characters stand for themselves, the
// others for U+0100 and up in their order.
std::string ByteLevelCharacter(int byte) {
  const auto printable = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
  };
  int code = byte;
  if (!printable(byte)) {
    code = 0x100;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

// One token a byte; the other ids are words that no text has.
ordered_json TokenizerFile(int64_t vocab) {
  ordered_json tokens = ordered_json::object();
  tokens["<|endoftext|>"] = kEosId;
  for (int64_t id = 1; id < vocab; ++id) {
    tokens[id <= 256 ? ByteLevelCharacter(static_cast<int>(id - 1)) : fmt::format("<token {}>", id)] = id;
  }
  const ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           {{{"id", kEosId},
             {"content", "<|endoftext|>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", std::move(tokens)},
            {"merges", ordered_json::array()}}}};
}

}  // namespace

Status SynthOptions::Validate() const {
  const auto in_range = [](const char* name, int64_t value, int64_t min, int64_t max) -> Status {
    if (value >= min && value <= max) return Status();
    return InvalidArgumentError("{}: expected {} to {}, found {}", name, min, max, value);
  };
  constexpr int64_t kMax = int64_t{1} << 24;
  LAMINA_RETURN_IF_ERROR(in_range("layers", layers, 1, 100'000));
  LAMINA_RETURN_IF_ERROR(in_range("hidden", hidden, 8, kMax));
  LAMINA_RETURN_IF_ERROR(in_range("heads", heads, 1, 65536));
  LAMINA_RETURN_IF_ERROR(in_range("kv-heads", kv_heads, 1, heads));
  LAMINA_RETURN_IF_ERROR(in_range("ffn", ffn, 8, kMax));
  LAMINA_RETURN_IF_ERROR(in_range("vocab", vocab, 257, kMax));
  LAMINA_RETURN_IF_ERROR(in_range("context", context, 1, kMax));
  LAMINA_RETURN_IF_ERROR(in_range("experts", experts, 1, 65536));
  LAMINA_RETURN_IF_ERROR(in_range("experts-per-token", experts_per_token, 1, experts));
  if (heads % kv_heads != 0)
    return InvalidArgumentError("heads ({}) must be a multiple of kv-heads ({})", heads, kv_heads);
  if (head_size == 0 && hidden % heads != 0) {
    return InvalidArgumentError("hidden ({}) must be a multiple of heads ({}) where no head-size is given",
                                hidden, heads);
  }
  const int64_t size = head_size > 0 ? head_size : hidden / heads;
  if (size % 16 != 0) return InvalidArgumentError("the head size must be a multiple of 16, found {}", size);
  if (type != DataType::kFloat && type != DataType::kFloat16) {
    return InvalidArgumentError("dtype: expected fp32 or fp16, found {}", DataTypeName(type));
  }
  if (quantization != SynthQuantization::kNone) {
    if (block_size < 16 || block_size > 256 || (block_size & (block_size - 1)) != 0) {
      return InvalidArgumentError("block: expected 16, 32, 64, 128 or 256, found {}", block_size);
    }
    if (architecture == SynthArchitecture::kGptOss && (hidden % block_size != 0 || ffn % block_size != 0)) {
      return InvalidArgumentError("hidden ({}) and ffn ({}) must be multiples of block ({}) for experts",
                                  hidden, ffn, block_size);
    }
  }
  return Status();
}

Status WriteSyntheticDecoder(const std::string& folder, const SynthOptions& options,
                             const std::function<Status(uint64_t written_bytes)>& progress) {
  LAMINA_RETURN_IF_ERROR(options.Validate());
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return IoError("{}: cannot be made: {}", folder, error.message());
  Model model = MakeEmptyModel();
  LAMINA_ASSIGN_OR_RETURN(ExternalDataWriter data, ExternalDataWriter::Create(folder, kDataFile));
  WeightWriter weights(*model.graph, data, options.seed, progress);
  LAMINA_RETURN_IF_ERROR(BuildDecoderGraph(model, options, weights));
  LAMINA_RETURN_IF_ERROR(data.Commit());
  const fs::path root(folder);
  LAMINA_RETURN_IF_ERROR(WriteModel(model, (root / "model.onnx").string()));
  LAMINA_RETURN_IF_ERROR(WriteText(root / "genai_config.json", GenaiConfig(options).dump(2) + "\n"));
  LAMINA_RETURN_IF_ERROR(WriteText(root / "tokenizer.json", TokenizerFile(options.vocab).dump() + "\n"));
  const ordered_json tokenizer_config = {{"eos_token", "<|endoftext|>"},
                                         {"tokenizer_class", "PreTrainedTokenizerFast"}};
  return WriteText(root / "tokenizer_config.json", tokenizer_config.dump(2) + "\n");
}

}  // namespace lamina
