#include "weights/load/block_copy.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace lamina {
namespace {

bool IsBool(const LoadPiece& piece, std::span<const ExternalDataItem> items) {
  return items[piece.item].type == DataType::kBool;
}

void Normalize(std::span<std::byte> bools) {
  for (std::byte& value : bools) value = std::byte{value != std::byte{0}};
}

std::byte* DestinationOf(const LoadPiece& piece, std::span<const ExternalDataItem> items) {
  return static_cast<std::byte*>(items[piece.item].destination) + piece.offset_in_item;
}

Status Copy(const std::byte* source, std::byte* destination, uint64_t bytes, const Device& device,
            DataTransfer& transfer, Stream* stream) {
  return transfer.CopyAsync({source, Device{}, destination, device, bytes}, stream);
}

}  // namespace

bool HasBools(const LoadBlock& block, std::span<const ExternalDataItem> items) {
  return std::any_of(block.pieces.begin(), block.pieces.end(),
                     [&](const LoadPiece& piece) { return IsBool(piece, items); });
}

void NormalizeBools(const LoadBlock& block, std::span<const ExternalDataItem> items, std::byte* bytes) {
  for (const LoadPiece& piece : block.pieces) {
    if (IsBool(piece, items)) Normalize({bytes + piece.offset_in_block, piece.size_bytes});
  }
}

Status CopyPieces(const LoadBlock& block, std::span<const ExternalDataItem> items, const std::byte* bytes,
                  DataTransfer& transfer, Stream* stream) {
  const std::vector<LoadPiece>& pieces = block.pieces;
  for (size_t i = 0; i < pieces.size();) {
    // Pieces that follow each other here and there are one copy.
    std::byte* const destination = DestinationOf(pieces[i], items);
    const uint64_t begin = pieces[i].offset_in_block;
    uint64_t size_bytes = pieces[i].size_bytes;
    size_t next = i + 1;
    for (; next < pieces.size(); ++next) {
      if (pieces[next].offset_in_block != begin + size_bytes ||
          DestinationOf(pieces[next], items) != destination + size_bytes) {
        break;
      }
      size_bytes += pieces[next].size_bytes;
    }
    LAMINA_RETURN_IF_ERROR(
        Copy(bytes + begin, destination, size_bytes, items[pieces[i].item].device, transfer, stream));
    i = next;
  }
  return Status();
}

Status CopyReadOnlyPieces(const LoadBlock& block, std::span<const ExternalDataItem> items,
                          const std::byte* bytes, DataTransfer& transfer, Stream* stream) {
  if (!HasBools(block, items)) return CopyPieces(block, items, bytes, transfer, stream);
  for (const LoadPiece& piece : block.pieces) {
    const ExternalDataItem& item = items[piece.item];
    const std::byte* source = bytes + piece.offset_in_block;
    std::byte* const destination = DestinationOf(piece, items);
    if (!IsBool(piece, items)) {
      LAMINA_RETURN_IF_ERROR(Copy(source, destination, piece.size_bytes, item.device, transfer, stream));
      continue;
    }
    std::vector<std::byte> bools(source, source + piece.size_bytes);
    Normalize(bools);
    LAMINA_RETURN_IF_ERROR(Copy(bools.data(), destination, bools.size(), item.device, transfer, nullptr));
  }
  return Status();
}

std::string InitializersOf(const LoadBlock& block, std::span<const ExternalDataItem> items) {
  return fmt::format("initializer '{}'{}", items[block.pieces.front().item].name,
                     block.pieces.size() > 1 ? " and those beside it" : "");
}

}  // namespace lamina
