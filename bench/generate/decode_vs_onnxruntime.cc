// Decoding on the CPU beside ONNX Runtime, on the same model with the same threads, alternating in one run:
//
//   decode_vs_onnxruntime models/tales [threads] [rounds]
//
// Prints tokens per second of both, their ratio, and the bytes of weights a second beside the memory
// bandwidth measured in the same run. Without the peer only the own figures are printed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "generate/engine.h"
#include "runtime/env_impl.h"
#include "runtime/memory_bandwidth.h"
#include "runtime/session_impl.h"
#include "runtime/weight_traffic.h"

#ifdef LAMINA_HAVE_ONNXRUNTIME
#include "peers/onnxruntime_decoder.h"
#endif

namespace lamina::bench {
namespace {

constexpr int kPromptTokens = 32;
constexpr int kDecodeTokens = 128;

struct Rates {
  std::vector<double> prefill_tokens_per_s;
  std::vector<double> decode_tokens_per_s;
};

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// `step` appends tokens and gives the next one.
template <typename Step>
void Measure(Step step, const std::vector<int32_t>& prompt, Rates& rates) {
  auto start = std::chrono::steady_clock::now();
  int32_t next = step(prompt);
  rates.prefill_tokens_per_s.push_back(kPromptTokens / SecondsSince(start));
  start = std::chrono::steady_clock::now();
  for (int i = 0; i < kDecodeTokens; ++i) next = step({next});
  rates.decode_tokens_per_s.push_back(kDecodeTokens / SecondsSince(start));
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MODEL [THREADS] [ROUNDS]\n", argv[0]);
    return 2;
  }
  const int threads = argc > 2 ? std::atoi(argv[2]) : 0;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  const auto fail = [](const Status& status) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  };
  const Result<std::shared_ptr<Env>> env = Env::Create({threads});
  if (!env.ok()) return fail(env.status());
  const Result<ModelFolder> folder = ModelFolder::Open(argv[1]);
  if (!folder.ok()) return fail(folder.status());
  EngineOptions options;
  options.context_length_tokens = 512;
  Result<std::unique_ptr<Engine>> engine = Engine::Create(*env, *folder, options);
  if (!engine.ok()) return fail(engine.status());
  const SequenceId sequence = *(*engine)->AddSequence();

  const double bound_bytes_per_s = MeasureReadBandwidth((*env)->impl().threads());
  std::vector<int32_t> prompt(kPromptTokens);
  for (int i = 0; i < kPromptTokens; ++i) prompt[static_cast<size_t>(i)] = 100 + 7 * i % 300;
  Rates own;
  Rates peer;
#ifdef LAMINA_HAVE_ONNXRUNTIME
  OnnxRuntimeDecoder onnxruntime(folder->model_path, (*env)->num_threads(), options.context_length_tokens,
                                 (*engine)->session().impl().decoder()->kv_layers.front().head_size);
#endif
  for (int round = 0; round <= rounds; ++round) {  // round 0 warms up
    Rates own_round;
    Status failed;
    Measure(
        [&](const std::vector<int32_t>& tokens) -> int32_t {
          const SequenceStep row{sequence, tokens, 1};
          const Status status = (*engine)->Step({&row, 1});
          if (!status.ok()) failed = status;
          const std::span<const float> logits = (*engine)->logits(0);
          return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
        },
        prompt, round == 0 ? own_round : own);
    if (!failed.ok()) return fail(failed);
    if (const Status rewound = (*engine)->Rewind(sequence, 0); !rewound.ok()) return fail(rewound);
#ifdef LAMINA_HAVE_ONNXRUNTIME
    Rates peer_round;
    Measure([&](const std::vector<int32_t>& tokens) { return onnxruntime.Step(tokens); }, prompt,
            round == 0 ? peer_round : peer);
    onnxruntime.Clear();
#endif
  }
  const auto token_bytes = static_cast<double>(WeightBytesPerToken((*engine)->session().impl().executable()));
  const double decode = Median(own.decode_tokens_per_s);
  std::printf("threads %d, prompt %d tokens, decode %d tokens, median of %d rounds\n", (*env)->num_threads(),
              kPromptTokens, kDecodeTokens, rounds);
  std::printf(
      "lamina       prefill %8.1f t/s   decode %8.1f t/s   weights %.2f GB/s of %.2f GB/s memory read\n",
      Median(own.prefill_tokens_per_s), decode, decode * token_bytes / 1e9, bound_bytes_per_s / 1e9);
  if (!peer.decode_tokens_per_s.empty()) {
    const double peer_decode = Median(peer.decode_tokens_per_s);
    std::printf("onnxruntime  prefill %8.1f t/s   decode %8.1f t/s\n", Median(peer.prefill_tokens_per_s),
                peer_decode);
    std::printf("ratio        prefill %8.2f       decode %8.2f\n",
                Median(own.prefill_tokens_per_s) / Median(peer.prefill_tokens_per_s), decode / peer_decode);
  } else {
    std::printf("onnxruntime  not built in; see bench/peers/README.md\n");
  }
  return 0;
}

}  // namespace
}  // namespace lamina::bench

int main(int argc, char** argv) { return lamina::bench::Main(argc, argv); }
