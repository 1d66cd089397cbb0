// Streams and notifications of the simulated accelerator.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "device.h"
#include "lamina/lamina_ep.h"
#include "queue.h"

namespace sim {

// Work on one of a device's queues that belongs together. After an error the rest of its work is left out,
// until the host has asked for the error with Synchronize.
class Stream : public LaminaSyncStreamImpl {
 public:
  // Released by the host.
  static LaminaSyncStreamImpl* Make(const LaminaEpApi& api, std::shared_ptr<Device> device,
                                    LaminaStreamPurpose purpose);

  // The stream behind what the host passes.
  static Stream& From(LaminaSyncStreamImpl* stream) { return *static_cast<Stream*>(stream); }

  Device& device() { return *device_; }

  // Puts work on the queue and returns at once. An error of the work becomes the stream's.
  void Put(std::function<Outcome()> work);
  // Puts work on the queue and waits for it. Its error is returned and not kept; where the stream has an
  // error already, that is returned and the work left out.
  Outcome PutAndWait(const std::function<Outcome()>& work);
  // An event that completes after the work that is on the stream now.
  std::shared_ptr<Event> Mark();
  // Work put here from now on begins after the event, and not at all where that brings an error.
  void WaitFor(std::shared_ptr<Event> event);
  // The first error since the last call.
  Outcome Synchronize();

 private:
  // Shared with the work on the queue, which may outlive the stream.
  struct State {
    std::mutex mutex;
    Outcome error;
    Outcome Get() {
      const std::lock_guard lock(mutex);
      return error;
    }
    void Set(const Outcome& outcome) {
      const std::lock_guard lock(mutex);
      if (error.ok()) error = outcome;
    }
  };

  Stream(const LaminaEpApi& api, std::shared_ptr<Device> device, LaminaStreamPurpose purpose);
  ~Stream();

  const LaminaEpApi& api_;
  const std::shared_ptr<Device> device_;
  Queue& queue_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace sim
