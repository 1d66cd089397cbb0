#include "lamina/session.h"

#include <algorithm>

#include "base/error.h"
#include "model/onnx/model_reader.h"
#include "runtime/session_impl.h"

namespace lamina {

void RunBinding::BindInput(size_t index, Value value) {
  if (inputs_.size() <= index) inputs_.resize(index + 1);
  inputs_[index] = std::move(value);
}

void RunBinding::BindOutput(size_t index, Tensor tensor) {
  if (bound_outputs_.size() <= index) bound_outputs_.resize(index + 1);
  bound_outputs_[index] = std::move(tensor);
}

void RunBinding::BindKvCache(KvCache* cache, std::span<const KvRow> rows) {
  kv_cache_ = cache;
  kv_rows_.assign(rows.begin(), rows.end());
}

Session::Session(std::unique_ptr<SessionImpl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::Load(std::shared_ptr<Env> env, const std::string& path,
                                               const SessionOptions& options,
                                               const LoadOptions& load_options) {
  const auto read = [&] { return ReadModel(path); };
  LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<SessionImpl> impl,
                          SessionImpl::Create(std::move(env), read, options, load_options));
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Result<std::unique_ptr<Session>> Session::Load(std::shared_ptr<Env> env, std::span<const std::byte> bytes,
                                               const std::string& folder, const SessionOptions& options,
                                               const LoadOptions& load_options) {
  const auto copy = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  const auto read = [&] { return ReadModelFromBytes(*copy, folder, copy); };
  LAMINA_ASSIGN_OR_RETURN(std::unique_ptr<SessionImpl> impl,
                          SessionImpl::Create(std::move(env), read, options, load_options));
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

std::span<const ValueSpec> Session::inputs() const { return impl_->inputs(); }
std::span<const ValueSpec> Session::outputs() const { return impl_->outputs(); }

namespace {

int Find(std::span<const ValueSpec> specs, std::string_view name) {
  const auto found =
      std::find_if(specs.begin(), specs.end(), [&](const ValueSpec& spec) { return spec.name == name; });
  return found == specs.end() ? -1 : static_cast<int>(found - specs.begin());
}

}  // namespace

int Session::FindInput(std::string_view name) const { return Find(inputs(), name); }
int Session::FindOutput(std::string_view name) const { return Find(outputs(), name); }

Status Session::Run(const RunOptions& options, std::span<const Value> inputs, std::vector<Value>* outputs) {
  RunBinding binding;
  for (size_t i = 0; i < inputs.size(); ++i) binding.BindInput(i, inputs[i]);
  LAMINA_RETURN_IF_ERROR(Run(options, binding));
  *outputs = std::move(binding.outputs());
  return Status();
}

Status Session::Run(const RunOptions& options, RunBinding& binding) { return impl_->Run(options, binding); }
Result<KvCache> Session::CreateKvCache() { return impl_->CreateKvCache(); }
SessionStats Session::stats() const { return impl_->stats(); }

}  // namespace lamina
