// The graph of a random decoder, node for node as ONNX Runtime GenAI's model builder writes it.
#pragma once

#include "generate/synth/synthetic_decoder.h"
#include "generate/synth/weight_writer.h"
#include "model/model.h"

namespace lamina {

// A model without nodes: opsets, producer, an empty graph.
Model MakeEmptyModel();

// Fills the main graph; weights go through `weights`.
Status BuildDecoderGraph(Model& model, const SynthOptions& options, WeightWriter& weights);

}  // namespace lamina
