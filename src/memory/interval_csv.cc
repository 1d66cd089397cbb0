#include "memory/interval_csv.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <unordered_map>

#include "base/error.h"

namespace lamina {
namespace {

std::vector<std::string_view> SplitFields(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

struct Columns {
  int id = -1;
  int lower = -1;
  int upper = -1;
  int size = -1;
  int alignment = -1;
  int offset = -1;
  size_t count = 0;
};

class Parser {
 public:
  explicit Parser(const std::string& name) : name_(name) {}

  Result<IntervalTable> Parse(std::string_view text) {
    if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
    IntervalTable table;
    while (!text.empty()) {
      ++line_number_;
      const size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      const bool carriage_return = !line.empty() && line.back() == '\r';
      if (carriage_return) line.remove_suffix(1);
      if (line_number_ == 1) {
        table.line_end = carriage_return ? "\r\n" : "\n";
        LAMINA_RETURN_IF_ERROR(ParseHeader(line));
        table.offset_column = columns_.offset;
      } else {
        LAMINA_RETURN_IF_ERROR(ParseRow(line, table));
      }
      table.lines.emplace_back(line);
    }
    if (line_number_ == 0) {
      line_number_ = 1;
      return Error("expected the header id,lower,upper,size, found an empty file");
    }
    return table;
  }

 private:
  template <typename... Args>
  Status Error(fmt::format_string<Args...> format, Args&&... args) const {
    return InvalidArgumentError("{}:{}: {}", name_, line_number_,
                                fmt::format(format, std::forward<Args>(args)...));
  }

  Status ParseHeader(std::string_view line) {
    const std::pair<std::string_view, int*> known[] = {
        {"id", &columns_.id},     {"lower", &columns_.lower},         {"upper", &columns_.upper},
        {"size", &columns_.size}, {"alignment", &columns_.alignment}, {"offset", &columns_.offset}};
    const std::vector<std::string_view> fields = SplitFields(line);
    columns_.count = fields.size();
    for (size_t i = 0; i < fields.size(); ++i) {
      for (const auto& [column, index] : known) {
        if (Trim(fields[i]) != column) continue;
        if (*index >= 0) return Error("column '{}' is there twice", column);
        *index = static_cast<int>(i);
      }
    }
    for (const auto& [column, index] : known) {
      if (*index < 0 && column != "alignment" && column != "offset") {
        return Error("expected a column '{}', found the header '{}'", column, line);
      }
    }
    return Status();
  }

  Status ParseRow(std::string_view line, IntervalTable& table) {
    const std::vector<std::string_view> fields = SplitFields(line);
    if (fields.size() != columns_.count)
      return Error("expected {} fields, found {}", columns_.count, fields.size());
    const auto field = [&](int column) { return Trim(fields[static_cast<size_t>(column)]); };

    std::string id(field(columns_.id));
    if (id.empty()) return Error("the id is empty");
    if (const auto [entry, inserted] = line_of_id_.try_emplace(id, line_number_); !inserted) {
      return Error("id '{}' was there before, in line {}", id, entry->second);
    }
    Interval interval;
    LAMINA_ASSIGN_OR_RETURN(interval.lower, Number("lower", field(columns_.lower)));
    LAMINA_ASSIGN_OR_RETURN(interval.upper, Number("upper", field(columns_.upper)));
    LAMINA_ASSIGN_OR_RETURN(interval.size_bytes, Number("size", field(columns_.size)));
    if (interval.lower >= interval.upper) {
      return Error("lower {} is not below upper {}", interval.lower, interval.upper);
    }
    if (columns_.alignment >= 0 && !field(columns_.alignment).empty()) {
      LAMINA_ASSIGN_OR_RETURN(interval.alignment, Number("alignment", field(columns_.alignment)));
      if (!std::has_single_bit(static_cast<uint64_t>(interval.alignment))) {
        return Error("alignment {} is not a power of two", interval.alignment);
      }
    }
    if (columns_.offset >= 0 && !field(columns_.offset).empty()) {
      LAMINA_ASSIGN_OR_RETURN(interval.fixed_offset, Number("offset", field(columns_.offset)));
    }
    table.ids.push_back(std::move(id));
    table.intervals.push_back(std::move(interval));
    return Status();
  }

  Result<int64_t> Number(const char* column, std::string_view text) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range)
      return Error("{} '{}' does not fit into 63 bits", column, text);
    if (error != std::errc() || end != text.data() + text.size()) {
      return Error("{}: expected a decimal number, found '{}'", column, text);
    }
    if (value < 0) return Error("{} {} is negative", column, value);
    return value;
  }

  const std::string& name_;
  int64_t line_number_ = 0;
  Columns columns_;
  std::unordered_map<std::string, int64_t> line_of_id_;
};

}  // namespace

Result<IntervalTable> ParseIntervalCsv(std::string_view text, const std::string& name) {
  return Parser(name).Parse(text);
}

std::string FormatLayoutCsv(const IntervalTable& table, std::span<const int64_t> offsets) {
  std::string text = table.lines.front();
  if (table.offset_column < 0) text += ",offset";
  text += table.line_end;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const std::string& line = table.lines[i + 1];
    if (table.offset_column < 0) {
      text += fmt::format("{},{}", line, offsets[i]);
    } else {
      const std::vector<std::string_view> fields = SplitFields(line);
      for (size_t column = 0; column < fields.size(); ++column) {
        if (column > 0) text += ',';
        text += static_cast<int>(column) == table.offset_column ? std::to_string(offsets[i])
                                                                : std::string(fields[column]);
      }
    }
    text += table.line_end;
  }
  return text;
}

}  // namespace lamina
