#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace lamina::cli {

TextTable::TextTable(const std::vector<std::string>& headings) {
  std::vector<std::string> row;
  for (const std::string& heading : headings) {
    const bool marked = heading.starts_with('<');
    left_.push_back(marked || row.empty());
    row.push_back(marked ? heading.substr(1) : heading);
  }
  rows_.push_back(std::move(row));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(left_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToText() const {
  std::vector<size_t> widths(left_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column) {
      if (column > 0) line += "  ";
      line += left_[column] ? fmt::format("{:<{}}", row[column], widths[column])
                            : fmt::format("{:>{}}", row[column], widths[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace lamina::cli
