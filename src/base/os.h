// Facts about the machine and the process that the operating system knows. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace lamina {

int64_t PageSizeBytes();

// Physical cores that the process may use, at least 1: those in its affinity mask with SMT siblings counted
// once, and no more than the CPU quota of its control group (rounded down).
int AvailableCores();

struct HostMemory {
  uint64_t total_bytes = 0;      // of the machine, or the control group's limit where that is lower
  uint64_t available_bytes = 0;  // what can be allocated without swapping, within the same limit
};
HostMemory GetHostMemory();

// Resident memory of this process (mapped files included), current and highest so far; 0 where unknown.
uint64_t ResidentBytes();
uint64_t PeakResidentBytes();
// Resident memory of this process without pages of mapped files: anonymous, shared and pinned; 0 where
// unknown.
uint64_t UnmappedResidentBytes();

// "AMD EPYC 9654 96-Core Processor", or "unknown".
std::string CpuModel();

// Of the program that runs; empty where unknown.
std::string ExecutablePath();

bool IsTerminal(int file_descriptor);
// Width of the terminal, or `otherwise` where it is none.
int TerminalColumns(int file_descriptor, int otherwise = 80);

}  // namespace lamina
