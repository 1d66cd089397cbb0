#include "providers/cpu/tensor/element_convert.h"

#include <algorithm>
#include <array>

#include "base/element_type.h"
#include "provider/type_set.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

constexpr int64_t kTile = 512;  // a multiple of 8: packed tiles begin at a byte

constexpr TypeSet kPackedInts{DataType::kUint4, DataType::kInt4, DataType::kUint2, DataType::kInt2};
constexpr TypeSet kFloatCoded =
    kFloat8Types | TypeSet{DataType::kFloat16, DataType::kBfloat16, DataType::kFloat4E2M1};

// The C++ type that elements of `type` are converted through: itself, float for the small floating-point
// types, int32 for the small integers.
DataType NativeOf(DataType type) {
  if (kPackedInts.Contains(type)) return DataType::kInt32;
  return kFloatCoded.Contains(type) ? DataType::kFloat : type;
}

template <typename From, typename To>
void ConvertRun(const void* source, void* target, int64_t count) {
  const From* x = static_cast<const From*>(source);
  To* y = static_cast<To*>(target);
  for (int64_t i = 0; i < count; ++i) y[i] = ConvertNumber<To>(x[i]);
}

using RunFunction = void (*)(const void*, void*, int64_t);

template <typename From>
RunFunction FindRunFrom(DataType to) {
  RunFunction found = nullptr;
  DispatchType<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool>(
      to, [&](auto tag) { found = ConvertRun<From, typename decltype(tag)::type>; });
  return found;
}

RunFunction FindRun(DataType from, DataType to) {
  RunFunction found = nullptr;
  DispatchType<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool>(
      from, [&](auto tag) { found = FindRunFrom<typename decltype(tag)::type>(to); });
  return found;
}

const void* At(const void* base, DataType type, int64_t index) {
  return static_cast<const std::byte*>(base) + index * DataTypeBits(type) / 8;
}
void* At(void* base, DataType type, int64_t index) {
  return static_cast<std::byte*>(base) + index * DataTypeBits(type) / 8;
}

// fp8 codes and FP4 nibbles as floats.
float DecodeCode(DataType type, uint8_t code) {
  switch (type) {
    case DataType::kFloat8E4M3Fn:
      return E4M3FnToFloat(code);
    case DataType::kFloat8E4M3Fnuz:
      return E4M3FnuzToFloat(code);
    case DataType::kFloat8E5M2:
      return E5M2ToFloat(code);
    case DataType::kFloat8E5M2Fnuz:
      return E5M2FnuzToFloat(code);
    case DataType::kFloat8E8M0:
      return E8M0ToFloat(code);
    default:
      return E2M1ToFloat(code);
  }
}

uint8_t EncodeCode(DataType type, float value, const ConvertOptions& options) {
  switch (type) {
    case DataType::kFloat8E4M3Fn:
      return FloatToE4M3Fn(value, options.saturate);
    case DataType::kFloat8E4M3Fnuz:
      return FloatToE4M3Fnuz(value, options.saturate);
    case DataType::kFloat8E5M2:
      return FloatToE5M2(value, options.saturate);
    case DataType::kFloat8E5M2Fnuz:
      return FloatToE5M2Fnuz(value, options.saturate);
    case DataType::kFloat8E8M0:
      return FloatToE8M0(value, options.saturate, options.e8m0_rounding);
    default:
      return FloatToE2M1(value);
  }
}

// Elements of a type that is not its own NativeOf into a tile of that, and back. `source` and `target` are
// where the tile begins.
void DecodeTile(DataType type, const void* source, void* tile, int64_t count) {
  if (kPackedInts.Contains(type)) {
    for (int64_t i = 0; i < count; ++i) static_cast<int32_t*>(tile)[i] = ReadPackedInt(type, source, i);
    return;
  }
  float* values = static_cast<float*>(tile);
  if (type == DataType::kFloat16 || type == DataType::kBfloat16) {
    ConvertToFloat(type, source, values, count);
    return;
  }
  const auto* codes = static_cast<const uint8_t*>(source);
  for (int64_t i = 0; i < count; ++i) {
    const auto code =
        type == DataType::kFloat4E2M1 ? static_cast<uint8_t>(codes[i / 2] >> (i % 2 * 4) & 15) : codes[i];
    values[i] = DecodeCode(type, code);
  }
}

void EncodeTile(DataType type, const void* tile, void* target, int64_t count, const ConvertOptions& options) {
  if (kPackedInts.Contains(type)) {
    for (int64_t i = 0; i < count; ++i) WritePackedInt(type, target, i, static_cast<const int32_t*>(tile)[i]);
    return;
  }
  const float* values = static_cast<const float*>(tile);
  if (type == DataType::kFloat16 || type == DataType::kBfloat16) {
    ConvertFromFloat(type, values, target, count);
    return;
  }
  auto* codes = static_cast<uint8_t*>(target);
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t code = EncodeCode(type, values[i], options);
    if (type == DataType::kFloat4E2M1) {
      WritePackedInt(type, target, i, code);
    } else {
      codes[i] = code;
    }
  }
}

}  // namespace

bool IsConvertible(DataType type) {
  return (kFixedSizeTypes.Contains(type)) && type != DataType::kComplex64 && type != DataType::kComplex128;
}

int ReadPackedInt(DataType type, const void* source, int64_t index) {
  const int bits = DataTypeBits(type);
  const int per_byte = 8 / bits;
  const int pattern =
      static_cast<const uint8_t*>(source)[index / per_byte] >> (index % per_byte * bits) & ((1 << bits) - 1);
  const bool negative = (type == DataType::kInt4 || type == DataType::kInt2) && (pattern >> (bits - 1)) != 0;
  return negative ? pattern - (1 << bits) : pattern;
}

void WritePackedInt(DataType type, void* target, int64_t index, int value) {
  const int bits = DataTypeBits(type);
  const int per_byte = 8 / bits;
  const int mask = (1 << bits) - 1;
  const int shift = static_cast<int>(index % per_byte) * bits;
  uint8_t& byte = static_cast<uint8_t*>(target)[index / per_byte];
  byte = static_cast<uint8_t>((byte & ~(mask << shift)) | (value & mask) << shift);
}

void ConvertElements(DataType from, const void* source, DataType to, void* target, int64_t first,
                     int64_t count, const ConvertOptions& options) {
  const DataType native_from = NativeOf(from);
  const DataType native_to = NativeOf(to);
  const RunFunction run = FindRun(native_from, native_to);
  if (native_from == from && native_to == to) {
    run(At(source, from, first), At(target, to, first), count);
    return;
  }
  alignas(64) std::array<double, kTile> from_tile;  // room for a tile of any native type
  alignas(64) std::array<double, kTile> to_tile;
  for (int64_t done = 0; done < count; done += kTile) {
    const int64_t length = std::min(kTile, count - done);
    const void* decoded = At(source, from, first + done);
    if (native_from != from) {
      DecodeTile(from, decoded, from_tile.data(), length);
      decoded = from_tile.data();
    }
    if (native_to == to) {
      run(decoded, At(target, to, first + done), length);
      continue;
    }
    const void* converted = decoded;
    if (native_from != native_to) {
      run(decoded, to_tile.data(), length);
      converted = to_tile.data();
    }
    EncodeTile(to, converted, At(target, to, first + done), length, options);
  }
}

void ReadFloats(DataType type, const void* source, int64_t first, int64_t count, float* values) {
  // Element `first` of the source is element 0 of the tile.
  if (DataTypeBits(type) >= 8 || first % 8 == 0) {
    ConvertElements(type, At(source, type, first), DataType::kFloat, values, 0, count);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int pattern = ReadPackedInt(type, source, first + i);
    values[i] = type == DataType::kFloat4E2M1 ? E2M1ToFloat(static_cast<uint8_t>(pattern))
                                              : static_cast<float>(pattern);
  }
}

void WriteFloats(DataType type, const float* values, void* target, int64_t first, int64_t count,
                 const ConvertOptions& options) {
  if (DataTypeBits(type) >= 8 || first % 8 == 0) {
    ConvertElements(DataType::kFloat, values, type, At(target, type, first), 0, count, options);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int pattern =
        type == DataType::kFloat4E2M1 ? FloatToE2M1(values[i]) : ConvertNumber<int32_t>(values[i]);
    WritePackedInt(type, target, first + i, pattern);
  }
}

}  // namespace lamina
