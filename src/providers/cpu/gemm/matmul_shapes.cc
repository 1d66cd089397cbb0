#include "providers/cpu/gemm/matmul_shapes.h"

#include <algorithm>

#include "base/error.h"

namespace lamina {
namespace {

// A vector is one row on the left and one column on the right.
MatrixStack StackOf(const Shape& shape, MatMulTransposes transposes, bool is_left) {
  MatrixStack stack;
  const int rank = shape.rank();
  if (rank == 1) {
    stack.rows = is_left ? 1 : shape[0];
    stack.columns = is_left ? shape[0] : 1;
    stack.row_stride = stack.columns;
    stack.column_stride = 1;
    stack.matrix_stride = shape[0];
    return stack;
  }
  const bool batch_inside = transposes.batch && rank >= 3;
  for (int axis = batch_inside ? 1 : 0; axis < rank - (batch_inside ? 1 : 2); ++axis) {
    stack.batch.Append(shape[axis]);
  }
  stack.rows = batch_inside ? shape[0] : shape[rank - 2];
  stack.columns = shape[rank - 1];
  stack.row_stride = stack.columns * (batch_inside ? stack.batch.num_elements() : 1);
  stack.column_stride = 1;
  stack.matrix_stride = batch_inside ? stack.columns : stack.rows * stack.columns;
  if (transposes.matrix) {
    std::swap(stack.rows, stack.columns);
    std::swap(stack.row_stride, stack.column_stride);
  }
  return stack;
}

Shape Padded(const Shape& batch, int rank) {
  Shape padded;
  for (int i = batch.rank(); i < rank; ++i) padded.Append(1);
  for (int i = 0; i < batch.rank(); ++i) padded.Append(batch[i]);
  return padded;
}

}  // namespace

int64_t MatMulShapes::MatrixOf(const MatrixStack& operand, int64_t output_index) const {
  int64_t index = 0;
  int64_t stride = 1;
  for (int axis = batch_.rank() - 1; axis >= 0; --axis) {
    const int64_t position = output_index % batch_[axis];
    output_index /= batch_[axis];
    if (operand.batch[axis] != 1) index += position * stride;
    stride *= operand.batch[axis];
  }
  return index;
}

void MatMulShapes::FoldBatch() {
  gemm.m *= gemm.batch;
  gemm.batch = 1;
  a.rows = gemm.m;
  batch_ = a.batch = b.batch = Shape();
}

Result<MatMulShapes> MatchMatMul(const Shape& a, MatMulTransposes a_transposes, const Shape& b,
                                 MatMulTransposes b_transposes) {
  const auto mismatch = [&](const char* why) {
    return InvalidArgumentError("MatMul: {} for shapes {} and {}", why, a.ToString(), b.ToString());
  };
  if (a.rank() == 0 || b.rank() == 0) return mismatch("scalars are not allowed");
  MatMulShapes shapes;
  shapes.a = StackOf(a, a_transposes, true);
  shapes.b = StackOf(b, b_transposes, false);
  GemmShape& gemm = shapes.gemm;
  gemm.m = shapes.a.rows;
  gemm.n = shapes.b.columns;
  gemm.k = shapes.a.columns;
  if (shapes.b.rows != gemm.k) return mismatch("inner dimensions differ");

  const int batch_rank = std::max(shapes.a.batch.rank(), shapes.b.batch.rank());
  shapes.a.batch = Padded(shapes.a.batch, batch_rank);
  shapes.b.batch = Padded(shapes.b.batch, batch_rank);
  for (int i = 0; i < batch_rank; ++i) {
    const int64_t x = shapes.a.batch[i];
    const int64_t y = shapes.b.batch[i];
    if (x != y && x != 1 && y != 1) return mismatch("batch dimensions do not broadcast");
    shapes.batch_.Append(x == 1 ? y : x);
  }
  shapes.output = shapes.batch_;
  if (a.rank() > 1) shapes.output.Append(gemm.m);
  if (b.rank() > 1) shapes.output.Append(gemm.n);
  gemm.batch = shapes.batch_.num_elements();
  return shapes;
}

}  // namespace lamina
