// Operators that pick or mark elements: Trilu, TopK, NonZero, OneHot, Compress, ReverseSequence.
#include <cstring>
#include <string>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/tensor/element_convert.h"
#include "providers/cpu/tensor/strided_copy.h"

namespace lamina {
namespace {

// Keeps the upper or lower triangle of matrices and sets the rest to zero.
class Trilu : public Kernel {
 public:
  explicit Trilu(const NodeInfo& node) : upper_(node.Int("upper", 1) != 0) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    if (shape.rank() < 2) return InvalidArgumentError("matrices expected, found shape {}", shape.ToString());
    int64_t diagonal = 0;
    if (const Tensor* k = context.Input(1)) {
      LAMINA_ASSIGN_OR_RETURN(diagonal, ReadInt(*k));
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out || out->num_elements() == 0) return Status();
    const int64_t rows = shape[shape.rank() - 2];
    const int64_t columns = shape[shape.rank() - 1];
    const int64_t bytes = ElementBytes(input->type());
    const auto* source = static_cast<const std::byte*>(input->raw_data());
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    diagonal = std::clamp(diagonal, -rows, columns);
    context.threads().ParallelFor(
        shape.num_elements() / columns, GrainOf(columns), [&](int64_t begin, int64_t end, int) {
          for (int64_t row = begin; row < end; ++row) {
            // Columns [0, split) and [split, columns) lie on different sides.
            const int64_t split = std::clamp<int64_t>(row % rows + diagonal + (upper_ ? 0 : 1), 0, columns);
            const int64_t first = upper_ ? split : 0;
            const int64_t kept = upper_ ? columns - split : split;
            const std::byte* from = source + row * columns * bytes;
            std::byte* to = target + row * columns * bytes;
            if (from != to && kept > 0) {
              std::memcpy(to + first * bytes, from + first * bytes, static_cast<size_t>(kept * bytes));
            }
            std::memset(to + (upper_ ? 0 : split) * bytes, 0, static_cast<size_t>((columns - kept) * bytes));
          }
        });
    return Status();
  }

 private:
  bool upper_;
};

// The k largest or smallest along an axis, best first; of equal ones the lower index. NaN is the largest. The
// indices output doubles as the heap, so that no scratch is needed.
class TopK : public Kernel {
 public:
  explicit TopK(const NodeInfo& node)
      : k_from_attribute_(node.opset_version() < 10),
        k_(node.Int("k", 0)),
        axis_(node.Int("axis", -1)),
        largest_(node.Int("largest", 1) != 0) {}

  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  // The heap where a caller does not want the indices: as many as there are elements at most.
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    if (node.HasOutput(1)) return Status();
    const ShapeBounds* bounds = node.input_bounds(0);
    if (!bounds || !bounds->bounded()) return UnsupportedError("the input has no bounds");
    return requirements.Add(0, static_cast<size_t>(bounds->Max().num_elements()) * sizeof(int64_t));
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    int64_t k = k_;
    if (!k_from_attribute_) {
      LAMINA_ASSIGN_OR_RETURN(const Tensor* k_input, RequireInput(context, 1));
      LAMINA_ASSIGN_OR_RETURN(k, ReadInt(*k_input));
    }
    Shape shape = input->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    const int64_t extent = shape[axis];
    if (k < 0 || k > extent) {
      return InvalidArgumentError("k = {} of axis {} of input {}", k, axis, shape.ToString());
    }
    shape[axis] = k;
    LAMINA_ASSIGN_OR_RETURN(Tensor * values, context.Output(0, shape));
    LAMINA_ASSIGN_OR_RETURN(Tensor * index_output, context.Output(1, shape));
    const int64_t inner = shape.num_elements(axis + 1, shape.rank());
    const int64_t rows = shape.num_elements(0, axis) * inner;
    if (rows == 0 || k == 0) return Status();
    int64_t* indices = nullptr;
    if (index_output) {
      indices = index_output->mutable_data<int64_t>();
    } else {
      LAMINA_ASSIGN_OR_RETURN(indices, GetScratch<int64_t>(context, 0, rows * k));
    }
    DispatchType<float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                 uint32_t, uint64_t>(input->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* x = input->data<T>();
      T* y = values ? values->mutable_data<T>() : nullptr;
      context.threads().ParallelFor(rows, GrainOf(8 * extent), [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
          const T* elements = x + row / inner * extent * inner + row % inner;
          const int64_t first = row / inner * k * inner + row % inner;
          Select(elements, extent, inner, k, indices + first);
          for (int64_t i = 0; y && i < k; ++i) {
            y[first + i * inner] = elements[indices[first + i * inner] * inner];
          }
        }
      });
    });
    return Status();
  }

 private:
  template <typename T>
  bool Better(const T* x, int64_t stride, int64_t a, int64_t b) const {
    using C = ComputeType<T>;
    const C first = static_cast<C>(x[a * stride]);
    const C second = static_cast<C>(x[b * stride]);
    if constexpr (std::is_floating_point_v<C>) {
      const bool first_nan = first != first;
      const bool second_nan = second != second;
      if (first_nan != second_nan) return first_nan == largest_;
      if (first_nan) return a < b;
    }
    if (first != second) return largest_ ? first > second : first < second;
    return a < b;
  }

  // Fills heap[0], heap[stride], ... with the indices of the k best in order. While it works the heap has its
  // worst member at the root.
  template <typename T>
  void Select(const T* x, int64_t count, int64_t stride, int64_t k, int64_t* heap) const {
    const auto sift_down = [&](int64_t place, int64_t size) {
      const int64_t moved = heap[place * stride];
      for (int64_t child = 2 * place + 1; child < size; child = 2 * place + 1) {
        if (child + 1 < size && Better(x, stride, heap[child * stride], heap[(child + 1) * stride])) ++child;
        if (!Better(x, stride, moved, heap[child * stride])) break;
        heap[place * stride] = heap[child * stride];
        place = child;
      }
      heap[place * stride] = moved;
    };
    for (int64_t i = 0; i < k; ++i) heap[i * stride] = i;
    for (int64_t place = k / 2; place-- > 0;) sift_down(place, k);
    for (int64_t i = k; i < count; ++i) {
      if (Better(x, stride, i, heap[0])) {
        heap[0] = i;
        sift_down(0, k);
      }
    }
    for (int64_t size = k - 1; size > 0; --size) {
      std::swap(heap[0], heap[size * stride]);
      sift_down(0, size);
    }
  }

  bool k_from_attribute_;
  int64_t k_;
  int64_t axis_;
  bool largest_;
};

// Whether element `i` of a convertible type is not zero.
bool IsNonZero(const Tensor& tensor, int64_t i) {
  bool non_zero = false;
  ConvertElements(tensor.type(),
                  static_cast<const std::byte*>(tensor.raw_data()) + i * ElementBytes(tensor.type()),
                  DataType::kBool, &non_zero, 0, 1);
  return non_zero;
}

// Indices [rank, count] of the elements that are not zero.
class NonZero : public Kernel {
 public:
  explicit NonZero(const NodeInfo&) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Shape& shape = input->shape();
    int64_t count = 0;
    for (int64_t i = 0; i < input->num_elements(); ++i) count += IsNonZero(*input, i) ? 1 : 0;
    const int rank = shape.rank();
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, {rank, count}));
    if (!out) return Status();
    int64_t* target = out->mutable_data<int64_t>();
    for (int64_t i = 0, found = 0; i < input->num_elements(); ++i) {
      if (!IsNonZero(*input, i)) continue;
      int64_t rest = i;
      for (int axis = rank - 1; axis >= 0; --axis) {
        target[axis * count + found] = rest % shape[axis];
        rest /= shape[axis];
      }
      ++found;
    }
    return Status();
  }
};

// indices -> rows of `off` with one `on`, along a fresh axis.
class OneHot : public Kernel {
 public:
  explicit OneHot(const NodeInfo& node) : axis_(node.Int("axis", -1)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* indices, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* depth_input, RequireInput(context, 1));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* values, RequireInput(context, 2));
    LAMINA_ASSIGN_OR_RETURN(const double depth_number, ReadNumber(*depth_input));
    const Shape& shape = indices->shape();
    if (values->num_elements() != 2 || depth_number < 1 || depth_number > 1e15 ||
        shape.rank() == Shape::kMaxRank) {
      return InvalidArgumentError("depth {} with values {}", depth_number, values->shape().ToString());
    }
    const auto depth = static_cast<int64_t>(depth_number);
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank() + 1));
    Shape out_shape;
    for (int i = 0; i <= shape.rank(); ++i) {
      out_shape.Append(i == axis ? depth : shape[i < axis ? i : i - 1]);
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    const DataType type = values->type();
    const int64_t bytes = ElementBytes(type);
    const auto* off = static_cast<const std::byte*>(values->raw_data());
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    FillElements(type, off, target, out->num_elements());
    const int64_t inner = shape.num_elements(axis, shape.rank());
    for (int64_t i = 0; i < indices->num_elements(); ++i) {
      double number = 0;
      ConvertElements(indices->type(),
                      static_cast<const std::byte*>(indices->raw_data()) + i * ElementBytes(indices->type()),
                      DataType::kDouble, &number, 0, 1);
      if (!(number >= -static_cast<double>(depth) && number < static_cast<double>(depth)))
        continue;  // all off
      const auto index = static_cast<int64_t>(number < 0 ? number + static_cast<double>(depth) : number);
      CopyElements(type, off + bytes, target + ((i / inner * depth + index) * inner + i % inner) * bytes, 1);
    }
    return Status();
  }

 private:
  int64_t axis_;
};

// The slices along an axis (or elements of the flattened input) whose condition is true.
class Compress : public Kernel {
 public:
  explicit Compress(const NodeInfo& node)
      : flatten_(node.FindAttribute("axis") == nullptr), axis_(node.Int("axis", 0)) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* condition, RequireInput(context, 1));
    const Shape shape = flatten_ ? Shape{input->num_elements()} : input->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    const bool* keep = condition->data<bool>();
    const int64_t candidates = std::min(condition->num_elements(), shape[axis]);
    Shape out_shape = shape;
    out_shape[axis] = std::count(keep, keep + candidates, true);
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    const int64_t block = shape.num_elements(axis + 1, shape.rank());
    const int64_t bytes = ElementBytes(input->type());
    const auto* source = static_cast<const std::byte*>(input->raw_data());
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    for (int64_t outer = 0; outer < shape.num_elements(0, axis); ++outer) {
      for (int64_t i = 0; i < candidates; ++i) {
        if (!keep[i]) continue;
        CopyElements(input->type(), source + (outer * shape[axis] + i) * block * bytes, target, block);
        target += block * bytes;
      }
    }
    return Status();
  }

 private:
  bool flatten_;
  int64_t axis_;
};

// Reverses the first sequence_lens[b] steps of every sequence b.
class ReverseSequence : public Kernel {
 public:
  explicit ReverseSequence(const NodeInfo& node)
      : batch_axis_(static_cast<int>(node.Int("batch_axis", 1))),
        time_axis_(static_cast<int>(node.Int("time_axis", 0))) {}
  static Status Validate(const NodeInfo& node) {
    const int64_t batch = node.Int("batch_axis", 1);
    const int64_t time = node.Int("time_axis", 0);
    return (batch == 0 && time == 1) || (batch == 1 && time == 0)
               ? Status()
               : InvalidModelError("batch_axis {} and time_axis {} must be 0 and 1 or 1 and 0", batch, time);
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* lengths, RequireInput(context, 1));
    const Shape& shape = input->shape();
    if (shape.rank() < 2 || lengths->num_elements() != shape[batch_axis_]) {
      return InvalidArgumentError("{} lengths for input {}", lengths->num_elements(), shape.ToString());
    }
    const int64_t batch = shape[batch_axis_];
    const int64_t steps = shape[time_axis_];
    for (const int64_t length : lengths->elements<int64_t>()) {
      if (length < 0 || length > steps) return InvalidArgumentError("a length of {} of {}", length, steps);
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, shape));
    if (!out) return Status();
    const int64_t block = shape.num_elements(2, shape.rank());
    const int64_t bytes = ElementBytes(input->type());
    const auto* source = static_cast<const std::byte*>(input->raw_data());
    auto* target = static_cast<std::byte*>(out->mutable_raw_data());
    const auto place = [&](int64_t b, int64_t t) {
      return (batch_axis_ == 0 ? b * steps + t : t * batch + b) * block * bytes;
    };
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t length = lengths->data<int64_t>()[b];
      for (int64_t t = 0; t < steps; ++t) {
        CopyElements(input->type(), source + place(b, t < length ? length - 1 - t : t), target + place(b, t),
                     block);
      }
    }
    return Status();
  }

 private:
  int batch_axis_;
  int time_axis_;
};

}  // namespace

void RegisterSelectKernels(KernelRegistry& registry) {
  const TypeSet fixed = kNumericTypes | TypeSet{DataType::kBool, DataType::kComplex64, DataType::kComplex128};
  const TypeSet any = fixed | DataType::kString;
  registry.Add(KernelDef("Trilu").Since(14).Input(0, fixed).Output(0, fixed).HostInput(1).MayInplace(0, 0),
               CreateKernel<Trilu>);
  registry.Add(KernelDef("TopK")
                   .Input(0, kNumericTypes)
                   .HostInput(1)
                   .Output(0, kNumericTypes)
                   .Output(1, DataType::kInt64),
               CreateKernel<TopK>, EstimateWorkspace<TopK>);
  registry.Add(
      KernelDef("NonZero").Since(9).Input(0, kNumericTypes | DataType::kBool).Output(0, DataType::kInt64),
      CreateKernel<NonZero>);
  registry.Add(KernelDef("OneHot")
                   .Since(9)
                   .Input(0, kNumericTypes)
                   .Input(1, kNumericTypes)
                   .HostInput(1)
                   .Input(2, any)
                   .Output(0, any),
               CreateKernel<OneHot>);
  registry.Add(KernelDef("Compress").Since(9).Input(0, any).Input(1, DataType::kBool).Output(0, any),
               CreateKernel<Compress>);
  registry.Add(KernelDef("ReverseSequence").Since(10).Input(0, any).Input(1, DataType::kInt64).Output(0, any),
               CreateKernel<ReverseSequence>);
}

}  // namespace lamina
