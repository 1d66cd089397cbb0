// ai.onnx.preview.training: Adagrad, Adam, Momentum. Inputs are the learning rate, the number of updates
// made, and groups of tensors: all parameters, all gradients, then all states; outputs the changed parameters
// and states.
#include <cmath>

#include "providers/cpu/kernel_util.h"

namespace lamina {
namespace {

// Coefficients of the three rules under the names of their formulas.
struct OptimizerParams {
  float alpha = 0;
  float beta = 0;
  float epsilon = 0;
  float norm_coefficient = 0;
  float norm_coefficient_post = 0;
  float decay_factor = 0;
  bool nesterov = false;
};

// One parameter with everything that belongs to it. Lists have two entries where the rule has two states.
struct Update {
  double rate = 0;    // learning rate
  int64_t count = 0;  // updates made before
  double parameter = 0;
  double gradient = 0;
  double first = 0;  // states
  double second = 0;
};

void Adagrad(const OptimizerParams& params, Update& u) {
  const double rate = u.rate / (1 + static_cast<double>(u.count) * params.decay_factor);
  const double gradient = params.norm_coefficient * u.parameter + u.gradient;
  u.first += gradient * gradient;
  u.parameter -= rate * gradient / (std::sqrt(u.first) + params.epsilon);
}

void Adam(const OptimizerParams& params, Update& u) {
  const double gradient = params.norm_coefficient * u.parameter + u.gradient;
  u.first = params.alpha * u.first + (1 - params.alpha) * gradient;
  u.second = params.beta * u.second + (1 - params.beta) * gradient * gradient;
  double rate = u.rate;
  if (u.count > 0) {
    const auto count = static_cast<double>(u.count);
    rate *= std::sqrt(1 - std::pow(params.beta, count)) / (1 - std::pow(params.alpha, count));
  }
  u.parameter -= rate * u.first / (std::sqrt(u.second) + params.epsilon);
  u.parameter *= 1 - params.norm_coefficient_post;
}

void Momentum(const OptimizerParams& params, Update& u) {
  const double gradient = params.norm_coefficient * u.parameter + u.gradient;
  const double beta = u.count > 0 ? params.beta : 1;
  u.first = params.alpha * u.first + beta * gradient;
  u.parameter -= u.rate * (params.nesterov ? gradient + params.alpha * u.first : u.first);
}

class Optimizer : public Kernel {
 public:
  explicit Optimizer(const NodeInfo& node)
      : rule_(node.op_type() == "Adagrad" ? Adagrad : (node.op_type() == "Adam" ? Adam : Momentum)),
        states_(node.op_type() == "Adam" ? 2 : 1) {
    const bool adam = node.op_type() == "Adam";
    params_.alpha = node.Float("alpha", adam ? 0.9f : 0);
    params_.beta = node.Float("beta", adam ? 0.999f : 0);
    params_.epsilon = node.Float("epsilon", 1e-6f);
    params_.norm_coefficient = node.Float("norm_coefficient", 0);
    params_.norm_coefficient_post = node.Float("norm_coefficient_post", 0);
    params_.decay_factor = node.Float("decay_factor", 0);
    params_.nesterov = node.String("mode", "standard") == "nesterov";
  }

  Status Compute(KernelContext& context) const override {
    LAMINA_ASSIGN_OR_RETURN(const Tensor* rate_input, RequireInput(context, 0));
    LAMINA_ASSIGN_OR_RETURN(const Tensor* count_input, RequireInput(context, 1));
    Update update;
    LAMINA_ASSIGN_OR_RETURN(update.rate, ReadNumber(*rate_input));
    LAMINA_ASSIGN_OR_RETURN(update.count, ReadInt(*count_input));
    const int groups = 2 + states_;
    const int parameters = (context.num_inputs() - 2) / groups;
    if (parameters * groups + 2 != context.num_inputs()) {
      return InvalidArgumentError("{} inputs make no groups of {}", context.num_inputs() - 2, groups);
    }
    for (int p = 0; p < parameters; ++p) {
      const Tensor* in[4] = {};
      Tensor* out[3] = {};
      for (int group = 0; group < groups; ++group) {
        LAMINA_ASSIGN_OR_RETURN(in[group], RequireInput(context, 2 + group * parameters + p));
        if (in[group]->num_elements() != in[0]->num_elements() || in[group]->type() != in[0]->type()) {
          return InvalidArgumentError("the tensors of parameter {} differ in shape or type", p);
        }
      }
      for (int state = 0; state <= states_; ++state) {
        LAMINA_ASSIGN_OR_RETURN(out[state], context.Output(state * parameters + p, in[0]->shape()));
      }
      DispatchType<float, double>(in[0]->type(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t i = 0; i < in[0]->num_elements(); ++i) {
          update.parameter = in[0]->data<T>()[i];
          update.gradient = in[1]->data<T>()[i];
          update.first = in[2]->data<T>()[i];
          update.second = states_ > 1 ? in[3]->data<T>()[i] : T(0);
          rule_(params_, update);
          const double results[] = {update.parameter, update.first, update.second};
          for (int state = 0; state <= states_; ++state) {
            if (out[state]) out[state]->mutable_data<T>()[i] = static_cast<T>(results[state]);
          }
        }
      });
    }
    return Status();
  }

 private:
  void (*rule_)(const OptimizerParams& params, Update& update);
  int states_;
  OptimizerParams params_;
};

}  // namespace

void RegisterOptimizerKernels(KernelRegistry& registry) {
  const TypeSet types{DataType::kFloat, DataType::kDouble};
  for (const char* name : {"Adagrad", "Adam", "Momentum"}) {
    registry.Add(KernelDef(name, "ai.onnx.preview.training").Input(0, types).Output(0, types),
                 CreateKernel<Optimizer>);
  }
}

}  // namespace lamina
