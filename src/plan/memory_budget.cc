#include "plan/memory_budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/text.h"

namespace lamina {

Result<MemoryAmount> MemoryAmount::Parse(std::string_view text) {
  const auto wrong = [&] {
    return InvalidArgumentError("expected an amount of memory such as 6GiB, 75% or free-512MiB, found '{}'",
                                text);
  };
  MemoryAmount amount;
  amount.text_ = std::string(TrimSpaces(text));
  std::string_view rest = amount.text_;
  if (rest.ends_with('%')) {
    rest.remove_suffix(1);
    rest = TrimSpaces(rest);
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), amount.percent_);
    const bool is_number = error == std::errc() && end == rest.data() + rest.size() && !rest.empty();
    if (!is_number || !(amount.percent_ > 0 && amount.percent_ <= 100)) return wrong();
    amount.kind_ = Kind::kPercent;
    return amount;
  }
  if (rest.starts_with("free")) {
    amount.kind_ = Kind::kFreeLess;
    rest = TrimSpaces(rest.substr(4));
    if (rest.empty()) return amount;
    if (!rest.starts_with('-')) return wrong();
    rest = TrimSpaces(rest.substr(1));
  }
  const Result<uint64_t> bytes = ParseByteSize(rest);
  if (!bytes.ok()) return wrong();
  amount.bytes_ = *bytes;
  return amount;
}

Result<uint64_t> MemoryAmount::Resolve(uint64_t total_bytes, uint64_t free_bytes) const {
  if (kind_ == Kind::kBytes) return bytes_;
  if (total_bytes == 0) {
    return InvalidArgumentError("'{}' is relative to a device whose memory is not known", text_);
  }
  if (kind_ == Kind::kPercent) {
    return static_cast<uint64_t>(std::floor(static_cast<double>(total_bytes) * percent_ / 100.0));
  }
  if (bytes_ >= free_bytes) {
    return InvalidArgumentError("'{}' leaves nothing of {} free bytes", text_, free_bytes);
  }
  return free_bytes - bytes_;
}

Result<std::vector<DeviceBudget>> ParseDeviceBudgets(std::string_view text) {
  std::vector<DeviceBudget> budgets;
  for (const std::string_view entry : SplitTrimmed(text, ';')) {
    const size_t equals = entry.find('=');
    DeviceBudget budget;
    if (equals != std::string_view::npos) {
      budget.designator = std::string(TrimSpaces(entry.substr(0, equals)));
      if (budget.designator.empty()) return InvalidArgumentError("no device before '=' in '{}'", entry);
    }
    Result<MemoryAmount> amount =
        MemoryAmount::Parse(equals == std::string_view::npos ? entry : entry.substr(equals + 1));
    if (!amount.ok()) return amount.status().WithContext(fmt::format("memory budget '{}'", entry));
    budget.amount = *std::move(amount);
    const bool twice = std::any_of(budgets.begin(), budgets.end(), [&](const DeviceBudget& other) {
      return other.designator == budget.designator;
    });
    if (twice) {
      return InvalidArgumentError("two memory budgets for {}",
                                  budget.designator.empty() ? "every GPU" : budget.designator);
    }
    budgets.push_back(std::move(budget));
  }
  return budgets;
}

}  // namespace lamina
