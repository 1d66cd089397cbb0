#include "model/decoder_contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "model/onnx/model_reader.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Model> Read(const std::string& name) {
  Result<std::unique_ptr<Model>> model =
      ReadModel(testing::SourcePath("tests/data/zoo/" + name + "/model.onnx"));
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  return model.ok() ? *std::move(model) : nullptr;
}

std::string ShapeOf(const Model& model, const std::string& name) {
  const ValueId id = model.graph->FindValue(name);
  if (!id.valid() || !model.graph->value(id).shape) return "none";
  return model.graph->value(id).shape->ToString();
}

// --- What genai_config.json and the exporters' conventions say of a model is what the contract finds.

class ZooDecoders : public ::testing::TestWithParam<const char*> {};

TEST_P(ZooDecoders, AreWhatTheirConfigurationSays) {
  const std::string name = GetParam();
  const std::unique_ptr<Model> model = Read(name);
  ASSERT_NE(model, nullptr);
  const Result<DecoderSignature> found = InferDecoder(*model);
  ASSERT_TRUE(found.ok()) << found.status().ToString();

  const std::string text =
      testing::ReadWholeFile(testing::SourcePath("tests/data/zoo/" + name + "/genai_config.json"));
  const nlohmann::json config = nlohmann::json::parse(text)["model"];
  const nlohmann::json& decoder = config["decoder"];
  const auto layers = decoder["num_hidden_layers"].get<size_t>();
  ASSERT_EQ(found->kv_layers.size(), layers);
  for (size_t i = 0; i < layers; ++i) {
    const DecoderKvLayer& kv = found->kv_layers[i];
    EXPECT_EQ(kv.layer, static_cast<int>(i));
    EXPECT_EQ(kv.kv_heads, decoder["num_key_value_heads"]);
    EXPECT_EQ(kv.head_size, decoder["head_size"]);
    EXPECT_EQ(kv.v_head_size, decoder["head_size"]);
    EXPECT_EQ(kv.past_key.name, "past_key_values." + std::to_string(i) + ".key");
    EXPECT_EQ(kv.present_value.name, "present." + std::to_string(i) + ".value");
  }
  EXPECT_EQ(found->vocabulary_size(), config["vocab_size"]);
  EXPECT_EQ(found->attention_mask.present(), decoder["inputs"].contains("attention_mask"));
  EXPECT_EQ(found->position_ids.present(), decoder["inputs"].contains("position_ids"));
  EXPECT_TRUE(found->input_ids.present());
  EXPECT_FALSE(found->inputs_embeds.present());
  EXPECT_TRUE(found->other_inputs.empty());
  EXPECT_TRUE(found->state_layers.empty());
  EXPECT_FALSE(found->last_logits_only());
  // One batch, one sequence, one past in all shapes; total is their sum, the head size is known. (Layers with
  // a window call their past otherwise in the file.)
  const std::string head = std::to_string(decoder["head_size"].get<int>());
  const std::string past(found->past.symbol());
  const std::string total = (found->past + found->sequence).ToString();
  EXPECT_EQ(found->batch.symbol(), "batch_size");
  EXPECT_EQ(found->sequence.symbol(), "sequence_length");
  EXPECT_EQ(ShapeOf(*model, "attention_mask"), "[batch_size," + total + "]");
  EXPECT_EQ(ShapeOf(*model, "logits"), "[batch_size,sequence_length,512]");
  for (size_t i = 0; i < layers; ++i) {
    EXPECT_EQ(ShapeOf(*model, found->kv_layers[i].past_key.name), "[batch_size,2," + past + "," + head + "]");
    EXPECT_EQ(ShapeOf(*model, found->kv_layers[i].present_key.name),
              "[batch_size,2," + total + "," + head + "]");
  }
}

INSTANTIATE_TEST_SUITE_P(Genai, ZooDecoders,
                         ::testing::Values("ernie-fp32", "gemma2-fp32", "gptoss-fp32", "hunyuan-fp32",
                                           "llama-fp16-cuda", "llama-fp32", "llama-int4-cpu", "llama31-fp32",
                                           "mistral-fp32", "qwen2-fp32", "qwen3-fp32"));

// PyTorch's exporters give every dimension of every input a symbol of its own.
TEST(DecoderContractTest, SymbolsOfExportersBecomeThreeThatMeanSomething) {
  struct Export {
    const char* name;
    const char* batch;
    const char* sequence;
    const char* past;
  };
  for (const Export& file : {Export{"llama-torch-dynamo", "s10", "s70", "s15"},
                             Export{"llama-torch-script", "batch", "seq", "past"},
                             Export{"qwen2-torch-script", "batch", "seq", "past"}}) {
    SCOPED_TRACE(file.name);
    const std::unique_ptr<Model> model = Read(file.name);
    ASSERT_NE(model, nullptr);
    const Result<DecoderSignature> found = InferDecoder(*model);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(found->batch.symbol(), file.batch);
    EXPECT_EQ(found->sequence.symbol(), file.sequence);
    EXPECT_EQ(found->past.symbol(), file.past);
    const std::string total = (DimExpr::Symbol(file.past) + DimExpr::Symbol(file.sequence)).ToString();
    EXPECT_EQ(ShapeOf(*model, "attention_mask"), "[" + std::string(file.batch) + "," + total + "]");
    EXPECT_EQ(ShapeOf(*model, "position_ids"), "[" + std::string(file.batch) + "," + file.sequence + "]");
    EXPECT_EQ(ShapeOf(*model, "present.1.value"), "[" + std::string(file.batch) + ",2," + total + ",16]");
  }
}

// --- Graphs made for one question each.

struct Port {
  const char* name;
  std::vector<const char*> dims;
  DataType type = DataType::kFloat;
};

std::unique_ptr<Model> MakeModel(const std::vector<Port>& inputs, const std::vector<Port>& outputs) {
  auto model = std::make_unique<Model>();
  model->names = std::make_shared<NamePool>();
  model->opset_imports[""] = 17;
  model->graph = std::make_unique<Graph>(model->names, nullptr);
  const auto make = [&](const Port& port) {
    SymbolicShape shape;
    for (const char* dim : port.dims) {
      const bool number = dim[0] >= '0' && dim[0] <= '9';
      shape.dims.push_back(number ? DimExpr(std::atoi(dim)) : DimExpr::FromDimParam(dim));
    }
    return model->graph->MakeValue(port.name, ValueType::Tensor(port.type), shape);
  };
  for (const Port& port : inputs) model->graph->AddInput(make(port));
  for (const Port& port : outputs) model->graph->AddOutput(make(port));
  return model;
}

const Port kIds{"input_ids", {"b", "s"}, DataType::kInt64};
const Port kLogits{"logits", {"b", "s", "100"}};
const Port kKey{"past_key_values.0.key", {"b", "2", "p", "8"}};
const Port kValue{"past_key_values.0.value", {"b", "2", "p", "4"}};
const Port kPresentKey{"present.0.key", {"b", "2", "t", "8"}};
const Port kPresentValue{"present.0.value", {"b", "2", "t", "4"}};

TEST(DecoderContractTest, WhatIsNoDecoderIsRefusedWithTheReason) {
  const auto reason = [](const std::vector<Port>& inputs, const std::vector<Port>& outputs) {
    const Result<DecoderSignature> found = FindDecoderSignature(*MakeModel(inputs, outputs));
    EXPECT_EQ(found.status().code(), StatusCode::kUnsupported);
    return found.status().message();
  };
  EXPECT_THAT(reason({{"pixels", {"b", "3"}}}, {kLogits}), HasSubstr("'input_ids' or 'inputs_embeds'"));
  EXPECT_THAT(reason({kIds}, {{"last_hidden_state", {"b", "s", "8"}}}), HasSubstr("'logits'"));
  EXPECT_THAT(reason({{"input_ids", {"s"}}}, {kLogits}), HasSubstr("'input_ids' has shape [s]"));
  EXPECT_THAT(reason({{"inputs_embeds", {"b", "s"}}}, {kLogits}), HasSubstr("'inputs_embeds' has shape"));
  EXPECT_THAT(reason({kIds, {"attention_mask", {"t"}}}, {kLogits}), HasSubstr("'attention_mask' has shape"));
  EXPECT_THAT(reason({kIds, {"position_ids", {"b", "1", "1", "s"}}}, {kLogits}), HasSubstr("'position_ids'"));
  EXPECT_THAT(reason({kIds, kKey}, {kLogits, kPresentKey}),
              HasSubstr("'past_key_values.0.key' comes without 'past_key_values.0.value'"));
  EXPECT_THAT(reason({kIds, kKey, kValue}, {kLogits, kPresentKey}),
              HasSubstr("comes without an output 'present.0.value'"));
  EXPECT_THAT(reason({kIds, {"past_key_values.0.key", {"b", "p", "16"}}, kValue},
                     {kLogits, kPresentKey, kPresentValue}),
              HasSubstr("'past_key_values.0.key' has shape [b,p,16]"));
  EXPECT_THAT(reason({kIds, {"past_conv.2", {"b", "8", "3"}}}, {kLogits}),
              HasSubstr("comes without an output 'present_conv.2'"));
}

TEST(DecoderContractTest, LayersMayBeMissingAndKeysAndValuesDiffer) {
  const std::unique_ptr<Model> model = MakeModel({kIds,
                                                  {"past_key_values.11.key", {"b", "1", "p", "8"}},
                                                  {"past_key_values.11.value", {"b", "1", "p", "8"}},
                                                  kKey,
                                                  kValue,
                                                  {"past_conv.3", {"b", "6", "2"}},
                                                  {"temperature", {"1"}}},
                                                 {kLogits,
                                                  kPresentKey,
                                                  kPresentValue,
                                                  {"present.11.key", {"b", "1", "t", "8"}},
                                                  {"present.11.value", {"b", "1", "t", "8"}},
                                                  {"present_conv.3", {"b", "6", "2"}}});
  const Result<DecoderSignature> found = FindDecoderSignature(*model);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  ASSERT_EQ(found->kv_layers.size(), 2u);
  EXPECT_EQ(found->kv_layers[0].layer, 0);
  EXPECT_EQ(found->kv_layers[0].head_size, 8);
  EXPECT_EQ(found->kv_layers[0].v_head_size, 4);
  EXPECT_EQ(found->kv_layers[1].layer, 11);
  EXPECT_EQ(found->kv_layers[1].kv_heads, 1);
  ASSERT_EQ(found->state_layers.size(), 1u);
  EXPECT_EQ(found->state_layers[0].layer, 3);
  ASSERT_EQ(found->other_inputs.size(), 1u);
  EXPECT_EQ(found->other_inputs[0].name, "temperature");
}

TEST(DecoderContractTest, ConfigurationsMayNameEverything) {
  DecoderNames names;
  names.input_ids = "tokens";
  names.logits = "scores";
  names.past_key = "k_%d_in";
  names.past_value = "v_%d_in";
  names.present_key = "k_%d_out";
  names.present_value = "v_%d_out";
  const std::unique_ptr<Model> model = MakeModel(
      {{"tokens", {"b", "s"}, DataType::kInt64},
       {"k_0_in", {"b", "2", "p", "8"}},
       {"v_0_in", {"b", "2", "p", "8"}}},
      {{"scores", {"b", "1", "100"}}, {"k_0_out", {"b", "2", "t", "8"}}, {"v_0_out", {"b", "2", "t", "8"}}});
  const Result<DecoderSignature> found = FindDecoderSignature(*model, names);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_EQ(found->input_ids.name, "tokens");
  EXPECT_EQ(found->kv_layers.at(0).present_value.name, "v_0_out");
  EXPECT_TRUE(found->last_logits_only());
  EXPECT_FALSE(FindDecoderSignature(*model).ok());
}

TEST(DecoderContractTest, AConstantOfOneInputHoldsForAll) {
  const std::unique_ptr<Model> model = MakeModel({kIds,
                                                  {"attention_mask", {"1", "t"}, DataType::kInt64},
                                                  {"position_ids", {"3", "q", "s"}, DataType::kInt64},
                                                  kKey,
                                                  kValue},
                                                 {kLogits, kPresentKey, kPresentValue});
  const Result<DecoderSignature> found = FindDecoderSignature(*model);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  ApplyDecoderContract(*model, *found);
  EXPECT_EQ(ShapeOf(*model, "input_ids"), "[1,s]");
  EXPECT_EQ(ShapeOf(*model, "attention_mask"), "[1,p + s]");
  EXPECT_EQ(ShapeOf(*model, "position_ids"), "[3,1,s]");
  EXPECT_EQ(ShapeOf(*model, "past_key_values.0.value"), "[1,2,p,4]");
  // What was declared with the symbols that fell away follows.
  EXPECT_EQ(ShapeOf(*model, "present.0.key"), "[1,2,p + s,8]");
  EXPECT_EQ(ShapeOf(*model, "logits"), "[1,s,100]");
}

TEST(DecoderContractTest, MasksOfFourDimensionsAndEmbeddings) {
  const std::unique_ptr<Model> model =
      MakeModel({{"inputs_embeds", {"n", "m", "32"}}, {"attention_mask", {"x", "1", "y", "z"}}, kKey, kValue},
                {kLogits, kPresentKey, kPresentValue});
  const Result<DecoderSignature> found = FindDecoderSignature(*model);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_FALSE(found->input_ids.present());
  ApplyDecoderContract(*model, *found);
  EXPECT_EQ(ShapeOf(*model, "inputs_embeds"), "[n,m,32]");
  EXPECT_EQ(ShapeOf(*model, "attention_mask"), "[n,1,m,m + p]");
  EXPECT_EQ(ShapeOf(*model, "past_key_values.0.key"), "[n,2,p,8]");
}

TEST(DecoderContractTest, WithoutACacheThereIsNoPast) {
  const std::unique_ptr<Model> model =
      MakeModel({kIds, {"attention_mask", {"b", "t"}, DataType::kInt64}}, {kLogits});
  const Result<DecoderSignature> found = FindDecoderSignature(*model);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_TRUE(found->past.Is(0));
  ApplyDecoderContract(*model, *found);
  EXPECT_EQ(ShapeOf(*model, "attention_mask"), "[b,s]");
}

}  // namespace
}  // namespace lamina
