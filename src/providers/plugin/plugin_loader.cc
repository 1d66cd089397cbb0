#include "providers/plugin/plugin_loader.h"

#include <deque>
#include <string>
#include <vector>

#include "base/error.h"
#include "providers/plugin/host_status.h"
#include "providers/plugin/plugin_table.h"

namespace lamina::plugin {
namespace {

LaminaStatus* ReadFile(const LaminaExternalFile* file, uint64_t offset_bytes, uint64_t size_bytes,
                       void* destination) noexcept {
  return Answer(
      "ExternalFile_Read",
      [&] {
        return file->file->ReadAt(offset_bytes, {static_cast<std::byte*>(destination), size_bytes});
      },
      file, destination);
}

LaminaStatus* ReportProgress(LaminaLoadProgress* progress, uint64_t loaded_bytes) noexcept {
  return Answer(
      "LoadProgress_Report",
      [&] {
        const auto& on_loaded = progress->progress->on_loaded;
        return on_loaded ? on_loaded(loaded_bytes) : Status();
      },
      progress);
}

}  // namespace

Status PluginExternalDataLoader::Check(const LaminaExternalDataLoader* loader) {
  constexpr std::string_view kWhat = "its external-data loader";
  LAMINA_RETURN_IF_ERROR(CheckTable(loader, kWhat));
  LAMINA_RETURN_IF_ERROR(RequireEntry(loader->CanLoad, kWhat, "CanLoad"));
  return RequireEntry(loader->LoadTensors, kWhat, "LoadTensors");
}

bool PluginExternalDataLoader::CanLoad(const Device& device) const {
  return devices_.IsOwn(device) && loader_.CanLoad(&loader_, *devices_.IndexOf(device));
}

Status PluginExternalDataLoader::LoadTensor(const ExternalDataItem& item,
                                            const ExternalDataProgress& progress) {
  return LoadBatch({&item, 1}, progress);
}

Status PluginExternalDataLoader::LoadBatch(std::span<const ExternalDataItem> items,
                                           const ExternalDataProgress& progress) {
  std::deque<std::string> names;
  std::deque<LaminaExternalFile> files;
  std::deque<LaminaExternalDataItem> described;
  std::vector<const LaminaExternalDataItem*> list;
  for (const ExternalDataItem& item : items) {
    LaminaExternalDataItem& abi_item = described.emplace_back();
    abi_item.lamina_version = LAMINA_EP_API_VERSION;
    abi_item.type = static_cast<LaminaDataType>(item.type);
    abi_item.name = names.emplace_back(item.name).c_str();
    abi_item.file = &files.emplace_back(LaminaExternalFile{item.file.get()});
    abi_item.offset_bytes = item.offset_bytes;
    abi_item.size_bytes = item.size_bytes;
    abi_item.destination = item.destination;
    LAMINA_ASSIGN_OR_RETURN(abi_item.device, devices_.IndexOf(item.device));
    list.push_back(&abi_item);
  }
  LaminaLoadProgress abi_progress{&progress};
  const std::string device = items.empty() ? "" : items.front().device.ToString();
  return TakeStatus(loader_.LoadTensors(&loader_, list.data(), list.size(), &abi_progress), device)
      .WithContext(device);
}

void FillLoaderApi(LaminaEpApi& api) {
  api.ExternalFile_Read = &ReadFile;
  api.LoadProgress_Report = &ReportProgress;
}

}  // namespace lamina::plugin
