// The kernels of the device half: what the host half passes to each family. Plain C types only, as in
// device_api.h.
//
// A function puts its work on `target.stream` and returns a cudaError_t as int, 0 where the work was
// launched. Nothing waits, allocates or throws. Pointers are device memory; strides and counts are in
// elements where nothing else is said. Empty tensors launch nothing.
#pragma once

#include <cstdint>

namespace lamina::cuda {

// ONNX's numbers (TensorProto.DataType).
enum class ElementType : int32_t {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
};

struct LaunchTarget {
  int32_t device = 0;  // the driver's ordinal
  int32_t multiprocessors = 1;
  int32_t compute_capability = 0;  // 90 for 9.0
  void* stream = nullptr;
};

// Nested loops over fewer than 2^31 elements, outermost first, and how far each step of a loop moves in each
// operand (0: the operand repeats).
struct StridedLoops {
  static constexpr int kMaxRank = 8;
  static constexpr int kMaxOperands = 4;
  int32_t rank = 0;  // 0: one element
  uint32_t count = 1;
  uint32_t dims[kMaxRank] = {};
  int64_t strides[kMaxOperands][kMaxRank] = {};
};

// ---- Elementwise

enum class UnaryOp : int32_t {
  kAbs,
  kNeg,
  kSign,
  kCeil,
  kFloor,
  kRound,
  kReciprocal,
  kSqrt,
  kExp,
  kLog,
  kSin,
  kCos,
  kTanh,
  kErf,
  kRelu,
  kLeakyRelu,    // alpha
  kElu,          // alpha
  kSigmoid,      //
  kHardSigmoid,  // alpha x + beta
  kHardSwish,
  kSoftplus,
  kSwish,  // x sigmoid(alpha x)
  kGeluErf,
  kGeluTanh,
  kNot,  // bool
};

// float, float16, bfloat16; kAbs, kNeg and kSign also int32 and int64; kNot bool.
struct UnaryArguments {
  UnaryOp op;
  ElementType type;
  const void* x;
  void* y;  // may be x
  int64_t count;
  float alpha;
  float beta;
};

enum class BinaryOp : int32_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kPow,
  kMax,
  kMin,
  kSwiGlu,  // a sigmoid(alpha a) b
  // To bool:
  kEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  // Of bool:
  kAnd,
  kOr,
  kXor,
};

// float, float16, bfloat16, int32, int64; bool for kEqual and the logical ones. Operands: a, b; the output is
// contiguous.
struct BinaryArguments {
  BinaryOp op;
  ElementType type;
  const void* a;
  const void* b;
  void* y;  // may be an operand that does not repeat
  float alpha;
  StridedLoops loops;
};

// Operands: condition, x, y. Elements of 1, 2, 4 or 8 bytes.
struct WhereArguments {
  int32_t element_bytes;
  const uint8_t* condition;
  const void* x;
  const void* y;
  void* out;
  StridedLoops loops;
};

// Between all ElementTypes. Numbers out of an integer's range saturate, NaN becomes 0.
struct CastArguments {
  ElementType from;
  ElementType to;
  const void* x;
  void* y;
  int64_t count;
};

// ---- Moving elements

// Operands: source, destination. Elements of 1, 2, 4, 8 or 16 bytes.
struct StridedCopyArguments {
  int32_t element_bytes;
  const void* source;
  void* destination;
  StridedLoops loops;
};

// out[o, i, :] = data[o, indices[i], :] for rows of row_bytes. A negative index counts from the end; one that
// is out of range gives zeros.
struct GatherArguments {
  const void* data;
  const void* indices;
  ElementType index_type;  // int32 or int64
  void* out;
  int64_t outer;
  int64_t axis_dim;
  int64_t index_count;
  int64_t row_bytes;
};

// As Gather, from values of 4 or 8 bits in blocks along one axis.
struct GatherQuantizedArguments {
  ElementType type;  // of scales and output: float, float16, bfloat16
  const uint8_t* data;
  const void* indices;
  ElementType index_type;
  const void* scales;
  const uint8_t* zeros;  // null: default_zero
  void* out;
  int32_t bits;
  int32_t is_signed;  // 4-bit values are -8 to 7
  int32_t default_zero;
  int32_t zero_rows_padded;  // 4-bit zero points of each last dimension begin with a fresh byte
  int64_t outer;
  int64_t gather_dim;
  int64_t index_count;
  int64_t inner;  // values of one slice
  int64_t quantize_dim;
  int64_t quantize_stride;  // values between neighbours along the quantised axis
  int64_t block_size;
  int64_t blocks;  // along it
  int64_t last_scale_dim;
};

// y[i] = start + i * step, in the element type. Integers where the type is one.
struct RangeArguments {
  ElementType type;  // float, int32, int64
  void* y;
  int64_t count;
  double start;
  double step;
  int64_t integer_start;
  int64_t integer_step;
};

// Repeats an element of 1, 2, 4 or 8 bytes.
struct FillArguments {
  int32_t element_bytes;
  void* y;
  int64_t count;
  uint64_t bits;
};

// out[b, 0, s, j] = 0 where row b's token at keys - sequence + s may see key j, else `masked`.
struct CausalMaskArguments {
  const void* mask;       // [batch, keys]
  ElementType mask_type;  // int64, int32, bool
  float* out;             // [batch, 1, sequence, keys]
  int64_t batch;
  int64_t sequence;
  int64_t keys;
  int64_t window;  // keys seen, the token's own included; 0: all
  float masked;
};

// ---- Rows

enum class ReduceOp : int32_t { kSum, kMean, kMax, kMin, kProduct, kSumSquare, kL2 };

// y[i] over `kept`, each from the elements of `reduced` at it. Operand 0 of both: x. float, float16,
// bfloat16, int32, int64.
struct ReduceArguments {
  ReduceOp op;
  ElementType type;
  const void* x;
  void* y;
  StridedLoops kept;
  StridedLoops reduced;
};

// Along the middle of [outer, count, inner]. float, float16, bfloat16.
struct SoftmaxArguments {
  ElementType type;
  int32_t logarithm;
  const void* x;
  void* y;
  int64_t outer;
  int64_t count;
  int64_t inner;
};

// Rows [rows, hidden] of x + skip + bias, normalised, scaled and shifted. float, float16, bfloat16.
struct NormArguments {
  ElementType type;
  ElementType scale_type;  // of scale and shift: `type` or float
  const void* x;
  const void* skip;  // [skip_rows, hidden], repeated; null: none
  const void* bias;  // [hidden]; null: none
  const void* scale;
  const void* shift;  // null: none
  void* y;
  void* sum;                 // x + skip + bias; null: not wanted
  float* mean;               // [rows]; null: not wanted
  float* inverse_deviation;  // [rows]; null: not wanted
  int64_t rows;
  int64_t hidden;
  int64_t skip_rows;
  float epsilon;
  int32_t rms;                 // no mean is taken off
  int32_t round_before_scale;  // to `type`
};

// ---- Attention

// Elements of (batch b, token s, head h) begin at b * batch + s * token + h * head.
struct HeadStrides {
  int64_t batch;
  int64_t token;
  int64_t head;
};

// Which row of [positions, pairs] caches turns token s of sequence b.
enum class RotaryPosition : int32_t {
  kByToken,   // the caches hold a row for each token of the run
  kIds,       // ids[b * sequence + s]
  kFirstId,   // ids[0] + s
  kFromPast,  // the sequence's past + s
};

struct RotaryArguments {
  ElementType type;  // float, float16, bfloat16
  const void* x;
  void* y;  // may be x
  HeadStrides x_strides;
  HeadStrides y_strides;
  int32_t batch;
  int32_t sequence;
  int32_t heads;
  int32_t head_size;
  const void* cos;  // [cache_rows, pairs]
  const void* sin;
  int64_t cache_rows;  // rows beyond are not read: the last serves
  int32_t pairs;
  int32_t interleaved;
  RotaryPosition position;
  const int64_t* ids;
};

// KvPlane of provider/kv_view.h.
struct KvPlaneArguments {
  void* base;
  int64_t block_stride_bytes;
  int64_t head_stride_bytes;
  int64_t token_stride_bytes;
};

struct KvCacheArguments {
  KvPlaneArguments key;
  KvPlaneArguments value;
  const int32_t* block_table;  // null: block b belongs to sequence b
  int32_t blocks_per_sequence;
  int32_t block_tokens;
  int32_t capacity_tokens;  // writes beyond are dropped
};

// Where the rows of a batch stand. Read on the device, so that nothing waits for it.
struct RowLengths {
  const int32_t* past;   // [batch] tokens before this run; null: from `last`
  const int32_t* last;   // [batch] index of the last valid token, the run's included; null: all of them
  int32_t fixed_past;    // without both
  int32_t first_prompt;  // with `last`: nothing comes before the run
};

// For each token of the run: its keys, normalised and rotated, and its values, put into the cache; its
// queries likewise to `queries`.
struct AttentionTokensArguments {
  ElementType type;
  int32_t batch;
  int32_t sequence;
  int32_t heads;
  int32_t kv_heads;
  int32_t head_size;
  int32_t value_head_size;
  const void* query;
  const void* key;
  const void* value;
  HeadStrides query_strides;
  HeadStrides key_strides;
  HeadStrides value_strides;
  void* queries;       // [batch, sequence, heads, head_size]; null: they stay as they are
  const void* q_norm;  // [head_size]; null: none
  const void* k_norm;
  float norm_epsilon;
  const void* cos;  // null: no rotation
  const void* sin;
  int64_t cache_rows;
  int32_t pairs;
  int32_t interleaved;
  RotaryPosition position;
  const int64_t* ids;
  KvCacheArguments cache;
  RowLengths lengths;
};

// Copies the past of a run's rows to the front of another plane, for caches that are ordinary tensors:
// [batch, kv_heads, tokens, head_size] both, for keys and values alike. What is behind the past is zeroed.
struct AttentionPastArguments {
  int32_t element_bytes;
  int32_t batch;
  int32_t kv_heads;
  int32_t head_size;
  int32_t sequence;
  const void* past;  // null: zeros
  int32_t past_tokens;
  void* present;
  int32_t present_tokens;
  RowLengths lengths;
};

// A term of the scores; see providers/cpu/attention/attention.h.
struct AttentionBiasArguments {
  const void* data;  // null: none
  ElementType type;  // float, float16, bfloat16: added; bool, int32: `masked` is added where it is zero
  float masked;
  int64_t batch_stride;
  int64_t head_stride;
  int64_t query_stride;
  int64_t key_stride;
  int64_t keys;  // those after it are not seen
};

// Attention of the run's queries over the cache. Where a sequence has few queries its keys are cut into
// `splits` runs, whose partial results lie in `workspace` and are merged in order.
struct AttentionArguments {
  ElementType type;
  int32_t batch;
  int32_t sequence;
  int32_t heads;
  int32_t kv_heads;
  int32_t head_size;
  int32_t value_head_size;
  const void* query;
  HeadStrides query_strides;
  void* out;
  HeadStrides out_strides;
  KvCacheArguments cache;
  RowLengths lengths;
  float scale;
  float softcap;        // 0: none
  int32_t window_left;  // keys before the position; -1: all
  int32_t window_right;
  AttentionBiasArguments biases[2];
  const void* sinks;  // [heads] of `type`; null: none
  int32_t zero_sink;
  int32_t splits;    // 1 to 32
  float* workspace;  // [batch, sequence, heads, splits, value_head_size + 2]; null where splits is 1
};

// Both for runs of one token a sequence: the token's way into the cache, and its attention. The
// queries stay inside the kernel.
struct AttentionStepArguments {
  AttentionTokensArguments tokens;
  AttentionArguments attention;
};

// ---- Products

// y = alpha x B + beta c, with B packed as [n, packed_k], rows of k values and zeros up to packed_k.
// float, float16, bfloat16; sums are fp32.
struct ProductArguments {
  ElementType type;
  const void* x;  // [m, k], rows x_stride apart
  const void* b;
  void* y;  // [m, n], rows y_stride apart
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t x_stride;
  int64_t packed_k;
  int64_t y_stride;
  float alpha;
  float beta;
  const void* c;  // element (i, j) at i * c_row_stride + j * c_column_stride; null: none
  int64_t c_row_stride;
  int64_t c_column_stride;
  void* workspace;  // of kProductWorkspaceBytes; null: only own kernels
  uint64_t workspace_bytes;
  int32_t is_b_fresh;  // b was written by kernels of this run
};

// What the vendor's library may use; declared by kernels with many rows.
constexpr uint64_t kProductWorkspaceBytes = uint64_t{32} << 20;
// Rows up to which products read the weights once for each few rows instead of through tiles.
constexpr int64_t kMaxVectorRows = 8;
// Rows of packed matrices are padded to this many bytes.
constexpr int64_t kPackedRowAlignmentBytes = 16;

// [k, n] or [n, k] to [n, packed_k].
struct PackProductArguments {
  int32_t element_bytes;
  const void* b;
  int32_t transposed;  // b is [n, k]
  void* packed;
  int64_t n;
  int64_t k;
  int64_t packed_k;
};

// Batches of y[i] = x[i] B[i] of matrices as they are: operand strides of a batch from loops over the batch
// axes (operands x, b, y).
struct BatchedProductArguments {
  ElementType type;
  const void* x;
  const void* b;
  void* y;
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t x_row_stride, x_column_stride;
  int64_t b_row_stride, b_column_stride;
  int64_t y_row_stride;
  StridedLoops batch;
};

// Weights of 2, 4 or 8 bits [n, blocks, block_size * bits / 8] with a scale for each block.
struct NBitsMatrixArguments {
  int32_t bits;
  int32_t block_size;  // a power of two of at least 16
  int64_t n;
  int64_t k;
  int64_t blocks;         // of a row
  const uint8_t* data;    // aligned to 16 bytes
  const void* scales;     // [n, blocks] of the product's type
  const void* zeros;      // null: 2^(bits - 1)
  ElementType zero_type;  // uint8: packed as the weights, rows padded to whole bytes; else as the scales,
                          // float or 16 bits
};

// y = x W^T + bias.
struct NBitsProductArguments {
  ElementType type;
  const void* x;  // [m, k]
  void* y;        // [m, n]
  int64_t m;
  const void* bias;  // [n]; null: none
  NBitsMatrixArguments w;
};

// Weights of 4 bits for products of float16, in the layout of four_bits.cuh: blocks are multiples of 32, zero
// points are none or uint8.
constexpr int64_t kFourBitsTileRows = 16;
constexpr int64_t kFourBitsTileK = 64;

inline uint64_t FourBitsTileBytes(int64_t block_size, bool has_zeros) {
  const uint64_t blocks = block_size == 32 ? 2 : 1;
  const uint64_t values = blocks * static_cast<uint64_t>(kFourBitsTileRows);
  return static_cast<uint64_t>(kFourBitsTileRows * kFourBitsTileK) / 2 + values * 2 +
         (has_zeros ? values : 0);
}
// Of [n, k].
inline uint64_t FourBitsPackedBytes(int64_t n, int64_t k, int64_t block_size, bool has_zeros) {
  const auto row_tiles = static_cast<uint64_t>((n + kFourBitsTileRows - 1) / kFourBitsTileRows);
  const auto k_tiles = static_cast<uint64_t>((k + kFourBitsTileK - 1) / kFourBitsTileK);
  return row_tiles * k_tiles * FourBitsTileBytes(block_size, has_zeros);
}

struct PackFourBitsArguments {
  NBitsMatrixArguments w;
  void* packed;  // [FourBitsPackedBytes], aligned to 16
};

// y = x W^T + bias, for few rows of x.
struct FourBitsProductArguments {
  const void* x;  // [m, k]
  void* y;        // [m, n]
  int64_t m;
  int64_t n;
  int64_t k;
  const void* bias;  // [n]; null: none
  const void* packed;
  int32_t block_size;
  int32_t has_zeros;
};

// Rows [first_row, first_row + rows) as [rows, packed_k]; first_row is a multiple of kFourBitsTileRows.
struct FourBitsUnpackArguments {
  const void* packed;
  int64_t k;
  int32_t block_size;
  int32_t has_zeros;
  int64_t first_row;
  int64_t rows;
  int64_t packed_k;
  void* out;
};

// y [rows, k] = x, each block of block_size along k rounded to multiples of its largest magnitude / 127.
struct RoundActivationsArguments {
  ElementType type;
  const void* x;
  void* y;
  int64_t rows;
  int64_t k;
  int64_t block_size;
};

// Rows [first_row, first_row + rows) of W as [rows, packed_k] of `type`.
struct NBitsUnpackArguments {
  ElementType type;
  NBitsMatrixArguments w;
  int64_t first_row;
  int64_t rows;
  int64_t packed_k;
  void* out;
};

struct KernelApi {
  int (*unary)(const LaunchTarget&, const UnaryArguments&);
  int (*binary)(const LaunchTarget&, const BinaryArguments&);
  int (*where)(const LaunchTarget&, const WhereArguments&);
  int (*cast)(const LaunchTarget&, const CastArguments&);
  int (*strided_copy)(const LaunchTarget&, const StridedCopyArguments&);
  int (*gather)(const LaunchTarget&, const GatherArguments&);
  int (*gather_quantized)(const LaunchTarget&, const GatherQuantizedArguments&);
  int (*range)(const LaunchTarget&, const RangeArguments&);
  int (*fill)(const LaunchTarget&, const FillArguments&);
  int (*causal_mask)(const LaunchTarget&, const CausalMaskArguments&);
  int (*reduce)(const LaunchTarget&, const ReduceArguments&);
  int (*softmax)(const LaunchTarget&, const SoftmaxArguments&);
  int (*norm)(const LaunchTarget&, const NormArguments&);
  int (*rotary)(const LaunchTarget&, const RotaryArguments&);
  int (*attention_past)(const LaunchTarget&, const AttentionPastArguments&);
  int (*attention_tokens)(const LaunchTarget&, const AttentionTokensArguments&);
  int (*attention)(const LaunchTarget&, const AttentionArguments&);
  // kErrorNotSupported where the two apart must serve: nothing is launched then.
  int (*attention_step)(const LaunchTarget&, const AttentionStepArguments&);
  int (*pack_product)(const LaunchTarget&, const PackProductArguments&);
  int (*product)(const LaunchTarget&, const ProductArguments&);
  int (*batched_product)(const LaunchTarget&, const BatchedProductArguments&);
  int (*nbits_product)(const LaunchTarget&, const NBitsProductArguments&);
  int (*round_activations)(const LaunchTarget&, const RoundActivationsArguments&);
  int (*nbits_unpack)(const LaunchTarget&, const NBitsUnpackArguments&);
  int (*pack_four_bits)(const LaunchTarget&, const PackFourBitsArguments&);
  int (*four_bits_product)(const LaunchTarget&, const FourBitsProductArguments&);
  int (*four_bits_unpack)(const LaunchTarget&, const FourBitsUnpackArguments&);
};

// Defined in kernel_table.cu.
const KernelApi& KernelTable();

}  // namespace lamina::cuda
