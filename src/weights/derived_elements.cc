#include "weights/derived_elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "weights/block_quantizer.h"

namespace lamina {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;

int64_t ElementBytes(DataType type) { return DataTypeBits(type) / 8; }

std::span<const std::byte> BytesOf(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw_data()), static_cast<size_t>(tensor.size_bytes())};
}

double LoadElement(DataType type, const std::byte* from) {
  const auto load = [from](auto value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  switch (type) {
    case DataType::kFloat:
      return load(float());
    case DataType::kFloat16:
      return load(Float16());
    case DataType::kBfloat16:
      return load(Bfloat16());
    default:
      return load(double());
  }
}

void StoreElement(DataType type, double value, std::byte* to) {
  const auto store = [to](auto element) { std::memcpy(to, &element, sizeof element); };
  switch (type) {
    case DataType::kFloat:
      return store(static_cast<float>(value));
    case DataType::kFloat16:
      return store(Float16(static_cast<float>(value)));
    case DataType::kBfloat16:
      return store(Bfloat16(static_cast<float>(value)));
    default:
      return store(value);
  }
}

// Streams source 0 through `convert(index of the first element, elements in, elements out)`.
template <typename Convert>
Status StreamConverted(const DerivedTensor& source, DataType type, const ElementReader& read,
                       const ElementSink& sink, Convert convert) {
  const int64_t from_bytes = ElementBytes(source.type);
  const int64_t to_bytes = ElementBytes(type);
  std::vector<std::byte> converted;
  int64_t done = 0;
  return StreamElements(source, read, [&](std::span<const std::byte> piece) {
    const int64_t count = static_cast<int64_t>(piece.size()) / from_bytes;
    converted.resize(static_cast<size_t>(count * to_bytes));
    for (int64_t i = 0; i < count; ++i) {
      const double value = LoadElement(source.type, piece.data() + i * from_bytes);
      StoreElement(type, convert(done + i, value), converted.data() + i * to_bytes);
    }
    done += count;
    return sink(converted);
  });
}

Status StreamProduct(const DerivedTensor& derived, const ElementReader& read, const ElementSink& sink) {
  LAMINA_ASSIGN_OR_RETURN(const Tensor factors, ComputeDerived(*derived.operands[1], read));
  const int64_t count = factors.num_elements();
  const int64_t inner = count == 1 ? 1 : derived.shape.num_elements(derived.axis + 1, derived.shape.rank());
  const auto* data = static_cast<const std::byte*>(factors.raw_data());
  return StreamConverted(*derived.operands[0], derived.type, read, sink, [&](int64_t index, double value) {
    const int64_t factor = count == 1 ? 0 : index / inner % count;
    const double by = LoadElement(factors.type(), data + factor * ElementBytes(factors.type()));
    if (derived.type == DataType::kDouble) return value * by;
    return static_cast<double>(static_cast<float>(value) * static_cast<float>(by));
  });
}

Status StreamConcat(const DerivedTensor& derived, const ElementReader& read, const ElementSink& sink) {
  const int64_t outer = derived.shape.num_elements(0, derived.axis);
  if (outer == 1) {
    for (const DerivedTensorPtr& operand : derived.operands) {
      LAMINA_RETURN_IF_ERROR(StreamElements(*operand, read, sink));
    }
    return Status();
  }
  std::vector<Tensor> tensors;
  for (const DerivedTensorPtr& operand : derived.operands) {
    LAMINA_ASSIGN_OR_RETURN(Tensor tensor, ComputeDerived(*operand, read));
    tensors.push_back(std::move(tensor));
  }
  for (int64_t row = 0; row < outer; ++row) {
    for (const Tensor& tensor : tensors) {
      const auto bytes = BytesOf(tensor);
      const size_t row_bytes = bytes.size() / static_cast<size_t>(outer);
      LAMINA_RETURN_IF_ERROR(sink(bytes.subspan(static_cast<size_t>(row) * row_bytes, row_bytes)));
    }
  }
  return Status();
}

Status StreamSlice(const DerivedTensor& derived, const ElementReader& read, const ElementSink& sink) {
  const DerivedTensor& operand = *derived.operands[0];
  LAMINA_ASSIGN_OR_RETURN(const Tensor tensor, ComputeDerived(operand, read));
  const auto bytes = BytesOf(tensor);
  const auto inner_bytes = static_cast<size_t>(
      operand.shape.num_elements(derived.axis + 1, operand.shape.rank()) * ElementBytes(derived.type));
  const size_t run_bytes = static_cast<size_t>(derived.shape[derived.axis]) * inner_bytes;
  const size_t row_bytes = static_cast<size_t>(operand.shape[derived.axis]) * inner_bytes;
  for (size_t row = 0; run_bytes > 0 && row < bytes.size(); row += row_bytes) {
    const size_t first = row + static_cast<size_t>(derived.start) * inner_bytes;
    LAMINA_RETURN_IF_ERROR(sink(bytes.subspan(first, run_bytes)));
  }
  return Status();
}

// The transposition as a copy between strides: result axes in order, with the strides of the source.
struct StridedAxes {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
};

StridedAxes AxesOf(const DerivedTensor& source, const std::vector<int64_t>& perm) {
  StridedAxes axes;
  for (const int64_t axis : perm) {
    axes.dims.push_back(source.shape[static_cast<int>(axis)]);
    axes.strides.push_back(source.shape.num_elements(static_cast<int>(axis) + 1, source.shape.rank()));
  }
  return axes;
}

// Rows [first, first + count) of a transposed matrix: source rows outside, so that memory is read in runs.
void TransposeRows(const std::byte* source, int64_t source_rows, int64_t source_columns, int64_t first,
                   int64_t count, int64_t element_bytes, std::byte* target) {
  for (int64_t row = 0; row < source_rows; ++row) {
    const std::byte* from = source + (row * source_columns + first) * element_bytes;
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(target + (i * source_rows + row) * element_bytes, from + i * element_bytes,
                  static_cast<size_t>(element_bytes));
    }
  }
}

Status StreamTransposedMatrix(const Tensor& source, const ElementSink& sink) {
  const int64_t rows = source.shape()[0];
  const int64_t columns = source.shape()[1];
  const int64_t element_bytes = ElementBytes(source.type());
  const int64_t at_once = std::clamp<int64_t>(kPieceBytes / std::max<int64_t>(1, rows * element_bytes), 16,
                                              std::max<int64_t>(16, columns));
  std::vector<std::byte> piece;
  for (int64_t first = 0; first < columns; first += at_once) {
    const int64_t count = std::min(at_once, columns - first);
    piece.resize(static_cast<size_t>(count * rows * element_bytes));
    TransposeRows(static_cast<const std::byte*>(source.raw_data()), rows, columns, first, count,
                  element_bytes, piece.data());
    LAMINA_RETURN_IF_ERROR(sink(piece));
  }
  return Status();
}

Status StreamTranspose(const DerivedTensor& derived, const ElementReader& read, const ElementSink& sink) {
  LAMINA_ASSIGN_OR_RETURN(const Tensor source, ComputeDerived(*derived.operands[0], read));
  if (derived.perm == std::vector<int64_t>{1, 0}) return StreamTransposedMatrix(source, sink);
  const StridedAxes axes = AxesOf(*derived.operands[0], derived.perm);
  const int64_t element_bytes = ElementBytes(source.type());
  const auto* data = static_cast<const std::byte*>(source.raw_data());
  std::vector<int64_t> index(axes.dims.size(), 0);
  std::vector<std::byte> piece;
  int64_t offset = 0;
  for (int64_t left = source.num_elements(); left > 0; --left) {
    const std::byte* from = data + offset * element_bytes;
    piece.insert(piece.end(), from, from + element_bytes);
    for (size_t axis = axes.dims.size(); axis-- > 0;) {
      offset += axes.strides[axis];
      if (++index[axis] < axes.dims[axis]) break;
      offset -= axes.strides[axis] * axes.dims[axis];
      index[axis] = 0;
    }
    if (static_cast<int64_t>(piece.size()) < kPieceBytes && left > 1) continue;
    LAMINA_RETURN_IF_ERROR(sink(piece));
    piece.clear();
  }
  return Status();
}

// A matrix [k, n] and how to walk over it. One that is cast or transposed is read where its original lies:
// fp32 takes every weight there is as well as a half would, whose rounding the quantisation's hides.
struct MatrixView {
  Tensor tensor;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

Result<MatrixView> ViewOf(const DerivedTensor& matrix, const ElementReader& read) {
  if (matrix.operation == DerivedOperation::kCast) return ViewOf(*matrix.operands[0], read);
  const bool transposed =
      matrix.operation == DerivedOperation::kTranspose && matrix.perm == std::vector<int64_t>{1, 0};
  MatrixView view;
  LAMINA_ASSIGN_OR_RETURN(view.tensor, ComputeDerived(transposed ? *matrix.operands[0] : matrix, read));
  view.row_stride = transposed ? 1 : matrix.shape[1];
  view.column_stride = transposed ? matrix.shape[0] : 1;
  return view;
}

// Quantises some columns of the matrix at a time; `use` gets the quantised columns, which are rows of the
// result, and their values as fp32 [columns, k].
template <typename Use>
Status ForQuantizedColumns(const DerivedTensor& derived, const ElementReader& read, Use use) {
  const DerivedTensor& matrix = *derived.operands[0];
  LAMINA_ASSIGN_OR_RETURN(const MatrixView view, ViewOf(matrix, read));
  const int64_t k = matrix.shape[0];
  const int64_t n = matrix.shape[1];
  const int64_t element_bytes = ElementBytes(view.tensor.type());
  const int64_t at_once = std::clamp<int64_t>(kPieceBytes / (k * 4), 16, std::max<int64_t>(16, n));
  const auto* data = static_cast<const std::byte*>(view.tensor.raw_data());
  BlockQuantizer quantizer(derived.bits, derived.block_size, k, matrix.type);
  std::vector<float> columns;
  for (int64_t first = 0; first < n; first += at_once) {
    const int64_t count = std::min(at_once, n - first);
    columns.resize(static_cast<size_t>(count * k));
    for (int64_t row = 0; row < k; ++row) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t element = row * view.row_stride + (first + i) * view.column_stride;
        columns[static_cast<size_t>(i * k + row)] =
            static_cast<float>(LoadElement(view.tensor.type(), data + element * element_bytes));
      }
    }
    quantizer.Quantize(columns, count);
    LAMINA_RETURN_IF_ERROR(use(quantizer, columns));
  }
  return Status();
}

Status StreamScales(const DerivedTensor& derived, const ElementReader& read, const ElementSink& sink) {
  const int64_t element_bytes = ElementBytes(derived.type);
  std::vector<std::byte> stored;
  return ForQuantizedColumns(derived, read, [&](const BlockQuantizer& quantizer, const std::vector<float>&) {
    stored.resize(quantizer.scales().size() * static_cast<size_t>(element_bytes));
    for (size_t i = 0; i < quantizer.scales().size(); ++i) {
      StoreElement(derived.type, static_cast<double>(quantizer.scales()[i]),
                   stored.data() + static_cast<int64_t>(i) * element_bytes);
    }
    return sink(stored);
  });
}

// Flat element `index` of a tensor of 4 or 8 bits, as an unsigned number.
uint8_t UnsignedElement(DataType type, const uint8_t* data, int64_t index) {
  switch (type) {
    case DataType::kUint8:
      return data[index];
    case DataType::kInt8:
      return data[index] ^ 0x80;
    case DataType::kUint4:
      return (data[index / 2] >> (index % 2 * 4)) & 0x0F;
    default:
      return ((data[index / 2] >> (index % 2 * 4)) & 0x0F) ^ 0x08;
  }
}

Status StreamPackedIntegers(const DerivedTensor& derived, const ElementReader& read,
                            const ElementSink& sink) {
  const DerivedTensor& matrix = *derived.operands[0];
  LAMINA_ASSIGN_OR_RETURN(const Tensor tensor, ComputeDerived(matrix, read));
  const auto* data = static_cast<const uint8_t*>(tensor.raw_data());
  const bool has_rows = derived.axis == 1;  // [n, k] as it is
  const int64_t k = matrix.shape[derived.axis];
  const int64_t n = matrix.shape[1 - derived.axis];
  const int64_t per_byte = 8 / DataTypeBits(matrix.type);
  const int64_t row_bytes = derived.shape[1];
  const int64_t at_once =
      std::clamp<int64_t>(kPieceBytes / std::max<int64_t>(1, row_bytes), 16, std::max<int64_t>(16, n));
  std::vector<uint8_t> piece;
  for (int64_t first = 0; first < n; first += at_once) {
    const int64_t count = std::min(at_once, n - first);
    piece.assign(static_cast<size_t>(count * row_bytes), 0);
    for (int64_t step = 0; step < k; ++step) {
      const int64_t shift = step % per_byte * 4;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t element = has_rows ? (first + i) * k + step : step * n + first + i;
        uint8_t& byte = piece[static_cast<size_t>(i * row_bytes + step / per_byte)];
        byte = static_cast<uint8_t>(byte | UnsignedElement(matrix.type, data, element) << shift);
      }
    }
    LAMINA_RETURN_IF_ERROR(sink(std::as_bytes(std::span(piece))));
  }
  return Status();
}

Status StreamSource(const DerivedTensor& derived, const ElementReader& read, const ElementSink& sink) {
  LAMINA_ASSIGN_OR_RETURN(const Tensor tensor, read(derived.source));
  const auto bytes = BytesOf(tensor);
  for (size_t done = 0; done < bytes.size(); done += kPieceBytes) {
    LAMINA_RETURN_IF_ERROR(sink(bytes.subspan(done, std::min<size_t>(kPieceBytes, bytes.size() - done))));
  }
  return Status();
}

}  // namespace

Status StreamElements(const DerivedTensor& derived, const ElementReader& read, const ElementSink& sink) {
  switch (derived.operation) {
    case DerivedOperation::kSource:
      return StreamSource(derived, read, sink);
    case DerivedOperation::kConcat:
      return StreamConcat(derived, read, sink);
    case DerivedOperation::kSlice:
      return StreamSlice(derived, read, sink);
    case DerivedOperation::kTranspose:
      return StreamTranspose(derived, read, sink);
    case DerivedOperation::kReshape:
      return StreamElements(*derived.operands[0], read, sink);
    case DerivedOperation::kCast:
      return StreamConverted(*derived.operands[0], derived.type, read, sink,
                             [](int64_t, double value) { return value; });
    case DerivedOperation::kMultiply:
      return StreamProduct(derived, read, sink);
    case DerivedOperation::kQuantizeBlocks:
      return ForQuantizedColumns(derived, read,
                                 [&](const BlockQuantizer& quantizer, const std::vector<float>&) {
                                   return sink(std::as_bytes(std::span(quantizer.packed())));
                                 });
    case DerivedOperation::kBlockScales:
      return StreamScales(derived, read, sink);
    case DerivedOperation::kPackIntegers:
      return StreamPackedIntegers(derived, read, sink);
  }
  return InternalError("unknown derived operation");
}

Result<Tensor> ComputeDerived(const DerivedTensor& derived, const ElementReader& read) {
  if (derived.operation == DerivedOperation::kSource) return read(derived.source);
  LAMINA_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(derived.type, derived.shape));
  auto* target = static_cast<std::byte*>(result.mutable_raw_data());
  uint64_t done = 0;
  LAMINA_RETURN_IF_ERROR(StreamElements(derived, read, [&](std::span<const std::byte> piece) {
    if (done + piece.size() > result.size_bytes()) {
      return InternalError("{} gave more than the {} bytes of its shape",
                           DerivedOperationName(derived.operation), result.size_bytes());
    }
    std::memcpy(target + done, piece.data(), piece.size());
    done += piece.size();
    return Status();
  }));
  if (done != result.size_bytes()) {
    return InternalError("{} gave {} bytes, its shape has {}", DerivedOperationName(derived.operation), done,
                         result.size_bytes());
  }
  return result;
}

Result<QuantizationError> MeasureQuantization(const DerivedTensor& packed, const ElementReader& read) {
  double squares = 0;
  double error_squares = 0;
  QuantizationError error;
  // A concatenation of quantised matrices has their parts.
  const std::vector<DerivedTensorPtr> alone = {std::make_shared<const DerivedTensor>(packed)};
  const auto& parts = packed.operation == DerivedOperation::kConcat ? packed.operands : alone;
  const auto measure = [&](const BlockQuantizer& quantizer, const std::vector<float>& columns) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const double difference = static_cast<double>(quantizer.Restored(i)) - static_cast<double>(columns[i]);
      squares += static_cast<double>(columns[i]) * static_cast<double>(columns[i]);
      error_squares += difference * difference;
      error.largest = std::max(error.largest, std::abs(difference));
    }
    return Status();
  };
  for (const DerivedTensorPtr& part : parts) {
    LAMINA_RETURN_IF_ERROR(ForQuantizedColumns(*part, read, measure));
  }
  error.relative = squares > 0 ? std::sqrt(error_squares / squares) : 0;
  return error;
}

}  // namespace lamina
