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
    if (!status) return Status();
    return TakeStatus(status, device_.ToString()).WithContext(device_.ToString());
  }

  LaminaSyncNotificationImpl& notification_;
  const Device device_;
};

}  // namespace

Status PluginStream::Check(const LaminaSyncStreamImpl* stream) {
  constexpr std::string_view kWhat = "its stream";
  LAMINA_RETURN_IF_ERROR(CheckTable(stream, kWhat));
  LAMINA_RETURN_IF_ERROR(RequireEntry(stream->Release, kWhat, "Release"));
  LAMINA_RETURN_IF_ERROR(RequireEntry(stream->CreateNotification, kWhat, "CreateNotification"));
  return RequireEntry(stream->Synchronize, kWhat, "Synchronize");
}

Status PluginStream::Flush() {
  if (!stream_.Flush) return Status();
  return TakeStatus(stream_.Flush(&stream_), device_.ToString()).WithContext(device_.ToString());
}

Status PluginStream::Synchronize() {
  return TakeStatus(stream_.Synchronize(&stream_), device_.ToString()).WithContext(device_.ToString());
}

Result<std::unique_ptr<Notification>> PluginStream::CreateNotification() {
  LaminaSyncNotificationImpl* notification = nullptr;
  LAMINA_RETURN_IF_ERROR(
      TakeStatus(stream_.CreateNotification(&stream_, &notification)).WithContext(device_.ToString()));
  LAMINA_RETURN_IF_ERROR(PluginNotification::Check(notification).WithContext(device_.ToString()));
  return std::unique_ptr<Notification>(std::make_unique<PluginNotification>(*notification, device_));
}

}  // namespace lamina::plugin
