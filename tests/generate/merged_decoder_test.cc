// A merged decoder: one model whose If takes the past only where use_cache_branch is true.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "generate/engine.h"
#include "support/proto_builder.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using testing::Proto;

constexpr int kVocabulary = 8, kHidden = 4;

Proto Node(std::string_view op_type, std::initializer_list<std::string_view> inputs, std::string_view output,
           const Proto& attributes = {}) {
  Proto node;
  for (const std::string_view input : inputs) node.Text(1, input);
  return node.Text(2, output).Text(3, output).Text(4, op_type).Raw(attributes.bytes());
}

Proto IntAttribute(std::string_view name, int64_t value) {
  return Proto().Message(5, Proto().Text(1, name).Varint(3, static_cast<uint64_t>(value)).Varint(20, 2));
}

Proto GraphAttribute(std::string_view name, const Proto& graph) {
  return Proto().Message(5, Proto().Text(1, name).Message(6, graph).Varint(20, 5));
}

template <typename T>
Proto Constant(std::string_view name, DataType type, const std::vector<int64_t>& dims,
               const std::vector<T>& values) {
  return Proto()
      .PackedVarints(1, dims)
      .Varint(2, static_cast<uint64_t>(type))
      .Text(8, name)
      .Text(9, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

// Dimensions that are numbers are sizes, others names.
Proto ValueInfo(std::string_view name, DataType type, const std::vector<std::string>& dims) {
  Proto shape;
  for (const std::string& dim : dims) {
    const bool is_size = dim.find_first_not_of("0123456789") == std::string::npos;
    shape.Message(1, is_size ? Proto().Varint(1, std::stoull(dim)) : Proto().Text(2, dim));
  }
  const Proto tensor = Proto().Varint(1, static_cast<uint64_t>(type)).Message(2, shape);
  return Proto().Text(1, name).Message(2, Proto().Message(1, tensor));
}

float Embedding(int32_t token, int channel) { return static_cast<float>((token * 7 + channel * 3) % 5) - 2; }
float Head(int channel, int word) { return static_cast<float>((channel * 5 + word * 11) % 7) - 3; }

// logits = (x + sum of the x of all tokens so far) head, with the sum read from the cache.
std::string MergedDecoder() {
  std::vector<float> table, head;
  for (int32_t token = 0; token < kVocabulary; ++token) {
    for (int channel = 0; channel < kHidden; ++channel) table.push_back(Embedding(token, channel));
  }
  for (int channel = 0; channel < kHidden; ++channel) {
    for (int word = 0; word < kVocabulary; ++word) head.push_back(Head(channel, word));
  }
  const Proto with_past =
      Proto()
          .Message(1, Node("Concat", {"past_key_values.0.key", "heads"}, "then_key", IntAttribute("axis", 2)))
          .Message(
              1, Node("Concat", {"past_key_values.0.value", "heads"}, "then_value", IntAttribute("axis", 2)))
          .Text(2, "with_past")
          .Message(12, Proto().Text(1, "then_key"))
          .Message(12, Proto().Text(1, "then_value"));
  const Proto without_past = Proto()
                                 .Message(1, Node("Identity", {"heads"}, "else_key"))
                                 .Message(1, Node("Identity", {"heads"}, "else_value"))
                                 .Text(2, "without_past")
                                 .Message(12, Proto().Text(1, "else_key"))
                                 .Message(12, Proto().Text(1, "else_value"));
  const Proto branch = Proto()
                           .Text(1, "use_cache_branch")
                           .Text(2, "present.0.key")
                           .Text(2, "present.0.value")
                           .Text(3, "merged")
                           .Text(4, "If")
                           .Raw(GraphAttribute("then_branch", with_past).bytes())
                           .Raw(GraphAttribute("else_branch", without_past).bytes());
  const std::vector<std::string> past = {"batch", "1", "past", "4"}, present = {"batch", "1", "total", "4"};
  const Proto graph =
      Proto()
          .Message(1, Node("Gather", {"table", "input_ids"}, "x"))
          .Message(1, Node("Unsqueeze", {"x", "one"}, "heads"))
          .Message(1, branch)
          .Message(1, Node("ReduceSum", {"present.0.value", "two"}, "sum", IntAttribute("keepdims", 0)))
          .Message(1, Node("Add", {"x", "sum"}, "y"))
          .Message(1, Node("MatMul", {"y", "head"}, "logits"))
          .Text(2, "merged_decoder")
          .Message(5, Constant<float>("table", DataType::kFloat, {kVocabulary, kHidden}, table))
          .Message(5, Constant<float>("head", DataType::kFloat, {kHidden, kVocabulary}, head))
          .Message(5, Constant<int64_t>("one", DataType::kInt64, {1}, {1}))
          .Message(5, Constant<int64_t>("two", DataType::kInt64, {1}, {2}))
          .Message(11, ValueInfo("input_ids", DataType::kInt64, {"batch", "sequence"}))
          .Message(11, ValueInfo("attention_mask", DataType::kInt64, {"batch", "total"}))
          .Message(11, ValueInfo("past_key_values.0.key", DataType::kFloat, past))
          .Message(11, ValueInfo("past_key_values.0.value", DataType::kFloat, past))
          .Message(11, ValueInfo("use_cache_branch", DataType::kBool, {"1"}))
          .Message(12, ValueInfo("logits", DataType::kFloat, {"batch", "sequence", "8"}))
          .Message(12, ValueInfo("present.0.key", DataType::kFloat, present))
          .Message(12, ValueInfo("present.0.value", DataType::kFloat, present));
  return Proto().Varint(1, 8).Message(7, graph).Message(8, Proto().Text(1, "").Varint(2, 17)).bytes();
}

std::vector<float> Expected(const std::vector<int32_t>& tokens) {
  std::vector<float> logits(kVocabulary, 0.0f);
  for (int channel = 0; channel < kHidden; ++channel) {
    float y = Embedding(tokens.back(), channel);
    for (const int32_t token : tokens) y += Embedding(token, channel);
    for (int word = 0; word < kVocabulary; ++word)
      logits[static_cast<size_t>(word)] += y * Head(channel, word);
  }
  return logits;
}

TEST(MergedDecoderTest, TakesThePastAfterThePrompt) {
  const testing::TempDir dir;
  testing::WriteWholeFile(dir.File("model.onnx"), MergedDecoder());
  const Result<ModelFolder> folder = ModelFolder::Open(dir.File("model.onnx"));
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EngineOptions options;
  options.context_length_tokens = 32;
  Result<std::unique_ptr<Engine>> engine = Engine::Create(*Env::Create({1}), *folder, options);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();

  const SequenceId sequence = *(*engine)->AddSequence();
  std::vector<int32_t> tokens, step{1, 5, 2};
  for (int i = 0; i < 6; ++i) {
    tokens.insert(tokens.end(), step.begin(), step.end());
    const SequenceStep row{sequence, step, true};
    const Status status = (*engine)->Step({&row, 1});
    ASSERT_TRUE(status.ok()) << status.ToString();
    const std::span<const float> logits = (*engine)->logits(0);
    EXPECT_EQ(std::vector<float>(logits.begin(), logits.end()), Expected(tokens)) << "step " << i;
    step = {(i * 3 + 1) % kVocabulary};
  }
  // A second conversation begins without a past again.
  ASSERT_TRUE((*engine)->Rewind(sequence, 0).ok());
  const std::vector<int32_t> again{7, 3};
  const SequenceStep row{sequence, again, true};
  ASSERT_TRUE((*engine)->Step({&row, 1}).ok());
  const std::span<const float> logits = (*engine)->logits(0);
  EXPECT_EQ(std::vector<float>(logits.begin(), logits.end()), Expected(again));
}

}  // namespace
}  // namespace lamina
