#include "reference.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/test_data.h"
#include "text/jinja/template.h"

namespace lamina::jinja::testing {

using lamina::testing::ReadWholeFile;
using lamina::testing::SourcePath;
using lamina::testing::TempDir;
using lamina::testing::WriteWholeFile;

bool ReferenceAvailable() {
  static const bool available = std::system("/usr/bin/python3 -c 'import jinja2' >/dev/null 2>&1") == 0;
  return available;
}

std::vector<ReferenceResult> RunReference(const std::vector<ReferenceCase>& cases) {
  Json input = Json::array();
  for (const ReferenceCase& entry : cases) {
    input.push_back({{"template", entry.source}, {"context", entry.context}});
  }
  const TempDir folder;
  WriteWholeFile(folder.File("cases.json"), input.dump());
  const std::string command = "/usr/bin/python3 " + SourcePath("tests/text/jinja/jinja_reference.py") + " " +
                              folder.File("cases.json") + " " + folder.File("results.json");
  if (std::system(command.c_str()) != 0) {
    ADD_FAILURE() << "the reference failed: " << command;
    return {};
  }
  std::vector<ReferenceResult> results;
  for (const Json& entry : Json::parse(ReadWholeFile(folder.File("results.json")))) {
    ReferenceResult& result = results.emplace_back();
    if (entry.contains("text")) {
      result.text = entry["text"].get<std::string>();
    } else {
      result.error = entry["error"].get<std::string>();
      result.error_type = entry["type"].get<std::string>();
    }
  }
  EXPECT_EQ(results.size(), cases.size());
  results.resize(cases.size());
  return results;
}

ReferenceResult RunEngine(const ReferenceCase& entry) {
  ReferenceResult result;
  const Result<Template> parsed = Template::Parse(entry.source);
  if (!parsed.ok()) {
    result.error = parsed.status().ToString();
    return result;
  }
  std::vector<Variable> variables;
  for (const auto& [name, value] : entry.context.items()) variables.push_back({name, &value});
  Result<std::string> text = parsed->Render(variables);
  if (text.ok()) {
    result.text = std::move(text).value();
  } else {
    result.error = text.status().ToString();
  }
  return result;
}

}  // namespace lamina::jinja::testing
