#include "text/jinja/json_value.h"

#include <nlohmann/json.hpp>

#include "text/jinja/unicode.h"

namespace lamina::jinja {

Value FromJson(Runtime& runtime, const nlohmann::ordered_json& json) {
  using Type = nlohmann::ordered_json::value_t;
  const DepthGuard guard(runtime);
  if (!guard.ok() || !runtime.Charge()) return Value();
  switch (json.type()) {
    case Type::null:
    case Type::discarded:
    case Type::binary:
      return Value::None();
    case Type::boolean:
      return Value::Bool(*json.get_ptr<const bool*>());
    case Type::number_integer:
      return Value::Integer(*json.get_ptr<const int64_t*>());
    case Type::number_unsigned:
      return Value::Integer(static_cast<Int>(*json.get_ptr<const uint64_t*>()));
    case Type::number_float:
      return Value::Float(*json.get_ptr<const double*>());
    case Type::string:
      return runtime.MakeString(ToValidUtf8(*json.get_ptr<const std::string*>()));
    case Type::array: {
      std::vector<Value> items;
      if (!runtime.Reserve(json.size() * sizeof(Value))) return Value();
      items.reserve(json.size());
      for (const auto& item : json) {
        items.push_back(FromJson(runtime, item));
        if (runtime.failed()) return Value();
      }
      return runtime.MakeList(std::move(items));
    }
    case Type::object: {
      auto dict = runtime.NewDict();
      for (const auto& [key, item] : json.items()) {
        const Value name = runtime.MakeString(ToValidUtf8(key));
        const Value value = FromJson(runtime, item);
        if (runtime.failed() || !runtime.AddToDict(*dict, name, value)) return Value();
      }
      return Runtime::FromDict(std::move(dict));
    }
  }
  return Value();
}

}  // namespace lamina::jinja
