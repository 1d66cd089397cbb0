#include <cuda_runtime.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "providers/cuda/device/bandwidth.cuh"
#include "providers/cuda/device/device_api.h"
#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

template <typename Call>
int On(int device, Call call) {
  const CurrentDevice current(device);
  return Outcome(current.error() == cudaSuccess ? call() : current.error());
}

cudaStream_t StreamOf(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t EventOf(void* event) { return static_cast<cudaEvent_t>(event); }

cudaMemLocation LocationOf(int device) {
  cudaMemLocation location = {};
  location.type = cudaMemLocationTypeDevice;
  location.id = device;
  return location;
}

const KernelApi* Kernels() { return &KernelTable(); }

int DeviceCount(int* count) { return Outcome(cudaGetDeviceCount(count)); }

int DriverVersion(int* version) { return Outcome(cudaDriverGetVersion(version)); }

int Facts(int device, DeviceFacts* facts) {
  cudaDeviceProp properties;
  cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return Outcome(error);
  std::memset(facts, 0, sizeof(*facts));
  std::strncpy(facts->name, properties.name, sizeof(facts->name) - 1);
  facts->memory_bytes = properties.totalGlobalMem;
  facts->granularity_bytes = uint64_t{2} << 20;  // cudaMalloc takes memory from the driver in such pages
  facts->compute_capability_major = properties.major;
  facts->compute_capability_minor = properties.minor;
  facts->multiprocessors = properties.multiProcessorCount;
  int clock_khz = 0;
  error = cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, device);
  if (error == cudaSuccess) {  // double data rate
    facts->memory_bandwidth_bytes_per_s = 2.0 * clock_khz * 1e3 * (properties.memoryBusWidth / 8);
  }
  int read_only = 0;
  error = cudaDeviceGetAttribute(&read_only, cudaDevAttrHostRegisterReadOnlySupported, device);
  facts->can_register_read_only = error == cudaSuccess ? read_only : 0;
  cudaGetLastError();
  return 0;
}

const char* ErrorText(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

int ErrorIsSticky(int error) {
  switch (static_cast<cudaError_t>(error)) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorUnknown:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorCudartUnloading:
      return 1;
    default:
      return 0;
  }
}

int CreateContext(int device) {
  return On(device, [] { return cudaFree(nullptr); });
}

int MemoryInfo(int device, uint64_t* free_bytes, uint64_t* total_bytes) {
  size_t free_size = 0;
  size_t total_size = 0;
  const int error = On(device, [&] { return cudaMemGetInfo(&free_size, &total_size); });
  *free_bytes = free_size;
  *total_bytes = total_size;
  return error;
}

int Alloc(int device, uint64_t bytes, void** memory) {
  return On(device, [=] { return cudaMalloc(memory, bytes); });
}

int Free(int device, void* memory) {
  return On(device, [=] { return cudaFree(memory); });
}

int CreatePool(int device, uint64_t release_threshold_bytes, void** pool) {
  return On(device, [=] {
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = LocationOf(device);
    cudaMemPool_t created = nullptr;
    cudaError_t error = cudaMemPoolCreate(&created, &properties);
    if (error != cudaSuccess) return error;
    uint64_t threshold = release_threshold_bytes;
    error = cudaMemPoolSetAttribute(created, cudaMemPoolAttrReleaseThreshold, &threshold);
    if (error != cudaSuccess) {
      cudaMemPoolDestroy(created);
      return error;
    }
    *pool = created;
    return cudaSuccess;
  });
}

int DestroyPool(int device, void* pool) {
  return On(device, [=] { return cudaMemPoolDestroy(static_cast<cudaMemPool_t>(pool)); });
}

int AllocFromPool(int device, void* pool, uint64_t bytes, void* stream, void** memory) {
  return On(device, [=] {
    return cudaMallocFromPoolAsync(memory, bytes, static_cast<cudaMemPool_t>(pool), StreamOf(stream));
  });
}

int FreeToPool(int device, void* memory, void* stream) {
  return On(device, [=] { return cudaFreeAsync(memory, StreamOf(stream)); });
}

int AllocPinned(int device, uint64_t bytes, void** memory) {
  return On(device, [=] { return cudaHostAlloc(memory, bytes, cudaHostAllocPortable); });
}

int FreePinned(int device, void* memory) {
  return On(device, [=] { return cudaFreeHost(memory); });
}

int RegisterHost(int device, const void* memory, uint64_t bytes, int read_only) {
  const unsigned flags = cudaHostRegisterPortable | (read_only ? cudaHostRegisterReadOnly : 0u);
  return On(device, [=] { return cudaHostRegister(const_cast<void*>(memory), bytes, flags); });
}

int UnregisterHost(int device, const void* memory) {
  return On(device, [=] { return cudaHostUnregister(const_cast<void*>(memory)); });
}

int CreateStream(int device, void** stream) {
  return On(device, [=] {
    cudaStream_t created = nullptr;
    const cudaError_t error = cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking);
    *stream = created;
    return error;
  });
}

int DestroyStream(int device, void* stream) {
  return On(device, [=] { return cudaStreamDestroy(StreamOf(stream)); });
}

int SynchronizeStream(int device, void* stream) {
  return On(device, [=] { return cudaStreamSynchronize(StreamOf(stream)); });
}

int CreateEvent(int device, void** event) {
  return On(device, [=] {
    cudaEvent_t created = nullptr;
    const cudaError_t error = cudaEventCreateWithFlags(&created, cudaEventDisableTiming);
    *event = created;
    return error;
  });
}

int DestroyEvent(int device, void* event) {
  return On(device, [=] { return cudaEventDestroy(EventOf(event)); });
}

int RecordEvent(int device, void* event, void* stream) {
  return On(device, [=] { return cudaEventRecord(EventOf(event), StreamOf(stream)); });
}

int SynchronizeEvent(int device, void* event) {
  // The runtime's own ways of waiting cost more: one spins on a core that a reader could use, the other makes
  // the GPU interrupt after every copy (5 % of the rate of copies of 4 MiB on an H200).
  return On(device, [=] {
    cudaError_t error = cudaEventQuery(EventOf(event));
    while (error == cudaErrorNotReady) {
      std::this_thread::sleep_for(std::chrono::microseconds(10));
      error = cudaEventQuery(EventOf(event));
    }
    return error;
  });
}

int WaitForEvent(int device, void* stream, void* event) {
  return On(device, [=] { return cudaStreamWaitEvent(StreamOf(stream), EventOf(event), 0); });
}

int BeginRecording(int device, void* stream) {
  return On(device, [=] { return cudaStreamBeginCapture(StreamOf(stream), cudaStreamCaptureModeRelaxed); });
}

int EndRecording(int device, void* stream, void** graph) {
  return On(device, [=] {
    cudaGraph_t recorded = nullptr;
    cudaError_t error = cudaStreamEndCapture(StreamOf(stream), &recorded);
    if (error != cudaSuccess) return error;
    cudaGraphExec_t executable = nullptr;
    error = cudaGraphInstantiate(&executable, recorded, 0);
    cudaGraphDestroy(recorded);
    if (error != cudaSuccess) return error;
    // What launches need on the device is there from now on.
    error = cudaGraphUpload(executable, StreamOf(stream));
    if (error == cudaSuccess) error = cudaStreamSynchronize(StreamOf(stream));
    if (error != cudaSuccess) {
      cudaGraphExecDestroy(executable);
      return error;
    }
    *graph = executable;
    return cudaSuccess;
  });
}

int LaunchGraph(int device, void* graph, void* stream) {
  return On(device, [=] { return cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), StreamOf(stream)); });
}

int DestroyGraph(int device, void* graph) {
  return On(device, [=] { return cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); });
}

int Copy(int device, void* destination, const void* source, uint64_t bytes, void* stream) {
  return On(device, [=] {
    if (stream) return cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, StreamOf(stream));
    // On the thread's own stream, so that copies of several threads do not wait for each other.
    cudaError_t error = cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, cudaStreamPerThread);
    if (error == cudaSuccess) error = cudaStreamSynchronize(cudaStreamPerThread);
    return error;
  });
}

int MeasureBandwidth(int device, double* bytes_per_s) {
  return On(device, [=] { return MeasureMemoryBandwidth(bytes_per_s); });
}

constexpr DeviceApi kApi = {
    kDeviceApiVersion,
    DeviceCount,
    DriverVersion,
    Facts,
    ErrorText,
    ErrorIsSticky,
    CreateContext,
    MemoryInfo,
    Alloc,
    Free,
    CreatePool,
    DestroyPool,
    AllocFromPool,
    FreeToPool,
    AllocPinned,
    FreePinned,
    RegisterHost,
    UnregisterHost,
    CreateStream,
    DestroyStream,
    SynchronizeStream,
    CreateEvent,
    DestroyEvent,
    RecordEvent,
    SynchronizeEvent,
    WaitForEvent,
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
