// Streams and notifications of a plugin.
#pragma once

#include <memory>

#include "lamina/lamina_ep.h"
#include "provider/stream.h"

namespace lamina::plugin {

// Errors do not name the device: who waits for several streams says which it was.
class PluginStream : public Stream {
 public:
  // INTERNAL where a required entry is missing.
  static Status Check(const LaminaSyncStreamImpl* stream);
  // Takes `stream`, which was checked; released when destroyed.
  PluginStream(LaminaSyncStreamImpl& stream, Device device) : stream_(stream), device_(device) {}
  ~PluginStream() override { stream_.Release(&stream_); }
  PluginStream(const PluginStream&) = delete;
  PluginStream& operator=(const PluginStream&) = delete;

  Device device() const override { return device_; }
  // The plugin's object: what KernelContext_GetStream hands back to it.
  void* handle() const override { return &stream_; }
  Status Flush() override;
  Status Synchronize() override;
  Result<std::unique_ptr<Notification>> CreateNotification() override;

  LaminaSyncStreamImpl& impl() const { return stream_; }

 private:
  LaminaSyncStreamImpl& stream_;
  const Device device_;
};

// The stream of a device whose kernels and copies are done when they return.
std::unique_ptr<Stream> MakeSynchronousStream(Device device);

}  // namespace lamina::plugin
