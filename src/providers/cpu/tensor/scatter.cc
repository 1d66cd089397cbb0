// ScatterElements (Scatter before opset 11), ScatterND, TensorScatter. Updates are applied in their order by
// one thread, as several may hit one element.
#include <string>

#include "providers/cpu/elementwise/arithmetic_ops.h"
#include "providers/cpu/tensor/indices.h"

namespace lamina {
namespace {

enum class Reduction { kNone, kAdd, kMul, kMax, kMin };

Result<Reduction> ParseReduction(std::string_view name) {
  if (name == "none") return Reduction::kNone;
  if (name == "add") return Reduction::kAdd;
  if (name == "mul") return Reduction::kMul;
  if (name == "max") return Reduction::kMax;
  if (name == "min") return Reduction::kMin;
  return InvalidModelError("unknown reduction '{}'", name);
}

// Combines a run of updates into the target.
using ApplyFunction = void (*)(Reduction reduction, DataType type, std::byte* target,
                               const std::byte* updates, int64_t count);

void Assign(Reduction, DataType type, std::byte* target, const std::byte* updates, int64_t count) {
  CopyElements(type, updates, target, count);
}

template <typename T>
void Combine(Reduction reduction, DataType, std::byte* target, const std::byte* updates, int64_t count) {
  using C = std::conditional_t<std::is_same_v<T, bool>, uint8_t, ComputeType<T>>;
  T* y = reinterpret_cast<T*>(target);
  const T* u = reinterpret_cast<const T*>(updates);
  for (int64_t i = 0; i < count; ++i) {
    const C old = static_cast<C>(y[i]);
    const C update = static_cast<C>(u[i]);
    switch (reduction) {
      case Reduction::kAdd:
        y[i] = static_cast<T>(AddOp::Apply(old, update));
        break;
      case Reduction::kMul:
        y[i] = static_cast<T>(MulOp::Apply(old, update));
        break;
      case Reduction::kMax:
        y[i] = static_cast<T>(MaxOp::Apply(old, update));
        break;
      case Reduction::kMin:
        y[i] = static_cast<T>(MinOp::Apply(old, update));
        break;
      case Reduction::kNone:
        y[i] = u[i];
        break;
    }
  }
}

// Null where the type has no such reduction.
ApplyFunction FindApply(Reduction reduction, DataType type) {
  if (reduction == Reduction::kNone) return Assign;
  ApplyFunction found = nullptr;
  DispatchType<float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
               uint32_t, uint64_t, bool>(type,
                                         [&](auto tag) { found = Combine<typename decltype(tag)::type>; });
  return found;
}

// The output, filled with the elements of `data`.
Result<Tensor*> CopyOfData(KernelContext& context, const Tensor& data) {
  LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, data.shape()));
  if (out && out->raw_data() != data.raw_data()) {
    CopyElements(data.type(), data.raw_data(), out->mutable_raw_data(), data.num_elements());
  }
  return out;
}

class ScatterElements : public Kernel {
 public:
  explicit ScatterElements(const NodeInfo& node)
      : axis_(node.Int("axis", 0)), reduction_(*ParseReduction(node.String("reduction", "none"))) {}
  static Status Validate(const NodeInfo& node) {
    return ParseReduction(node.String("reduction", "none")).status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* data, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* indices, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* updates, RequireInput(context, 2));
    const Shape& shape = data->shape();
    const Shape& update_shape = updates->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    bool fits = update_shape == indices->shape() && update_shape.rank() == shape.rank() &&
                updates->type() == data->type();
    for (int i = 0; fits && i < shape.rank(); ++i) fits = i == axis || update_shape[i] <= shape[i];
    if (!fits) {
      return InvalidArgumentError("updates {} and indices {} do not fit data {}", update_shape.ToString(),
                                  indices->shape().ToString(), shape.ToString());
    }
    LAMINA_RETURN_IF_ERROR(CheckIndices(*indices, shape[axis]));
    const ApplyFunction apply = FindApply(reduction_, data->type());
    if (!apply) return UnsupportedError("a reduction of {}", DataTypeName(data->type()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, CopyOfData(context, *data));
    if (!out) return Status();
    const IntList strides = ContiguousStrides(shape);
    const int64_t bytes = ElementBytes(data->type());
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    const auto* source = static_cast<const std::byte*>(updates->raw_data());
    const int64_t count = updates->num_elements();
    for (int64_t i = 0; i < count; ++i) {
      int64_t offset = 0;
      int64_t rest = i;
      for (int d = shape.rank() - 1; d >= 0; --d) {
        if (d != axis) offset += rest % update_shape[d] * strides[d];
        rest /= update_shape[d];
      }
      int64_t index = IndexAt(*indices, i);
      if (index < 0) index += shape[axis];
      apply(reduction_, data->type(), target + (offset + index * strides[axis]) * bytes, source + i * bytes,
            1);
    }
    return Status();
  }

 private:
  int64_t axis_;
  Reduction reduction_;
};

class ScatterNd : public Kernel {
 public:
  explicit ScatterNd(const NodeInfo& node) : reduction_(*ParseReduction(node.String("reduction", "none"))) {}
  static Status Validate(const NodeInfo& node) {
    return ParseReduction(node.String("reduction", "none")).status();
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* data, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* indices, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* updates, RequireInput(context, 2));
    const Shape& shape = data->shape();
    const Shape& index_shape = indices->shape();
    const int last = index_shape.rank() - 1;
    if (last < 0 || index_shape[last] > shape.rank() || index_shape[last] < 1) {
      return InvalidArgumentError("indices {} do not fit data {}", index_shape.ToString(), shape.ToString());
    }
    const int width = static_cast<int>(index_shape[last]);
    const int64_t tuples = index_shape.num_elements(0, last);
    const int64_t block = shape.num_elements(width, shape.rank());
    if (updates->num_elements() != tuples * block || updates->type() != data->type()) {
      return InvalidArgumentError("updates {} do not fit indices {} and data {}", updates->shape().ToString(),
                                  index_shape.ToString(), shape.ToString());
    }
    LAMINA_RETURN_IF_ERROR(CheckIndexTuples(*indices, shape.dims().first(static_cast<size_t>(width))));
    const ApplyFunction apply = FindApply(reduction_, data->type());
    if (!apply) return UnsupportedError("a reduction of {}", DataTypeName(data->type()));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, CopyOfData(context, *data));
    if (!out) return Status();
    const IntList strides = ContiguousStrides(shape);
    const int64_t bytes = ElementBytes(data->type());
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    const auto* source = static_cast<const std::byte*>(updates->raw_data());
    for (int64_t tuple = 0; tuple < tuples; ++tuple) {
      int64_t offset = 0;
      for (int i = 0; i < width; ++i) {
        int64_t index = IndexAt(*indices, tuple * width + i);
        if (index < 0) index += shape[i];
        offset += index * strides[i];
      }
      apply(reduction_, data->type(), target + offset * bytes, source + tuple * block * bytes, block);
    }
    return Status();
  }

 private:
  Reduction reduction_;
};

// Writes updates [batch, .., sequence, ..] into a cache [batch, .., max_sequence, ..] from position
// write_indices[batch] (absent: 0) on; mode "circular" wraps around at the end.
class TensorScatter : public Kernel {
 public:
  explicit TensorScatter(const NodeInfo& node)
      : axis_(node.Int("axis", -2)), circular_(node.String("mode", "linear") == "circular") {}
  static Status Validate(const NodeInfo& node) {
    const std::string_view mode = node.String("mode", "linear");
    return mode == "linear" || mode == "circular" ? Status() : InvalidModelError("unknown mode '{}'", mode);
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* cache, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* update, RequireInput(context, 1));
    const Tensor* positions = context.Input(2);
    const Shape& shape = cache->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    Shape same = update->shape();
    const int64_t length = same.rank() == shape.rank() ? same[axis] : 0;
    if (same.rank() == shape.rank()) same[axis] = shape[axis];
    if (axis == 0 || !(same == shape) || update->type() != cache->type() || length > shape[axis]) {
      return InvalidArgumentError("update {} does not fit the cache {} at axis {}",
                                  update->shape().ToString(), shape.ToString(), axis);
    }
    const int64_t batch = shape[0];
    if (positions && (positions->type() != DataType::kInt64 || positions->num_elements() != batch)) {
      return InvalidArgumentError("write_indices must hold one int64 for each of {} sequences", batch);
    }
    for (int64_t b = 0; positions && b < batch; ++b) {
      const int64_t position = positions->data<int64_t>()[b];
      if (position < 0 || (circular_ ? position >= shape[axis] : position + length > shape[axis])) {
        return InvalidArgumentError("{} elements do not fit at position {} of an axis of {}", length,
                                    position, shape[axis]);
      }
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, CopyOfData(context, *cache));
    if (!out || update->num_elements() == 0) return Status();
    const int64_t rows = shape.num_elements(1, axis);
    const int64_t block = shape.num_elements(axis + 1, shape.rank());
    const int64_t bytes = ElementBytes(cache->type());
    const auto* source = static_cast<const std::byte*>(update->raw_data());
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    for (int64_t row = 0; row < batch * rows; ++row) {
      const int64_t position = positions ? positions->data<int64_t>()[row / rows] : 0;
      for (int64_t i = 0; i < length; ++i) {
        const int64_t slot = (position + i) % shape[axis];
        CopyElements(cache->type(), source + (row * length + i) * block * bytes,
                     target + (row * shape[axis] + slot) * block * bytes, block);
      }
    }
    return Status();
  }

 private:
  int64_t axis_;
  bool circular_;
};

}  // namespace

void RegisterScatterKernels(KernelRegistry& registry) {
  const TypeSet types =
      kNumericTypes | kFloat8Types |
      TypeSet{DataType::kBool, DataType::kString, DataType::kComplex64, DataType::kComplex128};
  const auto add = [&](const char* name, int first, int last, KernelCreateFunc create) {
    registry.Add(KernelDef(name)
                     .Since(first, last)
                     .Input(0, types)
                     .Input(1, kIndexTypes)
                     .Input(2, types)
                     .Output(0, types)
                     .MayInplace(0, 0),
                 create);
  };
  constexpr int kLatest = std::numeric_limits<int>::max();
  add("Scatter", 9, 10, CreateKernel<ScatterElements>);
  // Deprecated since 11 but still met in files.
  add("Scatter", 11, kLatest, CreateKernel<ScatterElements>);
  add("ScatterElements", 11, kLatest, CreateKernel<ScatterElements>);
  add("ScatterND", 11, kLatest, CreateKernel<ScatterNd>);
  registry.Add(KernelDef("TensorScatter")
                   .Since(24)
                   .Input(0, types)
                   .Input(1, types)
                   .Input(2, DataType::kInt64)
                   .Output(0, types)
                   .MayInplace(0, 0),
               CreateKernel<TensorScatter>);
}

}  // namespace lamina
