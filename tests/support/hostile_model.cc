#include "support/hostile_model.h"

#include <string>

#include "base/error.h"
#include "model/function_inliner.h"
#include "model/onnx/model_reader.h"
#include "model/onnx/model_writer.h"
#include "weights/external_data.h"

namespace lamina::testing {
namespace {

// Sparse tensors may be of any size, their dense form is not the reader's business.
constexpr uint64_t kLargestDenseBytes = uint64_t{16} << 20;

Status MapInitializers(const Graph& graph, ExternalData& data) {
  for (const Initializer& initializer : graph.initializers()) {
    const bool is_sparse = std::holds_alternative<std::shared_ptr<const SparseTensor>>(initializer.source);
    if (initializer.is_external() || (is_sparse && initializer.size_bytes() > kLargestDenseBytes)) continue;
    LAMINA_RETURN_IF_ERROR(data.Map(initializer).status());
  }
  return {};
}

}  // namespace

Status UseHostileModel(std::span<const std::byte> bytes) {
  LAMINA_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, ReadModelFromBytes(bytes));
  const Result<std::string> encoded = EncodeModel(*model);
  if (encoded.ok()) {
    const auto again = ReadModelFromBytes(std::as_bytes(std::span(*encoded)));
    if (!again.ok()) {
      return InternalError("what was written cannot be read: {}", again.status().ToString());
    }
  }
  LAMINA_RETURN_IF_ERROR(InlineFunctions(*model));
  LAMINA_RETURN_IF_ERROR(model->graph->TopologicalOrder().status());
  LAMINA_ASSIGN_OR_RETURN(const std::shared_ptr<ExternalData> data, ExternalData::Open(*model));
  return MapInitializers(*model->graph, *data);
}

}  // namespace lamina::testing
