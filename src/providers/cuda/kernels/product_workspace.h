// What products with packed matrices need beside their operands.
#pragma once

#include <cstdint>

#include "providers/cuda/kernels/cuda_kernel.h"

namespace lamina::cuda {

// Elements of a row of k in a packed matrix.
inline int64_t PackedRowElements(int64_t k, DataType type) {
  const int64_t multiple = kPackedRowAlignmentBytes / ElementBytesOf(type);
  return (k + multiple - 1) / multiple * multiple;
}

// Scratch of the vendor's library, for products that are worth it.
struct ProductWorkspace {
  static constexpr int kSlot = 7;

  static bool Serves(int64_t m, int64_t n, int64_t k) {
    constexpr int64_t kLargeMatrix = int64_t{1} << 20;  // elements
    return m > kMaxVectorRows && n * k >= kLargeMatrix;
  }
  // For up to m rows.
  static Status Declare(int64_t m, int64_t n, int64_t k, WorkspaceRequirements& requirements) {
    return Serves(m, n, k) ? requirements.Add(kSlot, kProductWorkspaceBytes) : Status();
  }
  static Status Take(KernelContext& context, ProductArguments& arguments) {
    if (!Serves(arguments.m, arguments.n, arguments.k)) return Status();
    LAMINA_ASSIGN_OR_RETURN(arguments.workspace, context.GetScratchBuffer(kSlot, kProductWorkspaceBytes));
    arguments.workspace_bytes = kProductWorkspaceBytes;
    return Status();
  }
};

}  // namespace lamina::cuda
