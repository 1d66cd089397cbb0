#include "model/onnx/model_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "model/onnx_fields.h"
#include "support/proto_builder.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using namespace onnx;  // NOLINT(google-build-using-namespace): field numbers of every message
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Proto;

Result<std::unique_ptr<Model>> Read(const std::string& bytes) {
  auto owner = std::make_shared<const std::string>(bytes);
  return ReadModelFromBytes(std::as_bytes(std::span(*owner)), {}, owner);
}

Proto TensorType(DataType type, const std::vector<int64_t>& dims) {
  Proto shape;
  for (const int64_t dim : dims) {
    shape.Message(TensorShapeProto::kDim,
                  Proto().Varint(TensorShapeProto::Dimension::kDimValue, static_cast<uint64_t>(dim)));
  }
  return Proto().Message(TypeProto::kTensorType,
                         Proto()
                             .Varint(TypeProto::Tensor::kElemType, static_cast<uint64_t>(type))
                             .Message(TypeProto::Tensor::kShape, shape));
}

Proto ValueInfoOf(const std::string& name, DataType type = DataType::kFloat,
                  const std::vector<int64_t>& dims = {2}) {
  return Proto().Text(ValueInfoProto::kName, name).Message(ValueInfoProto::kType, TensorType(type, dims));
}

Proto NodeOf(const std::string& op_type, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs, const std::string& name = "") {
  Proto node;
  for (const std::string& input : inputs) node.Text(NodeProto::kInput, input);
  for (const std::string& output : outputs) node.Text(NodeProto::kOutput, output);
  if (!name.empty()) node.Text(NodeProto::kName, name);
  return node.Text(NodeProto::kOpType, op_type);
}

Proto ModelOf(const Proto& graph) {
  return Proto()
      .Varint(ModelProto::kIrVersion, 8)
      .Message(ModelProto::kOpsetImport, Proto().Varint(OperatorSetIdProto::kVersion, 17))
      .Message(ModelProto::kGraph, graph);
}

Result<std::unique_ptr<Model>> ReadGraphOf(const Proto& graph) { return Read(ModelOf(graph).bytes()); }

// A model whose one initializer "w" is `tensor`.
Result<std::unique_ptr<Model>> ReadInitializer(const Proto& tensor) {
  Proto named = tensor;
  return ReadGraphOf(Proto().Message(GraphProto::kInitializer, named.Text(TensorProto::kName, "w")));
}

#define EXPECT_INVALID(result, matcher)                            \
  do {                                                             \
    const auto& outcome = (result);                                \
    ASSERT_FALSE(outcome.ok());                                    \
    EXPECT_EQ(outcome.status().code(), StatusCode::kInvalidModel); \
    EXPECT_THAT(outcome.status().message(), matcher);              \
  } while (false)

TEST(ModelReaderTest, ReadsAGraph) {
  Proto graph;
  graph.Text(GraphProto::kName, "main")
      .Message(GraphProto::kNode, NodeOf("Add", {"x", "w"}, {"y"}))
      .Message(GraphProto::kInput, ValueInfoOf("x"))
      .Message(GraphProto::kOutput, ValueInfoOf("y"))
      .Message(GraphProto::kInitializer, Proto()
                                             .PackedVarints(TensorProto::kDims, {2})
                                             .Varint(TensorProto::kDataType, 1)
                                             .PackedFixed<float>(TensorProto::kFloatData, {1, 2})
                                             .Text(TensorProto::kName, "w"));
  const auto model = ReadGraphOf(graph);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const Graph& main = *(*model)->graph;
  EXPECT_EQ(main.name(), "main");
  ASSERT_EQ(main.nodes().size(), 1U);
  const Node& node = main.nodes()[0];
  EXPECT_EQ(node.name, "Add_0");
  EXPECT_EQ(node.since_version, 17);
  ASSERT_EQ(main.inputs().size(), 1U);
  EXPECT_EQ(main.value(main.inputs()[0]).type, ValueType::Tensor(DataType::kFloat));
  EXPECT_EQ(main.value(main.inputs()[0]).shape->ToString(), "[2]");
  EXPECT_EQ(main.value(main.outputs()[0]).producer, NodeId{0});
  const Initializer* weight = main.ConstantOf(node.inputs[1]);
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->InMemory()->data<float>()[1], 2);
}

TEST(ModelReaderTest, ReadsEveryModelThereIs) {
  const std::vector<std::string> files = testing::AllModelFiles();
  ASSERT_GE(files.size(), 15U);
  for (const std::string& file : files) {
    const auto model = ReadModel(file);
    EXPECT_TRUE(model.ok()) << model.status().ToString();
  }
}

TEST(ModelReaderTest, NodesMayStandInAnyOrder) {
  const auto model = ReadGraphOf(Proto()
                                     .Message(GraphProto::kInput, ValueInfoOf("x"))
                                     .Message(GraphProto::kNode, NodeOf("Neg", {"a"}, {"b"}, "second"))
                                     .Message(GraphProto::kNode, NodeOf("Abs", {"x"}, {"a"}, "first"))
                                     .Message(GraphProto::kOutput, ValueInfoOf("b")));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(*(*model)->graph->TopologicalOrder(), (std::vector<NodeId>{{1}, {0}}));
}

TEST(ModelReaderTest, NamesNodesWithoutAName) {
  const auto model = ReadGraphOf(Proto()
                                     .Message(GraphProto::kInput, ValueInfoOf("x"))
                                     .Message(GraphProto::kNode, NodeOf("Neg", {"x"}, {"a"}))
                                     .Message(GraphProto::kNode, NodeOf("Neg", {"x"}, {"b"}, "Neg_0"))
                                     .Message(GraphProto::kNode, NodeOf("Neg", {"x"}, {"c"}, "Neg_0")));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const auto nodes = (*model)->graph->nodes();
  EXPECT_EQ(nodes[0].name, "Neg_1");
  EXPECT_EQ(nodes[1].name, "Neg_0");
  EXPECT_EQ(nodes[2].name, "Neg_0_token_1");
}

TEST(ModelReaderTest, SubgraphsCaptureOuterValues) {
  const Proto branch = Proto()
                           .Message(GraphProto::kNode, NodeOf("Neg", {"x"}, {"y"}))
                           .Message(GraphProto::kOutput, ValueInfoOf("y"));
  Proto node = NodeOf("If", {"c"}, {"z"}, "choice");
  for (const char* name : {"then_branch", "else_branch"}) {
    node.Message(NodeProto::kAttribute, Proto()
                                            .Text(AttributeProto::kName, name)
                                            .Message(AttributeProto::kG, branch)
                                            .Varint(AttributeProto::kType, 5));
  }
  const auto model = ReadGraphOf(Proto()
                                     .Message(GraphProto::kNode, node)
                                     .Message(GraphProto::kInput, ValueInfoOf("c", DataType::kBool, {}))
                                     .Message(GraphProto::kInput, ValueInfoOf("x"))
                                     .Message(GraphProto::kOutput, ValueInfoOf("z")));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const Graph& main = *(*model)->graph;
  const ValueInfo& captured = main.value(main.FindValue("x"));
  EXPECT_EQ(captured.uses, (std::vector<Use>{{NodeId{0}, Use::kCapture}}));
  const Graph* then_branch = main.nodes()[0].Subgraphs()[0];
  EXPECT_EQ(then_branch->owner(), NodeId{0});
  const ValueInfo& inner = then_branch->value(then_branch->FindValue("x"));
  EXPECT_EQ(inner.outer, main.FindValue("x"));
  EXPECT_EQ(inner.type, ValueType::Tensor(DataType::kFloat));
}

TEST(ModelReaderTest, BeforeIr4InitializersAreConstantsThoughInputs) {
  Proto graph;
  graph.Message(GraphProto::kNode, NodeOf("Neg", {"w"}, {"y"}))
      .Message(GraphProto::kInput, ValueInfoOf("w"))
      .Message(GraphProto::kInitializer, Proto()
                                             .PackedVarints(TensorProto::kDims, {2})
                                             .Varint(TensorProto::kDataType, 1)
                                             .PackedFixed<float>(TensorProto::kFloatData, {1, 2})
                                             .Text(TensorProto::kName, "w"));
  const Proto opset = Proto().Varint(OperatorSetIdProto::kVersion, 7);
  const auto model = Read(Proto()
                              .Varint(ModelProto::kIrVersion, 3)
                              .Message(ModelProto::kOpsetImport, opset)
                              .Message(ModelProto::kGraph, graph)
                              .bytes());
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_TRUE((*model)->graph->inputs().empty());
  EXPECT_NE((*model)->graph->ConstantOf((*model)->graph->FindValue("w")), nullptr);

  const auto newer = ReadGraphOf(graph);
  ASSERT_TRUE(newer.ok());
  EXPECT_EQ((*newer)->graph->inputs().size(), 1U);
  EXPECT_EQ((*newer)->graph->ConstantOf((*newer)->graph->FindValue("w")), nullptr)
      << "the caller may replace it";
}

// --- Malformed models ---

TEST(ModelReaderTest, RefusesWhatIsNoModel) {
  EXPECT_INVALID(Read(""), HasSubstr("no ir_version"));
  EXPECT_INVALID(Read("hello, world"), HasSubstr("byte"));
  EXPECT_INVALID(Read(Proto().Varint(ModelProto::kIrVersion, 8).bytes()), HasSubstr("no graph"));
  const auto missing = ReadModel("/no/such/model.onnx");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
}

TEST(ModelReaderTest, EveryTruncationIsAnError) {
  const std::string whole =
      testing::ReadWholeFile(testing::SourcePath("tests/data/zoo/llama31-fp32/model.onnx"));
  ASSERT_TRUE(Read(whole).ok());
  // The fields of a ModelProto are few, so nearly every prefix cuts the graph.
  for (size_t size = 0; size + 64 < whole.size(); size += 97) {
    const auto model = Read(whole.substr(0, size));
    ASSERT_FALSE(model.ok()) << size;
    EXPECT_THAT(model.status().message(), HasSubstr("byte ")) << size;
  }
}

TEST(ModelReaderTest, LengthsPastTheEndNameTheOffset) {
  const std::string prefix = Proto().Varint(ModelProto::kIrVersion, 8).bytes();
  EXPECT_INVALID(Read(prefix + Proto().TextWithLength(ModelProto::kGraph, 1000, "short").bytes()),
                 AllOf(HasSubstr("byte 2:"), HasSubstr("1000 bytes, but only 5 are left")));
  // 4 GiB + 5 would be 5 in the 32 bits of the library.
  EXPECT_INVALID(
      Read(prefix + Proto().TextWithLength(ModelProto::kGraph, (uint64_t{1} << 32) + 5, "short").bytes()),
      HasSubstr("4294967301 bytes"));
  EXPECT_INVALID(Read(prefix + "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                 HasSubstr("does not end"));
}

TEST(ModelReaderTest, RefusesWrongWireTypesAndDeepNesting) {
  EXPECT_INVALID(Read(Proto().Text(ModelProto::kIrVersion, "8").bytes()), HasSubstr("wire type"));
  Proto graph;
  for (int depth = 0; depth < 60; ++depth) {
    const Proto attribute = Proto().Text(AttributeProto::kName, "body").Message(AttributeProto::kG, graph);
    graph = Proto().Message(GraphProto::kNode,
                            NodeOf("Loop", {}, {"y"}).Message(NodeProto::kAttribute, attribute));
  }
  EXPECT_INVALID(ReadGraphOf(graph), HasSubstr("nested more than"));
}

TEST(ModelReaderTest, RefusesUndefinedAndRepeatedNames) {
  EXPECT_INVALID(ReadGraphOf(Proto().Message(GraphProto::kNode, NodeOf("Neg", {"x"}, {"y"}, "n"))),
                 AllOf(HasSubstr("node 'n' (Neg)"), HasSubstr("input 0 'x'"), HasSubstr("byte")));
  EXPECT_INVALID(ReadGraphOf(Proto().Message(GraphProto::kOutput, ValueInfoOf("y"))),
                 HasSubstr("output 'y'"));
  EXPECT_INVALID(ReadGraphOf(Proto()
                                 .Message(GraphProto::kInput, ValueInfoOf("x"))
                                 .Message(GraphProto::kNode, NodeOf("Neg", {"x"}, {"y"}))
                                 .Message(GraphProto::kNode, NodeOf("Abs", {"x"}, {"y"}))),
                 AllOf(HasSubstr("Abs"), HasSubstr("'y' is defined more than once")));
  EXPECT_INVALID(ReadGraphOf(Proto()
                                 .Message(GraphProto::kInput, ValueInfoOf("x"))
                                 .Message(GraphProto::kNode, NodeOf("Neg", {"x"}, {"x"}))),
                 HasSubstr("'x' is defined more than once"));
  EXPECT_INVALID(ReadGraphOf(Proto()
                                 .Message(GraphProto::kInput, ValueInfoOf("x"))
                                 .Message(GraphProto::kInput, ValueInfoOf("x"))),
                 HasSubstr("'x' is defined more than once"));
  EXPECT_INVALID(ReadGraphOf(Proto().Message(GraphProto::kNode, Proto().Text(NodeProto::kOutput, "y"))),
                 HasSubstr("no op_type"));
}

TEST(ModelReaderTest, RefusesCycles) {
  EXPECT_INVALID(ReadGraphOf(Proto()
                                 .Message(GraphProto::kNode, NodeOf("Neg", {"b"}, {"a"}, "one"))
                                 .Message(GraphProto::kNode, NodeOf("Neg", {"a"}, {"b"}, "two"))),
                 AllOf(HasSubstr("cycle"), HasSubstr("'one'")));
}

Proto FunctionOf(const std::string& name, const std::string& calls) {
  return Proto()
      .Text(FunctionProto::kName, name)
      .Text(FunctionProto::kDomain, "local")
      .Text(FunctionProto::kInput, "x")
      .Text(FunctionProto::kOutput, "y")
      .Message(FunctionProto::kNode, NodeOf(calls, {"x"}, {"y"}).Text(NodeProto::kDomain, "local"));
}

TEST(ModelReaderTest, RefusesFunctionsThatCallThemselves) {
  const Proto empty_graph;
  EXPECT_INVALID(Read(ModelOf(empty_graph).Message(ModelProto::kFunctions, FunctionOf("f", "f")).bytes()),
                 HasSubstr("'local::f' calls itself"));
  EXPECT_INVALID(Read(ModelOf(empty_graph)
                          .Message(ModelProto::kFunctions, FunctionOf("f", "g"))
                          .Message(ModelProto::kFunctions, FunctionOf("g", "h"))
                          .Message(ModelProto::kFunctions, FunctionOf("h", "f"))
                          .bytes()),
                 HasSubstr("calls itself"));
  EXPECT_INVALID(Read(ModelOf(empty_graph)
                          .Message(ModelProto::kFunctions, FunctionOf("f", "g"))
                          .Message(ModelProto::kFunctions, FunctionOf("f", "h"))
                          .bytes()),
                 HasSubstr("defined more than once"));
  const auto chain = Read(ModelOf(empty_graph)
                              .Message(ModelProto::kFunctions, FunctionOf("f", "g"))
                              .Message(ModelProto::kFunctions, FunctionOf("g", "h"))
                              .bytes());
  EXPECT_TRUE(chain.ok()) << chain.status().ToString();
}

// --- Tensors ---

Proto TensorOf(DataType type, const std::vector<int64_t>& dims) {
  return Proto()
      .PackedVarints(TensorProto::kDims, dims)
      .Varint(TensorProto::kDataType, static_cast<uint64_t>(type));
}

TEST(ModelReaderTest, RefusesTensorsOfTheWrongSize) {
  EXPECT_INVALID(ReadInitializer(TensorOf(DataType::kFloat, {3}).Text(TensorProto::kRawData, "12345678")),
                 HasSubstr("expected 12 bytes of raw_data, found 8"));
  EXPECT_INVALID(ReadInitializer(TensorOf(DataType::kFloat, {1}).Text(TensorProto::kRawData, "12345678")),
                 HasSubstr("expected 4 bytes"));
  EXPECT_INVALID(ReadInitializer(TensorOf(DataType::kFloat, {2})), HasSubstr("expected 2 values, found 0"));
  EXPECT_INVALID(ReadInitializer(TensorOf(DataType::kFloat, {int64_t{1} << 40, int64_t{1} << 40})),
                 HasSubstr("overflows"));
  EXPECT_INVALID(ReadInitializer(TensorOf(DataType::kFloat, {int64_t{1} << 40, int64_t{1} << 40, 0})),
                 HasSubstr("overflows"));
  EXPECT_INVALID(ReadInitializer(TensorOf(DataType::kFloat, {-1})), HasSubstr("negative"));
  EXPECT_INVALID(ReadInitializer(TensorOf(DataType::kFloat, {int64_t{1} << 40})),
                 HasSubstr("values, found 0"));
  EXPECT_INVALID(ReadInitializer(Proto().Text(TensorProto::kRawData, "1234")), HasSubstr("no element type"));
  const auto many_dims = ReadInitializer(TensorOf(DataType::kFloat, std::vector<int64_t>(17, 1)));
  EXPECT_EQ(many_dims.status().code(), StatusCode::kUnsupported);
  const auto unknown_type = ReadInitializer(TensorOf(static_cast<DataType>(77), {1}));
  EXPECT_EQ(unknown_type.status().code(), StatusCode::kUnsupported);
}

TEST(ModelReaderTest, RefusesValuesInTheWrongPlace) {
  EXPECT_INVALID(ReadInitializer(TensorOf(DataType::kFloat, {1}).PackedVarints(TensorProto::kInt32Data, {1})),
                 HasSubstr("expected them in field 4"));
  EXPECT_INVALID(
      ReadInitializer(TensorOf(DataType::kUint8, {1}).PackedVarints(TensorProto::kInt32Data, {256})),
      HasSubstr("256 does not fit uint8"));
  EXPECT_INVALID(ReadInitializer(TensorOf(DataType::kInt64, {1})
                                     .PackedVarints(TensorProto::kInt64Data, {1})
                                     .Text(TensorProto::kRawData, "12345678")),
                 HasSubstr("both raw_data and typed values"));
  EXPECT_INVALID(ReadInitializer(TensorOf(DataType::kString, {1}).Text(TensorProto::kRawData, "x")),
                 HasSubstr("strings cannot be raw_data"));
}

std::string BytesOf(const Result<std::unique_ptr<Model>>& model) {
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  if (!model.ok()) return {};
  const Tensor tensor = *(*model)->graph->initializers()[0].InMemory();
  return {static_cast<const char*>(tensor.raw_data()), tensor.size_bytes()};
}

template <typename T>
std::string BytesOfValues(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(ModelReaderTest, DecodesTypedFieldsOfEveryType) {
  const auto int32_data = [](DataType type, const std::vector<int64_t>& dims,
                             const std::vector<int64_t>& values) {
    return BytesOf(ReadInitializer(TensorOf(type, dims).PackedVarints(TensorProto::kInt32Data, values)));
  };
  for (const DataType type : {DataType::kUint8, DataType::kFloat8E4M3Fn, DataType::kFloat8E4M3Fnuz,
                              DataType::kFloat8E5M2, DataType::kFloat8E5M2Fnuz, DataType::kFloat8E8M0}) {
    EXPECT_EQ(int32_data(type, {3}, {0, 127, 255}), std::string("\0\x7f\xff", 3)) << DataTypeName(type);
  }
  EXPECT_EQ(int32_data(DataType::kInt8, {2}, {-128, 127}), "\x80\x7f");
  EXPECT_EQ(int32_data(DataType::kBool, {3}, {0, 1, 2}), std::string("\0\1\1", 3));
  for (const DataType type : {DataType::kUint16, DataType::kFloat16, DataType::kBfloat16}) {
    EXPECT_EQ(int32_data(type, {2}, {1, 65535}), BytesOfValues<uint16_t>({1, 65535})) << DataTypeName(type);
  }
  EXPECT_EQ(int32_data(DataType::kInt16, {2}, {-2, 3}), BytesOfValues<int16_t>({-2, 3}));
  EXPECT_EQ(int32_data(DataType::kInt32, {2}, {-2, 3}), BytesOfValues<int32_t>({-2, 3}));
  // Packed: a value holds a byte of two 4-bit, or four 2-bit elements.
  for (const DataType type : {DataType::kUint4, DataType::kInt4, DataType::kFloat4E2M1}) {
    EXPECT_EQ(int32_data(type, {3}, {0x21, 0x03}), "\x21\x03") << DataTypeName(type);
  }
  for (const DataType type : {DataType::kUint2, DataType::kInt2}) {
    EXPECT_EQ(int32_data(type, {5}, {0xe4, 0x01}), "\xe4\x01") << DataTypeName(type);
  }

  EXPECT_EQ(BytesOf(ReadInitializer(
                TensorOf(DataType::kInt64, {2}).PackedVarints(TensorProto::kInt64Data, {-5, 6}))),
            BytesOfValues<int64_t>({-5, 6}));
  EXPECT_EQ(
      BytesOf(ReadInitializer(TensorOf(DataType::kUint32, {1}).PackedVarints(TensorProto::kUint64Data, {7}))),
      BytesOfValues<uint32_t>({7}));
  EXPECT_EQ(BytesOf(ReadInitializer(
                TensorOf(DataType::kUint64, {1}).PackedVarints(TensorProto::kUint64Data, {-1}))),
            BytesOfValues<uint64_t>({~uint64_t{0}}));
  EXPECT_EQ(BytesOf(ReadInitializer(
                TensorOf(DataType::kDouble, {2}).PackedFixed<double>(TensorProto::kDoubleData, {0.5, -1}))),
            BytesOfValues<double>({0.5, -1}));
  EXPECT_EQ(BytesOf(ReadInitializer(
                TensorOf(DataType::kComplex64, {1}).PackedFixed<float>(TensorProto::kFloatData, {1, 2}))),
            BytesOfValues<float>({1, 2}));
  EXPECT_EQ(BytesOf(ReadInitializer(
                TensorOf(DataType::kComplex128, {1}).PackedFixed<double>(TensorProto::kDoubleData, {1, 2}))),
            BytesOfValues<double>({1, 2}));
  // Not packed.
  EXPECT_EQ(BytesOf(ReadInitializer(TensorOf(DataType::kFloat, {2})
                                        .Fixed<float>(TensorProto::kFloatData, 3)
                                        .Fixed<float>(TensorProto::kFloatData, 4))),
            BytesOfValues<float>({3, 4}));

  const auto strings = ReadInitializer(TensorOf(DataType::kString, {2})
                                           .Text(TensorProto::kStringData, "a")
                                           .Text(TensorProto::kStringData, ""));
  ASSERT_TRUE(strings.ok()) << strings.status().ToString();
  const Tensor tensor = *(*strings)->graph->initializers()[0].InMemory();
  EXPECT_EQ(tensor.data<std::string>()[0], "a");
}

TEST(ModelReaderTest, RawDataIsAViewOfTheFile) {
  auto bytes = std::make_shared<const std::string>(
      ModelOf(Proto().Message(GraphProto::kInitializer, TensorOf(DataType::kUint8, {4})
                                                            .Text(TensorProto::kRawData, "\1\2\3\4")
                                                            .Text(TensorProto::kName, "w")))
          .bytes());
  const auto model = ReadModelFromBytes(std::as_bytes(std::span(*bytes)));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const Tensor tensor = *(*model)->graph->initializers()[0].InMemory();
  const auto* data = tensor.data<char>();
  EXPECT_GE(data, bytes->data());
  EXPECT_LT(data, bytes->data() + bytes->size());
  EXPECT_EQ(data[3], 4);
}

TEST(ModelReaderTest, SparseInitializers) {
  Proto values = TensorOf(DataType::kFloat, {2}).PackedFixed<float>(TensorProto::kFloatData, {5, 6});
  Proto sparse;
  sparse.Message(SparseTensorProto::kValues, values.Text(TensorProto::kName, "w"))
      .Message(SparseTensorProto::kIndices,
               TensorOf(DataType::kInt64, {2, 2}).PackedVarints(TensorProto::kInt64Data, {0, 1, 1, 0}))
      .PackedVarints(SparseTensorProto::kDims, {2, 2});
  const auto model = ReadGraphOf(Proto().Message(GraphProto::kSparseInitializer, sparse));
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const Initializer& weight = (*model)->graph->initializers()[0];
  EXPECT_EQ(weight.name, "w");
  EXPECT_EQ(weight.shape, (Shape{2, 2}));
  EXPECT_TRUE(std::holds_alternative<std::shared_ptr<const SparseTensor>>(weight.source));
}

TEST(ModelReaderTest, ExternalDataIsCheckedForForm) {
  const auto read = [](const std::vector<std::pair<std::string, std::string>>& entries) {
    Proto tensor = TensorOf(DataType::kFloat, {4}).Varint(TensorProto::kDataLocation, 1);
    for (const auto& [key, value] : entries) {
      tensor.Message(
          TensorProto::kExternalData,
          Proto().Text(StringStringEntryProto::kKey, key).Text(StringStringEntryProto::kValue, value));
    }
    return ReadInitializer(tensor);
  };
  const auto model = read({{"location", "w.bin"}, {"offset", "4096"}, {"length", "16"}, {"basepath", "/x"}});
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const auto& ref = std::get<ExternalDataRef>((*model)->graph->initializers()[0].source);
  EXPECT_EQ(ref.location, "w.bin");
  EXPECT_EQ(ref.offset_bytes, 4096U);
  EXPECT_EQ(ref.length_bytes, 16U);
  EXPECT_TRUE(read({{"location", "w.bin"}, {"prepacked_1", "x|0;1;2"}}).ok());

  EXPECT_INVALID(read({}), HasSubstr("'location' is missing"));
  EXPECT_INVALID(read({{"location", ""}}), HasSubstr("location is empty"));
  EXPECT_INVALID(read({{"location", "w"}, {"__class__", "x"}}), HasSubstr("unknown key '__class__'"));
  EXPECT_INVALID(read({{"location", "w"}, {"location", "v"}}), HasSubstr("appears twice"));
  for (const char* number : {"abc", "-16", "0 ", " 0", "", "0x10", "1e3", "+1"}) {
    EXPECT_INVALID(read({{"location", "w"}, {"offset", number}}), HasSubstr("non-negative decimal"));
  }
  EXPECT_INVALID(read({{"location", "w"}, {"offset", "99999999999999999999"}}), HasSubstr("64 bits"));
  EXPECT_INVALID(read({{"location", "w"}, {"offset", "18446744073709551615"}}), HasSubstr("overflows"));
  EXPECT_INVALID(read({{"location", "w"}, {"length", "15"}}), HasSubstr("15 bytes, but the tensor has 16"));
  EXPECT_INVALID(read({{"location", "w"}, {"length", "17"}}), HasSubstr("17 bytes, but the tensor has 16"));
  EXPECT_INVALID(read({{"location", "w"}, {"checksum", "12"}}), HasSubstr("SHA-1"));
}

}  // namespace
}  // namespace lamina
