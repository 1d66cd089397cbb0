// NonMaxSuppression: for each class the boxes of highest score that overlap no better one too much.
#include <limits>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

constexpr int kOrder = 0;     // scratch slot: boxes of one class by score
constexpr int kSelected = 1;  // scratch slot: the result, three numbers for each box

struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

double IntersectionOverUnion(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) return 0;
  const double intersection = height * width;
  const double total = a.area() + b.area() - intersection;
  return total <= 0 ? 0 : intersection / total;
}

class NonMaxSuppression : public Kernel {
 public:
  explicit NonMaxSuppression(const NodeInfo& node) : centered_(node.Int("center_point_box", 0) != 0) {}
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const int64_t scores, LargestInputElements(node, 1));
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, LargestInputShape(node, 1));
    const int64_t boxes = shape.rank() == 3 ? shape[2] : 0;
    LAMINA_RETURN_IF_ERROR(requirements.Add(kOrder, static_cast<size_t>(boxes) * sizeof(int64_t)));
    return requirements.Add(kSelected, static_cast<size_t>(scores) * 3 * sizeof(int64_t));
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* boxes, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* scores, RequireInput(context, 1));
    const Shape& box_shape = boxes->shape();     // [batch, boxes, 4]
    const Shape& score_shape = scores->shape();  // [batch, classes, boxes]
    if (box_shape.rank() != 3 || score_shape.rank() != 3 || box_shape[2] != 4 ||
        box_shape[0] != score_shape[0] || box_shape[1] != score_shape[2]) {
      return InvalidArgumentError("boxes {} and scores {} do not fit", box_shape.ToString(),
                                  score_shape.ToString());
    }
    const auto number = [&](int index, double absent) -> Result<double> {
      const Tensor* tensor = context.Input(index);
      return tensor ? ReadNumber(*tensor) : Result<double>(absent);
    };
    LAMINA_ASSIGN_OR_RETURN(const double limit, number(2, 0));
    LAMINA_ASSIGN_OR_RETURN(const double overlap, number(3, 0));
    LAMINA_ASSIGN_OR_RETURN(const double threshold, number(4, -std::numeric_limits<double>::infinity()));
    const int64_t count = box_shape[1];
    LAMINA_ASSIGN_OR_RETURN(int64_t * order, GetScratch<int64_t>(context, kOrder, count));
    LAMINA_ASSIGN_OR_RETURN(int64_t * selected,
                            GetScratch<int64_t>(context, kSelected, 3 * scores->num_elements()));
    int64_t found = 0;
    for (int64_t row = 0; row < score_shape[0] * score_shape[1]; ++row) {
      const float* of_class = scores->data<float>() + row * count;
      const int64_t batch = row / score_shape[1];
      int64_t candidates = 0;
      for (int64_t i = 0; i < count; ++i) {
        if (of_class[i] > threshold) order[candidates++] = i;
      }
      std::sort(order, order + candidates, [&](int64_t a, int64_t b) {
        return of_class[a] != of_class[b] ? of_class[a] > of_class[b] : a < b;
      });
      const int64_t first = found;
      for (int64_t i = 0; i < candidates && static_cast<double>(found - first) < limit; ++i) {
        const Box box = BoxAt(*boxes, batch * count + order[i]);
        bool keep = true;
        for (int64_t k = first; keep && k < found; ++k) {
          keep = IntersectionOverUnion(box, BoxAt(*boxes, batch * count + selected[3 * k + 2])) <= overlap;
        }
        if (!keep) continue;
        selected[3 * found] = batch;
        selected[3 * found + 1] = row % score_shape[1];
        selected[3 * found + 2] = order[i];
        ++found;
      }
    }
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, {found, 3}));
    if (out) std::copy_n(selected, 3 * found, out->mutable_data<int64_t>());
    return Status();
  }

 private:
  Box BoxAt(const Tensor& boxes, int64_t index) const {
    const float* c = boxes.data<float>() + 4 * index;
    const double v[4] = {c[0], c[1], c[2], c[3]};
    if (centered_) {  // x, y, width, height
      return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
    }
    return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
  }

  bool centered_;
};

}  // namespace

void RegisterNonMaxSuppressionKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("NonMaxSuppression")
                   .Since(10)
                   .Input(0, DataType::kFloat)
                   .Input(1, DataType::kFloat)
                   .Output(0, DataType::kInt64),
               CreateKernel<NonMaxSuppression>, EstimateWorkspace<NonMaxSuppression>);
}

}  // namespace lamina
