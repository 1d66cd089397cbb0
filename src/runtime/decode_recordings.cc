#include "runtime/decode_recordings.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace lamina {
namespace {

constexpr uint64_t kStagingAlignment = 256;

uint64_t Aligned(uint64_t bytes) {
  return (bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
}

}  // namespace

Result<std::unique_ptr<StagingMemory>> StagingMemory::Allocate(const SessionDevice& device,
                                                               uint64_t size_bytes) {
  LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<Allocator> allocator,
                          device.provider->CreateAllocator(device.device(), MemoryKind::kPinned));
  LAMINA_ASSIGN_OR_RETURN(void* memory, allocator->Alloc(size_bytes));
  return std::unique_ptr<StagingMemory>(
      new StagingMemory(std::move(allocator), static_cast<std::byte*>(memory)));
}

StagingMemory::~StagingMemory() { allocator_->Free(memory_); }

std::byte* StagingMemory::Take(uint64_t size_bytes) {
  return memory_ + std::exchange(taken_bytes_, taken_bytes_ + Aligned(size_bytes));
}

Result<std::unique_ptr<DecodeRecording>> DecodeRecording::Record(const Executable& executable,
                                                                 const DecodeOutline& outline,
                                                                 const KvCacheStorage& cache, Frame& frame,
                                                                 RunContext& run) {
  if (outline.num_recorded_parts() == 0)
    return UnsupportedError("no step on a device does the same every time");
  std::unique_ptr<DecodeRecording> recording(new DecodeRecording(executable, outline));
  recording->parts_.resize(outline.parts.size());
  const std::vector<Value> inputs = frame.values;
  LAMINA_RETURN_IF_ERROR(cache.UploadRowNumbers());
  for (size_t upload = 0; upload < executable.copies().num_uploads; ++upload) {
    LAMINA_RETURN_IF_ERROR(StartUpload(executable, upload, frame, run));
  }
  recording->FindStagedCopies(cache, frame, run);
  LAMINA_RETURN_IF_ERROR(recording->RunParts(frame, run, /*records=*/false));
  LAMINA_RETURN_IF_ERROR(recording->AllocateStaging(frame, run));
  LAMINA_RETURN_IF_ERROR(run.queues->Finish({}));
  LAMINA_RETURN_IF_ERROR(run.queues->Start({}));
  frame.values = inputs;
  recording->FillStaging(cache, frame);
  for (const int32_t upload : outline.other_uploads) {
    LAMINA_RETURN_IF_ERROR(StartUpload(executable, static_cast<size_t>(upload), frame, run));
  }
  LAMINA_RETURN_IF_ERROR(recording->RunParts(frame, run, /*records=*/true));
  return recording;
}

// After the uploads: `frame` has the inputs on their devices.
void DecodeRecording::FindStagedCopies(const KvCacheStorage& cache, const Frame& frame,
                                       const RunContext& run) {
  for (const int32_t upload : outline_.staged_uploads) {
    const CopyTask& task = executable_.copies().copies[static_cast<size_t>(upload)];
    const Value& value = frame.values[static_cast<size_t>(task.destination)];
    copies_.push_back({task.source, task.to, {}, value.tensor()});
  }
  const auto num_numbers = static_cast<int64_t>(cache.row_numbers().size());
  for (size_t device = 0; device < run.devices.size(); ++device) {
    int32_t* const numbers = cache.RowNumbersOn(static_cast<int32_t>(device));
    if (!numbers || !outline_.begins_recorded[device]) continue;
    const Tensor destination =
        Tensor::View(DataType::kInt32, Shape{num_numbers}, numbers,
                     static_cast<uint64_t>(num_numbers) * sizeof(int32_t), run.devices[device].device());
    copies_.push_back({-1, static_cast<int32_t>(device), {}, destination});
  }
}

// After a run: `frame` has the outputs.
Status DecodeRecording::AllocateStaging(const Frame& frame, const RunContext& run) {
  std::vector<uint64_t> sizes_bytes(run.devices.size(), 0);
  for (const StagedCopy& copy : copies_) {
    sizes_bytes[static_cast<size_t>(copy.device)] += Aligned(copy.destination.size_bytes());
  }
  const auto is_recorded = [&](int32_t value) {
    return std::any_of(outline_.parts.begin(), outline_.parts.end(), [&](const DecodePart& part) {
      return std::find(part.results.begin(), part.results.end(), value) != part.results.end();
    });
  };
  std::vector<Tensor> outputs(executable_.outputs().size());  // on devices
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int32_t value = executable_.outputs()[i].value;
    if (value < 0 || !frame.values[static_cast<size_t>(value)].is_tensor() || !is_recorded(value)) continue;
    outputs[i] = frame.values[static_cast<size_t>(value)].tensor();
    sizes_bytes[static_cast<size_t>(executable_.DeviceOf(ValueId{value}))] +=
        Aligned(outputs[i].size_bytes());
  }
  staging_.resize(sizes_bytes.size());
  for (size_t device = 0; device < sizes_bytes.size(); ++device) {
    if (sizes_bytes[device] == 0) continue;
    LAMINA_ASSIGN_OR_RETURN(staging_[device],
                            StagingMemory::Allocate(run.devices[device], sizes_bytes[device]));
  }
  const auto staged = [&](const Tensor& tensor, int32_t device) {
    std::byte* const memory = staging_[static_cast<size_t>(device)]->Take(tensor.size_bytes());
    return Tensor::View(tensor.type(), tensor.shape(), memory, tensor.size_bytes());
  };
  for (StagedCopy& copy : copies_) copy.staging = staged(copy.destination, copy.device);
  fetched_.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    fetched_[i] = staged(outputs[i], executable_.DeviceOf(ValueId{executable_.outputs()[i].value}));
  }
  return Status();
}

Status DecodeRecording::RunParts(Frame& frame, RunContext& run, bool records) {
  has_begun_.assign(run.devices.size(), false);
  for (size_t index = 0; index < outline_.parts.size(); ++index) {
    const DecodePart& part = outline_.parts[index];
    for (const int32_t copy : part.waits) LAMINA_RETURN_IF_ERROR(run.queues->WaitForCopy(copy));
    const bool used_arena = std::exchange(run.used_arena, false);
    if (!records || !part.is_recorded) {
      LAMINA_RETURN_IF_ERROR(RunSteps(part, frame, run));
    } else {
      LAMINA_RETURN_IF_ERROR(RecordPart(index, frame, run));
    }
    if (part.is_recorded && run.used_arena) {
      return UnsupportedError("{} takes memory that was not planned",
                              NodeLabel(*executable_.steps()[static_cast<size_t>(part.steps.back())].node));
    }
    run.used_arena |= used_arena;
  }
  return Status();
}

Status DecodeRecording::RunSteps(const DecodePart& part, Frame& frame, RunContext& run) const {
  for (const int32_t position : part.steps) {
    LAMINA_RETURN_IF_ERROR(
        RunStep(executable_, executable_.steps()[static_cast<size_t>(position)], frame, run));
  }
  return Status();
}

Status DecodeRecording::RecordPart(size_t index, Frame& frame, RunContext& run) {
  const DecodePart& part = outline_.parts[index];
  Stream& stream = run.queues->kernels(part.device);
  LAMINA_RETURN_IF_ERROR(stream.BeginRecording());
  const auto put = [&]() -> Status {
    const bool is_first = !has_begun_[static_cast<size_t>(part.device)];
    has_begun_[static_cast<size_t>(part.device)] = true;
    for (StagedCopy& copy : copies_) {
      if (!is_first || copy.device != part.device) continue;
      LAMINA_RETURN_IF_ERROR(run.queues->CopyAmongKernels(copy.device, copy.staging, copy.destination));
      if (copy.value >= 0) frame.values[static_cast<size_t>(copy.value)] = Value(copy.destination);
    }
    run.is_recording = true;
    return RunSteps(part, frame, run);
  };
  const Status status = put();
  run.is_recording = false;
  Result<std::unique_ptr<RecordedWork>> work = stream.EndRecording();
  LAMINA_RETURN_IF_ERROR(status);
  if (!work.ok()) return work.status().WithContext(run.devices[static_cast<size_t>(part.device)].name());
  parts_[index].work = *std::move(work);
  for (const int32_t value : part.results) {
    const Value& result = frame.values[static_cast<size_t>(value)];
    if (result.is_tensor()) parts_[index].results.emplace_back(value, result.tensor());
  }
  return Status();
}

bool DecodeRecording::Fits(const RunBinding& binding) const {
  const std::vector<Tensor>& bound = binding.bound_outputs();
  if (std::any_of(bound.begin(), bound.end(),
                  [](const Tensor& tensor) { return tensor.defined() && !tensor.device().is_host(); })) {
    return false;
  }
  const std::span<const ValueId> inputs = executable_.graph().inputs();
  return std::all_of(copies_.begin(), copies_.end(), [&](const StagedCopy& copy) {
    if (copy.value < 0) return true;
    const auto position =
        static_cast<size_t>(std::find(inputs.begin(), inputs.end(), ValueId{copy.value}) - inputs.begin());
    if (position >= binding.inputs().size() || !binding.inputs()[position].is_tensor()) return false;
    const Tensor& given = binding.inputs()[position].tensor();
    return given.device().is_host() && given.shape() == copy.staging.shape();
  });
}

void DecodeRecording::FillStaging(const KvCacheStorage& cache, Frame& frame) {
  for (StagedCopy& copy : copies_) {
    const void* source = cache.row_numbers().data();
    if (copy.value >= 0) {
      Value& value = frame.values[static_cast<size_t>(copy.value)];
      source = value.tensor().raw_data();
    }
    std::memcpy(copy.staging.mutable_raw_data(), source, copy.staging.size_bytes());
  }
}

Status DecodeRecording::Run(const KvCacheStorage& cache, Frame& frame, RunContext& run) {
  for (size_t device = 0; device < run.devices.size(); ++device) {
    const auto position = static_cast<int32_t>(device);
    if (!cache.RowNumbersOn(position) || outline_.begins_recorded[device]) continue;
    LAMINA_RETURN_IF_ERROR(cache.UploadRowNumbers());
    break;
  }
  FillStaging(cache, frame);
  for (StagedCopy& copy : copies_) {
    if (copy.value >= 0) frame.values[static_cast<size_t>(copy.value)] = Value(copy.destination);
  }
  for (const int32_t upload : outline_.other_uploads) {
    LAMINA_RETURN_IF_ERROR(StartUpload(executable_, static_cast<size_t>(upload), frame, run));
  }
  for (size_t index = 0; index < parts_.size(); ++index) {
    const DecodePart& part = outline_.parts[index];
    if (run.options.cancel && run.options.cancel->cancelled()) {
      const Step& next = executable_.steps()[static_cast<size_t>(part.steps.front())];
      return CancelledError("the run was cancelled before {}", NodeLabel(*next.node));
    }
    for (const int32_t copy : part.waits) LAMINA_RETURN_IF_ERROR(run.queues->WaitForCopy(copy));
    if (!parts_[index].work) {
      LAMINA_RETURN_IF_ERROR(RunSteps(part, frame, run));
      continue;
    }
    const Status status = parts_[index].work->Launch(run.queues->kernels(part.device));
    if (!status.ok()) return status.WithContext(run.devices[static_cast<size_t>(part.device)].name());
    for (const auto& [value, tensor] : parts_[index].results) {
      frame.values[static_cast<size_t>(value)] = Value(tensor);
    }
  }
  return Status();
}

Result<Tensor> DecodeRecording::StartFetch(size_t output, const Tensor& tensor, RunContext& run) const {
  Tensor staging = fetched_[output];
  if (!staging.defined() || staging.shape() != tensor.shape()) return Tensor();
  const int32_t device = executable_.DeviceOf(ValueId{executable_.outputs()[output].value});
  LAMINA_RETURN_IF_ERROR(run.queues->CopyAmongKernels(device, tensor, staging));
  return staging;
}

DecodeRecording* DecodeRecordings::Find(size_t frame, const KvCacheStorage& cache, int64_t batch) const {
  const auto found = recordings_.find({frame, &cache, batch});
  return found == recordings_.end() ? nullptr : found->second.get();
}

const DecodeOutline& DecodeRecordings::OutlineOf(int64_t batch, const std::function<DecodeOutline()>& make) {
  const auto found = outlines_.find(batch);
  return found != outlines_.end() ? found->second : outlines_.emplace(batch, make()).first->second;
}

std::string DecodeRecordings::Summary() const {
  if (recordings_.empty()) return why_not_.empty() ? "" : "kernels launched one by one: " + why_not_;
  const DecodeOutline& outline = outlines_.begin()->second;
  std::string text = fmt::format("{} of {} kernels recorded in {} graph{}", outline.num_recorded_steps(),
                                 outline.num_steps(), outline.num_recorded_parts(),
                                 outline.num_recorded_parts() == 1 ? "" : "s");
  if (!why_not_.empty()) text += fmt::format("; others launched one by one: {}", why_not_);
  return text;
}

}  // namespace lamina
