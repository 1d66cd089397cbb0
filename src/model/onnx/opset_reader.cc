#include "model/onnx/opset_reader.h"

#include <limits>

#include "model/onnx_fields.h"

namespace lamina::onnx {

std::string_view NormalDomain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

void ReadOpsetImport(ProtoReader message, std::map<std::string, int>& imports) {
  std::string domain;
  int64_t version = 0;
  ProtoReader fields = message;
  while (fields.Next()) {
    if (fields.field() == OperatorSetIdProto::kDomain) domain = NormalDomain(fields.Text());
    if (fields.field() == OperatorSetIdProto::kVersion) version = fields.Int64();
  }
  if (!message.ok()) return;
  if (version < 0 || version > std::numeric_limits<int>::max()) {
    return message.Fail("opset import of domain '{}' has the version {}", domain, version);
  }
  const auto [found, added] = imports.emplace(domain, static_cast<int>(version));
  if (!added && found->second != version) {
    message.Fail("domain '{}' is imported with versions {} and {}", domain, found->second, version);
  }
}

}  // namespace lamina::onnx
