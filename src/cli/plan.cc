#include "cli/plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/file_writer.h"
#include "base/os.h"
#include "cli/model_flags.h"
#include "cli/plan_html.h"
#include "cli/plan_text.h"
#include "generate/engine.h"
#include "generate/model_folder.h"
#include "plan/device_spec.h"
#include "plan/plan_json.h"
#include "runtime/plan_model.h"

namespace lamina::cli {
namespace {

struct PlanFlags {
  ModelFlags model;
  std::string effort;
  bool json = false;
  std::string html;
  int repeat = 5;
};

struct Prepared {
  std::shared_ptr<Env> env;
  ModelFolder folder;
  PlanModelOptions options;
};

Result<Prepared> Prepare(const PlanFlags& flags) {
  Prepared prepared;
  LAMINA_ASSIGN_OR_RETURN(prepared.options.described, ParseDeviceSpecs(flags.model.devices));
  ModelFlags model_flags = flags.model;
  model_flags.devices.clear();  // described ones are no part of the environment
  LAMINA_ASSIGN_OR_RETURN(prepared.env, MakeEnv(model_flags));
  LAMINA_ASSIGN_OR_RETURN(const std::string path, FindModel(flags.model.model));
  LAMINA_ASSIGN_OR_RETURN(prepared.folder, ModelFolder::Open(path, flags.model.variant));
  if (model_flags.context == "max") {
    if (prepared.folder.context_length_tokens <= 0) {
      return InvalidArgumentError("--context max: no file says how much context the model has");
    }
    prepared.options.largest_context_tokens = prepared.folder.context_length_tokens;
    model_flags.context.clear();
  }
  LAMINA_ASSIGN_OR_RETURN(const EngineOptions engine, MakeEngineOptions(model_flags, prepared.folder));
  LAMINA_ASSIGN_OR_RETURN(prepared.options.session, SessionOptionsOf(engine, prepared.folder));
  if (!flags.effort.empty()) {
    LAMINA_RETURN_IF_ERROR(prepared.options.session.Set("session.plan_effort", flags.effort));
  }
  prepared.options.load.decoder_names = prepared.folder.decoder_names;
  return prepared;
}

// The machine is no part of a plan; whether it is large enough is.
void WarnOfSmallMachine(Plan& plan) {
  const Plan::DeviceMemory* cpu = plan.FindDevice("cpu");
  const uint64_t machine_bytes = GetHostMemory().total_bytes;
  if (!cpu || machine_bytes == 0 ||
      cpu->mapped_bytes + cpu->private_bytes + cpu->pinned_bytes <= machine_bytes)
    return;
  plan.warnings.push_back(fmt::format("cpu: {} mapped and {} private are more than the {} of this machine",
                                      ApproximateByteSize(cpu->mapped_bytes),
                                      ApproximateByteSize(cpu->private_bytes),
                                      ApproximateByteSize(machine_bytes)));
}

Result<ExitCode> ShowPlan(const PlanFlags& flags, Output& out) {
  LAMINA_ASSIGN_OR_RETURN(const Prepared prepared, Prepare(flags));
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<ModelPlan> made,
                          PlanModel(prepared.env, prepared.folder.model_path, prepared.options));
  Plan& plan = made->planned.plan;
  if (!flags.html.empty()) {
    LAMINA_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(flags.html));
    LAMINA_RETURN_IF_ERROR(file.Append(PlanAsHtml(plan, prepared.folder.model_path)));
    LAMINA_RETURN_IF_ERROR(file.Commit());
  }
  if (flags.json) {
    out.Write(PlanAsJson(plan));
    return ExitCode::kSuccess;
  }
  WarnOfSmallMachine(plan);
  out.Write(prepared.folder.model_path + "\n" + PlanAsText(plan));
  return ExitCode::kSuccess;
}

Result<ExitCode> BenchPlan(const PlanFlags& flags, Output& out) {
  LAMINA_ASSIGN_OR_RETURN(const Prepared prepared, Prepare(flags));
  int64_t parse_ns = 0;
  int64_t prepare_ns = 0;
  int64_t plan_ns = 0;
  int nodes = 0;
  for (int i = 0; i < flags.repeat; ++i) {
    LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<ModelPlan> made,
                            PlanModel(prepared.env, prepared.folder.model_path, prepared.options));
    parse_ns = i == 0 ? made->parse_ns : std::min(parse_ns, made->parse_ns);
    prepare_ns = i == 0 ? made->prepare_ns : std::min(prepare_ns, made->prepare_ns);
    plan_ns = i == 0 ? made->plan_ns : std::min(plan_ns, made->plan_ns);
    nodes = made->model->graph->num_alive_nodes();
  }
  const auto milliseconds = [](int64_t ns) { return static_cast<double>(ns) / 1e6; };
  out.Print("{} nodes: parse {:.2f} ms, shapes and rewrites {:.2f} ms, plan {:.2f} ms\n", nodes,
            milliseconds(parse_ns), milliseconds(prepare_ns), milliseconds(plan_ns));
  return ExitCode::kSuccess;
}

void AddPlanFlags(CLI::App& app, PlanFlags& flags) {
  AddModelArgument(app, flags.model);
  AddModelFlags(app, flags.model);
  app.add_option("--plan-effort", flags.effort, "Limit of the search for a smaller layout (default 4)")
      ->option_text("N")
      ->group("Plan");
}

}  // namespace

void RegisterPlanCommand(Commands& commands) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App& app = commands.Add("plan", "Tell what would live where: weights, KV cache, every buffer",
                               [flags](Output& out) { return ShowPlan(*flags, out); });
  AddPlanFlags(app, *flags);
  app.add_flag("--json", flags->json, "Print JSON")->group("Output");
  app.add_option("--html", flags->html, "Write a page with a map of the memory")
      ->option_text("FILE")
      ->group("Output");
}

void RegisterBenchPlanCommand(Commands& commands, CLI::App& bench) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App& app = commands.Add(
      "plan", "Time planning: nodes, milliseconds of parsing and of everything after it",
      [flags](Output& out) { return BenchPlan(*flags, out); }, &bench);
  AddPlanFlags(app, *flags);
  app.add_option("--repeat", flags->repeat, "Times to plan; the least time counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

}  // namespace lamina::cli
