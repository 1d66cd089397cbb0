// Any model beside ONNX Runtime, on the same inputs with the same threads, alternating in one run:
//
//   model_vs_onnxruntime MODEL [THREADS] [ROUNDS] [DIMS,OF,INPUT,0 [DIMS,OF,INPUT,1 ...]]
//
// MODEL: an .onnx file or a folder with model.onnx. Inputs come from the model's test_data_set_0 where it has
// one; fp32 inputs for which dimensions are given are filled with random numbers in [-1, 1]. Prints
// milliseconds of a run (least and median), their ratio, processor time, how far the outputs lie apart, and
// as bound the rate of a matrix product measured in the same process. Without the peer only the own figures
// are printed.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lamina/lamina.h"
#include "model/onnx/value_file.h"
#include "providers/cpu/gemm/packed_matrix.h"
#include "runtime/env_impl.h"

#ifdef LAMINA_HAVE_ONNXRUNTIME
#include "peers/onnxruntime_model.h"
#endif

namespace lamina::bench {
namespace {

namespace fs = std::filesystem;

double Seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Times of the runs of one program.
struct Times {
  std::vector<double> elapsed_ms;
  std::vector<double> processor_ms;  // of all threads, those that wait by spinning included

  template <typename Run>
  void Add(Run run) {
    const double start = Seconds(CLOCK_MONOTONIC);
    const double processor_start = Seconds(CLOCK_PROCESS_CPUTIME_ID);
    run();
    processor_ms.push_back(1e3 * (Seconds(CLOCK_PROCESS_CPUTIME_ID) - processor_start));
    elapsed_ms.push_back(1e3 * (Seconds(CLOCK_MONOTONIC) - start));
  }
};

double Least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }
double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The rate of the matrix product [768, 768] x [768, 768], packed.
double GemmFlopPerSecond(ThreadPool& threads) {
  constexpr int64_t kSide = 768;
  const GemmKernels& kernels = GemmKernelsFor(ActiveIsa());
  std::vector<float> a(kSide * kSide, 0.5f), b(kSide * kSide, 0.25f), c(kSide * kSide);
  std::vector<char> packed(PackedMatrixBytes(DataType::kFloat, kSide, kSide) + 64);
  auto* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(packed.data()) + 63) / 64 * 64);
  PackMatrix(threads, kernels, {b.data(), DataType::kFloat, kSide, kSide, false}, aligned);
  Times times;
  for (int i = 0; i < 10; ++i) {
    times.Add([&] {
      RunGemm(
          threads, kernels, {1, kSide, kSide, kSide}, [&](int64_t) { return a.data(); }, kSide,
          [&](const GemmPanelRequest& request) {
            return PackedPanel(kernels, DataType::kFloat, aligned, kSide, request);
          },
          [&](int64_t, int64_t row, int64_t column, int64_t count, const float* values) {
            std::copy_n(values, count, c.data() + row * kSide + column);
          });
    });
  }
  return 2.0 * kSide * kSide * kSide / (1e-3 * Least(times.elapsed_ms));
}

Result<Tensor> RandomTensor(const std::string& dims) {
  Shape shape;
  for (const char* text = dims.c_str(); *text != 0;) {
    char* end = nullptr;
    shape.Append(std::strtoll(text, &end, 10));
    text = *end == ',' ? end + 1 : end;
    if (text == end && *end != 0) return InvalidArgumentError("'{}' is no list of dimensions", dims);
  }
  LAMINA_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(DataType::kFloat, shape));
  std::mt19937 random(1);
  std::uniform_real_distribution<float> numbers(-1, 1);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.mutable_data<float>()[i] = numbers(random);
  return tensor;
}

Result<std::vector<Tensor>> Inputs(const Session& session, const fs::path& folder,
                                   const std::vector<std::string>& dims) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < session.inputs().size(); ++i) {
    if (i < dims.size()) {
      LAMINA_ASSIGN_OR_RETURN(Tensor tensor, RandomTensor(dims[i]));
      inputs.push_back(std::move(tensor));
      continue;
    }
    const std::string file = (folder / "test_data_set_0" / fmt::format("input_{}.pb", i)).string();
    LAMINA_ASSIGN_OR_RETURN(const Value value, ReadValueFile(file, session.inputs()[i].type));
    inputs.push_back(value.tensor());
  }
  return inputs;
}

// Where the time of one run goes: operators by their share, the largest first.
Status PrintOperators(Session& session, const std::vector<Value>& inputs) {
  std::map<std::string, std::pair<int64_t, int>, std::less<>> operators;  // time in ns, steps
  RunOptions options;
  options.on_step = [&](const StepProfile& step) {
    auto& [time_ns, steps] = operators[std::string(step.op_type)];
    time_ns += step.duration_ns;
    ++steps;
  };
  std::vector<Value> outputs;
  LAMINA_RETURN_IF_ERROR(session.Run(options, inputs, &outputs));
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [name, cost] : operators) {
    sorted.emplace_back(cost.first, fmt::format("{} x{} {:.3f} ms", name, cost.second,
                                                1e-6 * static_cast<double>(cost.first)));
  }
  std::sort(sorted.rbegin(), sorted.rend());
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < std::min(kShown, sorted.size()); ++i) {
    std::printf("%s%s", i == 0 ? "one run: " : ", ", sorted[i].second.c_str());
  }
  std::printf("\n");
  return Status();
}

#ifdef LAMINA_HAVE_ONNXRUNTIME
// Prints how far fp32 outputs of both programs lie apart, beside their largest number.
void PrintDifferences(const std::vector<Value>& own, const std::vector<Ort::Value>& peer) {
  for (size_t i = 0; i < own.size(); ++i) {
    const Tensor& tensor = own[i].tensor();
    if (tensor.type() != DataType::kFloat) continue;
    const auto elements = static_cast<int64_t>(peer[i].GetTensorTypeAndShapeInfo().GetElementCount());
    if (elements != tensor.num_elements()) {
      std::printf("output %zu: %ld elements, onnxruntime has %ld\n", i,
                  static_cast<long>(tensor.num_elements()), static_cast<long>(elements));
      continue;
    }
    const float* expected = peer[i].GetTensorData<float>();
    float difference = 0, largest = 0;
    for (int64_t j = 0; j < elements; ++j) {
      const float apart = std::abs(tensor.data<float>()[j] - expected[j]);
      difference = apart <= difference ? difference : apart;  // NaN counts
      largest = std::max(largest, std::abs(expected[j]));
    }
    std::printf("output %zu %s: largest difference %.3g, largest number %.3g\n", i,
                tensor.shape().ToString().c_str(), static_cast<double>(difference),
                static_cast<double>(largest));
  }
}
#endif

void Print(const char* name, const Times& times) {
  std::printf("%-12s elapsed ms: least %9.3f  median %9.3f   processor ms: least %9.3f\n", name,
              Least(times.elapsed_ms), Median(times.elapsed_ms), Least(times.processor_ms));
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MODEL [THREADS] [ROUNDS] [DIMS ...]\n", argv[0]);
    return 2;
  }
  const int num_threads = argc > 2 ? std::atoi(argv[2]) : 0;
  const int rounds = argc > 3 ? std::max(1, std::atoi(argv[3])) : 20;
  const std::vector<std::string> dims(argv + std::min(argc, 4), argv + argc);
  const fs::path path = fs::is_directory(argv[1]) ? fs::path(argv[1]) / "model.onnx" : fs::path(argv[1]);
  const auto fail = [](const Status& status) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  };
  const Result<std::shared_ptr<Env>> env = Env::Create({num_threads});
  if (!env.ok()) return fail(env.status());
  const Result<std::unique_ptr<Session>> session = Session::Load(*env, path.string());
  if (!session.ok()) return fail(session.status());
  const Result<std::vector<Tensor>> inputs = Inputs(**session, path.parent_path(), dims);
  if (!inputs.ok()) return fail(inputs.status());
  const std::vector<Value> values(inputs->begin(), inputs->end());
  const double flop_per_s = GemmFlopPerSecond((*env)->impl().threads());

  Times own;
  Times peer;
  Status status;
  std::vector<Value> outputs;
  const auto run = [&] {
    outputs.clear();
    status = (*session)->Run({}, values, &outputs);
  };
#ifdef LAMINA_HAVE_ONNXRUNTIME
  OnnxRuntimeModel onnxruntime(path.string(), (*env)->num_threads(), *inputs);
  onnxruntime.Run();
#endif
  run();
  if (!status.ok()) return fail(status);
  // Short runs are measured in groups, so that threads of the other program have gone to sleep.
  constexpr int kGroup = 5;
  for (int round = 0; round < rounds; round += kGroup) {
    for (int i = 0; i < kGroup; ++i) own.Add(run);
#ifdef LAMINA_HAVE_ONNXRUNTIME
    for (int i = 0; i < kGroup; ++i) peer.Add([&] { onnxruntime.Run(); });
#endif
  }
  std::printf("%s, threads %d, %zu runs; matrix product %.1f GFLOP/s\n", argv[1], (*env)->num_threads(),
              own.elapsed_ms.size(), flop_per_s / 1e9);
  Print("lamina", own);
  status = PrintOperators(**session, values);
  if (!status.ok()) return fail(status);
  if (peer.elapsed_ms.empty()) {
    std::printf("onnxruntime  not built in; see bench/peers/README.md\n");
    return 0;
  }
  Print("onnxruntime", peer);
#ifdef LAMINA_HAVE_ONNXRUNTIME
  PrintDifferences(outputs, onnxruntime.outputs());
#endif
  std::printf("speed ratio  least %.2f  median %.2f  processor %.2f\n",
              Least(peer.elapsed_ms) / Least(own.elapsed_ms),
              Median(peer.elapsed_ms) / Median(own.elapsed_ms),
              Least(peer.processor_ms) / Least(own.processor_ms));
  return 0;
}

}  // namespace
}  // namespace lamina::bench

int main(int argc, char** argv) { return lamina::bench::Main(argc, argv); }
