// Gather, GatherElements, GatherND.
#include <cstring>
#include <string>

#include "providers/cpu/tensor/indices.h"

namespace lamina {
namespace {

class Gather : public Kernel {
 public:
  explicit Gather(const NodeInfo& node) : axis_(node.Int("axis", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* data, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* indices, RequireInput(context, 1));
    const Shape& shape = data->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    const int64_t extent = shape[axis];
    LAMINA_RETURN_IF_ERROR(CheckIndices(*indices, extent));
    if (shape.rank() - 1 + indices->shape().rank() > Shape::kMaxRank) {
      return InvalidArgumentError("the result would have more than {} dimensions", Shape::kMaxRank);
    }
    Shape out_shape;
    for (int i = 0; i < axis; ++i) out_shape.Append(shape[i]);
    for (const int64_t dim : indices->shape()) out_shape.Append(dim);
    for (int i = axis + 1; i < shape.rank(); ++i) out_shape.Append(shape[i]);
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out || out->num_elements() == 0) return Status();

    const DataType type = data->type();
    const int64_t block = shape.num_elements(axis + 1, shape.rank());
    const int64_t bytes = ElementBytes(type);
    const int64_t count = indices->num_elements();
    const auto* source = static_cast<const std::byte*>(data->raw_data());
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    context.threads().ParallelFor(
        shape.num_elements(0, axis) * count, GrainOf(block + 4), [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            int64_t index = IndexAt(*indices, i % count);
            if (index < 0) index += extent;
            CopyElements(type, source + (i / count * extent + index) * block * bytes,
                         target + i * block * bytes, block);
          }
        });
    return Status();
  }

 private:
  int64_t axis_;
};

// out[i][j][k] = data[i][indices[i][j][k]][k] for axis 1.
class GatherElements : public Kernel {
 public:
  explicit GatherElements(const NodeInfo& node) : axis_(node.Int("axis", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* data, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* indices, RequireInput(context, 1));
    const Shape& shape = data->shape();
    const Shape& out_shape = indices->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    bool fits = out_shape.rank() == shape.rank();
    for (int i = 0; fits && i < shape.rank(); ++i) fits = i == axis || out_shape[i] <= shape[i];
    if (!fits) {
      return InvalidArgumentError("indices {} do not fit data {}", out_shape.ToString(), shape.ToString());
    }
    LAMINA_RETURN_IF_ERROR(CheckIndices(*indices, shape[axis]));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out || out->num_elements() == 0) return Status();
    const IntList strides = ContiguousStrides(shape);
    const DataType type = data->type();
    const int64_t bytes = ElementBytes(type);
    const auto* source = static_cast<const std::byte*>(data->raw_data());
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    context.threads().ParallelFor(
        out->num_elements(), GrainOf(4 * shape.rank()), [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            int64_t offset = 0;
            int64_t rest = i;
            for (int d = shape.rank() - 1; d >= 0; --d) {
              if (d != axis) offset += rest % out_shape[d] * strides[d];
              rest /= out_shape[d];
            }
            int64_t index = IndexAt(*indices, i);
            if (index < 0) index += shape[axis];
            CopyElements(type, source + (offset + index * strides[axis]) * bytes, target + i * bytes, 1);
          }
        });
    return Status();
  }

 private:
  int64_t axis_;
};

class GatherNd : public Kernel {
 public:
  explicit GatherNd(const NodeInfo& node) : batch_dims_(node.Int("batch_dims", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* data, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* indices, RequireInput(context, 1));
    const Shape& shape = data->shape();
    const Shape& index_shape = indices->shape();
    const int last = index_shape.rank() - 1;
    if (last < 0 || batch_dims_ < 0 || batch_dims_ > last) {
      return InvalidArgumentError("batch_dims {} with indices {}", batch_dims_, index_shape.ToString());
    }
    const int batch = static_cast<int>(batch_dims_);
    const int64_t width = index_shape[last];
    if (batch + width > shape.rank() || width < 1) {
      return InvalidArgumentError("indices {} address more axes than data {} has", index_shape.ToString(),
                                  shape.ToString());
    }
    for (int i = 0; i < batch; ++i) {
      if (shape[i] != index_shape[i]) {
        return InvalidArgumentError("the batch axes of {} and {} differ", shape.ToString(),
                                    index_shape.ToString());
      }
    }
    const int depth = batch + static_cast<int>(width);
    LAMINA_RETURN_IF_ERROR(CheckIndexTuples(
        *indices, shape.dims().subspan(static_cast<size_t>(batch), static_cast<size_t>(width))));
    if (last + shape.rank() - depth > Shape::kMaxRank) {
      return InvalidArgumentError("the result would have more than {} dimensions", Shape::kMaxRank);
    }
    Shape out_shape;
    for (int i = 0; i < last; ++i) out_shape.Append(index_shape[i]);
    for (int i = depth; i < shape.rank(); ++i) out_shape.Append(shape[i]);
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out || out->num_elements() == 0) return Status();

    const IntList strides = ContiguousStrides(shape);
    const int64_t block = shape.num_elements(depth, shape.rank());
    const int64_t batch_stride = shape.num_elements(batch, shape.rank());
    const int64_t tuples_per_batch = index_shape.num_elements(batch, last);
    const DataType type = data->type();
    const int64_t bytes = ElementBytes(type);
    const auto* source = static_cast<const std::byte*>(data->raw_data());
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    context.threads().ParallelFor(
        index_shape.num_elements(0, last), GrainOf(block + 4 * width), [&](int64_t begin, int64_t end, int) {
          for (int64_t tuple = begin; tuple < end; ++tuple) {
            int64_t offset = tuple / tuples_per_batch * batch_stride;
            for (int i = 0; i < static_cast<int>(width); ++i) {
              int64_t index = IndexAt(*indices, tuple * width + i);
              if (index < 0) index += shape[batch + i];
              offset += index * strides[batch + i];
            }
            CopyElements(type, source + offset * bytes, target + tuple * block * bytes, block);
          }
        });
    return Status();
  }

 private:
  int64_t batch_dims_;
};

}  // namespace

void RegisterGatherKernels(KernelRegistry& registry) {
  const TypeSet types =
      kNumericTypes | kFloat8Types |
      TypeSet{DataType::kBool, DataType::kString, DataType::kComplex64, DataType::kComplex128};
  const auto add = [&](const char* name, int since, KernelCreateFunc create) {
    registry.Add(KernelDef(name).Since(since).Input(0, types).Input(1, kIndexTypes).Output(0, types), create);
  };
  add("Gather", 1, CreateKernel<Gather>);
  add("GatherElements", 11, CreateKernel<GatherElements>);
  add("GatherND", 11, CreateKernel<GatherNd>);
}

}  // namespace lamina
