#include "docs/operators_doc.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "providers/cuda/cuda_host_half.h"
#include "support/op_tester.h"

namespace lamina::testing {
namespace {

// Names of sets that occur often; other sets are listed type by type.
struct NamedSet {
  const char* name;
  TypeSet types;
};
const NamedSet kNamedSets[] = {
    {"any", kAllTypes},
    {"fixed-size", kFixedSizeTypes},
    {"numeric", kNumericTypes},
    {"float", kFloatTypes},
    {"fp32/fp16/bf16", kHalfAndFloatTypes},
    {"int", kIntTypes},
    {"fp8", kFloat8Types},
    {"sub-byte", kSubByteTypes},
    {"signed int", kSignedIntTypes},
    {"unsigned int", kUnsignedIntTypes},
};

bool IsSubset(TypeSet part, TypeSet whole) { return (part | whole) == whole; }

// The set as the largest named sets it contains and what is left.
std::string Describe(TypeSet types) {
  std::vector<std::string> parts;
  TypeSet described;
  for (const NamedSet& named : kNamedSets) {
    if (!IsSubset(named.types, types) || IsSubset(named.types, described)) continue;
    parts.emplace_back(named.name);
    described = described | named.types;
  }
  for (int number = 1; number <= static_cast<int>(DataType::kInt2); ++number) {
    const auto type = static_cast<DataType>(number);
    if (types.Contains(type) && !described.Contains(type)) parts.emplace_back(DataTypeName(type));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string Versions(const KernelDef& def) {
  if (def.last_version() == std::numeric_limits<int>::max()) return fmt::format("{}+", def.first_version());
  return def.first_version() == def.last_version()
             ? fmt::format("{}", def.first_version())
             : fmt::format("{}-{}", def.first_version(), def.last_version());
}

}  // namespace

const std::map<std::string, std::string>& MissingOperators() {
  static const std::map<std::string, std::string> kMissing = {
      {"ImageDecoder", "needs decoders of image formats, which have no place in an inference library"},
  };
  return kMissing;
}

const std::vector<MissingContribOperators>& MissingContrib() {
  static const std::vector<MissingContribOperators> kMissing = {
      {{"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"},
       "whole decode loops in one node: here the engine decodes, with the sampling of its caller"},
      {{"DecoderAttention", "DecoderMaskedSelfAttention", "LongformerAttention", "PackedAttention",
        "PackedMultiHeadAttention", "RemovePadding", "RestorePadding", "GatedRelativePositionBias",
        "RelativePositionBias"},
       "written by the graph optimizer of ONNX Runtime for CUDA; models as they were before it run"},
      {{"PagedAttention"}, "its caches are blocks that the caller owns; here the session owns the KV cache"},
      {{"SparseAttention"}, "block-sparse layouts of one model family; no kernel yet"},
      {{"GatedAdd", "GatedDeltaNet", "GatedRMSNorm", "LinearAttentionGate", "EngramGate", "NGramHashMapping",
        "VarlenCausalConvWithState", "VarlenNGramHashMapping", "GemmaRotaryEmbedding", "MRotaryEmbedding"},
       "fusions of single model families for GPUs; no kernel yet, exports with their primitives run"},
      {{"MatMulNBitsMlp", "MatMulNBitsQkv"}, "made by an optimizer at load from MatMulNBits, which runs"},
      {{"MatMulFpQ4", "MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight", "GemmFloat8"},
       "formats of weights beside those of MatMulNBits and MatMulBnb4; no kernel yet"},
      {{"BiasAdd", "BiasDropout", "BiasSoftmax", "BiasSplitGelu", "BitmaskBiasDropout", "BitmaskDropout",
        "FusedMatMulActivation", "GemmFastGelu", "GroupNorm", "SkipGroupNorm", "NhwcConv", "NhwcFusedConv"},
       "written by the graph optimizer of ONNX Runtime for one of its providers (CUDA, DirectML, training); "
       "models as they were before it run"},
      {{"QAttention", "QEmbedLayerNormalization", "DynamicQuantizeLSTM"},
       "int8 forms of whole layers; models quantised operator by operator, or with QuantizeLinear and "
       "DequantizeLinear, run"},
      {{"QLinearConv"}, "the channels-last form of QLinearConv of ai.onnx, which runs"},
      {{"QOrderedAttention", "QOrderedGelu", "QOrderedLayerNormalization", "QOrderedLongformerAttention",
        "QOrderedMatMul", "QuantizeWithOrder", "DequantizeWithOrder"},
       "memory orders of cuBLASLt"},
      {{"QuantizeBFP", "DequantizeBFP", "MatMulInteger16", "MulInteger", "ReduceSumInteger"},
       "integer forms beside the quantised operators; no kernel yet"},
      {{"ComplexMul", "ComplexMulConj", "Rfft", "Irfft"}, "ai.onnx has DFT, which runs"},
      {{"ExpandDims", "GatherND", "GridSample", "Pad", "Range", "Trilu", "Unique"},
       "forerunners of operators of ai.onnx, which run"},
      {{"AttnLSTM", "WordConvEmbedding", "CropAndResize", "ConvTransposeWithDynamicPads", "MaxpoolWithMask",
        "CDist", "Inverse", "MurmurHash3", "NGramRepeatBlock", "SparseToDenseMatMul", "Tokenizer",
        "TorchEmbedding", "UnfoldTensor", "DynamicTimeWarping"},
       "exports of single products and of retired converters; no kernel yet"},
      {{"BifurcationDetector", "SampleOp", "IsAllFinite"},
       "speculative decoding inside a graph, an example, and training"},
      {{"EPContext", "Snpe"}, "compiled blobs of other vendors' providers"},
  };
  return kMissing;
}

const std::map<std::string, int>& OnnxOperators() {
  static const std::map<std::string, int> kOperators = {{"Abs", 1},
                                                        {"Acos", 7},
                                                        {"Acosh", 9},
                                                        {"Add", 1},
                                                        {"AffineGrid", 20},
                                                        {"And", 1},
                                                        {"ArgMax", 1},
                                                        {"ArgMin", 1},
                                                        {"Asin", 7},
                                                        {"Asinh", 9},
                                                        {"Atan", 7},
                                                        {"Atanh", 9},
                                                        {"Attention", 23},
                                                        {"AveragePool", 1},
                                                        {"BatchNormalization", 1},
                                                        {"Bernoulli", 15},
                                                        {"BitCast", 26},
                                                        {"BitShift", 11},
                                                        {"BitwiseAnd", 18},
                                                        {"BitwiseNot", 18},
                                                        {"BitwiseOr", 18},
                                                        {"BitwiseXor", 18},
                                                        {"BlackmanWindow", 17},
                                                        {"Cast", 1},
                                                        {"CastLike", 15},
                                                        {"CausalConvWithState", 27},
                                                        {"Ceil", 1},
                                                        {"Celu", 12},
                                                        {"CenterCropPad", 18},
                                                        {"Clip", 1},
                                                        {"Col2Im", 18},
                                                        {"Compress", 9},
                                                        {"Concat", 1},
                                                        {"ConcatFromSequence", 11},
                                                        {"Constant", 1},
                                                        {"ConstantOfShape", 9},
                                                        {"Conv", 1},
                                                        {"ConvInteger", 10},
                                                        {"ConvTranspose", 1},
                                                        {"Cos", 7},
                                                        {"Cosh", 9},
                                                        {"CumProd", 26},
                                                        {"CumSum", 11},
                                                        {"DFT", 17},
                                                        {"DeformConv", 19},
                                                        {"DepthToSpace", 1},
                                                        {"DequantizeLinear", 10},
                                                        {"Det", 11},
                                                        {"Div", 1},
                                                        {"Dropout", 1},
                                                        {"DynamicQuantizeLinear", 11},
                                                        {"Einsum", 12},
                                                        {"Elu", 1},
                                                        {"Equal", 1},
                                                        {"Erf", 9},
                                                        {"Exp", 1},
                                                        {"Expand", 8},
                                                        {"EyeLike", 9},
                                                        {"Flatten", 1},
                                                        {"Floor", 1},
                                                        {"GRU", 1},
                                                        {"Gather", 1},
                                                        {"GatherElements", 11},
                                                        {"GatherND", 11},
                                                        {"Gelu", 20},
                                                        {"Gemm", 1},
                                                        {"GlobalAveragePool", 1},
                                                        {"GlobalLpPool", 1},
                                                        {"GlobalMaxPool", 1},
                                                        {"Greater", 1},
                                                        {"GreaterOrEqual", 12},
                                                        {"GridSample", 16},
                                                        {"GroupNormalization", 18},
                                                        {"HammingWindow", 17},
                                                        {"HannWindow", 17},
                                                        {"HardSigmoid", 1},
                                                        {"HardSwish", 14},
                                                        {"Hardmax", 1},
                                                        {"Identity", 1},
                                                        {"If", 1},
                                                        {"ImageDecoder", 20},
                                                        {"InstanceNormalization", 1},
                                                        {"IsInf", 10},
                                                        {"IsNaN", 9},
                                                        {"LRN", 1},
                                                        {"LSTM", 1},
                                                        {"LayerNormalization", 17},
                                                        {"LeakyRelu", 1},
                                                        {"Less", 1},
                                                        {"LessOrEqual", 12},
                                                        {"LinearAttention", 27},
                                                        {"Log", 1},
                                                        {"LogSoftmax", 1},
                                                        {"Loop", 1},
                                                        {"LpNormalization", 1},
                                                        {"LpPool", 1},
                                                        {"MatMul", 1},
                                                        {"MatMulInteger", 10},
                                                        {"Max", 1},
                                                        {"MaxPool", 1},
                                                        {"MaxRoiPool", 1},
                                                        {"MaxUnpool", 9},
                                                        {"Mean", 1},
                                                        {"MeanVarianceNormalization", 9},
                                                        {"MelWeightMatrix", 17},
                                                        {"Min", 1},
                                                        {"Mish", 18},
                                                        {"Mod", 10},
                                                        {"Mul", 1},
                                                        {"Multinomial", 7},
                                                        {"Neg", 1},
                                                        {"NegativeLogLikelihoodLoss", 12},
                                                        {"NonMaxSuppression", 10},
                                                        {"NonZero", 9},
                                                        {"Not", 1},
                                                        {"OneHot", 9},
                                                        {"Optional", 15},
                                                        {"OptionalGetElement", 15},
                                                        {"OptionalHasElement", 15},
                                                        {"Or", 1},
                                                        {"PRelu", 1},
                                                        {"Pad", 1},
                                                        {"Pow", 1},
                                                        {"QLinearConv", 10},
                                                        {"QLinearMatMul", 10},
                                                        {"QuantizeLinear", 10},
                                                        {"RMSNormalization", 23},
                                                        {"RNN", 1},
                                                        {"RandomNormal", 1},
                                                        {"RandomNormalLike", 1},
                                                        {"RandomUniform", 1},
                                                        {"RandomUniformLike", 1},
                                                        {"Range", 11},
                                                        {"Reciprocal", 1},
                                                        {"ReduceL1", 1},
                                                        {"ReduceL2", 1},
                                                        {"ReduceLogSum", 1},
                                                        {"ReduceLogSumExp", 1},
                                                        {"ReduceMax", 1},
                                                        {"ReduceMean", 1},
                                                        {"ReduceMin", 1},
                                                        {"ReduceProd", 1},
                                                        {"ReduceSum", 1},
                                                        {"ReduceSumSquare", 1},
                                                        {"RegexFullMatch", 20},
                                                        {"Relu", 1},
                                                        {"Reshape", 1},
                                                        {"Resize", 10},
                                                        {"ReverseSequence", 10},
                                                        {"RoiAlign", 10},
                                                        {"RotaryEmbedding", 23},
                                                        {"Round", 11},
                                                        {"STFT", 17},
                                                        {"Scan", 8},
                                                        {"Scatter", 9},
                                                        {"ScatterElements", 11},
                                                        {"ScatterND", 11},
                                                        {"Selu", 1},
                                                        {"SequenceAt", 11},
                                                        {"SequenceConstruct", 11},
                                                        {"SequenceEmpty", 11},
                                                        {"SequenceErase", 11},
                                                        {"SequenceInsert", 11},
                                                        {"SequenceLength", 11},
                                                        {"SequenceMap", 17},
                                                        {"Shape", 1},
                                                        {"Shrink", 9},
                                                        {"Sigmoid", 1},
                                                        {"Sign", 9},
                                                        {"SimplifiedLayerNormalization", 1},
                                                        {"Sin", 7},
                                                        {"Sinh", 9},
                                                        {"Size", 1},
                                                        {"Slice", 1},
                                                        {"Softmax", 1},
                                                        {"SoftmaxCrossEntropyLoss", 12},
                                                        {"Softplus", 1},
                                                        {"Softsign", 1},
                                                        {"SpaceToDepth", 1},
                                                        {"Split", 1},
                                                        {"SplitToSequence", 11},
                                                        {"Sqrt", 1},
                                                        {"Squeeze", 1},
                                                        {"StringConcat", 20},
                                                        {"StringNormalizer", 10},
                                                        {"StringSplit", 20},
                                                        {"Sub", 1},
                                                        {"Sum", 1},
                                                        {"SwiGLU", 28},
                                                        {"Swish", 24},
                                                        {"Tan", 7},
                                                        {"Tanh", 1},
                                                        {"TensorScatter", 24},
                                                        {"TfIdfVectorizer", 9},
                                                        {"ThresholdedRelu", 1},
                                                        {"Tile", 1},
                                                        {"TopK", 1},
                                                        {"Transpose", 1},
                                                        {"Trilu", 14},
                                                        {"Unique", 11},
                                                        {"Unsqueeze", 1},
                                                        {"Upsample", 7},
                                                        {"Where", 9},
                                                        {"Xor", 1}};
  return kOperators;
}

namespace {

// Of the first input, or of the first output where the operator has no typed input.
TypeSet TypesOf(const KernelDef& def) {
  if (!def.constrained_inputs().empty()) return def.constrained_inputs().front().second;
  return def.constrained_outputs().empty() ? kAllTypes : def.constrained_outputs().front().second;
}

// What the CUDA provider has for an operator: "1+ fp32/fp16/bf16", for each kernel; empty where it has none.
std::string CudaKernels(const KernelDef& wanted) {
  static const std::unique_ptr<ProviderHostHalf> cuda = CreateCudaHostHalf();
  std::set<std::string> kernels;
  for (const KernelCreateInfo* info : cuda->kernel_registry().All()) {
    const KernelDef& def = info->def;
    if (def.op_type() != wanted.op_type() || def.domain() != wanted.domain()) continue;
    kernels.insert(fmt::format("{} {}", Versions(def), Describe(TypesOf(def))));
  }
  return fmt::format("{}", fmt::join(kernels, "; "));
}

}  // namespace

std::string OperatorsDocument() {
  std::string text =
      "# Operators\n\n"
      "Generated from the registries of the providers by tests/docs (LAMINA_UPDATE_DOCS=1). Versions are "
      "opset\n"
      "versions of the operator's domain; types are those of the first input, or of the first output where "
      "the\n"
      "operator has no typed input. `float` is fp32, fp16, bf16 and fp64; fp16 and bf16 are computed in "
      "fp32. A\n"
      "CUDA kernel may refuse some attributes: the node then runs on the CPU, and `lamina plan` says why.\n";
  std::string domain = "none";
  for (const KernelCreateInfo* info : CpuRegistry().All()) {
    const KernelDef& def = info->def;
    if (def.domain() != domain) {
      domain = def.domain();
      text += fmt::format("\n## {}\n\n| Operator | cpu: versions | cpu: types | cuda |\n|---|---|---|---|\n",
                          domain.empty() ? "ai.onnx" : domain);
    }
    text += fmt::format("| {} | {} | {} | {} |\n", def.op_type(), Versions(def), Describe(TypesOf(def)),
                        CudaKernels(def));
  }
  text += "\n## Not implemented\n\n| Operator | Reason |\n|---|---|\n";
  for (const auto& [name, reason] : MissingOperators()) text += fmt::format("| {} | {} |\n", name, reason);
  text += "\n### com.microsoft\n\n| Operators | Reason |\n|---|---|\n";
  for (const MissingContribOperators& family : MissingContrib()) {
    text += fmt::format("| {} | {} |\n", fmt::join(family.names, ", "), family.reason);
  }
  return text;
}

}  // namespace lamina::testing
