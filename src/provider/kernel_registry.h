// Which operators a provider implements, for which versions and types.
//
//   registry.Add(KernelDef("Softmax").Since(13).Input(0, kFloatTypes).Output(0, kFloatTypes).MayInplace(0,
//   0),
//                CreateKernel<Softmax>);
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/status.h"
#include "provider/kernel.h"
#include "provider/type_set.h"

namespace lamina {

inline constexpr std::string_view kMsDomain = "com.microsoft";
inline constexpr std::string_view kMlDomain = "ai.onnx.ml";

// What a kernel implements. `Since(a, b)`: opset versions a to b inclusive; without b, all from a.
class KernelDef {
 public:
  explicit KernelDef(std::string_view op_type, std::string_view domain = "")
      : op_type_(op_type), domain_(domain) {}

  KernelDef& Since(int first, int last = std::numeric_limits<int>::max()) {
    first_version_ = first;
    last_version_ = last;
    return *this;
  }
  // Element types admitted at an input or output. Inputs not named admit every type; the last named input of
  // a variadic operator holds for those after it.
  KernelDef& Input(int index, TypeSet types);
  KernelDef& Output(int index, TypeSet types);
  KernelDef& VariadicInputs() {
    variadic_inputs_ = true;
    return *this;
  }
  // The output is the input's memory under another shape (Reshape, Identity).
  KernelDef& Alias(int input, int output);
  // The output may overwrite the input where nobody else reads it and the bytes are equal.
  KernelDef& MayInplace(int input, int output);
  // The kernel reads this input on the host (shapes, axes), whatever its device.
  KernelDef& HostInput(int index);
  KernelDef& HostOutput(int index);
  // The node is an attention node with a KV cache: past inputs and present outputs that a session may bind to
  // a cache in place (KvView). Past and present are then no ordinary tensors.
  KernelDef& KvCache(int past_key, int past_value, int present_key, int present_value);

  struct KvIndices {
    int past_key = -1, past_value = -1, present_key = -1, present_value = -1;
    bool valid() const { return past_key >= 0; }
  };

  const std::string& op_type() const { return op_type_; }
  const std::string& domain() const { return domain_; }
  int first_version() const { return first_version_; }
  int last_version() const { return last_version_; }
  // All types where the index is not constrained.
  TypeSet input_types(int index) const;
  TypeSet output_types(int index) const;
  const std::vector<std::pair<int, TypeSet>>& constrained_inputs() const { return inputs_; }
  const std::vector<std::pair<int, TypeSet>>& constrained_outputs() const { return outputs_; }
  // As (input, output).
  const std::vector<std::pair<int, int>>& aliases() const { return aliases_; }
  const std::vector<std::pair<int, int>>& inplace_pairs() const { return inplace_; }
  bool has_variadic_inputs() const { return variadic_inputs_; }
  // The input an output aliases, else -1.
  int alias_of(int output) const;
  bool may_overwrite(int input, int output) const;
  bool is_host_input(int index) const { return (host_inputs_ >> index & 1) != 0; }
  bool is_host_output(int index) const { return (host_outputs_ >> index & 1) != 0; }
  const KvIndices& kv_cache() const { return kv_; }

 private:
  std::string op_type_;
  std::string domain_;
  int first_version_ = 1;
  int last_version_ = std::numeric_limits<int>::max();
  std::vector<std::pair<int, TypeSet>> inputs_;
  std::vector<std::pair<int, TypeSet>> outputs_;
  std::vector<std::pair<int, int>> aliases_;  // (input, output)
  std::vector<std::pair<int, int>> inplace_;  // (input, output)
  uint64_t host_inputs_ = 0;
  uint64_t host_outputs_ = 0;
  bool variadic_inputs_ = false;
  KvIndices kv_;
};

// Called at load, from any thread. A kernel of a plugin carries what it needs to reach the plugin; kernels of
// the tree are plain functions.
using KernelCreateFunc = std::function<Result<std::unique_ptr<Kernel>>(const NodeInfo& node)>;
// Level-1 estimate, without a kernel: bytes of scratch at most for what `node` admits.
using WorkspaceEstimateFunc = std::function<Status(const NodeInfo& node, size_t* estimated_workspace_bytes)>;

struct KernelCreateInfo {
  KernelDef def;
  KernelCreateFunc create;
  WorkspaceEstimateFunc workspace_estimate_func;  // null: no estimate
};

class KernelRegistry {
 public:
  void Add(KernelDef def, KernelCreateFunc create, WorkspaceEstimateFunc workspace_estimate = nullptr);

  // The kernel for the node. UNSUPPORTED naming node, domain, operator, version and types, and the nearest
  // thing that exists: another version, other types, or an operator of similar name.
  Result<const KernelCreateInfo*> Lookup(const NodeInfo& node) const;
  // Definitions in order of domain, operator, version.
  std::vector<const KernelCreateInfo*> All() const;

 private:
  std::map<std::pair<std::string, std::string>, std::vector<KernelCreateInfo>, std::less<>> kernels_;
};

// The usual KernelCreateFunc: K has a constructor K(const NodeInfo&), and where attributes can be wrong a
// static Status Validate(const NodeInfo&) that is called first.
template <typename K>
Result<std::unique_ptr<Kernel>> CreateKernel(const NodeInfo& node) {
  if constexpr (requires { K::Validate(node); }) {
    LAMINA_RETURN_IF_ERROR(K::Validate(node));
  }
  return std::unique_ptr<Kernel>(std::make_unique<K>(node));
}

// The WorkspaceEstimateFunc of a kernel class whose static
//   Status Workspace(const NodeInfo&, WorkspaceRequirements&)
// also serves DeclareWorkspaceRequirements, so that estimate and declaration are one figure.
template <typename K>
Status EstimateWorkspace(const NodeInfo& node, size_t* estimated_workspace_bytes) {
  WorkspaceRequirements requirements;
  LAMINA_RETURN_IF_ERROR(K::Workspace(node, requirements));
  *estimated_workspace_bytes = requirements.total_bytes();
  return Status();
}

}  // namespace lamina
