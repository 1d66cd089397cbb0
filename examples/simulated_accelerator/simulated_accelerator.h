/* What a program that knows the simulated accelerator can ask it and do to it, beyond lamina_ep.h: counters
 * and failures on demand. Found with LaminaEp::GetExtension under SIM_CONTROL_EXTENSION. Thread-safe. */
#ifndef SIMULATED_ACCELERATOR_H_
#define SIMULATED_ACCELERATOR_H_

/* C, as lamina_ep.h: checks of C++ style do not apply. NOLINTBEGIN */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIM_CONTROL_EXTENSION "sim.control"

/* Of one device, since it was made. */
typedef struct SimCounters {
  /* Memory, in multiples of the granularity. */
  uint64_t resident_bytes;
  uint64_t peak_bytes;
  uint64_t live_allocations;
  uint64_t allocations; /* ever */
  /* Copies that were done. Those between two devices count for the destination. */
  uint64_t copies_from_host;
  uint64_t copies_to_host;
  uint64_t copies_between_devices;
  uint64_t bytes_from_host;
  uint64_t bytes_to_host;
  uint64_t bytes_between_devices;
  uint64_t kernels;   /* that were run, packing of weights included */
  uint64_t in_flight; /* copies and kernels that were put on a queue and are not done */
  uint64_t live_streams;
  uint64_t runs; /* OnRunStart without OnRunEnd */
} SimCounters;

typedef enum SimFailure {
  SIM_FAIL_ALLOCATION = 0, /* one allocation: RESOURCE_EXHAUSTED */
  SIM_FAIL_COPY = 1,       /* one copy: IO, told when its stream is waited for */
  SIM_FAIL_KERNEL = 2,     /* one kernel: INTERNAL */
  SIM_LOSE_AT_COPY = 3,    /* from this copy on everything but freeing: DEVICE_LOST */
  SIM_LOSE_AT_KERNEL = 4   /* from this kernel on */
} SimFailure;

typedef struct SimControl {
  void* self; /* to be passed to the functions */
  int32_t (*GetNumDevices)(void* self);
  void (*GetCounters)(void* self, int32_t device, SimCounters* counters);
  /* Fails the nth of its kind from now on; 1 is the next. 0 takes the failure back. */
  void (*Inject)(void* self, int32_t device, SimFailure failure, uint64_t nth);
} SimControl;

#ifdef __cplusplus
}
#endif

/* NOLINTEND */
#endif /* SIMULATED_ACCELERATOR_H_ */
