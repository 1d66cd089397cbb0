#include "base/os.h"

#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include "base/cgroup.h"

namespace lamina {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

CgroupLimits OwnCgroupLimits() { return ReadCgroupLimits(ReadText("/proc/self/cgroup"), "/sys/fs/cgroup"); }

// Logical CPUs in the affinity mask of the process.
std::vector<int> AffinityCpus() {
  // The kernel refuses a mask smaller than its own; machines of more than CPU_SETSIZE CPUs exist.
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 20; capacity *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(capacity),
                                                                [](cpu_set_t* set) { CPU_FREE(set); });
    const size_t bytes = CPU_ALLOC_SIZE(capacity);
    if (!mask || sched_getaffinity(0, bytes, mask.get()) != 0) continue;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, mask.get())) cpus.push_back(cpu);
    }
    return cpus;
  }
  return {};
}

// Names the physical core of a logical CPU: the list of its SMT siblings, itself included.
std::string CoreOf(int cpu) {
  const std::string siblings =
      ReadText("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
  return siblings.empty() ? std::to_string(cpu) : siblings;
}

// The value in kB of a line "Name:   123 kB" of a /proc file, in bytes; 0 where absent.
uint64_t ProcBytes(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(name + ":", 0) != 0) continue;
    std::istringstream value(line.substr(name.size() + 1));
    uint64_t kib = 0;
    return value >> kib ? kib * 1024 : 0;
  }
  return 0;
}

}  // namespace

int64_t PageSizeBytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

int AvailableCores() {
  std::set<std::string> cores;
  for (const int cpu : AffinityCpus()) cores.insert(CoreOf(cpu));
  auto count = static_cast<int64_t>(cores.size());
  if (const auto quota = OwnCgroupLimits().cpus) count = std::min(count, static_cast<int64_t>(*quota));
  return static_cast<int>(std::max<int64_t>(count, 1));
}

HostMemory GetHostMemory() {
  HostMemory memory;
  memory.total_bytes = ProcBytes("/proc/meminfo", "MemTotal");
  memory.available_bytes = ProcBytes("/proc/meminfo", "MemAvailable");
  const CgroupLimits limits = OwnCgroupLimits();
  if (limits.memory_limit_bytes)
    memory.total_bytes = std::min(memory.total_bytes, *limits.memory_limit_bytes);
  if (limits.memory_available_bytes) {
    memory.available_bytes = std::min(memory.available_bytes, *limits.memory_available_bytes);
  }
  return memory;
}

uint64_t ResidentBytes() { return ProcBytes("/proc/self/status", "VmRSS"); }

uint64_t PeakResidentBytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

uint64_t UnmappedResidentBytes() {
  return ProcBytes("/proc/self/status", "RssAnon") + ProcBytes("/proc/self/status", "RssShmem");
}

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    if (start != std::string::npos) return line.substr(start);
  }
  return "unknown";
}

std::string ExecutablePath() {
  std::string path(size_t{64} << 10, '\0');
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  path.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return path;
}

bool IsTerminal(int file_descriptor) { return isatty(file_descriptor) == 1; }

int TerminalColumns(int file_descriptor, int otherwise) {
  winsize size{};
  if (ioctl(file_descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
  return size.ws_col;
}

}  // namespace lamina
