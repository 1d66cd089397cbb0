// Running one node on a kernel that a test chose, as a session would: declared scratch, packed constants.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "provider/provider.h"
#include "providers/plugin/test_plugin.h"
#include "support/test_kernel_context.h"

namespace lamina::testing {

// What came of it, and what the kernel asked for.
struct KernelRun {
  std::vector<Value> outputs;
  std::vector<WorkspaceRequirement> workspace;
  uint64_t packed_bytes = 0;
  size_t estimated_bytes = 0;
  bool has_estimate = false;
};

// The kernel that `kernels` has for `node`, on `inputs`. Constants of the node are packed first.
inline Result<KernelRun> RunOn(const KernelRegistry& kernels, const TestNode& node,
                               const std::vector<Value>& inputs) {
  KernelRun run;
  LAMINA_ASSIGN_OR_RETURN(const KernelCreateInfo* info, kernels.Lookup(node));
  run.has_estimate = static_cast<bool>(info->workspace_estimate_func);
  if (run.has_estimate) LAMINA_RETURN_IF_ERROR(info->workspace_estimate_func(node, &run.estimated_bytes));
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, info->create(node));
  WorkspaceRequirements requirements;
  Status declared = kernel->DeclareWorkspaceRequirements(node, requirements);
  if (!declared.ok() && declared.code() != StatusCode::kUnsupported) return declared;
  run.workspace.assign(requirements.slots().begin(), requirements.slots().end());
  for (int input = 0; input < node.num_inputs(); ++input) {
    if (!node.is_constant_input(input)) continue;
    PrepackDeclaration declaration;
    LAMINA_RETURN_IF_ERROR(kernel->DeclarePrepack(node, input, declaration));
    if (declaration.prepack) run.packed_bytes += declaration.packed_bytes;
  }
  ThreadPool threads(2);
  TestKernelContext context(node, info->def, inputs, /*share_memory=*/false, threads, /*kv_view=*/nullptr);
  LAMINA_RETURN_IF_ERROR(context.Prepare(*kernel));
  LAMINA_RETURN_IF_ERROR(kernel->Compute(context));
  if (!context.Breaches().empty()) return InternalError("{}", context.Breaches());
  run.outputs = context.TakeOutputs();
  return run;
}

}  // namespace lamina::testing
