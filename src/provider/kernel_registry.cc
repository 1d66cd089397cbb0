#include "provider/kernel_registry.h"

#include <algorithm>

#include "base/edit_distance.h"
#include "base/error.h"

namespace lamina {
namespace {

TypeSet FindTypes(const std::vector<std::pair<int, TypeSet>>& constraints, int index, bool last_is_variadic) {
  for (const auto& [constrained, types] : constraints) {
    if (constrained == index) return types;
  }
  if (last_is_variadic && !constraints.empty() && index > constraints.back().first)
    return constraints.back().second;
  return kAllTypes;
}

// "input 0 is float64" for the first input or output whose type the kernel does not admit, else empty.
std::string TypeMismatch(const KernelDef& def, const NodeInfo& node) {
  for (int i = 0; i < node.num_inputs(); ++i) {
    const ValueType type = node.input_type(i);
    if (type.kind != ValueKind::kUndefined && !def.input_types(i).Contains(type.element)) {
      return fmt::format("input {} is {}", i, type.ToString());
    }
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    const ValueType type = node.output_type(i);
    if (type.kind != ValueKind::kUndefined && !def.output_types(i).Contains(type.element)) {
      return fmt::format("output {} is {}", i, type.ToString());
    }
  }
  return "";
}

std::string QualifiedName(std::string_view domain, std::string_view op_type) {
  return domain.empty() ? std::string(op_type) : fmt::format("{}.{}", domain, op_type);
}

std::string VersionRange(const KernelDef& def) {
  if (def.last_version() == std::numeric_limits<int>::max())
    return fmt::format("{} and later", def.first_version());
  return fmt::format("{} to {}", def.first_version(), def.last_version());
}

}  // namespace

KernelDef& KernelDef::Input(int index, TypeSet types) {
  inputs_.emplace_back(index, types);
  return *this;
}
KernelDef& KernelDef::Output(int index, TypeSet types) {
  outputs_.emplace_back(index, types);
  return *this;
}
KernelDef& KernelDef::Alias(int input, int output) {
  aliases_.emplace_back(input, output);
  return *this;
}
KernelDef& KernelDef::MayInplace(int input, int output) {
  inplace_.emplace_back(input, output);
  return *this;
}
KernelDef& KernelDef::HostInput(int index) {
  host_inputs_ |= uint64_t{1} << index;
  return *this;
}
KernelDef& KernelDef::HostOutput(int index) {
  host_outputs_ |= uint64_t{1} << index;
  return *this;
}
KernelDef& KernelDef::KvCache(int past_key, int past_value, int present_key, int present_value) {
  kv_ = {past_key, past_value, present_key, present_value};
  return *this;
}

TypeSet KernelDef::input_types(int index) const { return FindTypes(inputs_, index, variadic_inputs_); }
TypeSet KernelDef::output_types(int index) const { return FindTypes(outputs_, index, false); }
int KernelDef::alias_of(int output) const {
  for (const auto& [input, of_output] : aliases_) {
    if (of_output == output) return input;
  }
  return -1;
}
bool KernelDef::may_overwrite(int input, int output) const {
  return std::find(inplace_.begin(), inplace_.end(), std::make_pair(input, output)) != inplace_.end();
}

void KernelRegistry::Add(KernelDef def, KernelCreateFunc create, WorkspaceEstimateFunc workspace_estimate) {
  auto key = std::make_pair(def.domain(), def.op_type());
  kernels_[std::move(key)].push_back({std::move(def), std::move(create), std::move(workspace_estimate)});
}

Result<const KernelCreateInfo*> KernelRegistry::Lookup(const NodeInfo& node) const {
  const std::string wanted = QualifiedName(node.domain(), node.op_type());
  const auto found = kernels_.find(std::make_pair(std::string(node.domain()), std::string(node.op_type())));
  if (found == kernels_.end()) {
    std::string nearest;
    size_t nearest_distance = std::max<size_t>(3, node.op_type().size() / 3);
    for (const auto& [key, infos] : kernels_) {
      // The right operator in another domain is nearer than a similar name.
      const size_t distance = EditDistance(key.second, node.op_type());
      if (distance < nearest_distance) {
        nearest_distance = distance;
        nearest = QualifiedName(key.first, key.second);
      }
    }
    return UnsupportedError("node '{}': there is no kernel for operator {} (opset {}){}", node.name(), wanted,
                            node.opset_version(),
                            nearest.empty() ? "" : fmt::format("; the nearest is {}", nearest));
  }
  std::string mismatch;
  std::string versions;
  for (const KernelCreateInfo& info : found->second) {
    if (node.opset_version() < info.def.first_version() || node.opset_version() > info.def.last_version()) {
      versions += (versions.empty() ? "" : ", ") + VersionRange(info.def);
      continue;
    }
    const std::string wrong_type = TypeMismatch(info.def, node);
    if (wrong_type.empty()) return &info;
    mismatch = wrong_type;
  }
  if (!mismatch.empty()) {
    return UnsupportedError("node '{}': no kernel for operator {} (opset {}) takes these types: {}",
                            node.name(), wanted, node.opset_version(), mismatch);
  }
  return UnsupportedError("node '{}': operator {} has kernels for opset {}, the model asks for {}",
                          node.name(), wanted, versions, node.opset_version());
}

std::vector<const KernelCreateInfo*> KernelRegistry::All() const {
  std::vector<const KernelCreateInfo*> all;
  for (const auto& [key, infos] : kernels_) {
    for (const KernelCreateInfo& info : infos) all.push_back(&info);
  }
  std::stable_sort(all.begin(), all.end(), [](const KernelCreateInfo* a, const KernelCreateInfo* b) {
    return std::tie(a->def.domain(), a->def.op_type()) < std::tie(b->def.domain(), b->def.op_type());
  });
  return all;
}

}  // namespace lamina
