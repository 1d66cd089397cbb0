#include "cli/show.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/model_report.h"
#include "generate/model_folder.h"

namespace lamina::cli {
namespace {

struct ShowFlags {
  std::string model;
  std::string variant;
  bool json = false;
};

Result<ExitCode> Show(const ShowFlags& flags, Output& out) {
  LAMINA_ASSIGN_OR_RETURN(const std::string path, FindModel(flags.model));
  LAMINA_ASSIGN_OR_RETURN(const ModelFolder folder, ModelFolder::Open(path, flags.variant));
  LAMINA_ASSIGN_OR_RETURN(const ModelReport report, ReportModel(folder));
  out.Write(flags.json ? ReportAsJson(report) : ReportAsText(report));
  return ExitCode::kSuccess;
}

}  // namespace

void RegisterShowCommand(Commands& commands) {
  auto flags = std::make_shared<ShowFlags>();
  CLI::App& app = commands.Add("show", "Tell what a model is: size, layers, inputs, outputs, operators",
                               [flags](Output& out) { return Show(*flags, out); });
  app.add_option("MODEL", flags->model, "Model folder, .onnx file, or a name below models/ or $LAMINA_MODELS")
      ->required();
  app.add_option("--variant", flags->variant, "Which of several model files: 'fp16' picks model_fp16.onnx");
  app.add_flag("--json", flags->json, "Print JSON");
}

}  // namespace lamina::cli
