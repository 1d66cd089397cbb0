// Copies of a block's pieces to where their tensors lie.
#pragma once

#include <cstddef>
#include <span>

#include "lamina/status.h"
#include "provider/data_transfer.h"
#include "provider/external_data_loader.h"
#include "weights/load/load_schedule.h"

namespace lamina {

// Whether a piece belongs to a tensor of bools: files may hold others than 0 and 1, devices must not.
bool HasBools(const LoadBlock& block, std::span<const ExternalDataItem> items);
// Makes the bools of a block 0 or 1. `bytes` is where the block's first byte lies.
void NormalizeBools(const LoadBlock& block, std::span<const ExternalDataItem> items, std::byte* bytes);

// Puts the copies on `stream`; without one they are done on return. `bytes` is where the block's first byte
// lies in host memory and stays untouched until the copies are done.
Status CopyPieces(const LoadBlock& block, std::span<const ExternalDataItem> items, const std::byte* bytes,
                  DataTransfer& transfer, Stream* stream);
// The same from memory that must not be written to, such as a mapped file: bools are copied from memory of
// their own and are there on return.
Status CopyReadOnlyPieces(const LoadBlock& block, std::span<const ExternalDataItem> items,
                          const std::byte* bytes, DataTransfer& transfer, Stream* stream);

// "initializer 'x'", for messages about a block.
std::string InitializersOf(const LoadBlock& block, std::span<const ExternalDataItem> items);

}  // namespace lamina
