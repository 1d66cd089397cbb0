// Operators of two broadcast operands: the loops of a row, and a kernel that runs a row function.
#pragma once

#include <array>

#include "providers/cpu/elementwise/broadcast.h"
#include "providers/cpu/kernel_util.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {

using BinaryRowFunction = void (*)(const BroadcastRow& row);

// output = Op::Apply(a, b) over a row; T: operands, R: result.
template <typename Op, typename T, typename R>
void BinaryRow(const BroadcastRow& row) {
  const T* a = row.input<T>(0);
  const T* b = row.input<T>(1);
  R* out = row.out<R>();
  const int64_t count = row.count;
  if (row.repeated[0]) {
    const T first = *a;
    if (row.repeated[1]) {
      std::fill_n(out, count, Op::Apply(first, *b));
    } else {
      for (int64_t i = 0; i < count; ++i) out[i] = Op::Apply(first, b[i]);
    }
  } else if (row.repeated[1]) {
    const T second = *b;
    for (int64_t i = 0; i < count; ++i) out[i] = Op::Apply(a[i], second);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = Op::Apply(a[i], b[i]);
  }
}

// A row of fp16 or bf16 (H) computed by a row function of floats, in tiles that stay in the first-level
// cache. R: H, or a result type that the float function writes as it is (bool).
template <typename H, typename R>
void HalfBinaryRow(const BroadcastRow& row, BinaryRowFunction float_row) {
  constexpr int64_t kTile = 512;
  float a[kTile];
  float b[kTile];
  float result[kTile];
  for (int64_t done = 0; done < row.count; done += kTile) {
    BroadcastRow tile;
    tile.count = std::min(kTile, row.count - done);
    tile.repeated = row.repeated;
    const auto widen = [&](int operand, float* target) {
      const H* source = row.input<H>(operand) + (row.repeated[static_cast<size_t>(operand)] ? 0 : done);
      ConvertToFloat(DataTypeOf<H>, source, target,
                     row.repeated[static_cast<size_t>(operand)] ? 1 : tile.count);
      tile.inputs[static_cast<size_t>(operand)] = reinterpret_cast<const std::byte*>(target);
    };
    widen(0, a);
    widen(1, b);
    if constexpr (kIsHalf<R>) {
      tile.output = reinterpret_cast<std::byte*>(result);
      float_row(tile);
      ConvertFromFloat(DataTypeOf<H>, result, row.out<R>() + done, tile.count);
    } else {
      tile.output = reinterpret_cast<std::byte*>(row.out<R>() + done);
      float_row(tile);
    }
  }
}

// The row function of Op for type T with results of T.
template <typename Op, typename T>
BinaryRowFunction ArithmeticRow() {
  if constexpr (kIsHalf<T>) {
    return [](const BroadcastRow& row) { HalfBinaryRow<T, T>(row, &BinaryRow<Op, float, float>); };
  } else {
    return &BinaryRow<Op, T, T>;
  }
}

// ... with results of bool.
template <typename Op, typename T>
BinaryRowFunction PredicateRow() {
  if constexpr (kIsHalf<T>) {
    return [](const BroadcastRow& row) { HalfBinaryRow<T, bool>(row, &BinaryRow<Op, float, bool>); };
  } else {
    return &BinaryRow<Op, T, bool>;
  }
}

// The row function of Op among `Ts` for `type`, or null.
template <typename Op, typename... Ts>
BinaryRowFunction FindArithmeticRow(DataType type) {
  BinaryRowFunction found = nullptr;
  DispatchType<Ts...>(type, [&](auto tag) { found = ArithmeticRow<Op, typename decltype(tag)::type>(); });
  return found;
}
template <typename Op, typename... Ts>
BinaryRowFunction FindPredicateRow(DataType type) {
  BinaryRowFunction found = nullptr;
  DispatchType<Ts...>(type, [&](auto tag) { found = PredicateRow<Op, typename decltype(tag)::type>(); });
  return found;
}

// Broadcasts inputs 0 and 1 and runs the row function; before opset 7 with the attributes broadcast and axis.
class BinaryKernel : public Kernel {
 public:
  // `work`: cost of an element in simple operations.
  BinaryKernel(const NodeInfo& node, BinaryRowFunction row, int64_t work);
  Status Compute(KernelContext& context) const override;

 private:
  BinaryRowFunction row_;
  int64_t work_;
  bool legacy_;
  bool broadcast_;
  bool has_axis_;
  int64_t axis_;
};

// A BinaryKernel, or UNSUPPORTED where `row` is null.
Result<std::unique_ptr<Kernel>> CreateBinaryKernel(const NodeInfo& node, BinaryRowFunction row,
                                                   int64_t work = 1);

}  // namespace lamina
