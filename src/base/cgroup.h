// What the control groups of this process allow (versions 1 and 2, nested groups): containers set their CPU
// and memory limits here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lamina {

struct CgroupLimits {
  std::optional<double> cpus;                      // quota / period, the smallest up the tree
  std::optional<uint64_t> memory_limit_bytes;      // the smallest up the tree
  std::optional<uint64_t> memory_available_bytes;  // the smallest limit - (usage - reclaimable file cache)
};

// `membership` is the text of /proc/self/cgroup, `mount` the folder where the hierarchies are mounted,
// usually /sys/fs/cgroup. What cannot be read counts as unlimited.
CgroupLimits ReadCgroupLimits(const std::string& membership, const std::string& mount);

}  // namespace lamina
