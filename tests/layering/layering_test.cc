// Which folder may include which (docs/architecture.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/test_data.h"

namespace lamina {
namespace {

namespace fs = std::filesystem;
using testing::ReadWholeFile;
using testing::SourcePath;

// Every folder of src/ with the folders it may include besides itself. Public headers ("lamina/...") are free
// to all but are themselves self-contained.
const std::map<std::string, std::set<std::string>>& AllowedIncludes() {
  static const std::map<std::string, std::set<std::string>> allowed = [] {
    std::map<std::string, std::set<std::string>> rules;
    rules["base"] = {};
    rules["model"] = {"base"};
    rules["provider"] = {"base", "model"};
    const std::set<std::string> below_plan = {"base", "model", "provider"};
    for (const char* folder : {"placement", "memory", "weights", "rewrite", "providers"})
      rules[folder] = below_plan;
    rules["plan"] = {"base", "model", "provider", "placement", "memory", "weights", "rewrite"};
    rules["text"] = {"base"};
    rules["runtime"] = rules["plan"];
    rules["runtime"].insert("plan");
    rules["runtime"].insert("providers");  // the environment makes the providers that are compiled in
    rules["generate"] = rules["runtime"];
    rules["generate"].insert({"runtime", "text"});
    rules["generate"].erase("providers");
    rules["cli"] = rules["generate"];
    rules["cli"].insert("generate");
    return rules;
  }();
  return allowed;
}

bool IsSource(const fs::path& path) {
  static const std::set<std::string> extensions = {".h", ".cc", ".cu", ".cuh"};
  return extensions.count(path.extension().string()) > 0;
}

std::vector<fs::path> SourcesBelow(const std::string& folder) {
  std::vector<fs::path> sources;
  for (const auto& entry : fs::recursive_directory_iterator(SourcePath(folder))) {
    if (entry.is_regular_file() && IsSource(entry.path())) sources.push_back(entry.path());
  }
  return sources;
}

std::vector<std::string> QuotedIncludes(const fs::path& source) {
  static const std::regex include("^\\s*#\\s*include\\s*\"([^\"]+)\"");
  std::vector<std::string> names;
  std::istringstream lines(ReadWholeFile(source.string()));
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, include)) names.push_back(match[1]);
  }
  return names;
}

// Empty where `include` is allowed in a file of `folder`, else what is wrong.
std::string Violation(const std::string& folder, const std::string& include) {
  const std::string target = include.substr(0, include.find('/'));
  if (target == include) return "is not written as \"folder/file.h\"";
  if (target == "lamina") {
    return fs::exists(SourcePath("include/" + include)) ? "" : "does not exist below include/";
  }
  if (!fs::exists(SourcePath("src/" + include))) return "does not exist below src/";
  if (target == folder) return "";
  return AllowedIncludes().at(folder).count(target) > 0 ? "" : "lies to the left of src/" + folder;
}

TEST(LayeringTest, FoldersIncludeOnlyWhatStandsToTheirRight) {
  size_t files = 0;
  for (const fs::path& source : SourcesBelow("src")) {
    const std::string relative = fs::relative(source, SourcePath("src")).string();
    const std::string folder = relative.substr(0, relative.find('/'));
    ASSERT_EQ(AllowedIncludes().count(folder), 1u) << "src/" << folder << " has no rule in this test";
    for (const std::string& include : QuotedIncludes(source)) {
      EXPECT_EQ(Violation(folder, include), "") << "src/" << relative << " includes \"" << include << "\"";
    }
    ++files;
  }
  EXPECT_GT(files, 10u);
}

TEST(LayeringTest, ViolationsAreSeen) {
  EXPECT_EQ(Violation("text", "base/error.h"), "");
  EXPECT_EQ(Violation("runtime", "lamina/status.h"), "");
  EXPECT_NE(Violation("base", "text/tokenizer.h"), "");
  EXPECT_NE(Violation("base", "error.h"), "");
  EXPECT_NE(Violation("base", "base/no_such_file.h"), "");
}

TEST(LayeringTest, PublicHeadersIncludeOnlyPublicHeaders) {
  for (const fs::path& header : SourcesBelow("include")) {
    for (const std::string& include : QuotedIncludes(header)) {
      EXPECT_EQ(include.rfind("lamina/", 0), 0u) << header << " includes \"" << include << "\"";
      EXPECT_TRUE(fs::exists(SourcePath("include/" + include)))
          << header << " includes \"" << include << "\"";
    }
  }
}

TEST(LayeringTest, FilesAreShort) {
  for (const char* folder : {"src", "include", "tests", "bench", "examples"}) {
    if (!fs::exists(SourcePath(folder))) continue;
    for (const fs::path& source : SourcesBelow(folder)) {
      const std::string text = ReadWholeFile(source.string());
      EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 1000) << source;
    }
  }
}

}  // namespace
}  // namespace lamina
