// Sequences: SequenceEmpty, SequenceConstruct, SequenceInsert, SequenceErase, SequenceAt, SequenceLength,
// SplitToSequence, ConcatFromSequence.
#include "providers/cpu/kernel_util.h"
#include "providers/cpu/tensor/strided_copy.h"

namespace lamina {
namespace {

// The sequence input; INVALID_ARGUMENT where it is none.
Result<const Sequence*> RequireSequence(const KernelContext& context, int index) {
  const Value& value = context.InputValue(index);
  if (value.kind() != ValueKind::kSequence) {
    return InvalidArgumentError("input {} must be a sequence, found {}", index, value.type().ToString());
  }
  return &value.sequence();
}

// The input as an item of a sequence: a tensor copied, as its memory belongs to the run.
Result<Value> ItemFrom(const Value& value) {
  if (!value.is_tensor()) return value;
  LAMINA_ASSIGN_OR_RETURN(Tensor copy, value.tensor().Clone());
  return Value(std::move(copy));
}

// A position in [-size, size], or the default where the input is absent; `limit` is the first invalid one.
Result<int64_t> ReadPosition(const KernelContext& context, int index, int64_t size, int64_t limit,
                             int64_t default_position) {
  const Tensor* tensor = context.Input(index);
  if (!tensor) return default_position;
  LAMINA_ASSIGN_OR_RETURN(const int64_t position, ReadInt(*tensor));
  if (position < -size || position >= limit) {
    return InvalidArgumentError("position {} of a sequence of {}", position, size);
  }
  return position < 0 ? position + size : position;
}

class SequenceEmpty : public Kernel {
 public:
  explicit SequenceEmpty(const NodeInfo& node)
      : element_(static_cast<DataType>(node.Int("dtype", static_cast<int64_t>(DataType::kFloat)))) {}
  Status Compute(KernelContext& context) const override {
    Sequence sequence;
    sequence.element = element_;
    return context.SetOutputValue(0, Value(std::move(sequence)));
  }

 private:
  DataType element_;
};

class SequenceConstruct : public Kernel {
 public:
  explicit SequenceConstruct(const NodeInfo&) {}
  Status Compute(KernelContext& context) const override {
    Sequence sequence;
    for (int i = 0; i < context.num_inputs(); ++i) {
      LAMINA_ASSIGN_OR_RETURN(const Tensor* item, RequireInput(context, i));
      if (i > 0 && item->type() != sequence.element) return InvalidArgumentError("the items' types differ");
      sequence.element = item->type();
      LAMINA_ASSIGN_OR_RETURN(Value copy, ItemFrom(*item));
      sequence.items.push_back(std::move(copy));
    }
    return context.SetOutputValue(0, Value(std::move(sequence)));
  }
};

class SequenceInsert : public Kernel {
 public:
  explicit SequenceInsert(const NodeInfo&) {}
  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Sequence* input, RequireSequence(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* item, RequireInput(context, 1));
    const auto size = static_cast<int64_t>(input->items.size());
    LAMINA_ASSIGN_OR_RETURN(const int64_t position, ReadPosition(context, 2, size, size + 1, size));
    if (size > 0 && input->element != item->type()) {
      return InvalidArgumentError("{} in a sequence of {}", DataTypeName(item->type()),
                                  DataTypeName(input->element));
    }
    Sequence sequence = *input;
    sequence.element = item->type();
    LAMINA_ASSIGN_OR_RETURN(Value copy, ItemFrom(*item));
    sequence.items.insert(sequence.items.begin() + position, std::move(copy));
    return context.SetOutputValue(0, Value(std::move(sequence)));
  }
};

class SequenceErase : public Kernel {
 public:
  explicit SequenceErase(const NodeInfo&) {}
  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Sequence* input, RequireSequence(context, 0));
    const auto size = static_cast<int64_t>(input->items.size());
    if (size == 0) return InvalidArgumentError("nothing can be erased from an empty sequence");
    LAMINA_ASSIGN_OR_RETURN(const int64_t position, ReadPosition(context, 1, size, size, size - 1));
    Sequence sequence = *input;
    sequence.items.erase(sequence.items.begin() + position);
    return context.SetOutputValue(0, Value(std::move(sequence)));
  }
};

class SequenceAt : public Kernel {
 public:
  explicit SequenceAt(const NodeInfo&) {}
  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Sequence* input, RequireSequence(context, 0));
    LAMINA_RETURN_IF_ERROR(RequireInput(context, 1).status());
    const auto size = static_cast<int64_t>(input->items.size());
    LAMINA_ASSIGN_OR_RETURN(const int64_t position, ReadPosition(context, 1, size, size, 0));
    return context.SetOutputValue(0, input->items[static_cast<size_t>(position)]);
  }
};

class SequenceLength : public Kernel {
 public:
  explicit SequenceLength(const NodeInfo&) {}
  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Sequence* input, RequireSequence(context, 0));
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, {}));
    if (out) *out->mutable_data<int64_t>() = static_cast<int64_t>(input->items.size());
    return Status();
  }
};

// Cuts a tensor along an axis: into parts of one length (a scalar `split`), of given lengths (1-D), or into
// single slices, whose axis goes unless keepdims is set.
class SplitToSequence : public Kernel {
 public:
  explicit SplitToSequence(const NodeInfo& node)
      : axis_(node.Int("axis", 0)), keep_dims_(node.Int("keepdims", 1) != 0) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* input, RequireInput(context, 0));
    const Tensor* split = context.Input(1);
    const Shape& shape = input->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    int64_t step = 1;
    const bool given_lengths = split && split->shape().rank() == 1;
    if (split && !kIndexTypes.Contains(split->type()))
      return InvalidArgumentError("split must hold integers");
    if (split && !given_lengths) {
      LAMINA_ASSIGN_OR_RETURN(step, ReadInt(*split));
      if (step < 1) return InvalidArgumentError("parts of {}", step);
    }
    Sequence sequence;
    sequence.element = input->type();
    int64_t offset = 0;
    for (int64_t part = 0; given_lengths ? part < split->num_elements() : offset < shape[axis]; ++part) {
      int64_t length = std::min(step, shape[axis] - offset);
      if (given_lengths) {
        length =
            split->type() == DataType::kInt32 ? split->data<int32_t>()[part] : split->data<int64_t>()[part];
      }
      if (length < 0 || length > shape[axis] - offset) return InvalidArgumentError("a part of {}", length);
      LAMINA_ASSIGN_OR_RETURN(Tensor item, Part(context.threads(), *input, axis, offset, length));
      if (!split && !keep_dims_) {
        Shape squeezed;
        for (int i = 0; i < shape.rank(); ++i) {
          if (i != axis) squeezed.Append(shape[i]);
        }
        item = item.Reshaped(squeezed);
      }
      sequence.items.emplace_back(std::move(item));
      offset += length;
    }
    if (offset != shape[axis])
      return InvalidArgumentError("the parts add up to {} of {}", offset, shape[axis]);
    return context.SetOutputValue(0, Value(std::move(sequence)));
  }

 private:
  static Result<Tensor> Part(ThreadPool& threads, const Tensor& input, int axis, int64_t offset,
                             int64_t length) {
    Shape shape = input.shape();
    shape[axis] = length;
    LAMINA_ASSIGN_OR_RETURN(Tensor part, Tensor::Allocate(input.type(), shape));
    StridedCopy copy;
    copy.type = input.type();
    copy.source = input.raw_data();
    copy.target = part.mutable_raw_data();
    copy.source_offset = offset * shape.num_elements(axis + 1, shape.rank());
    copy.extents = IntList(shape.dims());
    copy.source_strides = ContiguousStrides(input.shape());
    copy.target_strides = ContiguousStrides(shape);
    copy.Run(threads);
    return part;
  }

  int64_t axis_;
  bool keep_dims_;
};

class ConcatFromSequence : public Kernel {
 public:
  explicit ConcatFromSequence(const NodeInfo& node)
      : axis_(node.Int("axis", 0)), new_axis_(node.Int("new_axis", 0) != 0) {}

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Sequence* input, RequireSequence(context, 0));
    if (input->items.empty()) return InvalidArgumentError("an empty sequence cannot be joined");
    const Shape first = input->items[0].tensor().shape();
    if (new_axis_ && first.rank() == Shape::kMaxRank) return InvalidArgumentError("too many dimensions");
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, first.rank() + (new_axis_ ? 1 : 0)));
    const auto widened = [&](const Shape& shape) {
      if (!new_axis_) return shape;
      Shape wide;
      for (int i = 0; i <= shape.rank(); ++i) wide.Append(i == axis ? 1 : shape[i < axis ? i : i - 1]);
      return wide;
    };
    Shape out_shape = widened(first);
    out_shape[axis] = 0;
    for (const Value& item : input->items) {
      Shape shape = widened(item.tensor().shape());
      if (shape.rank() != out_shape.rank()) return InvalidArgumentError("the items' ranks differ");
      out_shape[axis] += shape[axis];
      shape[axis] = out_shape[axis];
      if (!(shape == out_shape)) return InvalidArgumentError("the items' shapes differ");
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    int64_t offset = 0;
    for (const Value& item : input->items) {
      const Shape shape = widened(item.tensor().shape());
      StridedCopy copy;
      copy.type = input->element;
      copy.source = item.tensor().raw_data();
      copy.target = out->mutable_raw_data();
      copy.target_offset = offset * shape.num_elements(axis + 1, shape.rank());
      copy.extents = IntList(shape.dims());
      copy.source_strides = ContiguousStrides(shape);
      copy.target_strides = ContiguousStrides(out_shape);
      copy.Run(context.threads());
      offset += shape[axis];
    }
    return Status();
  }

 private:
  int64_t axis_;
  bool new_axis_;
};

}  // namespace

void RegisterSequenceKernels(KernelRegistry& registry) {
  const auto add = [&](const char* name, KernelCreateFunc create) {
    registry.Add(KernelDef(name).Since(11), create);
  };
  add("SequenceEmpty", CreateKernel<SequenceEmpty>);
  add("SequenceConstruct", CreateKernel<SequenceConstruct>);
  add("SequenceInsert", CreateKernel<SequenceInsert>);
  add("SequenceErase", CreateKernel<SequenceErase>);
  add("SequenceAt", CreateKernel<SequenceAt>);
  add("SequenceLength", CreateKernel<SequenceLength>);
  add("SplitToSequence", CreateKernel<SplitToSequence>);
  add("ConcatFromSequence", CreateKernel<ConcatFromSequence>);
}

}  // namespace lamina
