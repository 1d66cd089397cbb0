// Reading tables that a plugin filled, no further than the version they were built for.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "lamina/lamina_ep.h"

namespace lamina::plugin {

inline constexpr uint32_t kOldestVersion = 1;
inline constexpr uint32_t kNewestVersion = LAMINA_EP_API_VERSION;

// UNSUPPORTED or INTERNAL with the reason where the version does not exist here.
inline Status CheckVersion(uint32_t version, std::string_view what) {
  if (version > kNewestVersion) {
    return UnsupportedError("{} was built for version {} of the provider interface; this Lamina has {} to {}",
                            what, version, kOldestVersion, kNewestVersion);
  }
  if (version < kOldestVersion) {
    return InternalError("{} says that it was built for version {} of the provider interface", what, version);
  }
  return Status();
}

// INTERNAL where the table is null, else CheckVersion.
template <typename Table>
Status CheckTable(const Table* table, std::string_view what) {
  if (!table) return InternalError("{} is null", what);
  return CheckVersion(table->lamina_version, what);
}

// INTERNAL naming the entry where a required one is null.
template <typename F>
Status RequireEntry(F entry, std::string_view what, std::string_view name) {
  if (entry) return Status();
  return InternalError("{}: the required entry {} is null", what, name);
}

// An entry that exists since version `since`; null in older tables, whose memory ends before it.
template <typename Table, typename F>
F EntrySince(uint32_t since, const Table& table, F Table::*entry) {
  return table.lamina_version >= since ? table.*entry : nullptr;
}

}  // namespace lamina::plugin
