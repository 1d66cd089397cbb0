// Convolution of fp32, fp16, bf16 (computed in fp32) and fp64, any number of spatial axes, groups.
//
// A product of the weights [out_channels / groups, in_channels / groups * kernel] with the windows of the
// input as columns, which are laid out block by block while the product runs, so that no im2col matrix
// exists. Depthwise convolutions, whose products would be thin, walk the planes row by row.
#pragma once

#include <optional>

#include "providers/cpu/elementwise/activations.h"
#include "providers/cpu/nn/window.h"

namespace lamina {

// What happens to a result after the bias: nothing, an activation, or a sum with another tensor before it.
struct ConvEpilogue {
  std::optional<Activation> activation;
  bool is_relu = false;
  int sum_input = -1;  // index of the input that is added, else -1
};

// Reads `activation` and `activation_params` of com.microsoft.FusedConv.
Result<ConvEpilogue> ParseConvEpilogue(const NodeInfo& node);

class Conv : public Kernel {
 public:
  explicit Conv(const NodeInfo& node);
  static Status Validate(const NodeInfo& node);

  Status Compute(KernelContext& context) const override;
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements);
  Status DeclarePrepack(const NodeInfo& node, int input, PrepackDeclaration& declaration) const override;
  Status PrePackWeight(int input, PrepackContext& context, void* packed, void* scratch) const override;

 private:
  WindowAttributes window_;
  int64_t groups_;
  Shape packed_weight_shape_;  // of the constant weight where it is converted at load
  ConvEpilogue epilogue_;
};

}  // namespace lamina
