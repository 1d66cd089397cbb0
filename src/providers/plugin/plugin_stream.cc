#include "providers/plugin/plugin_stream.h"

#include "base/error.h"
#include "providers/plugin/host_status.h"
#include "providers/plugin/plugin_table.h"

namespace lamina::plugin {
namespace {

class PluginNotification : public Notification {
 public:
  static Status Check(const LaminaSyncNotificationImpl* notification) {
    constexpr std::string_view kWhat = "its notification";
    LAMINA_RETURN_IF_ERROR(CheckTable(notification, kWhat));
    LAMINA_RETURN_IF_ERROR(RequireEntry(notification->Release, kWhat, "Release"));
    LAMINA_RETURN_IF_ERROR(RequireEntry(notification->Activate, kWhat, "Activate"));
    LAMINA_RETURN_IF_ERROR(RequireEntry(notification->WaitOnDevice, kWhat, "WaitOnDevice"));
    return RequireEntry(notification->WaitOnHost, kWhat, "WaitOnHost");
  }

  PluginNotification(LaminaSyncNotificationImpl& notification, Device device)
      : notification_(notification), device_(device) {}
  ~PluginNotification() override { notification_.Release(&notification_); }
  PluginNotification(const PluginNotification&) = delete;
  PluginNotification& operator=(const PluginNotification&) = delete;

  Status Record() override { return Take(notification_.Activate(&notification_)); }
  Status WaitOnStream(Stream& consumer) override {
    auto* stream = dynamic_cast<PluginStream*>(&consumer);
    // A stream of another provider cannot be told: the host waits for it.
    if (!stream) return WaitOnHost();
    return Take(notification_.WaitOnDevice(&notification_, &stream->impl()));
  }
  Status WaitOnHost() override { return Take(notification_.WaitOnHost(&notification_)); }

 private:
  Status Take(LaminaStatus* status) const {
    return status ? TakeStatus(status, device_.ToString()) : Status();
  }

  LaminaSyncNotificationImpl& notification_;
  const Device device_;
};

class DoneNotification : public Notification {
 public:
  Status Record() override { return {}; }
  Status WaitOnStream(Stream&) override { return {}; }
  Status WaitOnHost() override { return {}; }
};

class SynchronousStream : public Stream {
 public:
  explicit SynchronousStream(Device device) : device_(device) {}
  Device device() const override { return device_; }
  void* handle() const override { return nullptr; }
  Status Flush() override { return {}; }
  Status Synchronize() override { return {}; }
  Result<std::unique_ptr<Notification>> CreateNotification() override {
    return std::unique_ptr<Notification>(std::make_unique<DoneNotification>());
  }

 private:
  const Device device_;
};

}  // namespace

std::unique_ptr<Stream> MakeSynchronousStream(Device device) {
  return std::make_unique<SynchronousStream>(device);
}

Status PluginStream::Check(const LaminaSyncStreamImpl* stream) {
  constexpr std::string_view kWhat = "its stream";
  LAMINA_RETURN_IF_ERROR(CheckTable(stream, kWhat));
  LAMINA_RETURN_IF_ERROR(RequireEntry(stream->Release, kWhat, "Release"));
  LAMINA_RETURN_IF_ERROR(RequireEntry(stream->CreateNotification, kWhat, "CreateNotification"));
  return RequireEntry(stream->Synchronize, kWhat, "Synchronize");
}

Status PluginStream::Flush() {
  if (!stream_.Flush) return Status();
  return TakeStatus(stream_.Flush(&stream_), device_.ToString());
}

Status PluginStream::Synchronize() { return TakeStatus(stream_.Synchronize(&stream_), device_.ToString()); }

Result<std::unique_ptr<Notification>> PluginStream::CreateNotification() {
  LaminaSyncNotificationImpl* notification = nullptr;
  LAMINA_RETURN_IF_ERROR(TakeStatus(stream_.CreateNotification(&stream_, &notification), device_.ToString()));
  LAMINA_RETURN_IF_ERROR(PluginNotification::Check(notification));
  return std::unique_ptr<Notification>(std::make_unique<PluginNotification>(*notification, device_));
}

}  // namespace lamina::plugin
