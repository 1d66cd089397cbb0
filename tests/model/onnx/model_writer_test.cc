#include "model/onnx/model_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "model/onnx/external_data_writer.h"
#include "model/onnx/model_reader.h"
#include "support/model_dump.h"
#include "support/rare_model.h"
#include "support/test_data.h"

namespace lamina {
namespace {

using testing::DumpModel;
using ::testing::HasSubstr;

TEST(ModelWriterTest, ReadingWhatWasWrittenGivesTheSameModel) {
  for (const std::string& file : testing::AllModelFiles()) {
    const auto model = ReadModel(file);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    const auto bytes = EncodeModel(**model);
    ASSERT_TRUE(bytes.ok()) << file << ": " << bytes.status().ToString();
    const auto again = ReadModelFromBytes(std::as_bytes(std::span(*bytes)));
    ASSERT_TRUE(again.ok()) << file << ": " << again.status().ToString();
    ASSERT_EQ(testing::FirstDifference(DumpModel(**model), DumpModel(**again)), "") << file;
  }
}

TEST(ModelWriterTest, WritesWhatIsRare) {
  const std::unique_ptr<Model> model = testing::MakeRareModel();
  const auto bytes = EncodeModel(*model);
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  const auto again = ReadModelFromBytes(std::as_bytes(std::span(*bytes)));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(testing::FirstDifference(DumpModel(*model), DumpModel(**again)), "");
}

TEST(ModelWriterTest, RefusesNodesOfAnotherOpsetVersion) {
  Model model;
  model.ir_version = 10;
  model.opset_imports = {{"", 21}};
  model.names = std::make_shared<NamePool>();
  model.graph = std::make_unique<Graph>(model.names, nullptr);
  model.graph->AddNode("n", "Op", "", 18, {}, {model.graph->MakeValue("y")});
  const auto bytes = EncodeModel(model);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(bytes.status().message(), HasSubstr("node 'n' (Op) is of opset version 18"));
}

class ExternalisingTest : public ::testing::Test {
 protected:
  // A model of one initializer "big" of 1,000 floats and one "small" of 2.
  ExternalisingTest() {
    model_.ir_version = 8;
    model_.opset_imports[""] = 17;
    model_.names = std::make_shared<NamePool>();
    model_.graph = std::make_unique<Graph>(model_.names, nullptr);
    Graph& graph = *model_.graph;
    std::vector<ValueId> inputs;
    for (const auto& [name, count] : {std::pair("big", 1000), std::pair("small", 2)}) {
      const std::vector<float> values(static_cast<size_t>(count), 0.5F);
      const Tensor tensor = *Tensor::FromValues<float>(DataType::kFloat, Shape{count}, values);
      inputs.push_back(graph.MakeValue(name));
      graph.AddInitializer(inputs.back(), {Name(), DataType::kFloat, Shape{count}, tensor});
    }
    const ValueId sum = graph.MakeValue("sum");
    graph.AddNode("concat", "Concat", "", 17, inputs, {sum}, {{model_.names->Intern("axis"), int64_t{0}}});
    graph.AddOutput(sum);
  }

  testing::TempDir folder_;
  Model model_;
};

TEST_F(ExternalisingTest, LargeInitializersGoToTheDataFile) {
  const std::string path = folder_.File("model.onnx");
  ASSERT_TRUE(WriteModel(model_, path, {.external_from_bytes = 100}).ok());
  EXPECT_EQ(std::filesystem::file_size(folder_.File("model.onnx.data")), 4000U);
  const auto model = ReadModel(path);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const Graph& graph = *(*model)->graph;
  const Initializer* big = graph.ConstantOf(graph.FindValue("big"));
  ASSERT_TRUE(big->is_external());
  EXPECT_EQ(std::get<ExternalDataRef>(big->source).location, "model.onnx.data");
  EXPECT_FALSE(graph.ConstantOf(graph.FindValue("small"))->is_external());

  // The data file that is in use is not overwritten.
  const Status over = WriteModel(**model, folder_.File("other.onnx"),
                                 {.external_from_bytes = 1, .data_file_name = "model.onnx.data"});
  EXPECT_EQ(over.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(std::filesystem::file_size(folder_.File("model.onnx.data")), 4000U);

  // With a loader everything comes along.
  const auto load = [&](const Initializer& initializer) -> Result<Tensor> {
    return *model_.graph->ConstantOf(model_.graph->FindValue(initializer.name))->InMemory();
  };
  const std::string whole_path = folder_.File("whole.onnx");
  ASSERT_TRUE(WriteModel(**model, whole_path, {.load_external = load}).ok());
  const auto whole = ReadModel(whole_path);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(DumpModel(**whole), DumpModel(model_));
}

TEST_F(ExternalisingTest, UnnecessaryDataFilesAreNotWritten) {
  ASSERT_TRUE(WriteModel(model_, folder_.File("model.onnx"), {.external_from_bytes = 1 << 20}).ok());
  EXPECT_FALSE(std::filesystem::exists(folder_.File("model.onnx.data")));
}

TEST_F(ExternalisingTest, RefusesHiddenOuterValues) {
  Graph& graph = *model_.graph;
  auto body = std::make_shared<Graph>(model_.names, &graph);
  const ValueId hiding = body->MakeValue("big");
  const ValueId captured = body->CaptureOuter(graph.FindValue("big"));
  body->AddNode("inner", "Add", "", 17, {captured, captured}, {hiding});
  body->AddOutput(hiding);
  graph.AddNode("outer", "If", "", 17, {graph.FindValue("small")}, {graph.MakeValue("y")},
                {{model_.names->Intern("then_branch"), body}});
  const auto bytes = EncodeModel(model_);
  ASSERT_FALSE(bytes.ok());
  EXPECT_THAT(bytes.status().message(), HasSubstr("hides an outer value"));
}

TEST(ExternalDataWriterTest, TensorsBeginAtAlignedOffsets) {
  testing::TempDir folder;
  auto writer = ExternalDataWriter::Create(folder.path(), "w.bin");
  ASSERT_TRUE(writer.ok());
  const std::string first(5000, 'a');
  const std::string second = "bc";
  const auto first_ref = writer->Write(std::as_bytes(std::span(first)));
  ASSERT_TRUE(first_ref.ok());
  ASSERT_TRUE(writer->Begin().ok());
  ASSERT_TRUE(writer->Append(std::as_bytes(std::span(second)).first(1)).ok());
  ASSERT_TRUE(writer->Append(std::as_bytes(std::span(second)).last(1)).ok());
  const ExternalDataRef second_ref = writer->End();
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_EQ(first_ref->offset_bytes, 0U);
  EXPECT_EQ(first_ref->length_bytes, 5000U);
  EXPECT_EQ(second_ref.offset_bytes, 8192U);
  EXPECT_EQ(second_ref.length_bytes, 2U);
  EXPECT_EQ(second_ref.location, "w.bin");
  const std::string file = testing::ReadWholeFile(folder.File("w.bin"));
  EXPECT_EQ(file.size(), 8194U);
  EXPECT_EQ(file.substr(8192), "bc");
}

}  // namespace
}  // namespace lamina
