#include "generate/synth/decoder_graph.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace lamina {
namespace {

constexpr std::string_view kMsDomain = "com.microsoft";
constexpr int kOnnxOpset = 21;
constexpr int64_t kInt8ActivationsLevel = 4;

class DecoderGraphBuilder {
 public:
  DecoderGraphBuilder(Model& model, const SynthOptions& options, WeightWriter& weights)
      : graph_(*model.graph), options_(options), weights_(weights) {
    head_size_ = options.head_size > 0 ? options.head_size : options.hidden / options.heads;
  }

  Status Build() {
    AddInputs();
    LAMINA_RETURN_IF_ERROR(AddLengths());
    LAMINA_ASSIGN_OR_RETURN(
        cos_cache_, weights_.Rotary("cos_cache", options_.type, options_.context, head_size_ / 2, false));
    LAMINA_ASSIGN_OR_RETURN(
        sin_cache_, weights_.Rotary("sin_cache", options_.type, options_.context, head_size_ / 2, true));
    LAMINA_ASSIGN_OR_RETURN(const ValueId table,
                            weights_.Uniform("model.embed_tokens.weight", options_.type,
                                             Shape{options_.vocab, options_.hidden}, 1.0f));
    ValueId residual = Node("/model/embed_tokens/Gather", "Gather", "", {table, input_ids_});
    ValueId block;  // what the last sublayer added; invalid before the first
    for (int64_t layer = 0; layer < options_.layers; ++layer) {
      const std::string prefix = fmt::format("layers.{}", layer);
      LAMINA_ASSIGN_OR_RETURN(ValueId normed, Norm(prefix + "/input_layernorm", residual, block));
      LAMINA_ASSIGN_OR_RETURN(block, Attention(layer, prefix, normed));
      LAMINA_ASSIGN_OR_RETURN(normed, Norm(prefix + "/post_attention_layernorm", residual, block));
      if (options_.architecture == SynthArchitecture::kGptOss) {
        LAMINA_ASSIGN_OR_RETURN(block, Experts(prefix, normed));
      } else {
        LAMINA_ASSIGN_OR_RETURN(block, FeedForward(prefix, normed));
      }
    }
    LAMINA_ASSIGN_OR_RETURN(
        const ValueId normed,
        Norm(fmt::format("layers.{}/final_norm_layernorm", options_.layers), residual, block));
    LAMINA_ASSIGN_OR_RETURN(const ValueId logits,
                            Product("/lm_head", normed, options_.hidden, options_.vocab, "logits"));
    graph_.mutable_value(logits).shape = SymbolicShape{{batch_, sequence_, options_.vocab}};
    graph_.AddOutput(logits);
    for (const ValueId present : presents_) graph_.AddOutput(present);
    return Status();
  }

 private:
  static std::string Dotted(const std::string& path) {
    std::string name = "model." + path;
    for (char& character : name) {
      if (character == '/') character = '.';
    }
    return name;
  }

  // A node with one output, of the model's element type.
  ValueId Node(const std::string& name, std::string_view op_type, std::string_view domain,
               std::vector<ValueId> inputs, std::vector<Attribute> attributes = {},
               const std::string& output = "") {
    return TypedNode(options_.type, name, op_type, domain, std::move(inputs), std::move(attributes), output);
  }

  ValueId TypedNode(DataType type, const std::string& name, std::string_view op_type, std::string_view domain,
                    std::vector<ValueId> inputs, std::vector<Attribute> attributes = {},
                    const std::string& output = "") {
    const ValueId made =
        graph_.MakeValue(output.empty() ? name + "/output_0" : output, ValueType::Tensor(type));
    graph_.AddNode(name, op_type, domain, domain.empty() ? kOnnxOpset : 1, std::move(inputs), {made},
                   std::move(attributes));
    return made;
  }

  Attribute Attr(std::string_view name, AttributeValue value) const {
    return {graph_.names().Intern(name), std::move(value), Name()};
  }

  ValueId IntConstant(const std::string& name, std::initializer_list<int64_t> values, bool scalar = false) {
    const std::vector<int64_t> elements(values);
    const Shape shape = scalar ? Shape{} : Shape{static_cast<int64_t>(elements.size())};
    Result<Tensor> tensor = Tensor::FromValues<int64_t>(DataType::kInt64, shape, elements);
    const ValueId id = graph_.MakeValue(graph_.GenerateValueName(name), ValueType::Tensor(DataType::kInt64));
    if (tensor.ok())
      graph_.AddInitializer(id, {graph_.value(id).name, DataType::kInt64, shape, *std::move(tensor)});
    return id;
  }

  void AddInputs() {
    const ValueType ids = ValueType::Tensor(DataType::kInt64);
    input_ids_ = graph_.MakeValue("input_ids", ids, SymbolicShape{{batch_, sequence_}});
    mask_ = graph_.MakeValue("attention_mask", ids,
                             SymbolicShape{{batch_, DimExpr::Symbol("total_sequence_length")}});
    graph_.AddInput(input_ids_);
    graph_.AddInput(mask_);
    for (int64_t layer = 0; layer < options_.layers; ++layer) {
      for (const char* kind : {"key", "value"}) {
        const SymbolicShape shape{
            {batch_, options_.kv_heads, DimExpr::Symbol("past_sequence_length"), head_size_}};
        pasts_.push_back(graph_.MakeValue(fmt::format("past_key_values.{}.{}", layer, kind),
                                          ValueType::Tensor(options_.type), shape));
        graph_.AddInput(pasts_.back());
      }
    }
  }

  // seqlens_k [batch] and total_sequence_length [] from the mask.
  Status AddLengths() {
    const std::string base = "/model/attn_mask_reformat/attn_mask_subgraph/";
    constexpr DataType kInt64 = DataType::kInt64;
    const auto to_int32 = [&](const std::string& name, ValueId value) {
      return TypedNode(DataType::kInt32, name, "Cast", "", {value},
                       {Attr("to", static_cast<int64_t>(DataType::kInt32))});
    };
    const ValueId sum = TypedNode(kInt64, base + "ReduceSum", "ReduceSum", "",
                                  {mask_, IntConstant("axis_1", {1})}, {Attr("keepdims", int64_t{0})});
    const ValueId last = TypedNode(kInt64, base + "Sub", "Sub", "", {sum, IntConstant("one", {1})});
    seqlens_ = to_int32(base + "Sub/Cast", last);
    const ValueId shape = TypedNode(kInt64, base + "Shape", "Shape", "", {mask_});
    const ValueId total =
        TypedNode(kInt64, base + "Gather", "Gather", "",
                  {shape, IntConstant("index_1", {1}, /*scalar=*/true)}, {Attr("axis", int64_t{0})});
    total_length_ = to_int32(base + "Gather/Cast", total);
    return Status();
  }

  // The norm of residual + block; `residual` becomes that sum.
  Result<ValueId> Norm(const std::string& path, ValueId& residual, ValueId block) {
    LAMINA_ASSIGN_OR_RETURN(const ValueId weight, weights_.AroundOne(Dotted(path) + ".weight", options_.type,
                                                                     Shape{options_.hidden}));
    constexpr float kEpsilon = 1e-5f;
    if (!block.valid()) {
      return Node("/model/" + path + "/LayerNorm", "SimplifiedLayerNormalization", "", {residual, weight},
                  {Attr("epsilon", kEpsilon), Attr("axis", int64_t{-1}), Attr("stash_type", int64_t{1})});
    }
    const std::string name = "/model/" + path + "/SkipLayerNorm";
    const ValueType type = ValueType::Tensor(options_.type);
    const ValueId normed = graph_.MakeValue(name + "/output_0", type);
    const bool is_last = path.find("final_norm") != std::string::npos;
    const ValueId sum = is_last ? ValueId() : graph_.MakeValue(name + "/output_3", type);
    std::vector<ValueId> outputs{normed};
    if (sum.valid()) outputs.insert(outputs.end(), {ValueId(), ValueId(), sum});
    graph_.AddNode(name, "SkipSimplifiedLayerNormalization", kMsDomain, 1, {residual, block, weight}, outputs,
                   {Attr("epsilon", kEpsilon)});
    residual = sum;
    return normed;
  }

  // x [.., inputs] times a weight, named "/model/PATH/MatMul" or, for the head, PATH + "/MatMul".
  Result<ValueId> Product(const std::string& path, ValueId x, int64_t inputs, int64_t outputs,
                          const std::string& output = "") {
    const std::string weight = path == "/lm_head" ? "lm_head" : Dotted(path.substr(7));
    // Keeps activations near 1 in size.
    const float bound = std::sqrt(3.0f / static_cast<float>(inputs));
    if (options_.quantization == SynthQuantization::kNone) {
      LAMINA_ASSIGN_OR_RETURN(const ValueId b, weights_.Uniform(weight + ".MatMul.weight", options_.type,
                                                                Shape{inputs, outputs}, bound));
      return Node(path + "/MatMul", "MatMul", "", {x, b}, {}, output);
    }
    const int64_t bits = options_.quantization == SynthQuantization::kInt4 ? 4 : 8;
    const int64_t blocks = (inputs + options_.block_size - 1) / options_.block_size;
    LAMINA_ASSIGN_OR_RETURN(const ValueId b,
                            weights_.Bits(fmt::format("{}.MatMul.weight_Q{}", weight, bits),
                                          Shape{outputs, blocks, options_.block_size * bits / 8}));
    LAMINA_ASSIGN_OR_RETURN(
        const ValueId scales,
        weights_.Scales(weight + ".MatMul.weight_scales", options_.type, Shape{outputs, blocks},
                        bound / static_cast<float>(int64_t{1} << (bits - 1))));
    std::vector<Attribute> attributes{Attr("K", inputs), Attr("N", outputs), Attr("bits", bits),
                                      Attr("block_size", options_.block_size)};
    if (options_.type == DataType::kFloat)
      attributes.push_back(Attr("accuracy_level", kInt8ActivationsLevel));
    return Node(fmt::format("{}/MatMul_Q{}", path, bits), "MatMulNBits", kMsDomain, {x, b, scales},
                std::move(attributes), output);
  }

  // RMS norm of every head of x [batch, sequence, heads * head_size].
  Result<ValueId> HeadNorm(const std::string& path, ValueId x, int64_t heads) {
    LAMINA_ASSIGN_OR_RETURN(const ValueId weight, weights_.AroundOne(Dotted(path) + ".layernorm.weight",
                                                                     options_.type, Shape{head_size_}));
    const std::string base = "/model/" + path;
    const ValueId split =
        Node(base + "/Reshape_1", "Reshape", "", {x, IntConstant("heads_shape", {0, -1, head_size_})});
    const ValueId normed =
        Node(base + "/SimplifiedLayerNormalization", "SimplifiedLayerNormalization", "", {split, weight},
             {Attr("epsilon", 1e-6f), Attr("axis", int64_t{-1}), Attr("stash_type", int64_t{1})});
    return Node(base + "/Reshape_2", "Reshape", "",
                {normed, IntConstant("hidden_shape", {0, -1, heads * head_size_})});
  }

  Result<ValueId> Attention(int64_t layer, const std::string& prefix, ValueId x) {
    const std::string base = prefix + "/attn";
    LAMINA_ASSIGN_OR_RETURN(
        ValueId q, Product("/model/" + base + "/q_proj", x, options_.hidden, options_.heads * head_size_));
    LAMINA_ASSIGN_OR_RETURN(
        ValueId k, Product("/model/" + base + "/k_proj", x, options_.hidden, options_.kv_heads * head_size_));
    LAMINA_ASSIGN_OR_RETURN(const ValueId v, Product("/model/" + base + "/v_proj", x, options_.hidden,
                                                     options_.kv_heads * head_size_));
    if (options_.architecture == SynthArchitecture::kQwen3) {
      LAMINA_ASSIGN_OR_RETURN(q, HeadNorm(base + "/q_norm", q, options_.heads));
      LAMINA_ASSIGN_OR_RETURN(k, HeadNorm(base + "/k_norm", k, options_.kv_heads));
    }
    std::vector<ValueId> inputs{q,
                                k,
                                v,
                                pasts_[static_cast<size_t>(2 * layer)],
                                pasts_[static_cast<size_t>(2 * layer + 1)],
                                seqlens_,
                                total_length_,
                                cos_cache_,
                                sin_cache_};
    std::vector<Attribute> attributes{Attr("num_heads", options_.heads),
                                      Attr("kv_num_heads", options_.kv_heads),
                                      Attr("scale", 1.0f / std::sqrt(static_cast<float>(head_size_))),
                                      Attr("do_rotary", int64_t{1}), Attr("rotary_interleaved", int64_t{0})};
    if (options_.architecture == SynthArchitecture::kGptOss) {
      LAMINA_ASSIGN_OR_RETURN(const ValueId sinks, weights_.Uniform(Dotted(base) + ".sinks", options_.type,
                                                                    Shape{options_.heads}, 1.0f));
      inputs.insert(inputs.end(), {ValueId(), ValueId(), sinks});
      constexpr int64_t kWindow = 128;
      if (layer % 2 == 0) attributes.push_back(Attr("local_window_size", kWindow));
    }
    const std::string name = "/model/" + base + "/GroupQueryAttention";
    const ValueType type = ValueType::Tensor(options_.type);
    const ValueId attended = graph_.MakeValue(name + "/output_0", type);
    std::vector<ValueId> outputs{attended};
    for (const char* kind : {"key", "value"}) {
      const SymbolicShape shape{
          {batch_, options_.kv_heads, DimExpr::Symbol("total_sequence_length"), head_size_}};
      presents_.push_back(graph_.MakeValue(fmt::format("present.{}.{}", layer, kind), type, shape));
      outputs.push_back(presents_.back());
    }
    graph_.AddNode(name, "GroupQueryAttention", kMsDomain, 1, inputs, outputs, std::move(attributes));
    return Product("/model/" + base + "/o_proj", attended, options_.heads * head_size_, options_.hidden);
  }

  Result<ValueId> FeedForward(const std::string& prefix, ValueId x) {
    const std::string base = "/model/" + prefix + "/mlp";
    LAMINA_ASSIGN_OR_RETURN(const ValueId gate,
                            Product(base + "/gate_proj", x, options_.hidden, options_.ffn));
    LAMINA_ASSIGN_OR_RETURN(const ValueId up, Product(base + "/up_proj", x, options_.hidden, options_.ffn));
    const ValueId sigmoid = Node(base + "/act_fn/Sigmoid", "Sigmoid", "", {gate});
    const ValueId activated = Node(base + "/act_fn/Mul", "Mul", "", {gate, sigmoid});
    const ValueId product = Node(base + "/Mul", "Mul", "", {activated, up});
    return Product(base + "/down_proj", product, options_.ffn, options_.hidden);
  }

  Result<ValueId> Experts(const std::string& prefix, ValueId x) {
    const std::string base = prefix + "/moe";
    const std::string weight = Dotted(base) + ".experts";
    LAMINA_ASSIGN_OR_RETURN(const ValueId router,
                            Product("/model/" + base + "/router", x, options_.hidden, options_.experts));
    const ValueId logits = Node("/model/" + base + "/router/Reshape", "Reshape", "",
                                {router, IntConstant("router_shape", {-1, options_.experts})});
    std::vector<Attribute> attributes{Attr("k", options_.experts_per_token),
                                      Attr("activation_type", std::string("swiglu")),
                                      Attr("normalize_routing_weights", int64_t{1}),
                                      Attr("swiglu_fusion", int64_t{1}),
                                      Attr("swiglu_limit", 7.0f),
                                      Attr("activation_alpha", 1.702f),
                                      Attr("activation_beta", 1.0f)};
    std::vector<ValueId> inputs{x, logits};
    const std::array<std::pair<const char*, std::pair<int64_t, int64_t>>, 2> products = {
        {{"gate_up_proj", {options_.hidden, 2 * options_.ffn}},
         {"down_proj", {options_.ffn, options_.hidden}}}};
    for (const auto& [kind, sizes] : products) {
      const auto [rows_in, rows_out] = sizes;
      const float bound = std::sqrt(3.0f / static_cast<float>(rows_in));
      const std::string name = weight + "." + kind;
      if (options_.quantization == SynthQuantization::kNone) {
        LAMINA_ASSIGN_OR_RETURN(const ValueId w,
                                weights_.Uniform(name + ".weight", options_.type,
                                                 Shape{options_.experts, rows_out, rows_in}, bound));
        inputs.push_back(w);
      } else {
        const int64_t bits = options_.quantization == SynthQuantization::kInt4 ? 4 : 8;
        LAMINA_ASSIGN_OR_RETURN(
            const ValueId w,
            weights_.Bits(name + ".qweight", Shape{options_.experts, rows_out, rows_in * bits / 8}));
        LAMINA_ASSIGN_OR_RETURN(
            const ValueId scales,
            weights_.Scales(name + ".scales", options_.type,
                            Shape{options_.experts, rows_out, rows_in / options_.block_size},
                            bound / static_cast<float>(int64_t{1} << (bits - 1))));
        inputs.insert(inputs.end(), {w, scales});
      }
      LAMINA_ASSIGN_OR_RETURN(const ValueId bias, weights_.Uniform(name + ".bias", options_.type,
                                                                   Shape{options_.experts, rows_out}, 0.1f));
      inputs.push_back(bias);
    }
    if (options_.quantization == SynthQuantization::kNone) {
      return Node("/model/" + base + "/MoE", "MoE", kMsDomain, inputs, std::move(attributes));
    }
    attributes.push_back(
        Attr("expert_weight_bits", int64_t{options_.quantization == SynthQuantization::kInt4 ? 4 : 8}));
    attributes.push_back(Attr("block_size", options_.block_size));
    return Node("/model/" + base + "/QMoE", "QMoE", kMsDomain, inputs, std::move(attributes));
  }

  Graph& graph_;
  const SynthOptions& options_;
  WeightWriter& weights_;
  int64_t head_size_ = 0;
  const DimExpr batch_ = DimExpr::Symbol("batch_size");
  const DimExpr sequence_ = DimExpr::Symbol("sequence_length");
  ValueId input_ids_, mask_, seqlens_, total_length_, cos_cache_, sin_cache_;
  std::vector<ValueId> pasts_;
  std::vector<ValueId> presents_;
};

}  // namespace

Model MakeEmptyModel() {
  Model model;
  model.ir_version = 10;
  model.producer_name = "lamina";
  model.opset_imports = {{"", kOnnxOpset}, {std::string(kMsDomain), 1}};
  model.names = std::make_shared<NamePool>();
  model.graph = std::make_unique<Graph>(model.names, nullptr);
  model.graph->set_name("main_graph");
  return model;
}

Status BuildDecoderGraph(Model& model, const SynthOptions& options, WeightWriter& weights) {
  return DecoderGraphBuilder(model, options, weights).Build();
}

}  // namespace lamina
