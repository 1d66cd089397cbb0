#include "generate/model_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "support/test_data.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::TempDir;
using testing::WriteWholeFile;

TEST(ModelFolderTest, GenaiFolderOfTheBundledModel) {
  const std::string path = testing::SourcePath("models/tales");
  const Result<ModelFolder> folder = ModelFolder::Open(path);
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EXPECT_EQ(folder->model_path, path + "/model.onnx");
  EXPECT_EQ(folder->model_type, "llama");
  EXPECT_EQ(folder->context_length_tokens, 1024);
  EXPECT_EQ(folder->eos_ids, std::vector<int32_t>{3});
  EXPECT_EQ(folder->sampling.do_sample, true);
  EXPECT_EQ(folder->sampling.top_k, 50);
  EXPECT_EQ(folder->sampling.max_length, 1024);
  EXPECT_EQ(folder->sampling.num_beams, 1);
  EXPECT_EQ(folder->sampling.length_penalty, 1.0F);
  EXPECT_EQ(folder->sampling.early_stopping, true);
  EXPECT_EQ(folder->decoder_names.at("past_key_names"), "past_key_values.%d.key");
}

TEST(ModelFolderTest, OptimumFolderWithVariants) {
  const TempDir dir;
  fs::create_directory(dir.File("onnx"));
  WriteWholeFile(dir.File("onnx/model.onnx"), "");
  WriteWholeFile(dir.File("onnx/model_fp16.onnx"), "");
  WriteWholeFile(dir.File("config.json"), R"({"model_type": "gpt2", "n_positions": 77, "eos_token_id": 5})");
  WriteWholeFile(dir.File("generation_config.json"),
                 R"({"eos_token_id": [5, 9], "temperature": 0.6, "do_sample": true})");
  const Result<ModelFolder> plain = ModelFolder::Open(dir.path());
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  EXPECT_EQ(plain->model_path, dir.File("onnx/model.onnx"));
  EXPECT_EQ(plain->text_folder, dir.path());
  EXPECT_EQ(plain->context_length_tokens, 77);
  EXPECT_EQ(plain->eos_ids, (std::vector<int32_t>{5, 9}));
  EXPECT_FLOAT_EQ(plain->sampling.temperature.value_or(0), 0.6f);
  const Result<ModelFolder> half = ModelFolder::Open(dir.path(), "fp16");
  ASSERT_TRUE(half.ok());
  EXPECT_EQ(half->model_path, dir.File("onnx/model_fp16.onnx"));
  const Result<ModelFolder> missing = ModelFolder::Open(dir.path(), "q4");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("onnx/model_fp16.onnx"), std::string::npos);
}

TEST(ModelFolderTest, SeveralModelsAndNoneOfTheUsualName) {
  const TempDir dir;
  WriteWholeFile(dir.File("model_a.onnx"), "");
  EXPECT_TRUE(ModelFolder::Open(dir.path()).ok());
  WriteWholeFile(dir.File("model_b.onnx"), "");
  const Result<ModelFolder> several = ModelFolder::Open(dir.path());
  EXPECT_EQ(several.status().code(), StatusCode::kNotFound);
  EXPECT_NE(several.status().message().find("model_a.onnx, model_b.onnx"), std::string::npos);
}

TEST(ModelFolderTest, ABareFileFindsItsTokenizerAboveOnnx) {
  const TempDir dir;
  fs::create_directory(dir.File("onnx"));
  WriteWholeFile(dir.File("onnx/model.onnx"), "");
  WriteWholeFile(dir.File("tokenizer.json"), "{}");
  const Result<ModelFolder> folder = ModelFolder::Open(dir.File("onnx/model.onnx"));
  ASSERT_TRUE(folder.ok());
  EXPECT_TRUE(fs::equivalent(folder->text_folder, dir.path()));
  EXPECT_FALSE(ModelFolder::Open(dir.File("onnx/model.onnx"), "fp16").ok());
}

TEST(ModelFolderTest, MalformedConfigurationsAreNamed) {
  const TempDir dir;
  EXPECT_EQ(ModelFolder::Open(dir.File("nothing")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ModelFolder::Open(dir.path()).status().code(), StatusCode::kNotFound);
  WriteWholeFile(dir.File("model.onnx"), "");
  for (const char* text : {"{", "[]", "{}", R"({"model": {"decoder": 3}})"}) {
    WriteWholeFile(dir.File("genai_config.json"), text);
    const Result<ModelFolder> folder = ModelFolder::Open(dir.path());
    EXPECT_EQ(folder.status().code(), StatusCode::kInvalidModel) << text;
    EXPECT_NE(folder.status().message().find("genai_config.json"), std::string::npos);
  }
  WriteWholeFile(dir.File("genai_config.json"), R"({"model": {"decoder": {"pipeline": []}}})");
  EXPECT_EQ(ModelFolder::Open(dir.path()).status().code(), StatusCode::kUnsupported);
  WriteWholeFile(dir.File("genai_config.json"), R"({"model": {"decoder": {"filename": "other.onnx"}}})");
  EXPECT_EQ(ModelFolder::Open(dir.path()).status().code(), StatusCode::kNotFound);
  // Values of an unexpected type are passed over.
  WriteWholeFile(dir.File("genai_config.json"),
                 R"({"model": {"eos_token_id": ["x", -1, 7], "context_length": "long", "decoder": {}}})");
  const Result<ModelFolder> folder = ModelFolder::Open(dir.path());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EXPECT_EQ(folder->eos_ids, std::vector<int32_t>{7});
  EXPECT_EQ(folder->context_length_tokens, 0);
}

TEST(FindModelTest, NamesBelowTheModelsFolder) {
  const TempDir dir;
  fs::create_directory(dir.File("tiny"));
  setenv("LAMINA_MODELS", dir.path().c_str(), 1);
  const Result<std::string> found = FindModel("tiny");
  unsetenv("LAMINA_MODELS");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, dir.File("tiny"));
  EXPECT_EQ(FindModel("tiny-that-is-nowhere").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace lamina
