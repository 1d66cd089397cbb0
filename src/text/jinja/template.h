// Jinja templates of the dialect that chat templates are written in: Jinja2's language as Hugging Face
// transformers sets it up (immutable sandbox, trim_blocks, lstrip_blocks, loop controls, `generation` blocks,
// `tojson` as plain JSON, `raise_exception`, `strftime_now`).
//
// What a template prints is what Jinja2 on Python prints, down to `repr` of lists and Unicode case mapping.
// Integers have 128 bits; a result beyond them is an error. What Python can do and this engine cannot
// (autoescaping, inheritance, `urlize`, `random`, ...) is an error that names it.
//
// A rendering is bounded in time, memory, output and recursion. It sees nothing but its variables, and the
// clock through `strftime_now`.
//
// Source of the semantics: Jinja2 3.1 documentation and behaviour, Python 3 language reference.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lamina/status.h"

namespace lamina::jinja {

struct RenderLimits {
  uint64_t max_steps = 50'000'000;              // a step evaluates one expression or handles 64 bytes of text
  size_t max_memory_bytes = size_t{256} << 20;  // live values, variables included
  size_t max_output_bytes = size_t{64} << 20;
  int max_depth = 1200;  // nested expressions, statements and macro calls together
  size_t max_stack_bytes = size_t{3} << 20;
};

struct RenderOptions {
  RenderLimits limits;
  std::optional<std::chrono::system_clock::time_point> now;  // the system clock where unset
};

// A null value is Python's None.
struct Variable {
  std::string_view name;
  const nlohmann::ordered_json* value = nullptr;
};

struct ParsedTemplate;

// A parsed template. Immutable: several threads may render one at once. Cheap to copy.
class Template {
 public:
  // INVALID_MODEL: "line 3: expected token 'end of statement block', got 'x'".
  static Result<Template> Parse(std::string_view source);

  // INVALID_ARGUMENT: "line 7: 'dict object' has no attribute 'x'"; RESOURCE_EXHAUSTED beyond a limit.
  // Of several variables with one name the last counts.
  Result<std::string> Render(std::span<const Variable> variables, const RenderOptions& options = {}) const;

 private:
  explicit Template(std::shared_ptr<const ParsedTemplate> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const ParsedTemplate> parsed_;
};

}  // namespace lamina::jinja
