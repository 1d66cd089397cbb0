#include "model/onnx/value_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "model/onnx/model_reader.h"
#include "model/onnx_fields.h"
#include "support/proto_builder.h"
#include "support/test_data.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::Proto;

std::string BytesOf(const Tensor& tensor) {
  if (tensor.type() == DataType::kString) {
    std::string joined;
    for (const std::string& text : tensor.elements<std::string>()) joined += text + "|";
    return joined;
  }
  return {static_cast<const char*>(tensor.raw_data()), tensor.size_bytes()};
}

void ExpectEqual(const Value& a, const Value& b) {
  ASSERT_EQ(a.type(), b.type());
  switch (a.kind()) {
    case ValueKind::kTensor:
      EXPECT_EQ(a.tensor().shape(), b.tensor().shape());
      EXPECT_EQ(BytesOf(a.tensor()), BytesOf(b.tensor()));
      break;
    case ValueKind::kSequence:
      ASSERT_EQ(a.sequence().items.size(), b.sequence().items.size());
      for (size_t i = 0; i < a.sequence().items.size(); ++i) {
        ExpectEqual(a.sequence().items[i], b.sequence().items[i]);
      }
      break;
    case ValueKind::kOptional:
      ASSERT_EQ(a.optional().value == nullptr, b.optional().value == nullptr);
      if (a.optional().value) ExpectEqual(*a.optional().value, *b.optional().value);
      break;
    case ValueKind::kMap:
      EXPECT_EQ(a.map().entries, b.map().entries);
      break;
    default:
      FAIL() << "a value is undefined";
  }
}

Result<Value> Read(const std::string& bytes, const ValueType& type) {
  return ReadValue(std::as_bytes(std::span(bytes)), "x.pb", type);
}

void ExpectRoundTrip(const Value& value) {
  const auto bytes = EncodeValue(value, "x");
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  const auto again = Read(*bytes, value.type());
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  ExpectEqual(value, *again);
}

Tensor Floats(std::vector<float> values) {
  return *Tensor::FromValues<float>(DataType::kFloat, Shape{static_cast<int64_t>(values.size())}, values);
}

TEST(ValueFileTest, WritesAndReadsEveryKindOfValue) {
  ExpectRoundTrip(Value(Floats({1, 2, 3})));
  const std::vector<std::string> texts = {"a", "", "c"};
  ExpectRoundTrip(Value(*Tensor::FromStrings(Shape{3}, texts)));

  ExpectRoundTrip(Value(Sequence{DataType::kFloat, {}}));
  ExpectRoundTrip(Value(Sequence{DataType::kFloat, {Value(Floats({1})), Value(Floats({2, 3}))}}));

  Optional present{ValueType::Tensor(DataType::kFloat), std::make_unique<Value>(Floats({1}))};
  ExpectRoundTrip(Value(std::move(present)));
  ExpectRoundTrip(Value(Optional{ValueType::SequenceOf(DataType::kFloat), nullptr}));
  Optional sequence{ValueType::SequenceOf(DataType::kFloat),
                    std::make_unique<Value>(Sequence{DataType::kFloat, {Value(Floats({4}))}})};
  ExpectRoundTrip(Value(std::move(sequence)));

  ExpectRoundTrip(Value(Map{DataType::kString, DataType::kFloat, {{"cat", 0.5}, {"dog", 0.25}}}));
  ExpectRoundTrip(Value(Map{DataType::kInt64, DataType::kString, {{int64_t{7}, "x"}}}));
}

TEST(ValueFileTest, WritesWholeFiles) {
  testing::TempDir folder;
  const std::string path = folder.File("input_0.pb");
  ASSERT_TRUE(WriteValueFile(path, Value(Floats({1, 2})), "x").ok());
  const auto value = ReadValueFile(path, ValueType::Tensor(DataType::kFloat));
  ASSERT_TRUE(value.ok()) << value.status().ToString();
  EXPECT_EQ(value->tensor().data<float>()[1], 2);
}

TEST(ValueFileTest, MalformedFilesAreErrors) {
  EXPECT_EQ(Read("garbage", {}).status().code(), StatusCode::kInvalidModel);
  EXPECT_EQ(ReadValueFile("/no/such.pb", {}).status().code(), StatusCode::kNotFound);
  const Proto external =
      Proto()
          .Varint(onnx::TensorProto::kDataType, 1)
          .Varint(onnx::TensorProto::kDataLocation, 1)
          .Message(onnx::TensorProto::kExternalData, Proto().Text(1, "location").Text(2, "w"));
  EXPECT_EQ(Read(external.bytes(), {}).status().code(), StatusCode::kUnsupported);
}

// Reads and writes back every input and output below `folder`.
int CheckDataSets(const fs::path& folder) {
  int files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() != "model.onnx") continue;
    const auto model = ReadModel(entry.path());
    EXPECT_TRUE(model.ok()) << model.status().ToString();
    if (!model.ok()) continue;
    const Graph& graph = *(*model)->graph;
    for (const auto& [prefix, ids] :
         {std::pair("input_", graph.inputs()), std::pair("output_", graph.outputs())}) {
      for (size_t i = 0; i < ids.size(); ++i) {
        const fs::path path =
            entry.path().parent_path() / "test_data_set_0" / (prefix + std::to_string(i) + ".pb");
        if (!fs::exists(path)) continue;
        const auto value = ReadValueFile(path, graph.value(ids[i]).type);
        EXPECT_TRUE(value.ok()) << value.status().ToString();
        if (value.ok()) ExpectRoundTrip(*value);
        ++files;
      }
    }
  }
  return files;
}

TEST(ValueFileTest, ReadsTheDataSetsOfTheRepository) {
  EXPECT_GT(CheckDataSets(testing::SourcePath("tests/data/zoo")), 20);
}

TEST(ValueFileTest, ReadsTheDataSetsOfTheNodeTests) {
  const auto folder = testing::NodeTestsPath();
  if (!folder) GTEST_SKIP() << "the ONNX node tests are not there; set LAMINA_TEST_DATA";
  EXPECT_GT(CheckDataSets(*folder), 5000);
}

}  // namespace
}  // namespace lamina
