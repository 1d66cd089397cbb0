#include "providers/cpu/moe/moe_core.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "providers/cpu/gemm/gemm.h"
#include "providers/cpu/simd/vec_math.h"

namespace lamina {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The workspace, as offsets in 4-byte words.
struct Layout {
  int64_t logits;   // [experts], of one token at a time
  int64_t chosen;   // [tokens, k]
  int64_t weights;  // [tokens, k]
  int64_t rows;     // [tokens]: the tokens of one expert
  int64_t input;    // [tokens, hidden]: their activations
  int64_t fc1;      // [tokens, fc1_rows]
  int64_t fc3;      // [tokens, inter]
  int64_t inner;    // [tokens, inter]
  int64_t output;   // [tokens, hidden]
  int64_t sums;     // [tokens, hidden]
  int64_t words;
};

Layout LayoutFor(const MoeAttributes& attributes, const MoeShape& shape) {
  Layout layout;
  int64_t words = 0;
  const auto take = [&](int64_t count) {
    const int64_t begin = words;
    words += (count + 15) / 16 * 16;
    return begin;
  };
  layout.logits = take(shape.experts);
  layout.chosen = take(shape.tokens * attributes.k);
  layout.weights = take(shape.tokens * attributes.k);
  layout.rows = take(shape.tokens);
  layout.input = take(shape.tokens * shape.hidden);
  layout.fc1 = take(shape.tokens * shape.fc1_rows);
  layout.fc3 = take(shape.has_fc3 ? shape.tokens * shape.inter : 0);
  layout.inner = take(shape.tokens * shape.inter);
  layout.output = take(shape.tokens * shape.hidden);
  layout.sums = take(shape.tokens * shape.hidden);
  layout.words = words;
  return layout;
}

// The best expert that is not `excluded`, and its weight among those near it (SparseMixer: a logit more than
// twice the jitter below the best, relative to the larger magnitude, does not count).
int32_t SparseMixerChoice(const float* logits, int64_t experts, int32_t excluded, float* weight) {
  constexpr float kJitter = 0.01f;
  int32_t best = -1;
  for (int32_t e = 0; e < experts; ++e) {
    if (e != excluded && (best < 0 || logits[e] > logits[best])) best = e;
  }
  float sum = 0;
  for (int32_t e = 0; e < experts; ++e) {
    if (e == excluded) continue;
    const float factor = std::max(std::abs(logits[e]), logits[best]);
    if ((logits[best] - logits[e]) / factor > 2 * kJitter) continue;
    sum += std::exp(logits[e] - logits[best]);
  }
  *weight = 1 / sum;
  return best;
}

void Activate(const MoeAttributes& attributes, const VecMath& math, const float* fc1, const float* fc3,
              int64_t inter, float* inner) {
  if (attributes.activation != MoeActivation::kSwiglu) {
    switch (attributes.activation) {
      case MoeActivation::kRelu:
        for (int64_t i = 0; i < inter; ++i) inner[i] = std::max(fc1[i], 0.0f);
        break;
      case MoeActivation::kGelu:
        math.gelu_tanh(fc1, inner, inter);
        break;
      case MoeActivation::kSilu:
        math.silu(fc1, inner, inter);
        break;
      default:
        std::copy_n(fc1, inter, inner);
    }
    for (int64_t i = 0; fc3 && i < inter; ++i) inner[i] *= fc3[i];
    return;
  }
  const bool interleaved = attributes.swiglu_fusion == 1;
  const float* linear = fc3 ? fc3 : (interleaved ? fc1 + 1 : fc1 + inter);
  const int64_t stride = interleaved ? 2 : 1;
  const float limit = attributes.swiglu_limit;
  for (int64_t i = 0; i < inter; ++i) inner[i] = std::min(fc1[i * stride], limit);
  math.quick_gelu(inner, inner, inter, attributes.alpha);
  for (int64_t i = 0; i < inter; ++i) {
    inner[i] *= std::clamp(linear[i * stride], -limit, limit) + attributes.beta;
  }
}

}  // namespace

Result<MoeAttributes> MoeAttributes::Of(const NodeInfo& node) {
  MoeAttributes attributes;
  const auto wrong = [&](const std::string& what) {
    return InvalidModelError("node '{}': {}: {}", node.name(), node.op_type(), what);
  };
  attributes.k = node.Int("k", 1);
  if (attributes.k < 1) return wrong(fmt::format("k must be positive, found {}", attributes.k));
  const std::string_view activation = node.String("activation_type", "relu");
  if (activation == "relu") {
    attributes.activation = MoeActivation::kRelu;
  } else if (activation == "gelu") {
    attributes.activation = MoeActivation::kGelu;
  } else if (activation == "silu") {
    attributes.activation = MoeActivation::kSilu;
  } else if (activation == "swiglu") {
    attributes.activation = MoeActivation::kSwiglu;
  } else if (activation == "identity") {
    attributes.activation = MoeActivation::kIdentity;
  } else {
    return wrong(
        fmt::format("activation_type must be relu, gelu, silu, swiglu or identity, found '{}'", activation));
  }
  attributes.normalize = node.Int("normalize_routing_weights", 0) != 0;
  attributes.sparse_mixer = node.Int("use_sparse_mixer", 0) != 0;
  if (attributes.sparse_mixer && attributes.k != 2) {
    return wrong(fmt::format("use_sparse_mixer needs k = 2, found {}", attributes.k));
  }
  attributes.swiglu_fusion = node.Int("swiglu_fusion", 0);
  if (attributes.swiglu_fusion < 0 || attributes.swiglu_fusion > 2) {
    return wrong(fmt::format("swiglu_fusion must be 0, 1 or 2, found {}", attributes.swiglu_fusion));
  }
  attributes.swiglu_limit = node.Float("swiglu_limit", kInfinity);
  attributes.alpha = node.Float("activation_alpha", 1.0f);
  attributes.beta = node.Float("activation_beta", 0.0f);
  return attributes;
}

void RouteToken(const MoeAttributes& attributes, const float* logits, int64_t experts, int32_t* chosen,
                float* weights) {
  if (attributes.sparse_mixer) {
    chosen[0] = SparseMixerChoice(logits, experts, -1, &weights[0]);
    chosen[1] = SparseMixerChoice(logits, experts, chosen[0], &weights[1]);
    return;
  }
  for (int64_t i = 0; i < attributes.k; ++i) {
    int32_t best = -1;
    for (int32_t e = 0; e < experts; ++e) {
      const bool taken = std::find(chosen, chosen + i, e) != chosen + i;
      if (!taken && (best < 0 || logits[e] > logits[best])) best = e;
    }
    chosen[i] = best;
  }
  float sum = 0;
  const float largest = logits[chosen[0]];
  for (int64_t i = 0; i < attributes.k; ++i) {
    weights[i] = std::exp(logits[chosen[i]] - largest);
    sum += weights[i];
  }
  if (!attributes.normalize) {
    sum = 0;
    for (int64_t e = 0; e < experts; ++e) sum += std::exp(logits[e] - largest);
  }
  for (int64_t i = 0; i < attributes.k; ++i) weights[i] /= sum;
}

size_t MoeWorkspaceBytes(const MoeAttributes& attributes, const MoeShape& shape) {
  return static_cast<size_t>(LayoutFor(attributes, shape).words) * sizeof(float);
}

void RunMoe(ThreadPool& threads, const MoeAttributes& attributes, const MoeShape& shape, DataType type,
            const void* x, const void* router, MoeProduct product, void* workspace, void* y) {
  const Layout layout = LayoutFor(attributes, shape);
  float* floats = static_cast<float*>(workspace);
  auto* chosen = reinterpret_cast<int32_t*>(floats + layout.chosen);
  auto* rows = reinterpret_cast<int32_t*>(floats + layout.rows);
  float* weights = floats + layout.weights;
  float* sums = floats + layout.sums;
  const VecMath& math = ActiveVecMath();
  const int64_t element_bytes = DataTypeBits(type) / 8;
  const char* x_data = static_cast<const char*>(x);

  for (int64_t t = 0; t < shape.tokens; ++t) {
    const char* logits = static_cast<const char*>(router) + t * shape.experts * element_bytes;
    ConvertToFloat(type, logits, floats + layout.logits, shape.experts);
    RouteToken(attributes, floats + layout.logits, shape.experts, chosen + t * attributes.k,
               weights + t * attributes.k);
  }
  std::fill_n(sums, shape.tokens * shape.hidden, 0.0f);

  const int64_t grain = GrainFor(static_cast<double>(shape.fc1_rows));
  for (int64_t expert = 0; expert < shape.experts; ++expert) {
    int64_t count = 0;
    for (int64_t t = 0; t < shape.tokens; ++t) {
      const int32_t* first = chosen + t * attributes.k;
      if (std::find(first, first + attributes.k, expert) != first + attributes.k)
        rows[count++] = static_cast<int32_t>(t);
    }
    if (count == 0) continue;
    float* input = floats + layout.input;
    float* fc1 = floats + layout.fc1;
    float* fc3 = shape.has_fc3 ? floats + layout.fc3 : nullptr;
    float* inner = floats + layout.inner;
    float* output = floats + layout.output;
    for (int64_t i = 0; i < count; ++i) {
      ConvertToFloat(type, x_data + rows[i] * shape.hidden * element_bytes, input + i * shape.hidden,
                     shape.hidden);
    }
    product(MoeLayer::kFc1, expert, input, count, fc1);
    if (fc3) product(MoeLayer::kFc3, expert, input, count, fc3);
    threads.ParallelFor(count, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        Activate(attributes, math, fc1 + i * shape.fc1_rows, fc3 ? fc3 + i * shape.inter : nullptr,
                 shape.inter, inner + i * shape.inter);
      }
    });
    product(MoeLayer::kFc2, expert, inner, count, output);
    threads.ParallelFor(
        count, GrainFor(static_cast<double>(shape.hidden) * 0.3), [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t token = rows[i];
            const int32_t* first = chosen + token * attributes.k;
            const float weight =
                weights[token * attributes.k + (std::find(first, first + attributes.k, expert) - first)];
            float* sum = sums + token * shape.hidden;
            const float* row = output + i * shape.hidden;
            for (int64_t d = 0; d < shape.hidden; ++d) sum[d] += weight * row[d];
          }
        });
  }
  ConvertFromFloat(type, sums, y, shape.tokens * shape.hidden);
}

}  // namespace lamina
