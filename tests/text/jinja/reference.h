// Runs templates in Debian's python3-jinja2, for comparison.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lamina::jinja::testing {

using Json = nlohmann::ordered_json;

struct ReferenceCase {
  std::string source;
  Json context;
};

struct ReferenceResult {
  std::optional<std::string> text;
  std::string error;       // where there is no text
  std::string error_type;  // Python's class of it
};

// Whether /usr/bin/python3 has jinja2.
bool ReferenceAvailable();
// One result a case. Fails the running test where the reference cannot be run.
std::vector<ReferenceResult> RunReference(const std::vector<ReferenceCase>& cases);

// The same case in this engine.
ReferenceResult RunEngine(const ReferenceCase& entry);

}  // namespace lamina::jinja::testing

#define LAMINA_SKIP_WITHOUT_JINJA2()                                            \
  if (!::lamina::jinja::testing::ReferenceAvailable()) {                        \
    GTEST_SKIP() << "python3-jinja2 is not installed: nothing to compare with"; \
  }
