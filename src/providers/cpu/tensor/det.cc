// Det: determinants of square matrices, by elimination with pivoting.
#include <cmath>

#include "providers/cpu/kernel_util.h"
#include "providers/cpu/workspace_bounds.h"

namespace lamina {
namespace {

class Det : public Kernel {
 public:
  explicit Det(const NodeInfo&) {}
  Status DeclareWorkspaceRequirements(const NodeInfo& node,
                                      WorkspaceRequirements& requirements) const override {
    return Workspace(node, requirements);
  }
  static Status Workspace(const NodeInfo& node, WorkspaceRequirements& requirements) {
    LAMINA_ASSIGN_OR_RETURN(const Shape shape, LargestInputShape(node, 0));
    const int64_t n = shape.rank() == 0 ? 0 : shape[shape.rank() - 1];
    return requirements.Add(0, static_cast<size_t>(n) * static_cast<size_t>(n) * sizeof(double));
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* x, RequireInput(context, 0));
    const Shape& shape = x->shape();
    const int rank = shape.rank();
    if (rank < 2 || shape[rank - 1] != shape[rank - 2]) {
      return InvalidArgumentError("square matrices expected, found {}", shape.ToString());
    }
    const int64_t n = shape[rank - 1];
    Shape out_shape;
    for (int axis = 0; axis < rank - 2; ++axis) out_shape.Append(shape[axis]);
    LAMINA_ASSIGN_OR_RETURN(Tensor * out, context.Output(0, out_shape));
    if (!out) return Status();
    LAMINA_ASSIGN_OR_RETURN(double* matrix, GetScratch<double>(context, 0, n * n));
    DispatchType<float, double, Float16, Bfloat16>(x->type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < out->num_elements(); ++i) {
        const T* source = x->data<T>() + i * n * n;
        for (int64_t k = 0; k < n * n; ++k) matrix[k] = static_cast<ComputeType<T>>(source[k]);
        out->mutable_data<T>()[i] = static_cast<T>(static_cast<ComputeType<T>>(Determinant(matrix, n)));
      }
    });
    return Status();
  }

 private:
  static double Determinant(double* a, int64_t n) {
    double determinant = 1;
    for (int64_t column = 0; column < n; ++column) {
      int64_t pivot = column;
      for (int64_t row = column + 1; row < n; ++row) {
        if (std::abs(a[row * n + column]) > std::abs(a[pivot * n + column])) pivot = row;
      }
      if (a[pivot * n + column] == 0) return 0;
      if (pivot != column) {
        std::swap_ranges(a + pivot * n, a + (pivot + 1) * n, a + column * n);
        determinant = -determinant;
      }
      determinant *= a[column * n + column];
      for (int64_t row = column + 1; row < n; ++row) {
        const double factor = a[row * n + column] / a[column * n + column];
        for (int64_t k = column; k < n; ++k) a[row * n + k] -= factor * a[column * n + k];
      }
    }
    return determinant;
  }
};

}  // namespace

void RegisterDetKernels(KernelRegistry& registry) {
  registry.Add(KernelDef("Det").Since(11).Input(0, kFloatTypes).Output(0, kFloatTypes), CreateKernel<Det>,
               EstimateWorkspace<Det>);
}

}  // namespace lamina
