// Tables in columns for a terminal.
#pragma once

#include <string>
#include <vector>

namespace lamina::cli {

// The first column is aligned left, others as they are marked; columns are two spaces apart.
class TextTable {
 public:
  // A heading that begins with '<' is aligned left; without it, right. The first always left.
  explicit TextTable(const std::vector<std::string>& headings);
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.size() <= 1; }
  std::string ToText() const;

 private:
  std::vector<bool> left_;
  std::vector<std::vector<std::string>> rows_;  // the headings first
};

}  // namespace lamina::cli
