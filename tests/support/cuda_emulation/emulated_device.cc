// A device half whose device is the host: memory is the host's, streams are empty because work is done when
// it is launched, and kernels are the sources of the real one under cuda_emulation.h.
#include <cstdlib>
#include <cstring>

#include "providers/cuda/device/device_api.h"
#include "providers/cuda/device/product.cuh"

namespace lamina::cuda {

// There is no vendor's library.
int LaunchLibraryProduct(const LaunchTarget&, const ProductArguments&, bool* done) {
  *done = false;
  return 0;
}

namespace {

constexpr uint64_t kAlignment = 256;
constexpr int kErrorMemoryAllocation = 2;
constexpr int kFresh = 0xEE;  // memory that nothing has written

int DeviceCount(int* count) {
  *count = 1;
  return 0;
}
int DriverVersion(int* version) {
  *version = 13000;
  return 0;
}
int Facts(int, DeviceFacts* facts) {
  std::memset(facts, 0, sizeof *facts);
  std::strncpy(facts->name, "emulated CUDA device", sizeof facts->name - 1);
  facts->memory_bytes = uint64_t{4} << 30;
  facts->granularity_bytes = uint64_t{64} << 10;
  facts->compute_capability_major = 9;
  facts->multiprocessors = 4;
  return 0;
}
const char* ErrorText(int error) { return error == 801 ? "operation not supported" : "emulated error"; }
int Never(int) { return 0; }
int Nothing(int) { return 0; }
int MemoryInfo(int, uint64_t* free_bytes, uint64_t* total_bytes) {
  *free_bytes = *total_bytes = uint64_t{4} << 30;
  return 0;
}
int Alloc(int, uint64_t bytes, void** memory) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  const uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  *memory = rounded > kMost ? nullptr : std::aligned_alloc(kAlignment, rounded);
  if (!*memory) return kErrorMemoryAllocation;
  std::memset(*memory, kFresh, rounded);
  return 0;
}
int Free(int, void* memory) {
  std::free(memory);
  return 0;
}
int CreatePool(int, uint64_t, void** pool) {
  static int pool_of_all = 0;
  *pool = &pool_of_all;
  return 0;
}
int Ignore(int, void*) { return 0; }
int AllocFromPool(int device, void*, uint64_t bytes, void*, void** memory) {
  return Alloc(device, bytes, memory);
}
int FreeToPool(int device, void* memory, void*) { return Free(device, memory); }
int RegisterHost(int, const void*, uint64_t, int) { return 0; }
int UnregisterHost(int, const void*) { return 0; }
int CreateHandle(int, void** handle) {
  static int handle_of_all = 0;
  *handle = &handle_of_all;
  return 0;
}
int IgnoreTwo(int, void*, void*) { return 0; }
int Copy(int, void* destination, const void* source, uint64_t bytes, void*) {
  emulation::Do([=] { std::memcpy(destination, source, bytes); });
  return 0;
}

using Graph = std::vector<std::function<void()>>;

int BeginRecording(int, void*) {
  emulation::BeginRecording();
  return 0;
}
int EndRecording(int, void*, void** graph) {
  *graph = new Graph(emulation::EndRecording());
  return 0;
}
int LaunchGraph(int, void* graph, void*) {
  for (const std::function<void()>& work : *static_cast<Graph*>(graph)) work();
  return 0;
}
int DestroyGraph(int, void* graph) {
  delete static_cast<Graph*>(graph);
  return 0;
}
int MeasureBandwidth(int, double* bytes_per_s) {
  *bytes_per_s = 1e9;
  return 0;
}
const KernelApi* Kernels() { return &KernelTable(); }

constexpr DeviceApi kApi = {
    kDeviceApiVersion,
    DeviceCount,
    DriverVersion,
    Facts,
    ErrorText,
    Never,
    Nothing,
    MemoryInfo,
    Alloc,
    Free,
    CreatePool,
    Ignore,
    AllocFromPool,
    FreeToPool,
    Alloc,
    Free,
    RegisterHost,
    UnregisterHost,
    CreateHandle,
    Ignore,
    Ignore,
    CreateHandle,
    Ignore,
    IgnoreTwo,
    Ignore,
    IgnoreTwo,
    BeginRecording,
    EndRecording,
    LaunchGraph,
    DestroyGraph,
    Copy,
    MeasureBandwidth,
    Kernels,
};

}  // namespace
}  // namespace lamina::cuda

extern "C" __attribute__((visibility("default"))) const lamina::cuda::DeviceApi* lamina_cuda_device_api() {
  return &lamina::cuda::kApi;
}
