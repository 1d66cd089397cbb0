// Loading, encoding and decoding speed of a tokenizer, beside the reference library's in the same run.
//   bench_tokenizer TOKENIZER_JSON TEXT_FILE [NODE_MODULES]
// Encoding and decoding on one core each, in processor time; loading, which uses a second core, in elapsed
// and processor time. The two programs alternate for five rounds and the best of each counts. NODE_MODULES is
// the folder that npm installed `tokenizers` in; without it $LAMINA_NODE_MODULES, then $LAMINA_PEERS names
// it, and without any of them only Lamina is measured.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace lamina {
namespace {

constexpr int kRounds = 5;

struct Speeds {
  double load_ms = 0;           // processor time of all threads
  double load_wall_ms = 0;      // 0 where it was not measured
  double encode_mb_s = 0;       // MB of text a second
  double decode_mtokens_s = 0;  // millions of tokens a second
  size_t tokens = 0;
};

// Processor time, so that other work on the machine does not count.
double SecondsSince(std::clock_t start) { return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC; }

Result<Speeds> MeasureLamina(const std::string& tokenizer_path, const std::string& text) {
  Speeds speeds;
  const auto wall_start = std::chrono::steady_clock::now();
  std::clock_t start = std::clock();
  LAMINA_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::Load(tokenizer_path));
  speeds.load_ms = SecondsSince(start) * 1e3;
  speeds.load_wall_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - wall_start).count();
  start = std::clock();
  LAMINA_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer.Encode(text));
  speeds.encode_mb_s = static_cast<double>(text.size()) / 1e6 / SecondsSince(start);
  speeds.tokens = ids.size();
  start = std::clock();
  LAMINA_ASSIGN_OR_RETURN(const std::string decoded, tokenizer.Decode(ids));
  speeds.decode_mtokens_s = static_cast<double>(ids.size()) / 1e6 / SecondsSince(start);
  return speeds;
}

// Runs the peer, which prints the same four numbers.
Speeds MeasureReference(const std::string& tokenizer_path, const std::string& text_path,
                        const std::string& modules) {
  Speeds speeds;
  const std::string script = std::string(LAMINA_SOURCE_DIR) + "/bench/peers/tokenizers.mjs";
  const std::string command =
      fmt::format("node '{}' '{}' '{}' '{}'", script, modules, tokenizer_path, text_path);
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return speeds;
  if (std::fscanf(pipe, "%lf %lf %lf %zu", &speeds.load_ms, &speeds.encode_mb_s, &speeds.decode_mtokens_s,
                  &speeds.tokens) != 4) {
    fmt::print(stderr, "the reference gave no numbers: {}\n", command);
  }
  pclose(pipe);
  return speeds;
}

void KeepBest(const Speeds& speeds, Speeds& best) {
  const auto shorter = [](double a, double b) { return b == 0 ? a : std::min(a, b); };
  best.load_ms = shorter(speeds.load_ms, best.load_ms);
  best.load_wall_ms = shorter(speeds.load_wall_ms, best.load_wall_ms);
  best.encode_mb_s = std::max(best.encode_mb_s, speeds.encode_mb_s);
  best.decode_mtokens_s = std::max(best.decode_mtokens_s, speeds.decode_mtokens_s);
  best.tokens = speeds.tokens;
}

void Print(const char* name, const Speeds& speeds) {
  if (speeds.load_wall_ms > 0) fmt::print("{:<12} load {:8.1f} ms elapsed\n", name, speeds.load_wall_ms);
  fmt::print("{:<12} load {:8.1f} ms   encode {:7.2f} MB/s   decode {:6.2f} Mtokens/s   {} tokens\n", name,
             speeds.load_ms, speeds.encode_mb_s, speeds.decode_mtokens_s, speeds.tokens);
}

int Run(const std::string& tokenizer_path, const std::string& text_path, const char* modules) {
  std::ifstream file(text_path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  Speeds lamina;
  Speeds reference;
  for (int round = 0; round < kRounds; ++round) {
    const Result<Speeds> speeds = MeasureLamina(tokenizer_path, text);
    if (!speeds.ok()) {
      fmt::print(stderr, "{}\n", speeds.status().ToString());
      return 1;
    }
    KeepBest(*speeds, lamina);
    if (modules != nullptr) KeepBest(MeasureReference(tokenizer_path, text_path, modules), reference);
  }
  Print("lamina", lamina);
  if (modules != nullptr) Print("tokenizers", reference);
  return 0;
}

}  // namespace
}  // namespace lamina

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: {} TOKENIZER_JSON TEXT_FILE [NODE_MODULES]\n", argv[0]);
    return 2;
  }
  const char* modules = argc > 3 ? argv[3] : std::getenv("LAMINA_NODE_MODULES");
  return lamina::Run(argv[1], argv[2], modules != nullptr ? modules : std::getenv("LAMINA_PEERS"));
}
