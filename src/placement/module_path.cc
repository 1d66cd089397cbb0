#include "placement/module_path.h"

#include <string_view>
#include <vector>

namespace lamina {
namespace {

// The strings of a Python list literal: ['', 'model', 'model.layers.3', 'linear_1']. Empty where it is none.
std::vector<std::string> ParseStringList(std::string_view text) {
  std::vector<std::string> strings;
  size_t i = text.find('[');
  if (i == std::string_view::npos) return {};
  for (++i; i < text.size() && text[i] != ']'; ++i) {
    const char quote = text[i];
    if (quote != '\'' && quote != '"') continue;  // spaces and commas
    std::string item;
    for (++i; i < text.size() && text[i] != quote; ++i) {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      item += text[i];
    }
    if (i >= text.size()) return {};
    strings.push_back(std::move(item));
  }
  return strings;
}

}  // namespace

std::string ModulePath(const Node& node) {
  const std::vector<std::string> scopes = ParseStringList(node.Metadata("pkg.torch.onnx.name_scopes"));
  std::string path;
  std::string_view enclosing;
  for (size_t i = 0; i + 1 < scopes.size(); ++i) {
    std::string_view scope = scopes[i];
    if (scope.empty()) continue;
    std::string_view own = scope;
    if (!enclosing.empty() && own.substr(0, enclosing.size()) == enclosing) {
      own.remove_prefix(enclosing.size());
      if (!own.empty() && own.front() == '.') own.remove_prefix(1);
    }
    enclosing = scope;
    if (own.empty()) continue;
    path += own;
    path += '/';
  }
  return path;
}

}  // namespace lamina
