#include "support/rare_model.h"

#include <string>
#include <utility>
#include <vector>

namespace lamina::testing {

std::unique_ptr<Model> MakeRareModel() {
  auto made_model = std::make_unique<Model>();
  Model& model = *made_model;
  model.ir_version = 10;
  model.producer_name = "test";
  model.model_version = 3;
  model.doc_string = "doc";
  model.metadata_props = {{"key", "value"}};
  model.opset_imports = {{"", 21}, {"local", 1}};
  model.names = std::make_shared<NamePool>();
  model.graph = std::make_unique<Graph>(model.names, nullptr);
  const auto name = [&](const char* text) { return model.names->Intern(text); };

  LocalFunction& function = model.functions.emplace_back();
  function.domain = "local";
  function.name = "scaled";
  function.overload = "float";
  function.doc_string = "a function";
  function.attributes = {"alpha"};
  function.attribute_defaults = {{name("beta"), 2.0F}};
  function.opset_imports = {{"", 18}};
  function.metadata_props = {{"a", "b"}};
  function.body = std::make_unique<Graph>(model.names, nullptr);
  function.body->set_name("scaled");
  Graph& body = *function.body;
  for (const char* input : {"a", "optional", "c", "d"}) body.AddInput(body.MakeValue(input));
  body.AddNode("n", "Op", "", 18, {body.FindValue("a")},
               {body.MakeValue("b", ValueType::Tensor(DataType::kFloat))},
               {{name("ref"), std::monostate(), name("alpha"), AttributeType::kInts}});
  body.AddOutput(body.FindValue("a"));
  body.AddOutput(body.FindValue("b"));

  Graph& graph = *model.graph;
  graph.set_doc_string("graph doc");
  graph.metadata_props() = {{"g", "h"}};
  const ValueId texts = graph.MakeValue("texts");
  const std::vector<std::string> strings = {"x", "", "z"};
  graph.AddInitializer(texts, {Name(), DataType::kString, Shape{3}, *Tensor::FromStrings(Shape{3}, strings)});
  const std::vector<float> values = {5};
  const std::vector<int64_t> indices = {2};
  auto sparse = std::make_shared<SparseTensor>();
  sparse->shape = Shape{4};
  sparse->values = {name("sparse"), DataType::kFloat, Shape{1},
                    *Tensor::FromValues<float>(DataType::kFloat, Shape{1}, values)};
  sparse->indices = {Name(), DataType::kInt64, Shape{1},
                     *Tensor::FromValues<int64_t>(DataType::kInt64, Shape{1}, indices)};
  const ValueId sparse_value = graph.MakeValue("sparse");
  graph.AddInitializer(sparse_value, {Name(), DataType::kFloat, Shape{4}, sparse});

  ExternalDataRef ref;
  ref.location = "weights.bin";
  ref.offset_bytes = 4096;
  ref.length_bytes = 16;
  ref.checksum = std::string(40, '7');
  const ValueId external = graph.MakeValue("external");
  graph.AddInitializer(external, {Name(), DataType::kFloat, Shape{4}, ref});

  const auto tensor = std::make_shared<const Initializer>(sparse->values);
  const TypeAndShape sequence{ValueType::SequenceOf(DataType::kInt64),
                              SymbolicShape{{DimExpr::Symbol("n"), 3}}};
  const TypeAndShape optional{{ValueKind::kOptional, DataType::kFloat, ValueKind::kSequence}, std::nullopt};
  const TypeAndShape map{{ValueKind::kMap, DataType::kFloat, ValueKind::kUndefined, DataType::kString},
                         std::nullopt};
  const auto subgraph = [&] {
    auto made = std::make_shared<Graph>(model.names, &graph);
    made->set_name("sub");
    made->AddOutput(made->CaptureOuter(texts));
    return made;
  };
  std::vector<Attribute> attributes = {
      {name("float"), 0.5F},
      {name("int"), int64_t{-7}},
      {name("string"), std::string("text")},
      {name("tensor"), tensor},
      {name("graph"), subgraph()},
      {name("sparse"), std::shared_ptr<const SparseTensor>(sparse)},
      {name("type"), sequence},
      {name("floats"), std::vector<float>{1, 2}},
      {name("ints"), std::vector<int64_t>{-1, 2}},
      {name("no_ints"), std::vector<int64_t>{}},
      {name("strings"), std::vector<std::string>{"a", ""}},
      {name("tensors"), std::vector<std::shared_ptr<const Initializer>>{tensor, tensor}},
      {name("graphs"), std::vector<std::shared_ptr<Graph>>{subgraph(), subgraph()}},
      {name("sparses"), std::vector<std::shared_ptr<const SparseTensor>>{sparse}},
      {name("types"), std::vector<TypeAndShape>{sequence, optional, map}},
  };
  const NodeId node = graph.AddNode("call", "scaled", "local", 1, {sparse_value, ValueId(), texts, external},
                                    {ValueId(), graph.MakeValue("y", optional.type)}, std::move(attributes),
                                    {{"layer_ann", "layer_0"}});
  graph.mutable_node(node).overload = name("float");
  graph.mutable_node(node).doc_string = "node doc";
  graph.AddOutput(graph.FindValue("y"));
  return made_model;
}

}  // namespace lamina::testing
