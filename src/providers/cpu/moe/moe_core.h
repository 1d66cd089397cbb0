// Mixture of experts: routing of tokens, and the feed-forward networks of the experts they chose.
//
//   y[t] = sum over the k experts e of token t, in ascending order:
//            weight[t, e] * fc2_e(activation(fc1_e(x[t]), fc3_e(x[t])))
//
// Tokens are grouped by expert, so that an expert's weights are read once; an expert nobody chose is not
// touched. Sums are fp32 and in one order, whatever the number of threads. Never allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/function_ref.h"
#include "base/thread_pool.h"
#include "provider/node_info.h"

namespace lamina {

enum class MoeActivation { kRelu, kGelu, kSilu, kSwiglu, kIdentity };

struct MoeAttributes {
  int64_t k = 1;
  MoeActivation activation = MoeActivation::kRelu;
  // Weights are the softmax over the k chosen experts, else over all.
  bool normalize = false;
  // The choice of two experts by SparseMixer, as Phi-3.5-MoE has it.
  bool sparse_mixer = false;
  // Where fc1 makes gate g and linear l: 0: l is fc3's; 1: interleaved g, l; 2: all g, then all l.
  int64_t swiglu_fusion = 0;
  float swiglu_limit = 0;  // infinity where absent
  float alpha = 1;
  float beta = 0;

  // Of MoE and QMoE nodes. INVALID_MODEL where a value is unknown or the combination makes no sense.
  static Result<MoeAttributes> Of(const NodeInfo& node);
};

struct MoeShape {
  int64_t tokens = 0;
  int64_t hidden = 0;
  int64_t inter = 0;     // inputs of fc2
  int64_t fc1_rows = 0;  // outputs of fc1: inter, or twice that where gate and linear are fused
  int64_t experts = 0;
  bool has_fc3 = false;
};

enum class MoeLayer { kFc1, kFc2, kFc3 };

// Writes rows [count, outputs of the layer] = bias + x W^T for `count` rows x of the expert.
using MoeProduct =
    FunctionRef<void(MoeLayer layer, int64_t expert, const float* x, int64_t count, float* rows)>;

// Grows with tokens.
size_t MoeWorkspaceBytes(const MoeAttributes& attributes, const MoeShape& shape);

// x [tokens, hidden] and router logits [tokens, experts] of `type`, y [tokens, hidden] of `type`.
void RunMoe(ThreadPool& threads, const MoeAttributes& attributes, const MoeShape& shape, DataType type,
            const void* x, const void* router, MoeProduct product, void* workspace, void* y);

// The k experts of one token, best first, ties to the lower one, and their weights.
void RouteToken(const MoeAttributes& attributes, const float* logits, int64_t experts, int32_t* chosen,
                float* weights);

}  // namespace lamina
