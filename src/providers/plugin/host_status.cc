#include "providers/plugin/host_status.h"

namespace lamina::plugin {
namespace {

LaminaStatus* CreateStatus(LaminaStatusCode code, const char* message) noexcept {
  if (code == LAMINA_OK) return nullptr;
  try {
    return GiveStatus(Status(static_cast<StatusCode>(code), message ? message : ""));
  } catch (...) {
    return nullptr;
  }
}

LaminaStatus* CreateMemoryShortage(const char* message, uint64_t needed_bytes,
                                   uint64_t available_bytes) noexcept {
  try {
    return GiveStatus(
        Status::OutOfMemory(message ? message : "", MemoryShortage{"", needed_bytes, available_bytes, {}}));
  } catch (...) {
    return nullptr;
  }
}

LaminaStatusCode GetStatusCode(const LaminaStatus* status) noexcept {
  return status ? static_cast<LaminaStatusCode>(status->status.code()) : LAMINA_OK;
}

const char* GetStatusMessage(const LaminaStatus* status) noexcept {
  return status ? status->status.message().c_str() : "";
}

void ReleaseStatus(LaminaStatus* status) noexcept { delete status; }

}  // namespace

LaminaStatus* GiveStatus(const Status& status) noexcept {
  if (status.ok()) return nullptr;
  return new (std::nothrow) LaminaStatus{status};
}

Status TakeStatus(LaminaStatus* status, std::string_view device) {
  if (!status) return Status();
  const Status taken = std::move(status->status);
  delete status;
  if (const MemoryShortage* shortage = taken.memory_shortage(); shortage && shortage->device.empty()) {
    MemoryShortage named = *shortage;
    named.device = device;
    return Status::OutOfMemory(taken.message(), std::move(named));
  }
  if (taken.code() < StatusCode::kInvalidArgument || taken.code() > StatusCode::kInternal) {
    return InternalError("{} (with the status code {}, which does not exist)", taken.message(),
                         static_cast<int>(taken.code()));
  }
  return taken;
}

void FillStatusApi(LaminaEpApi& api) {
  api.CreateStatus = &CreateStatus;
  api.CreateMemoryShortage = &CreateMemoryShortage;
  api.GetStatusCode = &GetStatusCode;
  api.GetStatusMessage = &GetStatusMessage;
  api.ReleaseStatus = &ReleaseStatus;
}

}  // namespace lamina::plugin
