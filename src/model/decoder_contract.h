// What makes a model a language model decoder: which inputs and outputs carry tokens, masks, positions, the
// KV cache and logits, and how their dimensions depend on batch, sequence and past length.
//
// Exporters name inputs alike but leave their dimensions as symbols without relation
// (`total_sequence_length`, `s53`). The contract adds what every decoder means by them: one batch for all
// inputs, total = past + sequence. With it shape inference expresses every shape of the model by batch,
// sequence and past; head sizes that the file leaves symbolic come from the attention operators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lamina/status.h"
#include "lamina/types.h"
#include "model/dim_expr.h"
#include "model/model.h"
#include "model/shape_inference/shape_inference.h"

namespace lamina {

// Names of inputs and outputs; "%d" is the layer. The defaults are those of ONNX Runtime GenAI and Optimum;
// genai_config.json can name others.
struct DecoderNames {
  std::string input_ids = "input_ids";
  std::string inputs_embeds = "inputs_embeds";
  std::string attention_mask = "attention_mask";
  std::string position_ids = "position_ids";
  std::string past_key = "past_key_values.%d.key";
  std::string past_value = "past_key_values.%d.value";
  std::string past_conv = "past_conv.%d";
  std::string use_cache_branch = "use_cache_branch";
  std::string logits = "logits";
  std::string present_key = "present.%d.key";
  std::string present_value = "present.%d.value";
  std::string present_conv = "present_conv.%d";
};

// An input or output; without a name the model does not have it.
struct DecoderPort {
  std::string name;
  DataType type = DataType::kUndefined;
  SymbolicShape shape;  // what is known of it

  bool present() const { return !name.empty(); }
};

// The keys and values of one layer: past [batch, kv_heads, past, head_size], present longer by the sequence.
struct DecoderKvLayer {
  int layer = 0;  // as numbered in the names: numbers may be missing
  DecoderPort past_key;
  DecoderPort past_value;
  DecoderPort present_key;
  DecoderPort present_value;
  // 0 where not known (before shape inference).
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  int64_t v_head_size = 0;
};

// A state of fixed size that a layer carries from step to step: the window of a causal convolution.
struct DecoderStateLayer {
  int layer = 0;
  DecoderPort past;
  DecoderPort present;
};

struct DecoderSignature {
  DecoderPort input_ids;      // [batch, sequence]; absent where the model takes inputs_embeds
  DecoderPort inputs_embeds;  // [batch, sequence, hidden]
  DecoderPort attention_mask;
  DecoderPort position_ids;
  DecoderPort use_cache_branch;  // of a merged decoder: one model for prefill and decode behind an If
  DecoderPort logits;            // [batch, sequence or 1, vocabulary]
  std::vector<DecoderKvLayer> kv_layers;        // by layer
  std::vector<DecoderStateLayer> state_layers;  // by layer
  std::vector<DecoderPort> other_inputs;        // that the contract gives no meaning to
  DimExpr batch;
  DimExpr sequence;
  DimExpr past;  // 0 where there is no KV cache

  int64_t vocabulary_size() const;  // 0 where not known
  // Whether the model computes logits of the last token alone.
  bool last_logits_only() const;
};

// Recognises the inputs and outputs of the main graph. UNSUPPORTED, with the reason, for a model that is no
// decoder: without tokens or logits, a past without present, an input of another rank.
Result<DecoderSignature> FindDecoderSignature(const Model& model, const DecoderNames& names = {});

// Gives the inputs of the main graph the dimensions of the contract, and replaces the symbols that fall away
// in all declared shapes.
void ApplyDecoderContract(Model& model, const DecoderSignature& signature);

// All together: recognises the decoder, applies the contract, infers shapes, and returns the signature with
// what is then known of its dimensions.
Result<DecoderSignature> InferDecoder(Model& model, const DecoderNames& names = {},
                                      const InferenceOptions& options = {});

}  // namespace lamina
