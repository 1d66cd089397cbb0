#include "model/decoder_contract.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace lamina {
namespace {

constexpr std::string_view kLayerPlaceholder = "%d";

// The layer number in `name` where it follows the pattern.
std::optional<int> MatchLayer(std::string_view pattern, std::string_view name) {
  const size_t at = pattern.find(kLayerPlaceholder);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view prefix = pattern.substr(0, at);
  const std::string_view suffix = pattern.substr(at + kLayerPlaceholder.size());
  if (name.size() <= prefix.size() + suffix.size() || name.substr(0, prefix.size()) != prefix ||
      name.substr(name.size() - suffix.size()) != suffix) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  int layer = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  if (error != std::errc() || end != digits.data() + digits.size() || layer < 0) return std::nullopt;
  return layer;
}

std::string LayerName(std::string_view pattern, int layer) {
  std::string name(pattern);
  const size_t at = name.find(kLayerPlaceholder);
  if (at != std::string::npos) name.replace(at, kLayerPlaceholder.size(), std::to_string(layer));
  return name;
}

DecoderPort PortOf(const ValueInfo& info) {
  DecoderPort port{info.name.str(), info.type.element, {}};
  if (info.shape) port.shape = *info.shape;
  return port;
}

// The output of that name; absent where there is none.
DecoderPort FindOutput(const Graph& graph, std::string_view name) {
  const ValueId id = graph.FindValue(name);
  return id.valid() && graph.value(id).is_graph_output ? PortOf(graph.value(id)) : DecoderPort();
}

int64_t ConstantDim(const SymbolicShape& shape, size_t axis) {
  return axis < shape.dims.size() ? shape.dims[axis].constant().value_or(0) : 0;
}

Status CheckPortRank(const DecoderPort& port, int min_rank, int max_rank) {
  if (!port.present() || (port.shape.rank() >= min_rank && port.shape.rank() <= max_rank)) return {};
  return UnsupportedError("not a decoder: '{}' has shape {}, expected {} to {} dimensions", port.name,
                          port.shape.ToString(), min_rank, max_rank);
}

// Collects the inputs by their names.
class SignatureBuilder {
 public:
  SignatureBuilder(const Graph& graph, const DecoderNames& names) : graph_(graph), names_(names) {}

  Result<DecoderSignature> Build() {
    for (const ValueId input : graph_.inputs()) {
      // Inputs with a default are weights of old models.
      if (!graph_.value(input).initializer.valid()) TakeInput(PortOf(graph_.value(input)));
    }
    signature_.logits = FindOutput(graph_, names_.logits);
    LAMINA_RETURN_IF_ERROR(Check());
    LAMINA_RETURN_IF_ERROR(TakeLayers());
    const SymbolicShape& tokens =
        signature_.input_ids.present() ? signature_.input_ids.shape : signature_.inputs_embeds.shape;
    signature_.batch = tokens.dims[0];
    signature_.sequence = tokens.dims[1];
    signature_.past = 0;
    if (!signature_.kv_layers.empty()) signature_.past = signature_.kv_layers[0].past_key.shape.dims[2];
    return std::move(signature_);
  }

 private:
  void TakeInput(DecoderPort port) {
    const std::pair<const std::string&, DecoderPort&> single[] = {
        {names_.input_ids, signature_.input_ids},
        {names_.inputs_embeds, signature_.inputs_embeds},
        {names_.attention_mask, signature_.attention_mask},
        {names_.position_ids, signature_.position_ids},
        {names_.use_cache_branch, signature_.use_cache_branch},
    };
    for (const auto& [name, place] : single) {
      if (port.name == name) {
        place = std::move(port);
        return;
      }
    }
    if (const auto key_layer = MatchLayer(names_.past_key, port.name)) {
      keys_[*key_layer] = std::move(port);
    } else if (const auto value_layer = MatchLayer(names_.past_value, port.name)) {
      values_[*value_layer] = std::move(port);
    } else if (const auto conv_layer = MatchLayer(names_.past_conv, port.name)) {
      convs_[*conv_layer] = std::move(port);
    } else {
      signature_.other_inputs.push_back(std::move(port));
    }
  }

  Status Check() const {
    if (!signature_.input_ids.present() && !signature_.inputs_embeds.present()) {
      return UnsupportedError("not a decoder: no input is called '{}' or '{}'", names_.input_ids,
                              names_.inputs_embeds);
    }
    if (!signature_.logits.present()) {
      return UnsupportedError("not a decoder: no output is called '{}'", names_.logits);
    }
    LAMINA_RETURN_IF_ERROR(CheckPortRank(signature_.input_ids, 2, 2));
    LAMINA_RETURN_IF_ERROR(CheckPortRank(signature_.inputs_embeds, 3, 3));
    LAMINA_RETURN_IF_ERROR(CheckPortRank(signature_.attention_mask, 2, 4));
    return CheckPortRank(signature_.position_ids, 2, 3);
  }

  Status TakeLayers() {
    for (auto& [layer, key] : keys_) {
      DecoderKvLayer kv;
      kv.layer = layer;
      const auto value = values_.find(layer);
      if (value == values_.end()) {
        return UnsupportedError("not a decoder: input '{}' comes without '{}'", key.name,
                                LayerName(names_.past_value, layer));
      }
      kv.past_key = key;
      kv.past_value = value->second;
      LAMINA_ASSIGN_OR_RETURN(kv.present_key, PresentOf(kv.past_key, names_.present_key, layer));
      LAMINA_ASSIGN_OR_RETURN(kv.present_value, PresentOf(kv.past_value, names_.present_value, layer));
      LAMINA_RETURN_IF_ERROR(CheckPortRank(kv.past_key, 4, 4));
      LAMINA_RETURN_IF_ERROR(CheckPortRank(kv.past_value, 4, 4));
      kv.kv_heads = ConstantDim(kv.past_key.shape, 1);
      kv.head_size = ConstantDim(kv.past_key.shape, 3);
      kv.v_head_size = ConstantDim(kv.past_value.shape, 3);
      signature_.kv_layers.push_back(std::move(kv));
    }
    for (auto& [layer, past] : convs_) {
      DecoderStateLayer state;
      state.layer = layer;
      state.past = past;
      LAMINA_ASSIGN_OR_RETURN(state.present, PresentOf(past, names_.present_conv, layer));
      signature_.state_layers.push_back(std::move(state));
    }
    return {};
  }

  Result<DecoderPort> PresentOf(const DecoderPort& past, std::string_view pattern, int layer) const {
    const std::string name = LayerName(pattern, layer);
    DecoderPort present = FindOutput(graph_, name);
    if (!present.present()) {
      return UnsupportedError("not a decoder: input '{}' comes without an output '{}'", past.name, name);
    }
    return present;
  }

  const Graph& graph_;
  const DecoderNames& names_;
  DecoderSignature signature_;
  std::map<int, DecoderPort> keys_;
  std::map<int, DecoderPort> values_;
  std::map<int, DecoderPort> convs_;
};

// Which dimensions of the inputs the contract sets, and the symbols that this replaces.
class Contract {
 public:
  explicit Contract(const DecoderSignature& signature)
      : batch_(signature.batch), sequence_(signature.sequence), past_(signature.past) {
    // A constant that any input has for a dimension holds for all.
    for (const DecoderKvLayer& kv : signature.kv_layers) {
      Prefer(kv.past_key.shape, 0, batch_);
      Prefer(kv.past_key.shape, 2, past_);
    }
    Prefer(signature.attention_mask.shape, 0, batch_);
    total_ = past_ + sequence_;
  }

  void Apply(Graph& graph, const DecoderSignature& signature) {
    Set(graph, signature.input_ids, {batch_, sequence_});
    Set(graph, signature.inputs_embeds, {batch_, sequence_, std::nullopt});
    switch (signature.attention_mask.shape.rank()) {
      case 2:
        Set(graph, signature.attention_mask, {batch_, total_});
        break;
      case 4:
        Set(graph, signature.attention_mask, {batch_, std::nullopt, sequence_, total_});
        break;
      default:
        break;
    }
    if (signature.position_ids.shape.rank() == 3) {
      Set(graph, signature.position_ids, {std::nullopt, batch_, sequence_});
    } else {
      Set(graph, signature.position_ids, {batch_, sequence_});
    }
    for (const DecoderKvLayer& kv : signature.kv_layers) {
      Set(graph, kv.past_key, {batch_, std::nullopt, past_, std::nullopt});
      Set(graph, kv.past_value, {batch_, std::nullopt, past_, std::nullopt});
    }
    for (const DecoderStateLayer& state : signature.state_layers) {
      if (state.past.shape.rank() > 0) Set(graph, state.past, {batch_});
    }
    // The three that stay must not be replaced, whatever else is called so.
    for (const DimExpr& kept : {batch_, sequence_, past_}) replaced_.erase(std::string(kept.symbol()));
    if (!replaced_.empty()) Substitute(graph);
  }

 private:
  static void Prefer(const SymbolicShape& shape, size_t axis, DimExpr& dim) {
    if (!dim.is_constant() && axis < shape.dims.size() && shape.dims[axis].is_constant()) {
      dim = shape.dims[axis];
    }
  }

  void Set(Graph& graph, const DecoderPort& port, const std::vector<std::optional<DimExpr>>& dims) {
    if (!port.present()) return;
    ValueInfo& info = graph.mutable_value(graph.FindValue(port.name));
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      DimExpr& dim = info.shape->dims[axis];
      if (!dims[axis] || dim.is_constant() || dim == *dims[axis]) continue;
      if (!dim.symbol().empty()) replaced_.emplace(dim.symbol(), *dims[axis]);
      dim = *dims[axis];
    }
  }

  void Substitute(Graph& graph) {
    for (size_t i = 0; i < graph.values().size(); ++i) {
      ValueInfo& info = graph.mutable_value(ValueId{static_cast<int32_t>(i)});
      if (!info.shape) continue;
      for (DimExpr& dim : info.shape->dims) dim = dim.Substitute(replaced_);
    }
    for (const Node& node : graph.nodes()) {
      if (!node.alive) continue;
      for (Graph* subgraph : node.Subgraphs()) Substitute(*subgraph);
    }
  }

  DimExpr batch_;
  DimExpr sequence_;
  DimExpr past_;
  DimExpr total_;
  std::map<std::string, DimExpr, std::less<>> replaced_;
};

}  // namespace

int64_t DecoderSignature::vocabulary_size() const {
  return logits.shape.rank() == 0 ? 0 : logits.shape.dims.back().constant().value_or(0);
}

bool DecoderSignature::last_logits_only() const {
  return logits.shape.rank() == 3 && logits.shape.dims[1].Is(1) && !sequence.Is(1);
}

Result<DecoderSignature> FindDecoderSignature(const Model& model, const DecoderNames& names) {
  return SignatureBuilder(*model.graph, names).Build();
}

void ApplyDecoderContract(Model& model, const DecoderSignature& signature) {
  Contract(signature).Apply(*model.graph, signature);
}

Result<DecoderSignature> InferDecoder(Model& model, const DecoderNames& names,
                                      const InferenceOptions& options) {
  LAMINA_ASSIGN_OR_RETURN(const DecoderSignature signature, FindDecoderSignature(model, names));
  ApplyDecoderContract(model, signature);
  LAMINA_RETURN_IF_ERROR(InferShapes(model, options));
  return FindDecoderSignature(model, names);
}

}  // namespace lamina
