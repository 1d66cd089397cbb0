// External-data loaders of a plugin.
#pragma once

#include "lamina/lamina_ep.h"
#include "provider/external_data_loader.h"
#include "providers/plugin/device_map.h"

struct LaminaExternalFile {
  const lamina::File* file = nullptr;
};

struct LaminaLoadProgress {
  const lamina::ExternalDataProgress* progress = nullptr;
};

namespace lamina::plugin {

class PluginExternalDataLoader : public IExternalDataLoader {
 public:
  static Status Check(const LaminaExternalDataLoader* loader);
  PluginExternalDataLoader(LaminaExternalDataLoader& loader, const DeviceMap& devices)
      : loader_(loader), devices_(devices) {}
  bool CanLoad(const Device& device) const override;
  Status LoadTensor(const ExternalDataItem& item, const ExternalDataProgress& progress) override;
  Status LoadBatch(std::span<const ExternalDataItem> items, const ExternalDataProgress& progress) override;

 private:
  LaminaExternalDataLoader& loader_;
  const DeviceMap devices_;
};

void FillLoaderApi(LaminaEpApi& api);

}  // namespace lamina::plugin
