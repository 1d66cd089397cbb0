// How the operands of MatMul and its fused forms meet: numpy's matmul with broadcast batch dimensions, and
// operands that are read as transposes of the tensors they come from.
#pragma once

#include <cstdint>

#include "lamina/status.h"
#include "lamina/types.h"
#include "providers/cpu/gemm/gemm.h"

namespace lamina {

// How an operand's matrices lie in its tensor.
struct MatMulTransposes {
  bool matrix = false;  // each matrix is stored as its transpose
  bool batch = false;   // rank >= 3: the first axis is that of the rows, before the batch axes
};

// The matrices of an operand [batch..., rows, columns], over its elements. Element (i, j) of matrix b lies at
// b * matrix_stride + i * row_stride + j * column_stride.
struct MatrixStack {
  Shape batch;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t matrix_stride = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 0;

  int64_t count() const { return batch.num_elements(); }
  // Whether matrix follows matrix, row follows row, without gaps.
  bool contiguous() const {
    return column_stride == 1 && row_stride == columns && (count() == 1 || matrix_stride == rows * columns);
  }
};

struct MatMulShapes {
  GemmShape gemm;
  Shape output;
  MatrixStack a;  // `batch` padded to the rank of the output's
  MatrixStack b;

  // The number of the matrix of an operand for a matrix of the output.
  int64_t MatrixOf(const MatrixStack& operand, int64_t output_index) const;
  // Makes A's batch axes part of m: one product instead of many where B has no batch. REQUIRES: A's matrices
  // are contiguous where they are read.
  void FoldBatch();
  bool CanFoldBatch() const { return b.batch.num_elements() == 1 && gemm.batch > 1; }

 private:
  friend Result<MatMulShapes> MatchMatMul(const Shape&, MatMulTransposes, const Shape&, MatMulTransposes);
  Shape batch_;  // of the output
};

// INVALID_ARGUMENT naming both shapes where they do not fit. Vectors have no transposes.
Result<MatMulShapes> MatchMatMul(const Shape& a, MatMulTransposes a_transposes, const Shape& b,
                                 MatMulTransposes b_transposes);

}  // namespace lamina
