#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>

namespace lamina {
namespace {

// The first word of a file as a number; nothing for "max", version 1's -1, or a file that is not there.
std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (!(file >> value) || value < 0) return std::nullopt;
  return static_cast<uint64_t>(value);
}

// The value of `key` in a file of "key value" lines, 0 where absent.
uint64_t ReadKey(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string name;
  uint64_t value = 0;
  while (file >> name >> value) {
    if (name == key) return value;
  }
  return 0;
}

template <typename T>
void LowerTo(std::optional<T>& limit, T value) {
  limit = limit ? std::min(*limit, value) : value;
}

void AddMemory(uint64_t limit, std::optional<uint64_t> usage, uint64_t reclaimable, CgroupLimits& limits) {
  constexpr uint64_t kUnlimited = uint64_t{1} << 62;  // version 1 writes a huge number for "no limit"
  if (limit >= kUnlimited) return;
  LowerTo(limits.memory_limit_bytes, limit);
  if (!usage) return;
  const uint64_t used = *usage > reclaimable ? *usage - reclaimable : 0;
  LowerTo(limits.memory_available_bytes, limit > used ? limit - used : 0);
}

void ReadVersion2(const std::string& group, CgroupLimits& limits) {
  std::ifstream cpu(group + "/cpu.max");  // "max 100000" or "150000 100000"
  double quota = 0;
  double period = 0;
  if (cpu >> quota >> period && quota > 0 && period > 0) LowerTo(limits.cpus, quota / period);
  if (const auto limit = ReadNumber(group + "/memory.max")) {
    AddMemory(*limit, ReadNumber(group + "/memory.current"), ReadKey(group + "/memory.stat", "inactive_file"),
              limits);
  }
}

void ReadVersion1Cpu(const std::string& group, CgroupLimits& limits) {
  const auto quota = ReadNumber(group + "/cpu.cfs_quota_us");
  const auto period = ReadNumber(group + "/cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0) {
    LowerTo(limits.cpus, static_cast<double>(*quota) / static_cast<double>(*period));
  }
}

void ReadVersion1Memory(const std::string& group, CgroupLimits& limits) {
  if (const auto limit = ReadNumber(group + "/memory.limit_in_bytes")) {
    AddMemory(*limit, ReadNumber(group + "/memory.usage_in_bytes"),
              ReadKey(group + "/memory.stat", "total_inactive_file"), limits);
  }
}

// Calls read(folder) for the group and each of its parents. Inside a container the path may name a group that
// is mounted as the root; its folder is then missing and only the root counts.
template <typename Read>
void ForEachLevel(const std::string& hierarchy, std::string path, Read read) {
  while (path.size() > 1) {
    read(hierarchy + path);
    path.resize(std::max<size_t>(path.rfind('/'), 1));
  }
  read(hierarchy);
}

bool HasController(const std::string& controllers, std::string_view wanted) {
  std::istringstream list(controllers);
  std::string name;
  while (std::getline(list, name, ',')) {
    if (name == wanted) return true;
  }
  return false;
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& membership, const std::string& mount) {
  CgroupLimits limits;
  std::istringstream lines(membership);
  std::string line;
  while (std::getline(lines, line)) {  // hierarchy-ID:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || second + 1 >= line.size() || line[second + 1] != '/') continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      ForEachLevel(mount, path, [&](const std::string& group) { ReadVersion2(group, limits); });
    }
    if (HasController(controllers, "cpu")) {
      ForEachLevel(mount + "/cpu", path, [&](const std::string& group) { ReadVersion1Cpu(group, limits); });
    }
    if (HasController(controllers, "memory")) {
      ForEachLevel(mount + "/memory", path,
                   [&](const std::string& group) { ReadVersion1Memory(group, limits); });
    }
  }
  return limits;
}

}  // namespace lamina
