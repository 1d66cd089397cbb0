// Times kernels of the CUDA provider's device half by themselves, beside what the memory gives in the same
// run.
//
//   nvcc -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a -Isrc -Iinclude -o bench_cuda_kernels
//     bench/bench_cuda_kernels.cu src/providers/cuda/device/*.cu -ldl
//
// A line for each: name, microseconds (the median of repeats), and GB/s of weights or TFLOP/s. Launches
// follow each other in a graph, as in a decode step. Products at decode go through as many matrices as do not
// fit the cache.
#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "providers/cuda/device/platform.cuh"

namespace lamina::cuda {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

LaunchTarget target;

void Check(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(static_cast<cudaError_t>(error)));
  std::exit(1);
}

__global__ void FillRandom(uint32_t* data, int64_t count, uint32_t mask, uint32_t bits) {
  for (int64_t i = FirstItem(); i < count; i += ItemStep()) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    data[i] = (x & mask) | bits;
  }
}

// Halves of magnitude 0.25 to 0.5, or any bits.
void* Device(int64_t bytes, bool halves) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, static_cast<size_t>(bytes)), "allocating");
  FillRandom<<<1024, 256>>>(static_cast<uint32_t*>(memory), bytes / 4, halves ? 0x83ff83ffu : 0xffffffffu,
                            halves ? 0x34003400u : 0u);
  return memory;
}

__global__ void ReadAll(const uint4* data, int64_t count, uint32_t* out) {
  uint32_t sum = 0;
  for (int64_t i = FirstItem(); i < count; i += 4 * ItemStep()) {
    uint4 values[4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (i + j * ItemStep() < count) values[j] = LoadOnce(data + i + j * ItemStep());
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) sum += values[j].x ^ values[j].y ^ values[j].z ^ values[j].w;
  }
  if (sum == 0x12345678u) *out = sum;
}

// Microseconds of launch(i), i counting up, from `repeats` measurements of `calls` each, which are a graph.
template <typename F>
double Time(int repeats, int calls, F launch) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  const auto stream = static_cast<cudaStream_t>(target.stream);
  for (int i = 0; i < calls; ++i) launch(i);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "recording");
  for (int i = 0; i < calls; ++i) launch(i);
  Check(cudaStreamEndCapture(stream, &graph), "recording");
  Check(cudaGraphInstantiate(&executable, graph, 0), "recording");
  cudaGraphLaunch(executable, stream);
  std::vector<float> times;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    cudaEventRecord(begin, stream);
    cudaGraphLaunch(executable, stream);
    cudaEventRecord(end, stream);
    Check(cudaEventSynchronize(end), "waiting");
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    times.push_back(ms * 1000 / static_cast<float>(calls));
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void Bandwidth() {
  void* from = Device(4 * kGiB, false);
  void* to = Device(4 * kGiB, false);
  const auto stream = static_cast<cudaStream_t>(target.stream);
  const double copy =
      Time(5, 2, [&](int) { cudaMemcpyAsync(to, from, 4 * kGiB, cudaMemcpyDefault, stream); });
  const double read = Time(5, 2, [&](int) {
    ReadAll<<<target.multiprocessors * 8, 512, 0, stream>>>(static_cast<uint4*>(from), 4 * kGiB / 16,
                                                            static_cast<uint32_t*>(to));
  });
  std::printf("copy (read + written) %.0f GB/s\nread %.0f GB/s\n", 8.0 * kGiB / copy / 1e3,
              4.0 * kGiB / read / 1e3);
  cudaFree(from);
  cudaFree(to);
}

void Product(int64_t m, int64_t n, int64_t k) {
  const int64_t bytes = n * k * 2;
  const int matrices = static_cast<int>(std::clamp<int64_t>(kGiB / 2 / bytes, 1, 16));
  char* b = static_cast<char*>(Device(bytes * matrices, true));
  ProductArguments arguments = {};
  arguments.type = ElementType::kFloat16;
  arguments.x = Device(m * k * 2, true);
  arguments.y = Device(m * n * 2, true);
  arguments.m = m;
  arguments.n = n;
  arguments.k = arguments.packed_k = arguments.x_stride = k;
  arguments.y_stride = n;
  arguments.alpha = 1;
  for (const bool library : {false, true}) {
    if (library && m <= kMaxVectorRows) continue;
    arguments.workspace = library ? Device(static_cast<int64_t>(kProductWorkspaceBytes), false) : nullptr;
    arguments.workspace_bytes = kProductWorkspaceBytes;
    const double time = Time(9, matrices, [&](int i) {
      arguments.b = b + i * bytes;
      Check(KernelTable().product(target, arguments), "product");
    });
    std::printf("fp16 product%s %5ld x %6ld x %5ld  %8.1f us  %7.1f GB/s  %7.1f TFLOP/s\n",
                library ? ", library," : "", static_cast<long>(m), static_cast<long>(n), static_cast<long>(k),
                time, static_cast<double>(bytes) / time / 1e3, 2.0 * m * n * k / time / 1e6);
  }
  cudaFree(b);
}

void NBits(int64_t n, int64_t k) {
  const int64_t bytes = n * k / 2;
  const int64_t scale_bytes = n * k / 32 * 2;
  const int matrices = static_cast<int>(std::clamp<int64_t>(kGiB / 2 / bytes, 1, 16));
  char* data = static_cast<char*>(Device(bytes * matrices, false));
  char* scales = static_cast<char*>(Device(scale_bytes * matrices, true));
  NBitsProductArguments arguments = {};
  arguments.type = ElementType::kFloat16;
  arguments.x = Device(k * 2, true);
  arguments.y = Device(n * 2, true);
  arguments.m = 1;
  arguments.w.bits = 4;
  arguments.w.block_size = 32;
  arguments.w.n = n;
  arguments.w.k = k;
  arguments.w.blocks = k / 32;
  const double time = Time(9, matrices, [&](int i) {
    arguments.w.data = reinterpret_cast<const uint8_t*>(data + i * bytes);
    arguments.w.scales = scales + i * scale_bytes;
    Check(KernelTable().nbits_product(target, arguments), "nbits_product");
  });
  std::printf("int4 product     1 x %6ld x %5ld  %8.1f us  %7.1f GB/s\n", static_cast<long>(n),
              static_cast<long>(k), time, static_cast<double>(bytes + scale_bytes) / time / 1e3);
  NBitsUnpackArguments unpack = {ElementType::kFloat16, arguments.w, 0, n, k, Device(n * k * 2, true)};
  const double unpack_time =
      Time(9, 4, [&](int) { Check(KernelTable().nbits_unpack(target, unpack), "nbits_unpack"); });
  std::printf("int4 unpack          %6ld x %5ld  %8.1f us  %7.1f GB/s written\n", static_cast<long>(n),
              static_cast<long>(k), unpack_time, 2.0 * static_cast<double>(n * k) / unpack_time / 1e3);
  cudaFree(data);
  cudaFree(unpack.out);
}

void FourBits(int64_t m, int64_t n, int64_t k) {
  const auto bytes = static_cast<int64_t>(FourBitsPackedBytes(n, k, 32, false));
  const int matrices = static_cast<int>(std::clamp<int64_t>(kGiB / 2 / bytes, 1, 64));
  char* packed = static_cast<char*>(Device(bytes * matrices, true));
  FourBitsProductArguments arguments = {};
  arguments.x = Device(m * k * 2, true);
  arguments.y = Device(m * n * 2, true);
  arguments.m = m;
  arguments.n = n;
  arguments.k = k;
  arguments.block_size = 32;
  const double time = Time(9, matrices, [&](int i) {
    arguments.packed = packed + i * bytes;
    Check(KernelTable().four_bits_product(target, arguments), "four_bits_product");
  });
  std::printf("int4 tiles   %5ld x %6ld x %5ld  %8.1f us  %7.1f GB/s\n", static_cast<long>(m),
              static_cast<long>(n), static_cast<long>(k), time, static_cast<double>(bytes) / time / 1e3);
  FourBitsUnpackArguments unpack = {packed, k, 32, 0, 0, n, k, Device(n * k * 2, true)};
  const double unpack_time =
      Time(9, 4, [&](int) { Check(KernelTable().four_bits_unpack(target, unpack), "four_bits_unpack"); });
  std::printf("int4 tiles unpacked  %6ld x %5ld  %8.1f us  %7.1f GB/s written\n", static_cast<long>(n),
              static_cast<long>(k), unpack_time, 2.0 * static_cast<double>(n * k) / unpack_time / 1e3);
  cudaFree(packed);
  cudaFree(unpack.out);
}

constexpr int kHeads = 32, kKvHeads = 8;

AttentionStepArguments MakeAttentionStep(int past, int head_size) {
  const int capacity = past + 1;
  AttentionStepArguments step = {};
  AttentionTokensArguments& tokens = step.tokens;
  AttentionArguments& attention = step.attention;
  const int64_t plane_bytes = int64_t{kKvHeads} * capacity * head_size * 2;
  for (KvPlaneArguments* plane : {&attention.cache.key, &attention.cache.value}) {
    *plane = {Device(plane_bytes, true), plane_bytes, int64_t{capacity} * head_size * 2, head_size * 2};
  }
  attention.cache.blocks_per_sequence = 1;
  attention.cache.block_tokens = attention.cache.capacity_tokens = capacity;
  int32_t* length = static_cast<int32_t*>(Device(256, false));
  cudaMemcpy(length, &past, sizeof past, cudaMemcpyDefault);
  attention.lengths.past = length;
  attention.type = tokens.type = ElementType::kFloat16;
  attention.batch = tokens.batch = attention.sequence = tokens.sequence = 1;
  attention.heads = tokens.heads = kHeads;
  attention.kv_heads = tokens.kv_heads = kKvHeads;
  attention.head_size = attention.value_head_size = tokens.head_size = tokens.value_head_size = head_size;
  tokens.query = Device((kHeads + 2 * kKvHeads) * head_size * 2, true);
  tokens.key = static_cast<const char*>(tokens.query) + kHeads * head_size * 2;
  tokens.value = static_cast<const char*>(tokens.key) + kKvHeads * head_size * 2;
  tokens.query_strides = tokens.key_strides = tokens.value_strides = {0, 0, head_size};
  tokens.cos = Device(int64_t{capacity} * head_size, true);
  tokens.sin = Device(int64_t{capacity} * head_size, true);
  tokens.cache_rows = capacity;
  tokens.pairs = head_size / 2;
  tokens.position = RotaryPosition::kFromPast;
  tokens.cache = attention.cache;
  tokens.lengths = attention.lengths;
  attention.out = Device(kHeads * head_size * 2, true);
  attention.out_strides = {0, 0, head_size};
  attention.scale = 0.088f;
  attention.window_left = -1;
  attention.splits = 32;
  attention.workspace = static_cast<float*>(Device(int64_t{kHeads} * 32 * (head_size + 2) * 4, true));
  return step;
}

// One token of a sequence, its way into the cache included.
void AttentionStep(int past, int splits) {
  AttentionStepArguments step = MakeAttentionStep(past, 128);
  step.attention.splits = splits;
  const double time =
      Time(9, 20, [&](int) { Check(KernelTable().attention_step(target, step), "attention_step"); });
  std::printf("attention step after %5d, %2d splits  %8.1f us  %7.1f GB/s\n", past, splits, time,
              4.0 * kKvHeads * (past + 1) * 128 / time / 1e3);
}

// What a layer of a decoder does for one token, several layers one after the other: weights of their own
// each.
struct LayerShape {
  int64_t hidden;
  int64_t ffn;
  bool four_bits;
};

void Layer(const LayerShape& shape) {
  constexpr int kLayers = 16;
  const int64_t head_size = shape.hidden / kHeads;
  const int64_t qkv = (kHeads + 2 * kKvHeads) * head_size;
  struct Weights {
    int64_t n;
    int64_t k;
    char* data = nullptr;
  };
  Weights weights[] = {{qkv, shape.hidden},
                       {shape.hidden, shape.hidden},
                       {2 * shape.ffn, shape.hidden},
                       {shape.hidden, shape.ffn}};
  const auto bytes_of = [&](const Weights& w) {
    return shape.four_bits ? static_cast<int64_t>(FourBitsPackedBytes(w.n, w.k, 32, false)) : w.n * w.k * 2;
  };
  int64_t layer_bytes = 0;
  for (Weights& w : weights) {
    w.data = static_cast<char*>(Device(bytes_of(w) * kLayers, true));
    layer_bytes += bytes_of(w);
  }
  void* hidden = Device(shape.hidden * 2, true);
  void* wide = Device(2 * shape.ffn * 2, true);
  void* narrow = Device(shape.ffn * 2, true);
  void* projected = Device(shape.hidden * 2, true);
  const AttentionStepArguments step = MakeAttentionStep(127, static_cast<int>(head_size));
  const auto multiply = [&](int which, int layer, const void* x, void* y) {
    const Weights& w = weights[which];
    const char* data = w.data + bytes_of(w) * layer;
    if (shape.four_bits) {
      FourBitsProductArguments arguments = {x, y, 1, w.n, w.k, nullptr, data, 32, 0};
      Check(KernelTable().four_bits_product(target, arguments), "four_bits_product");
      return;
    }
    ProductArguments arguments = {};
    arguments.type = ElementType::kFloat16;
    arguments.x = x;
    arguments.b = data;
    arguments.y = y;
    arguments.m = 1;
    arguments.n = arguments.y_stride = w.n;
    arguments.k = arguments.packed_k = arguments.x_stride = w.k;
    arguments.alpha = 1;
    Check(KernelTable().product(target, arguments), "product");
  };
  NormArguments norm = {};
  norm.type = norm.scale_type = ElementType::kFloat16;
  norm.rows = norm.skip_rows = 1;
  norm.hidden = shape.hidden;
  norm.x = projected;
  norm.skip = norm.sum = hidden;
  norm.scale = Device(shape.hidden * 2, true);
  norm.y = projected;
  norm.epsilon = 1e-5f;
  norm.rms = 1;
  BinaryArguments activation = {};
  activation.op = BinaryOp::kSwiGlu;
  activation.type = ElementType::kFloat16;
  activation.a = wide;
  activation.b = static_cast<char*>(wide) + shape.ffn * 2;
  activation.y = narrow;
  activation.alpha = 1;
  activation.loops.rank = 1;
  activation.loops.count = activation.loops.dims[0] = static_cast<uint32_t>(shape.ffn);
  activation.loops.strides[0][0] = activation.loops.strides[1][0] = 1;
  for (const int left_out : {0, 1, 2, 3, 4}) {
    const double time = Time(9, kLayers, [&](int layer) {
      if (left_out < 3) Check(KernelTable().norm(target, norm), "norm");
      multiply(0, layer, projected, const_cast<void*>(step.tokens.query));
      if (left_out < 1) Check(KernelTable().attention_step(target, step), "attention_step");
      if (left_out < 4) multiply(1, layer, step.attention.out, projected);
      if (left_out < 3) Check(KernelTable().norm(target, norm), "norm");
      multiply(2, layer, projected, wide);
      if (left_out < 2) Check(KernelTable().binary(target, activation), "binary");
      multiply(3, layer, narrow, projected);
    });
    const char* const kWithout[] = {"", ", no attention", ", nor activation", ", nor norms", ", nor output"};
    const int64_t bytes = layer_bytes - (left_out == 4 ? bytes_of(weights[1]) : 0);
    std::printf("layer of %ld, %s%-16s %8.1f us  %7.1f GB/s\n", static_cast<long>(shape.hidden),
                shape.four_bits ? "int4" : "fp16", kWithout[left_out], time,
                static_cast<double>(bytes) / time / 1e3);
  }
  for (Weights& w : weights) cudaFree(w.data);
}

void Attention(int sequence, int past, int splits) {
  constexpr int kSize = 128;
  const int capacity = past + sequence;
  AttentionArguments arguments = {};
  arguments.type = ElementType::kFloat16;
  arguments.batch = 1;
  arguments.sequence = sequence;
  arguments.heads = kHeads;
  arguments.kv_heads = kKvHeads;
  arguments.head_size = arguments.value_head_size = kSize;
  arguments.query = Device(int64_t{sequence} * kHeads * kSize * 2, true);
  arguments.out = Device(int64_t{sequence} * kHeads * kSize * 2, true);
  arguments.query_strides =
      arguments.out_strides = {int64_t{sequence} * kHeads * kSize, kHeads * kSize, kSize};
  const int64_t plane_bytes = int64_t{kKvHeads} * capacity * kSize * 2;
  for (KvPlaneArguments* plane : {&arguments.cache.key, &arguments.cache.value}) {
    *plane = {Device(plane_bytes, true), plane_bytes, int64_t{capacity} * kSize * 2, kSize * 2};
  }
  arguments.cache.blocks_per_sequence = 1;
  arguments.cache.block_tokens = arguments.cache.capacity_tokens = capacity;
  arguments.lengths.fixed_past = past;
  arguments.scale = 0.088f;
  arguments.window_left = -1;
  arguments.window_right = 0;
  arguments.splits = splits;
  arguments.workspace =
      static_cast<float*>(Device(int64_t{sequence} * kHeads * splits * (kSize + 2) * 4, true));
  const double time =
      Time(9, 4, [&](int) { Check(KernelTable().attention(target, arguments), "attention"); });
  std::printf("attention %4d queries after %5d, %2d splits  %8.1f us  %7.1f GB/s\n", sequence, past, splits,
              time, 2.0 * static_cast<double>(plane_bytes) / time / 1e3);
}

void Norm() {
  NormArguments arguments = {};
  arguments.type = arguments.scale_type = ElementType::kFloat16;
  for (const int64_t rows : {int64_t{1}, int64_t{512}}) {
    arguments.rows = arguments.skip_rows = rows;
    arguments.hidden = 4096;
    arguments.x = Device(rows * 8192, true);
    arguments.skip = Device(rows * 8192, true);
    arguments.scale = Device(8192, true);
    arguments.y = Device(rows * 8192, true);
    arguments.sum = Device(rows * 8192, true);
    arguments.epsilon = 1e-5f;
    arguments.rms = 1;
    const double time = Time(9, 20, [&](int) { Check(KernelTable().norm(target, arguments), "norm"); });
    std::printf("residual norm %4ld x 4096  %8.1f us\n", static_cast<long>(rows), time);
  }
}

}  // namespace
}  // namespace lamina::cuda

// `layers`: only those.
int main(int argc, char** argv) {
  using namespace lamina::cuda;
  const bool only_layers = argc > 1 && std::string_view(argv[1]) == "layers";
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, 0), "looking for a GPU");
  target.multiprocessors = properties.multiProcessorCount;
  target.compute_capability = properties.major * 10 + properties.minor;
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  target.stream = stream;
  std::printf("%s\n", properties.name);
  Bandwidth();
  for (const LayerShape& shape :
       {LayerShape{4096, 14336, true}, {4096, 14336, false}, {2048, 8192, false}, {2048, 8192, true}}) {
    Layer(shape);
  }
  if (only_layers) return 0;
  for (const auto& [n, k] : {std::pair{4096, 4096},
                             {1024, 4096},
                             {14336, 4096},
                             {4096, 14336},
                             {128256, 4096},
                             {2048, 2048},
                             {8192, 2048}}) {
    Product(1, n, k);
    if (n < 100000) FourBits(1, n, k);
  }
  NBits(4096, 4096);
  FourBits(8, 4096, 4096);
  FourBits(1, 28672, 4096);
  FourBits(1, 6144, 4096);
  for (const int past : {127, 1023, 4095}) {
    for (const int splits : {1, 8}) AttentionStep(past, splits);
  }
  Product(512, 4096, 4096);
  Product(512, 14336, 4096);
  Product(4096, 4096, 4096);
  for (const int past : {127, 1023, 4095}) {
    for (const int splits : {1, 8, 32}) Attention(1, past, splits);
  }
  Attention(512, 0, 1);
  Attention(512, 3584, 1);
  Norm();
  std::fflush(stdout);
  Check(cudaDeviceSynchronize(), "at the end");
  return 0;
}
