// Unique: the distinct elements, or slices along an axis, with where they are and how often.
#include <string>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kOrder = 0;  // scratch slot: slices in order
constexpr int kGroup = 1;  // scratch slot: for each slice, then for each group, a number

class Unique : public Kernel {
 public:
  explicit Unique(const NodeInfo& node)
      : flatten_(node.FindAttribute("axis") == nullptr),
        axis_(node.Int("axis", 0)),
        sorted_(node.Int("sorted", 1) != 0) {}
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t elements, LargestInputElements(node, 0));
    LAMINA_RETURN_IF_ERROR(requirements.Add(kOrder, static_cast<size_t>(elements) * sizeof(int64_t)));
    return requirements.Add(kGroup, static_cast<size_t>(elements) * 3 * sizeof(int64_t));
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    const Shape shape = flatten_ ? Shape{x->num_elements()} : x->shape();
    LAMINA_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank()));
    Status status;
    DispatchType<float, double, Float16, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                 uint32_t, uint64_t, bool, std::string>(
        x->type(), [&](auto tag) { status = Run<typename decltype(tag)::type>(context, *x, shape, axis); });
    return status;
  }

 private:
  template <typename T>
  Status Run(KernelContext& context, const Tensor& x, const Shape& shape, int axis) const {
    const T* data = x.data<T>();
    const int64_t count = shape[axis];
    const int64_t inner = shape.num_elements(axis + 1, shape.rank());
    const int64_t outer = shape.num_elements(0, axis);
    // Slices a and b compared element by element: negative, zero, positive.
    const auto compare = [&](int64_t a, int64_t b) {
      for (int64_t i = 0; i < outer * inner; ++i) {
        const int64_t base = i / inner * count * inner + i % inner;
        const auto& left = data[base + a * inner];
        const auto& right = data[base + b * inner];
        if (left < right) return -1;
        if (right < left) return 1;
      }
      return 0;
    };
    LAMINA_ASSIGN_OR_RETURN(int64_t * order, GetScratch<int64_t>(context, kOrder, count));
    LAMINA_ASSIGN_OR_RETURN(int64_t * group_of, GetScratch<int64_t>(context, kGroup, 3 * count));
    int64_t* first_of = group_of + count;  // of a group: its first slice
    int64_t* rank_of = first_of + count;   // of a group: its place in the output
    for (int64_t i = 0; i < count; ++i) order[i] = i;
    std::sort(order, order + count, [&](int64_t a, int64_t b) {
      const int sign = compare(a, b);
      return sign != 0 ? sign < 0 : a < b;
    });
    int64_t groups = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (i == 0 || compare(order[i - 1], order[i]) != 0) first_of[groups++] = order[i];
      group_of[order[i]] = groups - 1;
    }
    // Unsorted: groups in the order of their first slices.
    for (int64_t g = 0; g < groups; ++g) rank_of[g] = g;
    if (!sorted_) {
      int64_t next = 0;
      for (int64_t i = 0; i < count; ++i) {
        if (first_of[group_of[i]] == i) rank_of[group_of[i]] = next++;
      }
    }
    Shape out_shape = shape;
    out_shape[axis] = groups;
    LAMINA_ASSIGN_OR_RETURN(Tensor * y, context.Output(0, out_shape));
    LAMINA_ASSIGN_OR_RETURN(Tensor * indices, context.Output(1, {groups}));
    LAMINA_ASSIGN_OR_RETURN(Tensor * inverse, context.Output(2, {count}));
    LAMINA_ASSIGN_OR_RETURN(Tensor * counts, context.Output(3, {groups}));
    for (int64_t g = 0; g < groups; ++g) {
      if (indices) indices->mutable_data<int64_t>()[rank_of[g]] = first_of[g];
      if (counts) counts->mutable_data<int64_t>()[g] = 0;
      for (int64_t i = 0; y && i < outer; ++i) {
        std::copy_n(data + (i * count + first_of[g]) * inner, inner,
                    y->mutable_data<T>() + (i * groups + rank_of[g]) * inner);
      }
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t rank = rank_of[group_of[i]];
      if (inverse) inverse->mutable_data<int64_t>()[i] = rank;
      if (counts) ++counts->mutable_data<int64_t>()[rank];
    }
    return Status();
  }

  bool flatten_;
  int64_t axis_;
  bool sorted_;
};

}  // namespace

void RegisterUniqueKernels(KernelRegistry& registry) {
  const TypeSet types = kNumericTypes | TypeSet{DataType::kBool, DataType::kString};
  registry.Add(KernelDef("Unique").Since(11).Input(0, types).Output(0, types), CreateKernel<Unique>,
               EstimateWorkspace<Unique>);
}

}  // namespace lamina
