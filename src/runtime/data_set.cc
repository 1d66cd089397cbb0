#include "runtime/data_set.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "model/onnx/value_file.h"
#include "runtime/session_impl.h"
#include "runtime/value_compare.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "test_data_set_";

bool IsDataSet(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error) && path.filename().string().rfind(kPrefix, 0) == 0;
}

// test_data_set_10 comes after test_data_set_9; names without a number come last.
int64_t NumberOf(const fs::path& path) {
  const std::string digits = path.filename().string().substr(kPrefix.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number : INT64_MAX;
}

std::string FileOf(const std::string& data_set, const char* kind, size_t index) {
  return fmt::format("{}/{}_{}.pb", data_set, kind, index);
}

bool HasInt8Activations(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    const Attribute* level = node.alive ? node.FindAttribute("accuracy_level") : nullptr;
    const auto* value = level ? std::get_if<int64_t>(&level->value) : nullptr;
    return value && *value == 4;
  });
}

// The valid tokens of each row: what the attention mask [batch, total] counts. Empty where there is no such
// mask.
std::vector<int64_t> TokensOfRows(const Session& session, const std::vector<Value>& inputs,
                                  const DecoderSignature& decoder) {
  const int mask_input = session.FindInput(decoder.attention_mask.name);
  if (mask_input < 0 || !inputs[static_cast<size_t>(mask_input)].is_tensor()) return {};
  const Tensor& mask = inputs[static_cast<size_t>(mask_input)].tensor();
  if (mask.shape().rank() != 2 || mask.type() != DataType::kInt64) return {};
  std::vector<int64_t> tokens(static_cast<size_t>(mask.shape()[0]));
  for (int64_t i = 0; i < mask.num_elements(); ++i) {
    tokens[static_cast<size_t>(i / mask.shape()[1])] += mask.data<int64_t>()[i] != 0 ? 1 : 0;
  }
  return tokens;
}

// Where past and present are one buffer of a fixed number of tokens [batch, heads, capacity, head_size],
// those after the valid ones are not defined: zero in the copy that is returned.
Result<Tensor> WithoutUndefinedTokens(const Tensor& present, const std::vector<int64_t>& tokens) {
  LAMINA_ASSIGN_OR_RETURN(Tensor defined, present.Clone());
  const Shape& shape = defined.shape();
  const int64_t token_bytes = shape[3] * DataTypeBits(defined.type()) / 8;
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t h = 0; h < shape[1]; ++h) {
      std::byte* head = defined.mutable_data<std::byte>() + (b * shape[1] + h) * shape[2] * token_bytes;
      const int64_t valid = std::min(tokens[static_cast<size_t>(b)], shape[2]);
      std::fill(head + valid * token_bytes, head + shape[2] * token_bytes, std::byte{0});
    }
  }
  return defined;
}

// Clears what is not defined in a present output of a decoder, in both values.
Status ClearUndefined(const Session& session, const std::vector<Value>& inputs, const std::string& output,
                      Value& expected, Value& actual) {
  const DecoderSignature* decoder = session.impl().decoder();
  if (!decoder || !expected.is_tensor() || !actual.is_tensor()) return Status();
  const std::vector<int64_t> tokens = TokensOfRows(session, inputs, *decoder);
  for (const DecoderKvLayer& layer : decoder->kv_layers) {
    if (output != layer.present_key.name && output != layer.present_value.name) continue;
    const Tensor& past = inputs[static_cast<size_t>(session.FindInput(layer.past_key.name))].tensor();
    const Shape& shape = expected.tensor().shape();
    const bool one_buffer = shape.rank() == 4 && past.shape().rank() == 4 && past.shape()[2] == shape[2] &&
                            actual.tensor().shape() == shape &&
                            static_cast<int64_t>(tokens.size()) == shape[0];
    if (!one_buffer) return Status();
    LAMINA_ASSIGN_OR_RETURN(expected, WithoutUndefinedTokens(expected.tensor(), tokens));
    LAMINA_ASSIGN_OR_RETURN(actual, WithoutUndefinedTokens(actual.tensor(), tokens));
  }
  return Status();
}

}  // namespace

std::vector<std::string> FindDataSets(const std::string& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (IsDataSet(entry.path())) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    return std::make_pair(NumberOf(a), a) < std::make_pair(NumberOf(b), b);
  });
  std::vector<std::string> names;
  for (const fs::path& path : found) names.push_back(path.string());
  return names;
}

std::vector<std::string> FindFoldersWithDataSets(const std::string& root) {
  std::vector<std::string> folders;
  if (!FindDataSets(root).empty()) folders.push_back(root);
  std::error_code error;
  fs::recursive_directory_iterator walk(root, fs::directory_options::skip_permission_denied, error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    if (!walk->is_directory(error)) continue;
    if (IsDataSet(walk->path())) {
      walk.disable_recursion_pending();
    } else if (!FindDataSets(walk->path().string()).empty()) {
      folders.push_back(walk->path().string());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

Status CheckDataSet(Session& session, const std::string& data_set) {
  std::error_code error;
  std::vector<Value> inputs(session.inputs().size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string file = FileOf(data_set, "input", i);
    if (!fs::exists(file, error)) {
      if (session.inputs()[i].optional) continue;
      return NotFoundError("{} (input '{}') is missing", file, session.inputs()[i].name);
    }
    LAMINA_ASSIGN_OR_RETURN(inputs[i], ReadValueFile(file, session.inputs()[i].type));
  }
  std::vector<Value> outputs;
  LAMINA_RETURN_IF_ERROR(session.Run({}, inputs, &outputs));
  const SessionImpl& impl = session.impl();
  const CompareOptions options{HasInt8Activations(*impl.model().graph), impl.decoder() != nullptr};
  size_t compared = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string file = FileOf(data_set, "output", i);
    if (!fs::exists(file, error)) continue;
    LAMINA_ASSIGN_OR_RETURN(Value expected, ReadValueFile(file, session.outputs()[i].type));
    LAMINA_RETURN_IF_ERROR(ClearUndefined(session, inputs, session.outputs()[i].name, expected, outputs[i]));
    const Status agrees = CompareValues(expected, outputs[i], options);
    if (!agrees.ok()) return agrees.WithContext(fmt::format("output {} '{}'", i, session.outputs()[i].name));
    ++compared;
  }
  if (compared == 0) return NotFoundError("{}: there is no output_N.pb to compare with", data_set);
  return Status();
}

}  // namespace lamina
