// What the two halves of the CUDA provider say to each other. The device half, with everything that needs
// CUDA, is a library of its own (liblamina_cuda.so) that the host half loads while the process runs, so that
// Lamina starts where there is no driver. Plain C types only: nothing of Lamina is linked into it twice.
//
// Functions return a cudaError_t as int: 0 is success. Any thread may call any of them; each works on the
// device it is given or that its stream or event belongs to, and leaves the thread's current device as it
// found it. Memory, streams and events are the runtime's own pointers and handles.
#pragma once

#include <cstdint>

#include "providers/cuda/device/kernel_api.h"

namespace lamina::cuda {

// Both halves come from one build: a library with another number is refused. Raised with every change here.
constexpr uint32_t kDeviceApiVersion = 3;
constexpr const char* kDeviceApiSymbol = "lamina_cuda_device_api";

struct DeviceFacts {
  char name[256];
  uint64_t memory_bytes;
  uint64_t granularity_bytes;           // of allocations in its own memory
  double memory_bandwidth_bytes_per_s;  // from clock and bus width
  int32_t compute_capability_major;
  int32_t compute_capability_minor;
  int32_t multiprocessors;
  int32_t can_register_read_only;  // cudaDevAttrHostRegisterReadOnlySupported
};

struct DeviceApi {
  uint32_t version;

  // Asks the driver without creating a context.
  int (*device_count)(int* count);
  int (*driver_version)(int* version);  // 13000 for 13.0
  int (*device_facts)(int device, DeviceFacts* facts);
  const char* (*error_text)(int error);
  // Whether nothing more can be done on the device after this error.
  int (*error_is_sticky)(int error);

  // The device's primary context; takes a fraction of a second the first time.
  int (*create_context)(int device);
  int (*memory_info)(int device, uint64_t* free_bytes, uint64_t* total_bytes);

  int (*alloc)(int device, uint64_t bytes, void** memory);
  int (*free)(int device, void* memory);
  // A pool that keeps up to release_threshold_bytes of freed memory.
  int (*create_pool)(int device, uint64_t release_threshold_bytes, void** pool);
  int (*destroy_pool)(int device, void* pool);
  // On `stream`: the memory may be what earlier work on it has not finished with.
  int (*alloc_from_pool)(int device, void* pool, uint64_t bytes, void* stream, void** memory);
  int (*free_to_pool)(int device, void* memory, void* stream);

  int (*alloc_pinned)(int device, uint64_t bytes, void** memory);
  int (*free_pinned)(int device, void* memory);
  // Pins pages for every device of the process.
  int (*register_host)(int device, const void* memory, uint64_t bytes, int read_only);
  int (*unregister_host)(int device, const void* memory);

  int (*create_stream)(int device, void** stream);
  int (*destroy_stream)(int device, void* stream);
  int (*synchronize_stream)(int device, void* stream);
  int (*create_event)(int device, void** event);
  int (*destroy_event)(int device, void* event);
  int (*record_event)(int device, void* event, void* stream);
  int (*synchronize_event)(int device, void* event);
  int (*wait_for_event)(int device, void* stream, void* event);

  // Work that the calling thread puts on `stream` is kept, until end_recording makes a graph of it. Nothing
  // is left recording where that fails.
  int (*begin_recording)(int device, void* stream);
  int (*end_recording)(int device, void* stream, void** graph);
  int (*launch_graph)(int device, void* graph, void* stream);
  int (*destroy_graph)(int device, void* graph);

  // Directions are found from the addresses. `stream` null: done on return, with a stream of the copy's own.
  int (*copy)(int device, void* destination, const void* source, uint64_t bytes, void* stream);

  // The larger of what a kernel reads and what a copy reads and writes.
  int (*measure_bandwidth)(int device, double* bytes_per_s);

  // The kernels; see kernel_api.h.
  const KernelApi* (*kernels)();
};

}  // namespace lamina::cuda
