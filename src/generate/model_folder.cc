#include "generate/model_folder.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "text/json_fields.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// The parsed file; a null value where there is none.
Result<json> ReadConfig(const fs::path& path) {
  if (!IsFile(path)) return json();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  if (!file) return IoError("{}: cannot be read", path.string());
  LAMINA_ASSIGN_OR_RETURN(json parsed, text::ParseJson(content.str(), path.string()));
  if (!parsed.is_object())
    return InvalidModelError("{}: expected a JSON object, found {}", path.string(), parsed.type_name());
  return parsed;
}

// The member, or null where `object` is none or has none of that name.
const json& Member(const json& object, const char* name) {
  static const json null;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

template <typename T>
void TakeNumber(const json& object, const char* name, std::optional<T>* target) {
  const json& value = Member(object, name);
  if (value.is_number()) *target = value.get<T>();
}

void TakeEosIds(const json& value, std::vector<int32_t>* ids) {
  const auto add = [&](const json& id) {
    if (!id.is_number_integer()) return;
    const auto number = id.get<int64_t>();
    if (number < 0 || number > INT32_MAX) return;
    if (std::find(ids->begin(), ids->end(), number) == ids->end())
      ids->push_back(static_cast<int32_t>(number));
  };
  if (value.is_array()) {
    for (const json& id : value) add(id);
  } else {
    add(value);
  }
}

template <typename T>
void TakeNumberOnce(const json& object, const char* name, std::optional<T>* target) {
  if (!*target) TakeNumber(object, name, target);
}

void TakeBoolOnce(const json& object, const char* name, std::optional<bool>* target) {
  if (const json& value = Member(object, name); !*target && value.is_boolean()) *target = value.get<bool>();
}

// Both generation_config.json and the `search` object of genai_config.json. The first file that sets a value
// wins.
void TakeSampling(const json& config, SamplingDefaults* sampling) {
  TakeBoolOnce(config, "do_sample", &sampling->do_sample);
  TakeNumberOnce(config, "temperature", &sampling->temperature);
  TakeNumberOnce(config, "top_k", &sampling->top_k);
  TakeNumberOnce(config, "top_p", &sampling->top_p);
  TakeNumberOnce(config, "min_p", &sampling->min_p);
  TakeNumberOnce(config, "typical_p", &sampling->typical_p);
  TakeNumberOnce(config, "repetition_penalty", &sampling->repetition_penalty);
  TakeNumberOnce(config, "no_repeat_ngram_size", &sampling->no_repeat_ngram_size);
  TakeNumberOnce(config, "min_length", &sampling->min_length);
  TakeNumberOnce(config, "num_beams", &sampling->num_beams);
  TakeNumberOnce(config, "num_return_sequences", &sampling->num_return_sequences);
  TakeNumberOnce(config, "length_penalty", &sampling->length_penalty);
  TakeBoolOnce(config, "early_stopping", &sampling->early_stopping);
}

// What only the `search` object of genai_config.json says. transformers writes max_length too, but means by
// it what a call without any length gets.
void TakeSearch(const json& search, SamplingDefaults* sampling) {
  TakeSampling(search, sampling);
  TakeNumberOnce(search, "max_length", &sampling->max_length);
  TakeNumberOnce(search, "random_seed", &sampling->random_seed);
  if (const json& diversity = Member(search, "diversity_penalty");
      diversity.is_number() && diversity.get<double>() != 0) {
    LogWarning("genai_config.json: search.diversity_penalty has no meaning here: beams form one group");
  }
}

void TakeStrings(const json& object, std::map<std::string, std::string>* target) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) {
    if (value.is_string()) (*target)[key] = value.get<std::string>();
    if (value.is_boolean()) (*target)[key] = value.get<bool>() ? "1" : "0";
    if (value.is_number()) (*target)[key] = value.dump();
  }
}

std::vector<std::string> OnnxFilesIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string JoinNames(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The model file of a folder that has no genai_config.json.
Result<std::string> FindModelFile(const fs::path& folder, const std::string& variant) {
  const std::string wanted = variant.empty() ? "model.onnx" : "model_" + variant + ".onnx";
  std::vector<std::string> present;
  for (const fs::path& place : {folder, folder / "onnx"}) {
    if (IsFile(place / wanted)) return (place / wanted).string();
    const std::string prefix = place == folder ? "" : "onnx/";
    for (const std::string& name : OnnxFilesIn(place)) present.push_back(prefix + name);
  }
  if (present.empty())
    return NotFoundError("{}: there is no .onnx file in it or in its folder onnx/", folder.string());
  if (variant.empty() && present.size() == 1) return (folder / present.front()).string();
  if (variant.empty()) {
    return NotFoundError(
        "{}: there is no model.onnx; choose one with --variant NAME (model_NAME.onnx) or give its path: {}",
        folder.string(), JoinNames(present));
  }
  return NotFoundError("{}: there is no {}; present are: {}", folder.string(), wanted, JoinNames(present));
}

// Files around a bare model may lie one folder above where the model is in onnx/.
fs::path TextFolderOf(const fs::path& model_folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "config.json"}) {
    if (IsFile(model_folder / name)) return model_folder;
  }
  const fs::path absolute = fs::absolute(model_folder).lexically_normal();
  if (absolute.filename() == "onnx") return model_folder / "..";
  return model_folder;
}

Status ReadGenaiConfig(const fs::path& folder, const json& config, const std::string& variant,
                       ModelFolder* found) {
  const json& model = Member(config, "model");
  const json& decoder = Member(model, "decoder");
  if (!decoder.is_object()) {
    return InvalidModelError("{}: expected an object model.decoder", (folder / "genai_config.json").string());
  }
  if (Member(decoder, "pipeline").is_array()) {
    return UnsupportedError(
        "{}: model.decoder.pipeline (a decoder split over several files) is not supported",
        (folder / "genai_config.json").string());
  }
  const json& filename = Member(decoder, "filename");
  std::string name = filename.is_string() ? filename.get<std::string>() : "model.onnx";
  if (!variant.empty()) name = "model_" + variant + ".onnx";
  found->model_path = (folder / name).string();
  if (!IsFile(found->model_path)) {
    return NotFoundError("{}: {} is not there; present are: {}", folder.string(), name,
                         JoinNames(OnnxFilesIn(folder)));
  }
  if (const json& type = Member(model, "type"); type.is_string()) found->model_type = type.get<std::string>();
  if (const json& length = Member(model, "context_length"); length.is_number_integer()) {
    found->context_length_tokens = std::max<int64_t>(length.get<int64_t>(), 0);
  }
  TakeEosIds(Member(model, "eos_token_id"), &found->eos_ids);
  TakeStrings(Member(decoder, "inputs"), &found->decoder_names);
  TakeStrings(Member(decoder, "outputs"), &found->decoder_names);
  TakeStrings(Member(decoder, "session_options"), &found->session_options);
  return Status();
}

}  // namespace

Result<ModelFolder> ModelFolder::Open(const std::string& path, const std::string& variant) {
  ModelFolder found;
  const fs::path given(path);
  const bool is_folder = IsFolder(given);
  if (!is_folder && !IsFile(given)) return NotFoundError("{}: there is no such file or folder", path);
  if (!is_folder && !variant.empty()) {
    return InvalidArgumentError("{}: a variant is chosen in a folder, this is a file", path);
  }
  const fs::path folder = is_folder ? given : (given.has_parent_path() ? given.parent_path() : fs::path("."));
  LAMINA_ASSIGN_OR_RETURN(const json genai, ReadConfig(folder / "genai_config.json"));
  if (is_folder && genai.is_object()) {
    LAMINA_RETURN_IF_ERROR(ReadGenaiConfig(folder, genai, variant, &found));
    found.text_folder = folder.string();
  } else if (is_folder) {
    LAMINA_ASSIGN_OR_RETURN(found.model_path, FindModelFile(folder, variant));
    found.text_folder = folder.string();
  } else {
    found.model_path = path;
    found.text_folder = TextFolderOf(folder).string();
  }
  const fs::path text_folder(found.text_folder);
  LAMINA_ASSIGN_OR_RETURN(const json config, ReadConfig(text_folder / "config.json"));
  LAMINA_ASSIGN_OR_RETURN(const json generation, ReadConfig(text_folder / "generation_config.json"));
  if (const json& type = Member(config, "model_type"); found.model_type.empty() && type.is_string()) {
    found.model_type = type.get<std::string>();
  }
  for (const char* key : {"max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length"}) {
    const json& length = Member(config, key);
    if (found.context_length_tokens == 0 && length.is_number_integer()) {
      found.context_length_tokens = std::max<int64_t>(length.get<int64_t>(), 0);
    }
  }
  TakeEosIds(Member(generation, "eos_token_id"), &found.eos_ids);
  TakeEosIds(Member(config, "eos_token_id"), &found.eos_ids);
  TakeSampling(generation, &found.sampling);
  TakeSearch(Member(genai, "search"), &found.sampling);
  return found;
}

Result<std::string> FindModel(const std::string& name) {
  std::error_code error;
  if (fs::exists(name, error)) return name;
  std::vector<std::string> places{name};
  if (!name.empty() && name.front() != '/') {
    places.push_back((fs::path("models") / name).string());
    if (const char* root = std::getenv("LAMINA_MODELS"); root && *root)
      places.push_back((fs::path(root) / name).string());
  }
  for (const std::string& place : places) {
    if (fs::exists(place, error)) return place;
  }
  return NotFoundError("there is no model '{}'; looked for {}", name, JoinNames(places));
}

}  // namespace lamina
