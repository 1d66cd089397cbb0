// Transpose, DepthToSpace, SpaceToDepth: permutations of axes.
#include "providers/cpu/tensor/strided_copy.h"

namespace lamina {
namespace {

// Copies `source` of shape `shape` with its axes in the order `permutation` into contiguous memory.
void Permute(ThreadPool& threads, DataType type, const void* source, const IntList& shape,
             const IntList& permutation, void* target) {
  IntList source_strides(shape.size(), 1);
  for (int axis = shape.size() - 2; axis >= 0; --axis) {
    source_strides[axis] = source_strides[axis + 1] * shape[axis + 1];
  }
  StridedCopy copy;
  copy.type = type;
  copy.source = source;
  copy.target = target;
  for (const int64_t axis : permutation) {
    copy.extents.Append(shape[static_cast<int>(axis)]);
    copy.source_strides.Append(source_strides[static_cast<int>(axis)]);
  }
  copy.target_strides = IntList(shape.size(), 1);
  for (int axis = shape.size() - 2; axis >= 0; --axis) {
    copy.target_strides[axis] = copy.target_strides[axis + 1] * copy.extents[axis + 1];
  }
  copy.Run(threads);
}

class Transpose : public Kernel {
 public:
  explicit Transpose(const NodeInfo& node)
      : permutation_(node.Ints("perm").begin(), node.Ints("perm").end()) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    IntList permutation;
    if (permutation_.empty()) {
      for (int axis = shape.rank() - 1; axis >= 0; --axis) permutation.Append(axis);
    } else {
      if (static_cast<int>(permutation_.size()) != shape.rank()) {
        return InvalidArgumentError("perm has {} axes, the input has shape {}", permutation_.size(),
                                    shape.ToString());
      }
      LAMINA_ASSIGN_OR_RETURN(const uint32_t mask, AxisMask(permutation_, shape.rank()));
      (void)mask;  // distinct and in range: a permutation
      for (const int64_t axis : permutation_) permutation.Append(axis < 0 ? axis + shape.rank() : axis);
    }
    Shape out_shape;
    for (const int64_t axis : permutation) out_shape.Append(shape[static_cast<int>(axis)]);
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    Permute(context.threads(), input->type(), input->raw_data(), IntList(shape.dims()), permutation,
            out->mutable_raw_data());
    return Status();
  }

 private:
  std::vector<int64_t> permutation_;  // empty: reverse
};

// Both view the channels-first image [N, C, H, W] as six axes and permute them.
class DepthToSpace : public Kernel {
 public:
  explicit DepthToSpace(const NodeInfo& node)
      : block_(node.Int("blocksize", 0)), columns_first_(node.String("mode", "DCR") == "CRD") {}
  static Status Validate(const NodeInfo& node) {
    const std::string_view mode = node.String("mode", "DCR");
    if (node.Int("blocksize", 0) < 1) return InvalidModelError("blocksize must be positive");
    if (mode != "DCR" && mode != "CRD") return InvalidModelError("mode must be DCR or CRD, found '{}'", mode);
    return Status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    if (shape.rank() != 4 || shape[1] % (block_ * block_) != 0) {
      return InvalidArgumentError("an image [N, C, H, W] whose C is a multiple of {} expected, found {}",
                                  block_ * block_, shape.ToString());
    }
    const int64_t depth = shape[1] / (block_ * block_);
    LAMINA_ASSIGN_OR_RETURN(Tensor * out,
                            context.Output(0, Shape{shape[0], depth, shape[2] * block_, shape[3] * block_}));
    if (!out) return Status();
    IntList extents;
    IntList permutation;
    if (columns_first_) {
      extents = IntList(std::array<int64_t, 6>{shape[0], depth, block_, block_, shape[2], shape[3]});
      permutation = IntList(std::array<int64_t, 6>{0, 1, 4, 2, 5, 3});
    } else {
      extents = IntList(std::array<int64_t, 6>{shape[0], block_, block_, depth, shape[2], shape[3]});
      permutation = IntList(std::array<int64_t, 6>{0, 3, 4, 1, 5, 2});
    }
    Permute(context.threads(), input->type(), input->raw_data(), extents, permutation,
            out->mutable_raw_data());
    return Status();
  }

 private:
  int64_t block_;
  bool columns_first_;
};

class SpaceToDepth : public Kernel {
 public:
  explicit SpaceToDepth(const NodeInfo& node) : block_(node.Int("blocksize", 0)) {}
  static Status Validate(const NodeInfo& node) {
    return node.Int("blocksize", 0) < 1 ? InvalidModelError("blocksize must be positive") : Status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    if (shape.rank() != 4 || shape[2] % block_ != 0 || shape[3] % block_ != 0) {
      return InvalidArgumentError(
          "an image [N, C, H, W] whose H and W are multiples of {} expected, found {}", block_,
          shape.ToString());
    }
    const int64_t height = shape[2] / block_;
    const int64_t width = shape[3] / block_;
    LAMINA_ASSIGN_OR_RETURN(Tensor * out,
                            context.Output(0, Shape{shape[0], shape[1] * block_ * block_, height, width}));
    if (!out) return Status();
    const IntList extents(std::array<int64_t, 6>{shape[0], shape[1], height, block_, width, block_});
    const IntList permutation(std::array<int64_t, 6>{0, 3, 5, 1, 2, 4});
    Permute(context.threads(), input->type(), input->raw_data(), extents, permutation,
            out->mutable_raw_data());
    return Status();
  }

 private:
  int64_t block_;
};

}  // namespace

void RegisterTransposeKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("Transpose"), CreateKernel<Transpose>);
  registry.Add(KernelDef("DepthToSpace"), CreateKernel<DepthToSpace>);
  registry.Add(KernelDef("SpaceToDepth"), CreateKernel<SpaceToDepth>);
}

}  // namespace lamina
