#include "generate/synth/synthetic_decoder.h"

#include <gtest/gtest.h>

#include <cmath>

#include "generate/engine.h"
#include "generate/model_folder.h"
#include "support/test_data.h"
#include "text/tokenizer.h"

namespace lamina {
namespace {

SynthOptions Tiny() {
  SynthOptions options;
  options.layers = 2;
  options.hidden = 64;
  options.heads = 4;
  options.kv_heads = 2;
  options.ffn = 96;
  options.vocab = 300;
  options.context = 64;
  return options;
}

// Loads the written model and takes a few greedy steps.
void ExpectRuns(const SynthOptions& options) {
  const testing::TempDir dir;
  const Status written = WriteSyntheticDecoder(dir.path(), options);
  ASSERT_TRUE(written.ok()) << written.ToString();
  const Result<ModelFolder> folder = ModelFolder::Open(dir.path());
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  EXPECT_EQ(folder->context_length_tokens, 64);
  auto engine = Engine::Create(*Env::Create({2}), *folder, {});
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();
  EXPECT_EQ((*engine)->vocab_size(), options.vocab);
  const SequenceId sequence = *(*engine)->AddSequence();
  const std::vector<int32_t> prompt{5, 6, 7};
  for (int step = 0; step < 3; ++step) {
    const SequenceStep row{sequence, prompt, 1};
    const Status status = (*engine)->Step({&row, 1});
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (const float logit : (*engine)->logits(0)) ASSERT_TRUE(std::isfinite(logit));
  }
}

TEST(SyntheticDecoderTest, EveryArchitectureRuns) {
  for (const auto architecture :
       {SynthArchitecture::kLlama, SynthArchitecture::kQwen3, SynthArchitecture::kGptOss}) {
    for (const auto quantization :
         {SynthQuantization::kNone, SynthQuantization::kInt4, SynthQuantization::kInt8}) {
      SynthOptions options = Tiny();
      options.architecture = architecture;
      options.quantization = quantization;
      ExpectRuns(options);
      options.type = DataType::kFloat16;
      ExpectRuns(options);
    }
  }
}

TEST(SyntheticDecoderTest, TheSameOptionsGiveTheSameBytes) {
  const testing::TempDir first;
  const testing::TempDir second;
  ASSERT_TRUE(WriteSyntheticDecoder(first.path(), Tiny()).ok());
  ASSERT_TRUE(WriteSyntheticDecoder(second.path(), Tiny()).ok());
  for (const char* name : {"model.onnx", "model.onnx.data", "genai_config.json", "tokenizer.json"}) {
    EXPECT_EQ(testing::ReadWholeFile(first.File(name)), testing::ReadWholeFile(second.File(name))) << name;
  }
  SynthOptions other = Tiny();
  other.seed = 1;
  ASSERT_TRUE(WriteSyntheticDecoder(second.path(), other).ok());
  EXPECT_NE(testing::ReadWholeFile(first.File("model.onnx.data")),
            testing::ReadWholeFile(second.File("model.onnx.data")));
}

TEST(SyntheticDecoderTest, ItsTokenizerHoldsEveryByte) {
  const testing::TempDir dir;
  ASSERT_TRUE(WriteSyntheticDecoder(dir.path(), Tiny()).ok());
  const Result<Tokenizer> tokenizer = Tokenizer::Load(dir.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const std::string text = "Once upon a time, \xc3\xa9\xe2\x82\xac\n";
  const auto ids = tokenizer->Encode(text);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ids->size(), text.size());
  EXPECT_EQ(*tokenizer->Decode(*ids), text);
}

TEST(SyntheticDecoderTest, OptionsAreChecked) {
  const testing::TempDir dir;
  const auto refused = [&](auto change) {
    SynthOptions options = Tiny();
    change(options);
    return WriteSyntheticDecoder(dir.path(), options).code() == StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](SynthOptions& options) { options.layers = 0; }));
  EXPECT_TRUE(refused([](SynthOptions& options) { options.kv_heads = 3; }));
  EXPECT_TRUE(refused([](SynthOptions& options) { options.hidden = 66; }));
  EXPECT_TRUE(refused([](SynthOptions& options) { options.vocab = 10; }));
  EXPECT_TRUE(refused([](SynthOptions& options) { options.experts_per_token = 9; }));
  EXPECT_TRUE(refused([](SynthOptions& options) { options.head_size = 20; }));
}

}  // namespace
}  // namespace lamina
