#include "text/jinja/globals.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/format.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"

namespace lamina::jinja {

namespace {

using Function = Value (*)(Runtime& runtime, const Arguments& arguments);

class GlobalFunction final : public Callable {
 public:
  GlobalFunction(Budget* budget, std::string_view name, Function function)
      : Callable(budget, "function", 1), name_(name), function_(function) {}
  Value Call(Runtime& runtime, Arguments arguments) const override { return function_(runtime, arguments); }
  std::string Describe() const override { return fmt::format("<function {}>", name_); }

 private:
  std::string_view name_;
  Function function_;
};

Value MakeRangeFunction(Runtime& runtime, const Arguments& args) {
  if (!CheckPositional(runtime, "range", args, 1, 3)) return Value();
  std::array<Int, 3> parts = {0, 0, 1};
  for (size_t i = 0; i < args.positional.size(); ++i) {
    const auto part = ToIndex(runtime, args.positional[i], "range() argument");
    if (!part) return Value();
    parts[args.positional.size() == 1 ? 1 : i] = *part;
  }
  const auto [start, stop, step] = parts;
  if (step == 0) return runtime.Fail("range() arg 3 must not be zero");
  constexpr Int kLargest = Int{1} << 120;
  for (const Int part : parts) {
    if (part > kLargest || part < -kLargest)
      return runtime.FailUnsupported("range() arguments are too large");
  }
  constexpr Int kMaxRange = 100'000;  // Jinja2's sandbox has the same
  if (Range(nullptr, start, stop, step).length() > kMaxRange) {
    return runtime.Fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).",
                        FormatInt(kMaxRange));
  }
  return runtime.MakeRange(start, stop, step);
}

// The entries of dict(mapping or pairs, **named).
std::shared_ptr<Dict> CollectDict(Runtime& runtime, std::string_view function, const Arguments& args) {
  auto dict = runtime.NewDict();
  if (args.positional.size() > 1) {
    runtime.Fail("{} expected at most 1 argument, got {}", function, args.positional.size());
    return dict;
  }
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is(Kind::kDict)) {
      for (const Dict::Entry& entry : source.dict().entries) runtime.AddToDict(*dict, entry.key, entry.value);
    } else {
      ForEach(runtime, source, [&](const Value& pair) {
        const std::vector<Value> parts = Collect(runtime, pair);
        if (runtime.failed()) return;
        if (parts.size() == 2) {
          runtime.AddToDict(*dict, parts[0], parts[1]);
        } else {
          runtime.Fail("dictionary update sequence element has length {}; 2 is required", parts.size());
        }
      });
    }
  }
  for (const auto& [name, value] : args.named) {
    if (runtime.failed()) break;
    runtime.AddToDict(*dict, runtime.MakeString(name), value);
  }
  return dict;
}

Value MakeDict(Runtime& runtime, const Arguments& args) {
  auto dict = CollectDict(runtime, "dict", args);
  return runtime.failed() ? Value() : Runtime::FromDict(std::move(dict));
}

Value MakeNamespaceFunction(Runtime& runtime, const Arguments& args) {
  const auto dict = CollectDict(runtime, "namespace", args);
  const Value result = runtime.MakeNamespace();
  for (const Dict::Entry& entry : dict->entries) {
    if (entry.key.is_string()) result.name_space().attributes.emplace_back(entry.key.text(), entry.value);
  }
  return runtime.failed() ? Value() : result;
}

// --- cycler and joiner. Their values were there before them, so they are never part of a cycle.

class Cycler;

class CyclerMethod final : public Callable {
 public:
  CyclerMethod(Budget* budget, std::shared_ptr<const Cycler> cycler, bool reset);
  Value Call(Runtime& runtime, Arguments arguments) const override;
  std::string Describe() const override { return "<bound method of Cycler>"; }

 private:
  std::shared_ptr<const Cycler> cycler_;
  bool reset_;
};

class Cycler final : public Callable, public std::enable_shared_from_this<Cycler> {
 public:
  Cycler(Budget* budget, std::vector<Value> items, int nesting)
      : Callable(budget, "Cycler", nesting), items_(std::move(items)) {}

  Value Call(Runtime& runtime, Arguments arguments) const override {
    static_cast<void>(arguments);
    return runtime.Fail("'Cycler' object is not callable");
  }
  Value Attribute(Runtime& runtime, std::string_view name) const override {
    if (name == "current") return items_[position_];
    if (name != "next" && name != "reset") return Value();
    return Value(Kind::kCallable, runtime.New<CyclerMethod>(shared_from_this(), name == "reset"));
  }
  std::string Describe() const override { return "<Cycler object>"; }

  Value Next() const {
    const Value& item = items_[position_];
    position_ = (position_ + 1) % items_.size();
    return item;
  }
  void Reset() const { position_ = 0; }

 private:
  std::vector<Value> items_;
  mutable size_t position_ = 0;
};

CyclerMethod::CyclerMethod(Budget* budget, std::shared_ptr<const Cycler> cycler, bool reset)
    : Callable(budget, "method", cycler->depth + 1), cycler_(std::move(cycler)), reset_(reset) {}

Value CyclerMethod::Call(Runtime& runtime, Arguments arguments) const {
  if (!CheckPositional(runtime, reset_ ? "reset" : "next", arguments, 0, 0)) return Value();
  if (!reset_) return cycler_->Next();
  cycler_->Reset();
  return Value::None();
}

Value MakeCycler(Runtime& runtime, const Arguments& args) {
  if (!args.named.empty()) return runtime.Fail("cycler() takes no keyword arguments");
  if (args.positional.empty()) return runtime.Fail("at least one item has to be provided");
  int inner = 0;
  for (const Value& item : args.positional) inner = std::max(inner, NestingOf(item));
  return Value(Kind::kCallable, runtime.New<Cycler>(args.positional, runtime.NestOver(inner)));
}

class Joiner final : public Callable {
 public:
  Joiner(Budget* budget, Value separator)
      : Callable(budget, "Joiner", NestingOf(separator) + 1), separator_(std::move(separator)) {}
  Value Call(Runtime& runtime, Arguments arguments) const override {
    if (!CheckPositional(runtime, "joiner", arguments, 0, 0)) return Value();
    if (used_) return separator_;
    used_ = true;
    return runtime.MakeString("");
  }
  std::string Describe() const override { return "<Joiner object>"; }

 private:
  Value separator_;
  mutable bool used_ = false;
};

Value MakeJoiner(Runtime& runtime, const Arguments& args) {
  const auto [separator] = BindArguments<1>(runtime, "joiner", args, {"sep"}, 0);
  if (runtime.failed()) return Value();
  runtime.NestOver(NestingOf(separator));
  return Value(Kind::kCallable,
               runtime.New<Joiner>(separator.missing() ? runtime.MakeString(", ") : separator));
}

// --- What transformers adds.

Value RaiseException(Runtime& runtime, const Arguments& args) {
  const auto [message] = BindArguments<1>(runtime, "raise_exception", args, {"message"}, 1);
  if (runtime.failed()) return Value();
  return runtime.Fail("{}", ToText(runtime, message));
}

// Python's additions to the C library's formats; a time without zone prints none.
std::string ExpandPythonFormats(std::string_view format, long microseconds) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const char type = format[++i];
    if (type == 'f') {
      out += fmt::format("{:06}", microseconds);
    } else if (type != 'z' && type != 'Z') {
      out += '%';
      out += type;
    }
  }
  return out;
}

Value StrftimeNow(Runtime& runtime, const Arguments& args) {
  const auto [format_value] = BindArguments<1>(runtime, "strftime_now", args, {"format"}, 1);
  if (runtime.failed()) return Value();
  if (!format_value.is_string()) {
    return runtime.Fail("strftime() argument 1 must be str, not {}", TypeName(format_value));
  }
  using std::chrono::microseconds;
  const auto now = runtime.now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto since_epoch = std::chrono::duration_cast<microseconds>(now.time_since_epoch()).count();
  const long fraction = static_cast<long>(((since_epoch % 1'000'000) + 1'000'000) % 1'000'000);
  std::tm local{};
  if (localtime_r(&seconds, &local) == nullptr) return runtime.Fail("the present time has no calendar date");
  const std::string format = ExpandPythonFormats(format_value.text(), fraction);
  if (format.empty()) return runtime.MakeString("");
  constexpr size_t kMaxBytes = size_t{1} << 16;
  for (size_t capacity = 256; capacity <= kMaxBytes; capacity *= 4) {
    std::string text(capacity, '\0');
    // A leading space tells an empty result from a buffer that is too small.
    const size_t size = std::strftime(text.data(), text.size(), (" " + format).c_str(), &local);
    if (size > 0) return runtime.MakeString(text.substr(1, size - 1));
  }
  return runtime.Fail("strftime_now(): the result exceeds {} bytes", kMaxBytes);
}

Value NotSupported(Runtime& runtime, const Arguments& args) {
  static_cast<void>(args);
  return runtime.FailUnsupported("lipsum() is not supported");
}

struct GlobalEntry {
  std::string_view name;
  Function function;
};

constexpr std::array<GlobalEntry, 8> kGlobals = {{
    {"range", MakeRangeFunction},
    {"dict", MakeDict},
    {"namespace", MakeNamespaceFunction},
    {"cycler", MakeCycler},
    {"joiner", MakeJoiner},
    {"lipsum", NotSupported},
    {"raise_exception", RaiseException},
    {"strftime_now", StrftimeNow},
}};

}  // namespace

Value FindGlobal(Runtime& runtime, std::string_view name) {
  const auto found = std::find_if(kGlobals.begin(), kGlobals.end(),
                                  [&](const GlobalEntry& entry) { return entry.name == name; });
  if (found == kGlobals.end()) return Value();
  return Value(Kind::kCallable, runtime.New<GlobalFunction>(found->name, found->function));
}

}  // namespace lamina::jinja
