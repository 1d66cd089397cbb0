// Finds the model, its tokenizer and its settings in a folder. Recognised are
//   ONNX Runtime GenAI   genai_config.json names the model file and carries settings
//   Optimum              model.onnx or onnx/model.onnx beside config.json and generation_config.json;
//                        variants are model_NAME.onnx (onnx/model_fp16.onnx)
//   a bare .onnx         with its tokenizer in the same folder or, for a file in onnx/, the one above
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lamina/status.h"

namespace lamina {

// Sampling settings that the model's authors ship; absent ones were not in the files.
struct SamplingDefaults {
  std::optional<bool> do_sample;
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> typical_p;
  std::optional<float> repetition_penalty;
  std::optional<int32_t> no_repeat_ngram_size;
  std::optional<int64_t> max_length;  // prompt and answer, tokens
  std::optional<int64_t> min_length;
  std::optional<int64_t> random_seed;  // negative: any
  std::optional<int32_t> num_beams;
  std::optional<int32_t> num_return_sequences;
  std::optional<float> length_penalty;
  std::optional<bool> early_stopping;
};

struct ModelFolder {
  std::string model_path;             // the .onnx file
  std::string text_folder;            // where tokenizer, chat template and configurations lie
  std::string model_type;             // "llama", or empty where no file says
  int64_t context_length_tokens = 0;  // of the model; 0: no file says
  std::vector<int32_t> eos_ids;       // all that the model's files name, without duplicates
  SamplingDefaults sampling;
  // Names of inputs and outputs as genai_config.json gives them (LoadOptions::decoder_names).
  std::map<std::string, std::string> decoder_names;
  // session_options of genai_config.json: keys and values as text.
  std::map<std::string, std::string> session_options;

  // `path`: a folder or an .onnx file. `variant` picks model_VARIANT.onnx. NOT_FOUND lists what is there;
  // INVALID_MODEL names the configuration file and what is wrong in it.
  static Result<ModelFolder> Open(const std::string& path, const std::string& variant = "");
};

// What a user may call a model: a path, or a name below models/ or $LAMINA_MODELS. NOT_FOUND lists where it
// was looked for.
Result<std::string> FindModel(const std::string& name);

}  // namespace lamina
