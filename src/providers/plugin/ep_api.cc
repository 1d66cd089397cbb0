#include "providers/plugin/ep_api.h"

#include "base/log.h"
#include "lamina/version.h"
#include "providers/plugin/host_graph.h"
#include "providers/plugin/host_kernel_context.h"
#include "providers/plugin/host_kernel_def.h"
#include "providers/plugin/host_node.h"
#include "providers/plugin/host_status.h"
#include "providers/plugin/plugin_loader.h"
#include "providers/plugin/plugin_table.h"

namespace lamina::plugin {
namespace {

thread_local uint32_t refused_version = 0;

void LogFromPlugin(const LaminaLogger* logger, LaminaLogLevel level, const char* message) noexcept {
  if (!message) return;
  LogLevel host_level = LogLevel::kError;
  switch (level) {
    case LAMINA_LOG_DEBUG:
      host_level = LogLevel::kDebug;
      break;
    case LAMINA_LOG_INFO:
      host_level = LogLevel::kInfo;
      break;
    case LAMINA_LOG_WARNING:
      host_level = LogLevel::kWarning;
      break;
    case LAMINA_LOG_ERROR:
      break;
  }
  try {
    Log(host_level, "{}: {}", logger ? logger->provider : "a plugin", message);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a message that cannot be logged is lost
  }
}

const LaminaEpApi* GetEpApi(uint32_t version) noexcept {
  if (version >= kOldestVersion && version <= kNewestVersion) return &EpApi();
  refused_version = version;
  return nullptr;
}

const char* GetVersionString() noexcept { return Version(); }

LaminaEpApi MakeEpApi() {
  LaminaEpApi api{};
  api.lamina_version = LAMINA_EP_API_VERSION;
  api.Logger_Log = &LogFromPlugin;
  FillStatusApi(api);
  FillNodeApi(api);
  FillGraphApi(api);
  FillKernelDefApi(api);
  FillKernelContextApi(api);
  FillLoaderApi(api);
  return api;
}

}  // namespace

const LaminaEpApi& EpApi() {
  static const LaminaEpApi api = MakeEpApi();
  return api;
}

const LaminaApiBase& ApiBase() {
  static const LaminaApiBase base{&GetEpApi, &GetVersionString};
  return base;
}

void RefusedVersion::Begin() { refused_version = 0; }
uint32_t RefusedVersion::Get() { return refused_version; }

}  // namespace lamina::plugin
