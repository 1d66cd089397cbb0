// Layers as the spans between attention nodes.
#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "placement/layer_finders.h"
#include "placement/layers.h"

namespace lamina {
namespace {

constexpr std::array<std::string_view, 8> kAttentionOps = {
    "Attention",      "MultiHeadAttention", "GroupQueryAttention", "DecoderMaskedMultiHeadAttention",
    "PagedAttention", "SparseAttention",    "LinearAttention",     "PackedMultiHeadAttention"};

bool IsAttention(const Node& node) {
  return std::find(kAttentionOps.begin(), kAttentionOps.end(), node.op_type.view()) != kAttentionOps.end();
}

// Skip norms add the residual stream and norm the sum: they begin a layer, where an Add ends one.
bool IsSkipNorm(const Node& node) {
  return node.op_type == "SkipLayerNormalization" || node.op_type == "SkipSimplifiedLayerNormalization";
}

class AttentionLayers {
 public:
  AttentionLayers(const Graph& graph, std::span<const NodeId> order) : graph_(graph), order_(order) {}

  std::optional<FoundLayers> Find() {
    FindAttentionNodes();
    if (attention_.size() < 2) return std::nullopt;
    CountAttentionBefore();
    FindConstants();
    FoundLayers layers;
    layers.of_node.resize(graph_.nodes().size());
    const auto count = static_cast<int>(attention_.size());
    for (int layer = 0; layer < count; ++layer) layers.names.push_back("layer." + std::to_string(layer));

    // Nodes with as many attention nodes before them as the layer's number are of it or of the one before.
    for (int span = 1; span <= count; ++span) {
      const std::vector<bool> begins = AfterTheCut(span);
      for (const NodeId id : order_) {
        const auto index = Index(id);
        if (attention_before_[index] == span) layers.of_node[index] = begins[index] ? span : span - 1;
      }
    }
    const std::vector<bool> after_embedding = AfterTheEmbedding();
    for (const NodeId id : order_) {
      const auto index = Index(id);
      if (attention_before_[index] != 0) continue;
      layers.of_node[index] = after_embedding[index] ? 0 : LayerAssignment::kEmbedding;
    }
    ForgetConstants(layers);
    return layers;
  }

 private:
  static size_t Index(NodeId id) { return static_cast<size_t>(id.index); }

  template <typename Visitor>
  void ForEachProducer(NodeId id, Visitor&& visit) const {
    for (const ValueId input : graph_.node(id).inputs) {
      if (input.valid() && graph_.value(input).producer.valid()) visit(graph_.value(input).producer);
    }
  }

  void FindAttentionNodes() {
    for (const NodeId id : order_) {
      if (IsAttention(graph_.node(id))) attention_.push_back(id);
    }
    if (!attention_.empty()) return;
    for (const NodeId id : order_) {  // attention written out has one Softmax
      if (graph_.node(id).op_type == "Softmax") attention_.push_back(id);
    }
  }

  // The longest chain of attention nodes before each node. Attention nodes side by side make no layers of
  // their own: only those that lengthen the chain stay.
  void CountAttentionBefore() {
    is_attention_.assign(graph_.nodes().size(), false);
    for (const NodeId id : attention_) is_attention_[Index(id)] = true;
    attention_before_.assign(graph_.nodes().size(), 0);
    std::vector<NodeId> chain;
    for (const NodeId id : order_) {
      int before = 0;
      ForEachProducer(id, [&](NodeId producer) {
        before =
            std::max(before, attention_before_[Index(producer)] + (is_attention_[Index(producer)] ? 1 : 0));
      });
      attention_before_[Index(id)] = before;
      if (is_attention_[Index(id)] && before == static_cast<int>(chain.size())) chain.push_back(id);
    }
    attention_ = std::move(chain);
  }

  // Where span `span` leads: its attention node, or for the last span the output that all layers are in.
  NodeId TargetOf(int span) const {
    if (span < static_cast<int>(attention_.size())) return attention_[static_cast<size_t>(span)];
    for (const ValueId output : graph_.outputs()) {
      const NodeId producer = graph_.value(output).producer;
      if (producer.valid() && attention_before_[Index(producer)] == span) return producer;
    }
    return {};
  }

  // By node: whether it comes after the last residual sum through which every way from attention node span -
  // 1 to the target of the span leads. Of a sum by Add the nodes after it, of a skip norm itself and those
  // after.
  std::vector<bool> AfterTheCut(int span) const {
    std::vector<bool> after(graph_.nodes().size(), false);
    const NodeId source = attention_[static_cast<size_t>(span - 1)];
    const NodeId target = TargetOf(span);
    if (!target.valid()) return after;
    // A node is on every way where the ways to it times the ways from it are all there are. Counted modulo
    // 2^64.
    std::vector<uint64_t> ways_to(graph_.nodes().size(), 0);
    std::vector<uint64_t> ways_from(graph_.nodes().size(), 0);
    ways_to[Index(source)] = 1;
    for (const NodeId id : order_) {
      if (id == source || attention_before_[Index(id)] != span) continue;
      ForEachProducer(id, [&](NodeId producer) {
        if (producer == source || attention_before_[Index(producer)] == span) {
          ways_to[Index(id)] += ways_to[Index(producer)];
        }
      });
    }
    ways_from[Index(target)] = 1;
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      if (ways_from[Index(*id)] == 0 || attention_before_[Index(*id)] != span) continue;
      ForEachProducer(*id, [&](NodeId producer) { ways_from[Index(producer)] += ways_from[Index(*id)]; });
    }
    NodeId cut;
    for (const NodeId id : order_) {
      const bool on_every_way = ways_to[Index(id)] != 0 && attention_before_[Index(id)] == span &&
                                ways_to[Index(id)] * ways_from[Index(id)] == ways_to[Index(target)];
      if (on_every_way && IsResidualSum(id)) cut = id;
    }
    if (cut.valid()) MarkAfter(cut, span, after);
    return after;
  }

  // A skip norm, or an Add of a value and something made of that value. (Attention written out also adds a
  // mask to its scores.)
  bool IsResidualSum(NodeId id) const {
    const Node& node = graph_.node(id);
    if (IsSkipNorm(node)) return true;
    if (node.op_type != "Add" || node.inputs.size() != 2) return false;
    return LeadsTo(node.inputs[0], node.inputs[1]) || LeadsTo(node.inputs[1], node.inputs[0]);
  }

  // Whether `to` is made of `from` otherwise than by attention (which makes every score out of the masks
  // before it), as far as the nodes of a layer reach.
  bool LeadsTo(ValueId from, ValueId to) const {
    constexpr size_t kMaxNodes = 4096;
    if (!from.valid() || !to.valid() || !graph_.value(to).producer.valid()) return false;
    std::vector<NodeId> reached = {graph_.value(to).producer};
    std::unordered_set<int32_t> seen = {reached.front().index};
    for (size_t next = 0; next < reached.size() && next < kMaxNodes; ++next) {
      if (is_attention_[Index(reached[next])]) continue;
      const std::vector<ValueId>& inputs = graph_.node(reached[next]).inputs;
      if (std::find(inputs.begin(), inputs.end(), from) != inputs.end()) return true;
      ForEachProducer(reached[next], [&](NodeId producer) {
        if (seen.insert(producer.index).second) reached.push_back(producer);
      });
    }
    return false;
  }

  void MarkAfter(NodeId cut, int span, std::vector<bool>& after) const {
    for (const NodeId id : order_) {
      if (attention_before_[Index(id)] != span) continue;
      bool is_after = id == cut && IsSkipNorm(graph_.node(cut));
      ForEachProducer(id, [&](NodeId producer) { is_after |= producer == cut || after[Index(producer)]; });
      after[Index(id)] = is_after;
    }
    after[Index(cut)] = IsSkipNorm(graph_.node(cut));
  }

  // By node: whether it comes after the Gather from the largest table, which is the embedding.
  std::vector<bool> AfterTheEmbedding() const {
    NodeId embedding;
    uint64_t largest_bytes = 0;
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      const bool is_gather = node.op_type == "Gather" || node.op_type == "GatherBlockQuantized";
      if (!is_gather || node.inputs.empty() || attention_before_[Index(id)] != 0) continue;
      const uint64_t bytes = ConstantBytes(node.inputs[0]);
      if (bytes > largest_bytes) {
        embedding = id;
        largest_bytes = bytes;
      }
    }
    std::vector<bool> after(graph_.nodes().size(), false);
    for (const NodeId id : order_) {
      ForEachProducer(id, [&](NodeId producer) {
        if (producer == embedding || after[Index(producer)]) after[Index(id)] = true;
      });
      // Without an embedding all nodes before the first attention are of the first layer.
      if (!embedding.valid()) after[Index(id)] = true;
    }
    return after;
  }

  // Nodes that read nothing but constants.
  void FindConstants() {
    is_constant_.assign(graph_.nodes().size(), false);
    constant_bytes_.assign(graph_.nodes().size(), 0);
    for (const NodeId id : order_) {
      bool constant = true;
      uint64_t bytes = 0;
      for (const ValueId input : graph_.node(id).inputs) {
        if (!input.valid()) continue;
        const NodeId producer = graph_.value(input).producer;
        constant &= graph_.ConstantOf(input) || (producer.valid() && is_constant_[Index(producer)]);
        bytes = std::max(bytes, ConstantBytes(input));
      }
      is_constant_[Index(id)] = constant;
      constant_bytes_[Index(id)] = bytes;
    }
  }

  // Bytes of the constant that the value is or is made of (a table that the head shares may be transposed
  // first); 0 for other values.
  uint64_t ConstantBytes(ValueId value) const {
    if (!value.valid()) return 0;
    if (const Initializer* constant = graph_.ConstantOf(value)) return constant->size_bytes();
    const NodeId producer = graph_.value(value).producer;
    return producer.valid() && is_constant_[Index(producer)] ? constant_bytes_[Index(producer)] : 0;
  }

  // Constants say nothing about where they belong: that is where they are used.
  void ForgetConstants(FoundLayers& layers) const {
    for (const NodeId id : order_) {
      if (is_constant_[Index(id)]) layers.of_node[Index(id)].reset();
    }
  }

  const Graph& graph_;
  std::span<const NodeId> order_;
  std::vector<NodeId> attention_;  // in topological order, each after the one before
  // By NodeId::index:
  std::vector<bool> is_attention_;
  std::vector<int> attention_before_;
  std::vector<bool> is_constant_;
  std::vector<uint64_t> constant_bytes_;  // of constant nodes
};

}  // namespace

std::optional<FoundLayers> FindAttentionLayers(const Graph& graph, std::span<const NodeId> order) {
  return AttentionLayers(graph, order).Find();
}

}  // namespace lamina
