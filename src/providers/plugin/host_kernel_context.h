// KernelContext and PrepackContext behind the functions of LaminaEpApi.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "lamina/lamina_ep.h"
#include "provider/kernel.h"
#include "provider/kernel_context.h"
#include "providers/plugin/device_map.h"
#include "providers/plugin/host_node.h"

struct LaminaKernelInfo {
  const LaminaNode* node = nullptr;
  const LaminaEp* ep = nullptr;
};

// One call of Compute; used by one thread at a time.
struct LaminaKernelContext {
  LaminaKernelContext(lamina::KernelContext& host_context, const lamina::plugin::DeviceMap& device_map)
      : context(host_context), devices(device_map) {}

  // OK where every output that is wanted was made and no request failed. A plugin that went on after a failed
  // request has not computed what it should have.
  lamina::Status Outcome() const;

  lamina::KernelContext& context;
  const lamina::plugin::DeviceMap& devices;
  uint64_t made_outputs = 0;       // bit i, below 64
  lamina::Status first_failure;    // of a request for memory
  std::deque<LaminaTensor> views;  // results of queries, at addresses that stay
  LaminaKvView kv_view{};
};

struct LaminaPrepackContext {
  LaminaPrepackContext(lamina::PrepackContext& host_context, const lamina::plugin::DeviceMap& device_map)
      : context(host_context), devices(device_map) {}
  lamina::PrepackContext& context;
  const lamina::plugin::DeviceMap& devices;
  std::deque<LaminaTensor> views;
};

namespace lamina::plugin {

void FillKernelContextApi(LaminaEpApi& api);

}  // namespace lamina::plugin
