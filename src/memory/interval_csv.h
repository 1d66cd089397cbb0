// Intervals in the CSV format of minimalloc's benchmarks: a header `id,lower,upper,size` in any order, one
// buffer a line, lifetimes half-open. Optional columns: `alignment`, and `offset`, where a value fixes the
// buffer. Other columns are kept and mean nothing. Lines end with LF or CRLF; fields are not quoted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/status.h"
#include "memory/offset_planner.h"

namespace lamina {

struct IntervalTable {
  std::vector<std::string> ids;  // any text, unique
  std::vector<Interval> intervals;

  // To write it back as it was:
  std::vector<std::string> lines;  // header first, without line ends
  std::string line_end;            // of the header
  int offset_column = -1;          // -1: there is none
};

// INVALID_ARGUMENT, its text beginning with "NAME:LINE: ", for a missing or repeated column, a line with
// another number of fields, an id that is empty or was there before, and numbers that are not decimal,
// negative or too large for 63 bits, a lifetime that is empty, an alignment that is no power of two.
Result<IntervalTable> ParseIntervalCsv(std::string_view text, const std::string& name);

// The table with the column `offset` set, or appended. REQUIRES: one offset per interval.
std::string FormatLayoutCsv(const IntervalTable& table, std::span<const int64_t> offsets);

}  // namespace lamina
