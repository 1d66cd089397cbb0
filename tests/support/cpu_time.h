// Processor time, for tests that bound how long something takes: it does not grow when the machine is busy.
#pragma once

namespace lamina::testing {

// User and system time of all threads of this process, in seconds.
double CpuSeconds();

}  // namespace lamina::testing
