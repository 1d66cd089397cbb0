// The bound that decoding on the CPU is measured against.
#pragma once

namespace lamina {

class ThreadPool;

// Bytes a second that the pool's threads read from memory together: the best of a few passes over a buffer
// larger than the caches. Takes about a fifth of a second and 256 MiB; 0 where there is no such memory.
double MeasureReadBandwidth(ThreadPool& threads);

}  // namespace lamina
