#include "text/jinja/runtime.h"

#include <algorithm>

namespace lamina::jinja {

namespace {
// Deeper containers would let destructors and comparisons exhaust the stack.
constexpr int kMaxNesting = 200;
}  // namespace

Runtime::Runtime(const RenderOptions& options) : limits_(options.limits), now_(options.now) {}

Runtime::~Runtime() {
  for (const auto& object : mutable_objects_) object->Clear();
}

Value Runtime::FailWith(StatusCode code, std::string reason) {
  if (!failed_) {
    failed_ = true;
    code_ = code;
    reason_ = std::move(reason);
    failure_line_ = line;
  }
  return Value();
}

Value Runtime::FailUndefined(const Value& undefined) {
  const Undefined& value = undefined.undefined();
  return Fail("{}", value.message);
}

Status Runtime::status() const {
  if (!failed_) return Status();
  return Status(code_, fmt::format("line {}: {}", failure_line_, reason_));
}

bool Runtime::FailSteps() {
  FailWith(StatusCode::kResourceExhausted,
           fmt::format("the template needs more than {} steps", limits_.max_steps));
  return false;
}

size_t Runtime::free_bytes() const {
  return budget_.live_bytes < limits_.max_memory_bytes ? limits_.max_memory_bytes - budget_.live_bytes : 0;
}

bool Runtime::Reserve(size_t bytes) {
  if (bytes > free_bytes()) {
    FailWith(StatusCode::kResourceExhausted,
             fmt::format("the template needs more than {} bytes of memory", limits_.max_memory_bytes));
  }
  return !failed_;
}

Value Runtime::NewString(std::string text, bool markup) {
  if (!ChargeBytes(text.size()) || !Reserve(text.size())) return Value();
  return Value(Kind::kString, std::make_shared<String>(&budget_, std::move(text), markup));
}

Value Runtime::NewSequence(Kind kind, std::vector<Value> items) {
  if (!Charge(1 + items.size() / 8) || !Reserve(items.size() * sizeof(Value))) return Value();
  int inner = 0;
  for (const Value& item : items) inner = std::max(inner, NestingOf(item));
  const int nesting = NestOver(inner);
  return Value(kind, std::make_shared<List>(&budget_, std::move(items), nesting));
}

Value Runtime::MakeRange(Int start, Int stop, Int step) {
  return Value(Kind::kRange, New<Range>(start, stop, step));
}

Value Runtime::MakeUndefined(std::string message, bool unsafe) {
  return Value(Kind::kUndefined, New<Undefined>(std::move(message), unsafe));
}

Value Runtime::MakeUndefinedName(std::string_view name) {
  return MakeUndefined(fmt::format("'{}' is undefined", name));
}

std::shared_ptr<Dict> Runtime::NewDict() { return New<Dict>(); }

bool Runtime::AddToDict(Dict& dict, const Value& key, const Value& value) {
  std::string encoded;
  if (key.missing() || !EncodeKey(key, &encoded)) {
    Fail("unhashable type: '{}'", TypeName(key));
    return false;
  }
  if (!Charge() || !Reserve(2 * sizeof(Dict::Entry) + encoded.size())) return false;
  dict.depth = std::max(dict.depth, NestOver(std::max(NestingOf(key), NestingOf(value))));
  dict.Set(key, std::move(encoded), value);
  return !failed_;
}

int Runtime::NestOver(int inner) {
  if (inner >= kMaxNesting) {
    FailWith(StatusCode::kResourceExhausted,
             fmt::format("values are nested more than {} levels deep", kMaxNesting));
  }
  return inner + 1;
}

void Runtime::Register(const std::shared_ptr<MutableObject>& object) {
  object->registry_slot = mutable_objects_.size();
  mutable_objects_.push_back(object);
}

void Runtime::ReleaseIfUnshared(std::shared_ptr<MutableObject> object) {
  constexpr long kOursAndTheRegistrys = 2;
  if (object.use_count() > kOursAndTheRegistrys) return;
  const size_t slot = object->registry_slot;
  std::swap(mutable_objects_[slot], mutable_objects_.back());
  mutable_objects_[slot]->registry_slot = slot;
  mutable_objects_.pop_back();
}

Value Runtime::MakeNamespace() {
  auto object = New<Namespace>();
  Register(object);
  return Value(Kind::kNamespace, object);
}

std::chrono::system_clock::time_point Runtime::now() const {
  return now_ ? *now_ : std::chrono::system_clock::now();
}

}  // namespace lamina::jinja
