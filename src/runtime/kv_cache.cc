#include "runtime/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lamina {
namespace {

int64_t ElementBytes(DataType type) { return DataTypeBits(type) / 8; }

// Between two places of a device; through the host where that is not its own.
Status CopyWithin(const SessionDevice& device, const std::byte* from, std::byte* to, uint64_t bytes) {
  if (device.is_host()) {
    std::memcpy(to, from, bytes);
    return Status();
  }
  std::vector<std::byte> on_host(bytes);
  LAMINA_RETURN_IF_ERROR(device.CopyToHost(from, on_host.data(), bytes));
  return device.CopyFromHost(on_host.data(), to, bytes);
}

}  // namespace

Result<std::unique_ptr<KvCacheStorage>> KvCacheStorage::Allocate(const KvLayout& layout, int slots,
                                                                 int capacity_tokens,
                                                                 const SessionDevices& devices) {
  std::unique_ptr<KvCacheStorage> cache(new KvCacheStorage(layout, slots, capacity_tokens, devices));
  cache->blocks_.resize(devices.size());
  LAMINA_ASSIGN_OR_RETURN(const KvCacheSizes sizes,
                          SizesOfKvCache(layout, slots, capacity_tokens, devices.size()));
  for (size_t i = 0; i < devices.size(); ++i) {
    Block& block = cache->blocks_[i];
    block.size_bytes = sizes.blocks[i].size_bytes;
    if (block.size_bytes == 0) continue;
    Result<void*> memory = devices[i].memory->Reserve(block.size_bytes);
    if (!memory.ok()) {
      return memory.status().WithContext(fmt::format("KV cache of {} bytes on {} ({} sequences of {} tokens)",
                                                     block.size_bytes, devices[i].name(), slots,
                                                     capacity_tokens));
    }
    block.memory = static_cast<std::byte*>(*memory);
    if (sizes.blocks[i].rows) block.rows = reinterpret_cast<int32_t*>(block.memory + *sizes.blocks[i].rows);
    cache->size_bytes_ += block.size_bytes;
  }

  const auto at = [&](int32_t device, const KvCacheSizes::Piece& piece) {
    return cache->blocks_[static_cast<size_t>(device)].memory + piece.offset_bytes;
  };
  const auto plane = [&](int32_t head_size, const InPlaceKv& layer, const KvCacheSizes::Piece& piece) {
    KvPlane made;
    made.base = at(layer.device, piece);
    made.head_size = head_size;
    made.token_stride_bytes = head_size * ElementBytes(layer.type);
    made.head_stride_bytes = made.token_stride_bytes * capacity_tokens;
    made.block_stride_bytes = made.head_stride_bytes * layer.kv_heads;
    return made;
  };
  size_t next_plane = 0;
  for (const InPlaceKv& layer : layout.in_place) {
    KvView view;
    view.key = plane(layer.key_head_size, layer, sizes.planes[next_plane++]);
    view.value = plane(layer.value_head_size, layer, sizes.planes[next_plane++]);
    view.type = layer.type;
    view.kv_heads = layer.kv_heads;
    view.block_tokens = capacity_tokens;
    view.capacity_tokens = capacity_tokens;
    cache->views_.push_back(view);
  }
  size_t next_carried = 0;
  for (const CarriedState& state : layout.carried) {
    std::vector<CarriedBuffers> buffers(static_cast<size_t>(slots));
    for (CarriedBuffers& of_slot : buffers) {
      of_slot.size_bytes = sizes.carried[next_carried].size_bytes;
      of_slot.past = at(state.device, sizes.carried[next_carried++]);
      of_slot.present = at(state.device, sizes.carried[next_carried++]);
    }
    cache->carried_.push_back(std::move(buffers));
  }
  cache->rows_.reserve(2 * static_cast<size_t>(slots));
  return cache;
}

KvCacheStorage::~KvCacheStorage() {
  for (size_t i = 0; i < blocks_.size(); ++i) devices_[i].memory->Free(blocks_[i].memory);
}

Result<std::span<const KvView>> KvCacheStorage::Bind(std::span<const KvRow> rows) {
  if (rows.empty()) return InvalidArgumentError("a run with a KV cache needs at least one row");
  if (!layout_.carried.empty() && rows.size() != 1) {
    return UnsupportedError("this model carries its past as ordinary tensors: one row a run, found {}",
                            rows.size());
  }
  rows_.clear();
  for (const KvRow& row : rows) {
    if (row.slot < 0 || row.slot >= slots_) {
      return InvalidArgumentError("KV cache slot {} is out of range [0, {})", row.slot, slots_);
    }
    if (std::find(rows_.begin(), rows_.end(), row.slot) != rows_.end()) {
      return InvalidArgumentError("KV cache slot {} is bound to two rows of one run", row.slot);
    }
    if (row.past_tokens < 0 || row.past_tokens > capacity_tokens_) {
      return InvalidArgumentError("{} past tokens in KV cache slot {}, which holds {}", row.past_tokens,
                                  row.slot, capacity_tokens_);
    }
    rows_.push_back(row.slot);
  }
  for (const KvRow& row : rows) rows_.push_back(row.past_tokens);
  FillViews();
  return std::span<const KvView>(views_);
}

Status KvCacheStorage::UploadRowNumbers() const {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (!blocks_[i].rows) continue;
    LAMINA_RETURN_IF_ERROR(
        devices_[i].CopyFromHost(rows_.data(), blocks_[i].rows, rows_.size() * sizeof(int32_t)));
  }
  return Status();
}

void KvCacheStorage::FillViews() {
  const size_t num_rows = rows_.size() / 2;
  for (size_t layer = 0; layer < views_.size(); ++layer) {
    const Block& block = blocks_[static_cast<size_t>(layout_.in_place[layer].device)];
    const int32_t* table = block.rows ? block.rows : rows_.data();
    views_[layer].block_table = table;
    views_[layer].past_lengths = table + num_rows;
  }
}

Result<Tensor> KvCacheStorage::CarriedPast(size_t index, const KvRow& row) const {
  const CarriedState& state = layout_.carried[index];
  const SessionDevice& device = DeviceAt(state.device);
  const CarriedBuffers& buffers = carried_[index][static_cast<size_t>(row.slot)];
  LAMINA_ASSIGN_OR_RETURN(const Shape shape, CarriedShape(layout_, state, row.past_tokens));
  // A state without a token axis (a convolution's) starts as zeros.
  if (row.past_tokens == 0) {
    LAMINA_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(state.type, shape));
    if (device.is_host()) {
      std::fill_n(buffers.past, bytes, std::byte{0});
    } else {
      const std::vector<std::byte> zeros(bytes);
      LAMINA_RETURN_IF_ERROR(device.CopyFromHost(zeros.data(), buffers.past, bytes));
    }
  }
  return Tensor::View(state.type, shape, buffers.past, buffers.size_bytes, device.device());
}

Tensor KvCacheStorage::CarriedPresent(size_t index, const KvRow& row) const {
  const CarriedState& state = layout_.carried[index];
  const CarriedBuffers& buffers = carried_[index][static_cast<size_t>(row.slot)];
  return Tensor::View(state.type, Shape{}, buffers.present, buffers.size_bytes,
                      DeviceAt(state.device).device());
}

Status KvCacheStorage::Truncate(const KvRow& row, int32_t tokens) {
  if (row.slot < 0 || row.slot >= slots_ || tokens < 0 || tokens > row.past_tokens) {
    return InvalidArgumentError("cannot keep {} of {} tokens in KV cache slot {} of {}", tokens,
                                row.past_tokens, row.slot, slots_);
  }
  if (tokens == row.past_tokens || tokens == 0) return Status();
  if (!supports_truncation()) {
    return UnsupportedError("this model carries state that cannot be cut back to {} of {} tokens", tokens,
                            row.past_tokens);
  }
  for (size_t index = 0; index < layout_.carried.size(); ++index) {
    const CarriedState& state = layout_.carried[index];
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, CarriedShape(layout_, state, row.past_tokens));
    // [outer, tokens, inner]: the rows move together, each keeps its first tokens.
    const int64_t outer = shape.num_elements(0, state.token_axis);
    const int64_t inner_bytes =
        shape.num_elements(state.token_axis + 1, shape.rank()) * ElementBytes(state.type);
    std::byte* data = carried_[index][static_cast<size_t>(row.slot)].past;
    const SessionDevice& device = DeviceAt(state.device);
    std::vector<std::byte> on_host;
    if (!device.is_host()) {
      on_host.resize(static_cast<size_t>(outer * row.past_tokens * inner_bytes));
      LAMINA_RETURN_IF_ERROR(device.CopyToHost(data, on_host.data(), on_host.size()));
    }
    std::byte* tokens_of = device.is_host() ? data : on_host.data();
    for (int64_t i = 1; i < outer; ++i) {
      std::memmove(tokens_of + i * tokens * inner_bytes, tokens_of + i * row.past_tokens * inner_bytes,
                   static_cast<size_t>(tokens * inner_bytes));
    }
    if (!device.is_host()) {
      LAMINA_RETURN_IF_ERROR(
          device.CopyFromHost(on_host.data(), data, static_cast<uint64_t>(outer * tokens * inner_bytes)));
    }
  }
  return Status();
}

bool KvCacheStorage::supports_truncation() const {
  return std::all_of(layout_.carried.begin(), layout_.carried.end(),
                     [](const CarriedState& state) { return state.token_axis >= 0; });
}

Status KvCacheStorage::CopySlot(const KvRow& from, int32_t to_slot) {
  if (from.slot < 0 || from.slot >= slots_ || to_slot < 0 || to_slot >= slots_ || from.past_tokens < 0 ||
      from.past_tokens > capacity_tokens_) {
    return InvalidArgumentError("cannot copy {} tokens of KV cache slot {} of {} to slot {}",
                                from.past_tokens, from.slot, slots_, to_slot);
  }
  if (from.slot == to_slot || from.past_tokens == 0) return Status();
  const auto copy_plane = [&](const KvPlane& plane, int32_t kv_heads, const SessionDevice& device) -> Status {
    const auto bytes = static_cast<uint64_t>(from.past_tokens * plane.token_stride_bytes);
    auto* base = static_cast<std::byte*>(plane.base);
    for (int32_t head = 0; head < kv_heads; ++head) {
      const int64_t offset_bytes = head * plane.head_stride_bytes;
      LAMINA_RETURN_IF_ERROR(CopyWithin(device, base + from.slot * plane.block_stride_bytes + offset_bytes,
                                        base + to_slot * plane.block_stride_bytes + offset_bytes, bytes));
    }
    return Status();
  };
  for (size_t layer = 0; layer < views_.size(); ++layer) {
    const KvView& view = views_[layer];
    const SessionDevice& device = DeviceAt(layout_.in_place[layer].device);
    LAMINA_RETURN_IF_ERROR(copy_plane(view.key, view.kv_heads, device));
    LAMINA_RETURN_IF_ERROR(copy_plane(view.value, view.kv_heads, device));
  }
  for (size_t index = 0; index < layout_.carried.size(); ++index) {
    const CarriedState& state = layout_.carried[index];
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, CarriedShape(layout_, state, from.past_tokens));
    LAMINA_ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(state.type, shape));
    LAMINA_RETURN_IF_ERROR(CopyWithin(DeviceAt(state.device),
                                      carried_[index][static_cast<size_t>(from.slot)].past,
                                      carried_[index][static_cast<size_t>(to_slot)].past, bytes));
  }
  return Status();
}

void KvCacheStorage::SwapCarried(const KvRow& row) {
  for (std::vector<CarriedBuffers>& buffers : carried_) {
    CarriedBuffers& of_slot = buffers[static_cast<size_t>(row.slot)];
    std::swap(of_slot.past, of_slot.present);
  }
}

void KvCachePool::Add(std::unique_ptr<KvCacheStorage> cache) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(cache));
  size_ = std::max(size_, static_cast<int>(free_.size()));
}

std::unique_ptr<KvCacheStorage> KvCachePool::Take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return nullptr;
  std::unique_ptr<KvCacheStorage> cache = std::move(free_.back());
  free_.pop_back();
  return cache;
}

int KvCache::slots() const { return impl_->storage().slots(); }
int KvCache::capacity_tokens() const { return impl_->storage().capacity_tokens(); }
uint64_t KvCache::size_bytes() const { return impl_->storage().size_bytes(); }
bool KvCache::supports_batches() const { return impl_->storage().layout().carried.empty(); }
bool KvCache::supports_ragged_batches() const { return impl_->storage().layout().ragged; }
Status KvCache::Truncate(const KvRow& row, int32_t tokens) { return impl_->storage().Truncate(row, tokens); }
bool KvCache::supports_truncation() const { return impl_->storage().supports_truncation(); }
Status KvCache::CopySlot(const KvRow& from, int32_t to_slot) {
  return impl_->storage().CopySlot(from, to_slot);
}

}  // namespace lamina
