// Kernels whose work on a device can be recorded once and done again (Stream::BeginRecording).
#pragma once

namespace lamina {

// A second base of kernels that can. Their Compute puts work on the stream that is the same whenever the
// shapes and addresses of tensors, scratch and KvView and the values of host inputs are; it waits for nothing
// and reads no device memory on the host.
class RecordableKernel {
 public:
  virtual ~RecordableKernel() = default;
  // Whether Compute needs the input where a KV cache is bound to the node. Else it may be absent, and what
  // only makes such inputs is not run: the lengths of an attention node, which the cache has too.
  virtual bool NeedsWithCache(int input) const {
    static_cast<void>(input);
    return true;
  }
};

}  // namespace lamina
