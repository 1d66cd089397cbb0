// Attention as exporters of torch write it, with and without a past, in the ways they rotate and normalise.
#include <fmt/format.h>

#include "rewrite/rewrite_fixture.h"

namespace lamina::testing {
namespace {

constexpr int64_t kHeads = 4, kSize = 16, kHidden = kHeads * kSize, kPositions = 32;

enum class Rotary { kNone, kHalf, kInterleaved, kLookedUp, kHalfLookedUp };

struct AttentionCase {
  Rotary rotary = Rotary::kNone;
  bool has_past = false;
  bool has_norms = false;
  int64_t kv_heads = kHeads;
  std::vector<std::string> mask = {};  // dimensions of an additive mask; none
};

class AttentionTest : public RewriteTest {
 protected:
  ValueId Weight(const Shape& shape, uint32_t seed, double scale = 0.2) {
    return Floats(shape, RandomNumbers(shape.num_elements(), seed, -scale, scale));
  }

  ValueId Slice(ValueId x, int64_t start, int64_t end, int64_t step) {
    return Op("Slice", {x, Ints({start}), Ints({end}), Ints({3}), Ints({step})});
  }

  // cos or sin [batch, 1, sequence, size]
  ValueId Table(std::string_view function, Rotary rotary, ValueId positions) {
    const bool is_sine = function == "Sin";
    if (rotary == Rotary::kLookedUp || rotary == Rotary::kHalfLookedUp) {
      const bool doubled = rotary == Rotary::kLookedUp;
      std::vector<float> table;
      for (int64_t position = 0; position < kPositions; ++position) {
        for (int64_t i = 0; i < (doubled ? kSize : kSize / 2); ++i) {
          const double angle = static_cast<double>(position) / static_cast<double>(1 + i % (kSize / 2));
          table.push_back(static_cast<float>(is_sine ? std::sin(angle) : std::cos(angle)));
        }
      }
      const ValueId rows = Floats(Shape{kPositions, doubled ? kSize : kSize / 2}, table);
      ValueId looked_up = Op("Gather", {rows, positions});
      if (!doubled) looked_up = Op("Concat", {looked_up, looked_up}, {Attr("axis", int64_t{-1})});
      return Op("Unsqueeze", {looked_up, Ints({1})});
    }
    std::vector<float> frequencies;
    for (int64_t i = 0; i < kSize / 2; ++i) frequencies.push_back(1.0f / static_cast<float>(1 + i));
    const ValueId real = Op("Cast", {positions}, {Attr("to", int64_t{1})});
    const ValueId angles =
        Op("Mul", {Op("Unsqueeze", {real, Ints({-1})}), Floats(Shape{1, 1, kSize / 2}, frequencies)});
    ValueId doubled;
    if (rotary == Rotary::kHalf) {
      doubled = Op("Concat", {angles, angles}, {Attr("axis", int64_t{-1})});
    } else {
      const ValueId single = Op("Unsqueeze", {angles, Ints({-1})});
      doubled =
          Op("Reshape", {Op("Concat", {single, single}, {Attr("axis", int64_t{-1})}), Ints({0, 0, kSize})});
    }
    return Op("Unsqueeze", {Op(function, {doubled}), Ints({1})});
  }

  ValueId Rotated(ValueId x, Rotary rotary, ValueId cos, ValueId sin) {
    if (rotary == Rotary::kNone) return x;
    ValueId turned;
    if (rotary == Rotary::kInterleaved) {
      const ValueId odd = Op("Unsqueeze", {Op("Neg", {Slice(x, 1, kSize, 2)}), Ints({-1})});
      const ValueId even = Op("Unsqueeze", {Slice(x, 0, kSize, 2), Ints({-1})});
      turned =
          Op("Reshape", {Op("Concat", {odd, even}, {Attr("axis", int64_t{-1})}), Ints({0, 0, 0, kSize})});
    } else {
      const ValueId second = Op("Neg", {Slice(x, kSize / 2, kSize, 1)});
      turned = Op("Concat", {second, Slice(x, 0, kSize / 2, 1)}, {Attr("axis", int64_t{-1})});
    }
    return Op("Add", {Op("Mul", {x, cos}), Op("Mul", {turned, sin})});
  }

  // [batch, heads, sequence, size]
  ValueId HeadsOf(ValueId x, int64_t heads, uint32_t seed, bool normalised) {
    ValueId by_head = Op("Reshape", {Op("MatMul", {x, Weight(Shape{kHidden, heads * kSize}, seed)}),
                                     Ints({0, 0, heads, kSize})});
    if (normalised) {
      const ValueId mean =
          Op("ReduceMean", {Op("Pow", {by_head, Float(2)})}, {Attr("axes", std::vector<int64_t>{-1})});
      const ValueId inverse = Op("Reciprocal", {Op("Sqrt", {Op("Add", {mean, Float(1e-6f)})})});
      by_head = Op("Mul", {Weight(Shape{kSize}, seed + 50, 2), Op("Mul", {by_head, inverse})});
    }
    return Op("Transpose", {by_head}, {Attr("perm", std::vector<int64_t>{0, 2, 1, 3})});
  }

  ValueId Repeated(ValueId heads, int64_t kv_heads) {
    if (kv_heads == kHeads) return heads;
    const ValueId grouped =
        Op("Expand", {Op("Unsqueeze", {heads, Ints({2})}), Ints({1, 1, kHeads / kv_heads, 1, 1})});
    return Op("Reshape", {grouped, Ints({0, kHeads, -1, kSize})});
  }

  void Build(const AttentionCase& c) {
    Reset(17);
    const ValueId x = In("x", {"b", "s", std::to_string(kHidden)});
    ValueId cos, sin;
    if (c.rotary != Rotary::kNone) {
      const ValueId positions = In("positions", {"b", "s"}, DataType::kInt64);
      cos = Table("Cos", c.rotary, positions);
      sin = Table("Sin", c.rotary, positions);
    }
    const ValueId q = Rotated(HeadsOf(x, kHeads, 1, c.has_norms), c.rotary, cos, sin);
    ValueId k = Rotated(HeadsOf(x, c.kv_heads, 2, c.has_norms), c.rotary, cos, sin);
    ValueId v = HeadsOf(x, c.kv_heads, 3, false);
    if (c.has_past) {
      const std::vector<std::string> dims = {"b", std::to_string(c.kv_heads), "p", std::to_string(kSize)};
      k = Op("Concat", {In("past_key", dims), k}, {Attr("axis", int64_t{2})});
      v = Op("Concat", {In("past_value", dims), v}, {Attr("axis", int64_t{2})});
    }
    const ValueId k_transposed =
        Op("Transpose", {Repeated(k, c.kv_heads)}, {Attr("perm", std::vector<int64_t>{0, 1, 3, 2})});
    ValueId scores = Op("Mul", {Op("MatMul", {q, k_transposed}), Float(0.25f)});
    if (!c.mask.empty()) scores = Op("Add", {scores, In("mask", c.mask)});
    const ValueId weighted = Op("MatMul", {Op("Softmax", {scores}), Repeated(v, c.kv_heads)});
    Out(Op("Reshape", {Op("Transpose", {weighted}, {Attr("perm", std::vector<int64_t>{0, 2, 1, 3})}),
                       Ints({0, 0, kHidden})}));
    if (c.has_past) {
      Out(k);
      Out(v);
    }
  }

  // Inputs of a run of 2 sequences with 3 tokens each, after 4 where there is a past.
  static std::vector<Tensor> InputsOf(const AttentionCase& c) {
    std::vector<Tensor> inputs = {FloatTensor(Shape{2, 3, kHidden})};
    if (c.rotary != Rotary::kNone) {
      const std::vector<int64_t> positions = {4, 5, 6, 0, 9, 31};
      inputs.push_back(
          *Tensor::FromValues<int64_t>(DataType::kInt64, Shape{2, 3}, std::span<const int64_t>(positions)));
    }
    if (c.has_past) {
      inputs.push_back(FloatTensor(Shape{2, c.kv_heads, 4, kSize}, 11));
      inputs.push_back(FloatTensor(Shape{2, c.kv_heads, 4, kSize}, 12));
    }
    if (!c.mask.empty()) {
      Shape shape;
      const int64_t keys = c.has_past ? 7 : 3;
      for (const std::string& dim : c.mask)
        shape.Append(dim == "b" ? 2 : dim == "s" ? 3 : dim == "1" ? 1 : dim == "4" ? 4 : keys);
      inputs.push_back(FloatTensor(shape, 13));
    }
    return inputs;
  }

  void ExpectOneNode(const AttentionCase& c, std::string_view op_type) {
    Build(c);
    ExpectRewritesKeepResults(InputsOf(c));
    Apply();
    EXPECT_EQ(Count(op_type), 1);
    for (const char* part : {"Softmax", "Transpose", "Concat", "Expand", "SimplifiedLayerNormalization"}) {
      EXPECT_EQ(Count(part), 0) << part;
    }
  }
};

TEST_F(AttentionTest, EveryKindOfRotationGoesIntoTheAttention) {
  for (const Rotary rotary :
       {Rotary::kHalf, Rotary::kInterleaved, Rotary::kLookedUp, Rotary::kHalfLookedUp}) {
    for (const bool has_past : {true, false}) {
      SCOPED_TRACE(fmt::format("rotary {} past {}", static_cast<int>(rotary), has_past));
      ExpectOneNode({rotary, has_past, false, 2, {}}, "GroupQueryAttention");
    }
  }
}

TEST_F(AttentionTest, NormsOfQueriesAndKeysGoIntoTheAttention) {
  for (const bool has_past : {true, false}) {
    ExpectOneNode({Rotary::kHalf, has_past, true, 2, {"b", "1", "s", has_past ? "p + s" : "s"}},
                  "GroupQueryAttention");
    const Node* attention = Only("GroupQueryAttention");
    ASSERT_EQ(attention->inputs.size(), 16u);
    EXPECT_TRUE(attention->inputs[14].valid());
  }
}

TEST_F(AttentionTest, EncodersBecomeMultiHeadAttention) {
  ExpectOneNode({Rotary::kNone, false, false, kHeads, {}}, "MultiHeadAttention");
  ExpectOneNode({Rotary::kNone, false, false, kHeads, {"b", "1", "1", "s"}}, "MultiHeadAttention");
  ExpectOneNode({Rotary::kNone, false, false, kHeads, {"1", "4", "s", "s"}}, "MultiHeadAttention");
}

TEST_F(AttentionTest, GroupsWithoutRotation) {
  ExpectOneNode({Rotary::kNone, false, false, 2, {"b", "1", "s", "s"}}, "GroupQueryAttention");
  ExpectOneNode({Rotary::kNone, true, false, 1, {}}, "GroupQueryAttention");
}

// Tables whose halves differ rotate the halves by different angles.
TEST_F(AttentionTest, ATableWithDifferentHalvesStays) {
  Build({Rotary::kLookedUp, false, false, kHeads, {}});
  for (const Initializer& constant : graph().initializers()) {
    const std::optional<Tensor> table = constant.InMemory();
    if (table && table->shape() == Shape{kPositions, kSize}) {
      static_cast<float*>(const_cast<void*>(table->raw_data()))[5] += 1;
    }
  }
  ExpectRewritesKeepResults(InputsOf({Rotary::kLookedUp}));
  Apply();
  EXPECT_EQ(Count("RotaryEmbedding"), 0);
}

}  // namespace
}  // namespace lamina::testing
