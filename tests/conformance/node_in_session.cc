// Conformance cases run as a session.
#include <algorithm>
#include <filesystem>

#include "base/element_type.h"
#include "base/error.h"
#include "conformance/node_cases.h"
#include "lamina/session.h"
#include "model/onnx/value_file.h"
#include "runtime/data_set.h"
#include "runtime/value_compare.h"

namespace lamina::testing {
namespace {

// Where random numbers are drawn: type and shape agree, and what is not zero lies in the range of the
// expected values, widened to 0.
Status CheckRandomOutput(const Value& expected, const Value& actual) {
  if (!expected.is_tensor() || !actual.is_tensor() || !(expected.type() == actual.type()) ||
      !(expected.tensor().shape() == actual.tensor().shape())) {
    return InvalidArgumentError("{} expected, found {}", expected.type().ToString(),
                                actual.type().ToString());
  }
  Status status;
  DispatchType<float, double, bool>(expected.tensor().type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T low = 0;
    T high = 0;
    for (const T value : expected.tensor().elements<T>()) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
    if constexpr (std::is_floating_point_v<T>) {
      // The file may have kept none of the largest elements.
      low *= 8;
      high *= 8;
    } else {
      high = true;
    }
    for (const T value : actual.tensor().elements<T>()) {
      if (!(value >= low && value <= high))
        status = InvalidArgumentError("{} is outside of [{}, {}]", value, low, high);
    }
  });
  return status;
}

Status CheckRandomSet(Session& session, const std::string& folder) {
  const auto read = [&](const char* kind, size_t index, const ValueType& type) {
    return ReadValueFile(folder + "/" + kind + "_" + std::to_string(index) + ".pb", type);
  };
  std::vector<Value> inputs;
  for (size_t i = 0; i < session.inputs().size(); ++i) {
    LAMINA_ASSIGN_OR_RETURN(Value input, read("input", i, session.inputs()[i].type));
    inputs.push_back(std::move(input));
  }
  std::vector<Value> outputs;
  LAMINA_RETURN_IF_ERROR(session.Run({}, inputs, &outputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    LAMINA_ASSIGN_OR_RETURN(const Value expected, read("output", i, session.outputs()[i].type));
    LAMINA_RETURN_IF_ERROR(CheckRandomOutput(expected, outputs[i]).WithContext(fmt::format("output {}", i)));
  }
  return Status();
}

}  // namespace

Status RunInSession(const std::shared_ptr<Env>& env, const NodeCase& node_case,
                    const std::string& disabled_rewrites) {
  SessionOptions options;
  if (!disabled_rewrites.empty()) {
    LAMINA_RETURN_IF_ERROR(options.Set("session.disabled_rewrites", disabled_rewrites));
  }
  LAMINA_RETURN_IF_ERROR(options.Set("session.max_kv_caches", "0"));  // past and present are ordinary tensors
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          Session::Load(env, node_case.folder + "/model.onnx", options));
  for (const std::string& folder : FindDataSets(node_case.folder)) {
    LAMINA_RETURN_IF_ERROR(HasRandomOutput(node_case) ? CheckRandomSet(*session, folder)
                                                      : CheckDataSet(*session, folder));
  }
  return Status();
}

}  // namespace lamina::testing
