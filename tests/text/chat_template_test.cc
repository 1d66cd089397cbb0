#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/test_data.h"

namespace lamina {
namespace {

using Json = nlohmann::ordered_json;
using testing::ReadWholeFile;
using testing::TempDir;
using testing::WriteWholeFile;

constexpr char kSimple[] =
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

std::string RenderHi(const ChatTemplate& chat, bool add_generation_prompt = true) {
  const std::vector<ChatMessage> messages = {{"user", "Hi"}};
  const Result<std::string> text = chat.Render(messages, add_generation_prompt);
  return text.ok() ? *text : text.status().ToString();
}

TEST(ChatTemplateTest, ReadsEachSourceInOrder) {
  const TempDir folder;
  EXPECT_EQ(ChatTemplate::Load(folder.path()).status().code(), StatusCode::kNotFound);

  Json config = {{"bos_token", {{"content", "<s>"}, {"lstrip", false}}},
                 {"eos_token", "</s>"},
                 {"chat_template", "config {{ messages[0].content }}{{ eos_token }}"}};
  WriteWholeFile(folder.File("tokenizer_config.json"), config.dump());
  Result<ChatTemplate> chat = ChatTemplate::Load(folder.path());
  ASSERT_TRUE(chat.ok()) << chat.status().ToString();
  EXPECT_EQ(RenderHi(*chat), "config Hi</s>");
  EXPECT_EQ(chat->bos_token(), "<s>");
  EXPECT_EQ(chat->eos_token(), "</s>");

  WriteWholeFile(folder.File("chat_template.json"), Json({{"chat_template", "json {{ bos_token }}"}}).dump());
  EXPECT_EQ(RenderHi(*ChatTemplate::Load(folder.path())), "json <s>");

  WriteWholeFile(folder.File("chat_template.jinja"), "file\n");
  EXPECT_EQ(RenderHi(*ChatTemplate::Load(folder.path())), "file");
}

TEST(ChatTemplateTest, ChoosesAmongNamedTemplates) {
  const TempDir folder;
  const Json config = {{"chat_template",
                        {{{"name", "tool_use"}, {"template", "tools: {{ tools|length }}"}},
                         {{"name", "default"}, {"template", "plain"}},
                         {{"name", "rag"}, {"template", "{{ documents[0].title }}"}}}}};
  WriteWholeFile(folder.File("tokenizer_config.json"), config.dump());
  const Result<ChatTemplate> chat = ChatTemplate::Load(folder.path());
  ASSERT_TRUE(chat.ok()) << chat.status().ToString();
  EXPECT_EQ(chat->names(), (std::vector<std::string>{"default", "tool_use", "rag"}));

  const Json messages = Json::array();
  const Json tools = {{{"name", "f"}}};
  const Json documents = {{{"title", "T"}}};
  ChatTemplateInput input;
  input.messages = &messages;
  EXPECT_EQ(*chat->Render(input), "plain");
  input.tools = &tools;
  EXPECT_EQ(*chat->Render(input), "tools: 1");
  input.template_name = "rag";
  input.documents = &documents;
  EXPECT_EQ(*chat->Render(input), "T");
  input.template_name = "nope";
  EXPECT_EQ(chat->Render(input).status().message(),
            "no chat template is named 'nope'; there are: default, tool_use, rag");
}

TEST(ChatTemplateTest, PassesVariablesAndKeepsTheOrderOfKeys) {
  const Result<ChatTemplate> chat = ChatTemplate::FromSource(
      "{{ tools|tojson }}{{ enable_thinking }}{{ documents }}{{ strftime_now('%Y') }}{{ bos_token is defined "
      "}}",
      "", "");
  ASSERT_TRUE(chat.ok());
  const Json messages = Json::array();
  const Json tools = Json::parse(R"([{"z": 1, "a": {"y": 2, "b": 3}}])");
  const Json extra = {{"enable_thinking", false}};
  ChatTemplateInput input;
  input.messages = &messages;
  input.tools = &tools;
  input.extra = &extra;
  input.now = std::chrono::system_clock::from_time_t(1'700'000'000);
  EXPECT_EQ(*chat->Render(input), R"([{"z": 1, "a": {"y": 2, "b": 3}}]FalseNone2023False)");
}

TEST(ChatTemplateTest, ErrorsNameTheFileLineAndReason) {
  const TempDir folder;
  WriteWholeFile(folder.File("chat_template.jinja"), "a\n{% if %}");
  const Status status = ChatTemplate::Load(folder.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidModel);
  EXPECT_EQ(status.message(), folder.path() +
                                  ": chat template 'default': line 2: Expected an expression, got 'end of "
                                  "statement block'");
  WriteWholeFile(folder.File("chat_template.jinja"), "x");
  WriteWholeFile(folder.File("tokenizer_config.json"), "{");
  EXPECT_EQ(ChatTemplate::Load(folder.path()).status().code(), StatusCode::kInvalidModel);

  const Result<ChatTemplate> chat =
      ChatTemplate::FromSource("\n{{ raise_exception('No system role') }}", "", "");
  EXPECT_EQ(RenderHi(*chat), "INVALID_ARGUMENT: chat template 'default': line 2: No system role");
  EXPECT_EQ(chat->Render(ChatTemplateInput()).status().code(), StatusCode::kInvalidArgument);
}

TEST(ChatTemplateTest, FindsTheTokensThatEndATurn) {
  using Tokens = std::vector<std::string>;
  const Tokens special = {"<s>",           "</s>",    "<|end|>",   "<|user|>",
                          "<|assistant|>", "<|eot|>", "<|close|>", "<|return|>"};
  const auto tokens_of = [&](const std::string& source) {
    return ChatTemplate::FromSource(source, "<s>", "</s>")->EndOfTurnTokens(special);
  };
  EXPECT_EQ(tokens_of(kSimple), Tokens{"<|end|>"});
  // The end of the text is not the end of a turn.
  EXPECT_EQ(tokens_of("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}"
                      "{% if add_generation_prompt %}<|assistant|>{% else %}{{ eos_token }}{% endif %}"),
            Tokens{"<|end|>"});
  // The last of several that always follow.
  EXPECT_EQ(tokens_of("{% for m in messages %}{{ m.content }}<|close|><|eot|>{% endfor %}"),
            Tokens{"<|eot|>"});
  // An answer that ends differently when it is the last.
  EXPECT_EQ(
      tokens_of(
          "{% for m in messages %}{{ m.content }}{{ '<|return|>' if loop.last else '<|end|>' }}{% endfor %}"),
      Tokens{"<|return|>"});
  // Nothing closes the answer, but the next turn opens.
  EXPECT_EQ(tokens_of("{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}"),
            Tokens{"<|user|>"});
  EXPECT_EQ(tokens_of("{% for m in messages %}{{ m.content }}\n{% endfor %}"), Tokens{});
  EXPECT_EQ(tokens_of("{{ raise_exception('x') }}"), Tokens{});
}

TEST(ChatTemplateTest, EndOfTurnTokensOfRealModels) {
  LAMINA_SHARED_PATH_OR_SKIP(folder, "templates");
  const std::vector<std::string> special = {"<s>",
                                            "<|im_start|>",
                                            "<|im_end|>",
                                            "<|endoftext|>",
                                            "<|start_header_id|>",
                                            "<|end_header_id|>",
                                            "<|eot_id|>",
                                            "<|eom_id|>",
                                            "<start_of_turn>",
                                            "<end_of_turn>",
                                            "<|end|>",
                                            "<|user|>",
                                            "<|assistant|>",
                                            "</s>",
                                            "[INST]",
                                            "<｜end▁of▁sentence｜>",
                                            "<｜User｜>",
                                            "<|END_OF_TURN_TOKEN|>",
                                            "<|START_OF_TURN_TOKEN|>",
                                            "<|END_RESPONSE|>",
                                            "<|end_of_text|>",
                                            "<|start_of_role|>",
                                            "<|end_of_role|>",
                                            "<turn|>",
                                            "<|turn>"};
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"Qwen-Qwen3-0.6B", "<|im_end|>"},
      {"meta-llama-Llama-3.1-8B-Instruct", "<|eot_id|>"},
      {"google-gemma-2-2b-it", "<end_of_turn>"},
      {"google-gemma-4-31B-it", "<turn|>"},
      {"microsoft-Phi-3.5-mini-instruct", "<|end|>"},
      {"mistralai-Mistral-Nemo-Instruct-2407", "</s>"},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "<｜end▁of▁sentence｜>"},
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "<|END_OF_TURN_TOKEN|>"},
      {"ibm-granite-granite-4.0", "<|end_of_text|>"},
      {"GLM-4.7-Flash", "<|user|>"},
  };
  for (const auto& [name, token] : expected) {
    const Result<ChatTemplate> chat =
        ChatTemplate::FromSource(ReadWholeFile(folder + "/" + name + ".jinja"), "<s>", "</s>");
    ASSERT_TRUE(chat.ok()) << name << chat.status().ToString();
    EXPECT_EQ(chat->EndOfTurnTokens(special), std::vector<std::string>{token}) << name;
  }
}

}  // namespace
}  // namespace lamina
