#include "runtime/model_preparation.h"

#include <map>
#include <string>

#include "model/function_inliner.h"
#include "model/shape_inference/shape_inference.h"
#include "plan/kv_layout.h"
#include "rewrite/last_token_logits.h"
#include "rewrite/rewriter.h"
#include "rewrite/single_provider.h"
#include "runtime/constant_evaluator.h"

namespace lamina {
namespace {

constexpr int kDefaultContextTokens = 4096;

// The keys are those of genai_config.json.
DecoderNames NamesFrom(const std::map<std::string, std::string>& given) {
  DecoderNames names;
  const auto take = [&](const char* key, std::string& name) {
    const auto found = given.find(key);
    if (found != given.end() && !found->second.empty()) name = found->second;
  };
  take("input_ids", names.input_ids);
  take("inputs_embeds", names.inputs_embeds);
  take("attention_mask", names.attention_mask);
  take("position_ids", names.position_ids);
  take("past_key_names", names.past_key);
  take("past_value_names", names.past_value);
  take("past_conv_names", names.past_conv);
  take("logits", names.logits);
  take("present_key_names", names.present_key);
  take("present_value_names", names.present_value);
  take("present_conv_names", names.present_conv);
  return names;
}

}  // namespace

Result<PreparedModel> PrepareModel(std::shared_ptr<Env> env, Model& model, const SessionConfig& config,
                                   const LoadOptions& load_options, bool host_only,
                                   const std::function<Result<Tensor>(const Initializer&)>& read_external) {
  PreparedModel prepared;
  LAMINA_RETURN_IF_ERROR(InlineFunctions(model));
  InferenceOptions inference;
  inference.read_external = read_external;
  const DecoderNames names = NamesFrom(load_options.decoder_names);
  prepared.not_a_decoder = FindDecoderSignature(model, names).status();
  if (prepared.not_a_decoder.ok()) {
    LAMINA_ASSIGN_OR_RETURN(prepared.decoder, InferDecoder(model, names, inference));
  } else {
    LAMINA_RETURN_IF_ERROR(InferShapes(model, inference));
  }
  SessionConstantEvaluator evaluator(std::move(env));
  LAMINA_RETURN_IF_ERROR(
      ApplyRewrites(model, {config.disabled_rewrites, read_external, &evaluator}).status());
  if (prepared.decoder && config.last_token_logits > 0) {
    const Graph& graph = *model.graph;
    KeepLastTokenLogits(model, PositionOf(graph, graph.outputs(), prepared.decoder->logits.name),
                        config.last_token_logits);
  }
  if (host_only) {
    SingleProvider cpu("cpu");
    LAMINA_RETURN_IF_ERROR(
        ApplyLevel2Rewrites(model, cpu, {config.disabled_rewrites, read_external, &evaluator}).status());
  }
  return prepared;
}

int ContextLength(const SessionConfig& config) {
  return config.context_length_tokens > 0 ? config.context_length_tokens : kDefaultContextTokens;
}

}  // namespace lamina
