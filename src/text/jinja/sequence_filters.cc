// Filters on sequences. Those that Jinja2 writes as generators give iterators that work item by item.
#include <algorithm>
#include <array>
#include <set>

#include "text/jinja/arguments.h"
#include "text/jinja/attributes.h"
#include "text/jinja/filter_support.h"
#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/iterators.h"
#include "text/jinja/operators.h"
#include "text/jinja/tests.h"
#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

Value WrapIterator(std::shared_ptr<Iterator> iterator) { return Value(Kind::kIterator, std::move(iterator)); }

// A generator over another iterable, which it looks at only when the first item is asked for. A value that
// counts as false has no items.
class LazyIterator : public Iterator {
 public:
  LazyIterator(Budget* budget, Value source, int nesting)
      : Iterator(budget, "generator", nesting), source_(std::move(source)) {}

  bool Next(Runtime& runtime, Value* item) final {
    const DepthGuard guard(runtime);
    if (!guard.ok() || !runtime.Charge() || finished_) return false;
    if (!started_) {
      started_ = true;
      if (!Truthy(runtime, source_) || !Prepare(runtime)) return Finish();
      source_ = Iterate(runtime, source_);
    }
    if (runtime.failed() || !Produce(runtime, item)) return Finish();
    return !runtime.failed();
  }

 protected:
  // Checks the filter's arguments; false after a failure.
  virtual bool Prepare(Runtime& runtime) = 0;
  virtual bool Produce(Runtime& runtime, Value* item) = 0;
  bool NextOfSource(Runtime& runtime, Value* item) { return source_.iterator().Next(runtime, item); }

 private:
  bool Finish() {
    finished_ = true;
    source_ = Value();
    return false;
  }

  Value source_;
  bool started_ = false;
  bool finished_ = false;
};

// --- map

class MapIterator final : public LazyIterator {
 public:
  MapIterator(Budget* budget, Value source, int nesting, Arguments arguments)
      : LazyIterator(budget, std::move(source), nesting), arguments_(std::move(arguments)) {}

 private:
  bool Prepare(Runtime& runtime) override {
    if (arguments_.positional.empty() && !arguments_.named.empty()) {
      Value attribute;
      Value fallback;
      for (const auto& [name, value] : arguments_.named) {
        if (name == "attribute") {
          attribute = value;
        } else if (name == "default") {
          fallback = value;
        } else {
          runtime.Fail("Unexpected keyword argument '{}'", name);
        }
      }
      if (attribute.missing()) runtime.Fail("map requires a filter argument");
      getter_.emplace(attribute, fallback, false);
      return !runtime.failed();
    }
    if (arguments_.positional.empty()) {
      runtime.Fail("map requires a filter argument");
    } else if (!arguments_.positional[0].is_string()) {
      runtime.Fail("No filter named {}.", Repr(runtime, arguments_.positional[0]));
    } else {
      filter_ = arguments_.positional[0].text();
      arguments_.positional.erase(arguments_.positional.begin());
    }
    return !runtime.failed();
  }

  bool Produce(Runtime& runtime, Value* item) override {
    Value source;
    if (!NextOfSource(runtime, &source)) return false;
    *item = getter_ ? (*getter_)(runtime, source) : ApplyFilter(runtime, filter_, source, arguments_);
    return true;
  }

  Arguments arguments_;
  std::string filter_;
  std::optional<AttributeGetter> getter_;
};

int ArgumentNesting(Runtime& runtime, const Value& value, const Arguments& args) {
  int inner = NestingOf(value);
  for (const Value& argument : args.positional) inner = std::max(inner, NestingOf(argument));
  for (const auto& [name, argument] : args.named) inner = std::max(inner, NestingOf(argument));
  return runtime.NestOver(inner);
}

Value Map(Runtime& runtime, const Value& value, const Arguments& args) {
  return WrapIterator(runtime.New<MapIterator>(value, ArgumentNesting(runtime, value, args), args));
}

// --- select, reject, selectattr, rejectattr

class SelectIterator final : public LazyIterator {
 public:
  SelectIterator(Budget* budget, Value source, int nesting, Arguments arguments, bool by_attribute, bool keep)
      : LazyIterator(budget, std::move(source), nesting),
        arguments_(std::move(arguments)),
        by_attribute_(by_attribute),
        keep_(keep) {}

 private:
  bool Prepare(Runtime& runtime) override {
    auto& positional = arguments_.positional;
    if (by_attribute_) {
      if (positional.empty()) {
        runtime.Fail("Missing parameter for attribute name");
        return false;
      }
      getter_.emplace(positional[0], Value(), false);
      positional.erase(positional.begin());
    }
    if (!positional.empty()) {
      if (!positional[0].is_string()) {
        runtime.Fail("No test named {}.", Repr(runtime, positional[0]));
        return false;
      }
      test_ = positional[0].text();
      positional.erase(positional.begin());
    }
    return true;
  }

  bool Produce(Runtime& runtime, Value* item) override {
    while (NextOfSource(runtime, item)) {
      const Value subject = getter_ ? (*getter_)(runtime, *item) : *item;
      if (runtime.failed()) return false;
      const bool passes = test_ ? ApplyTest(runtime, *test_, subject, arguments_) : Truthy(runtime, subject);
      if (passes == keep_) return true;
    }
    return false;
  }

  Arguments arguments_;
  bool by_attribute_;
  bool keep_;
  std::optional<AttributeGetter> getter_;
  std::optional<std::string> test_;
};

template <bool kByAttribute, bool kKeep>
Value Select(Runtime& runtime, const Value& value, const Arguments& args) {
  return WrapIterator(
      runtime.New<SelectIterator>(value, ArgumentNesting(runtime, value, args), args, kByAttribute, kKeep));
}

// --- unique

Value Unique(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [case_sensitive, attribute] =
      BindArguments<2>(runtime, "unique", args, {"case_sensitive", "attribute"}, 0);
  if (runtime.failed()) return Value();
  const AttributeGetter getter(attribute, Value(), !TruthyOr(runtime, case_sensitive, false));
  std::set<std::string> seen;
  std::vector<Value> items;
  ForEach(runtime, value, [&](const Value& item) {
    const Value key = getter(runtime, item);
    std::string encoded;
    if (key.missing()) return;
    if (!EncodeKey(key, &encoded)) {
      runtime.Fail("unhashable type: '{}'", TypeName(key));
      return;
    }
    runtime.Reserve(encoded.size());
    if (seen.insert(std::move(encoded)).second) items.push_back(item);
  });
  return IterateItems(runtime, std::move(items), "generator");
}

// --- sorting

Value SortKey(Runtime& runtime, const std::vector<AttributeGetter>& getters, const Value& item) {
  std::vector<Value> parts;
  for (const AttributeGetter& getter : getters) parts.push_back(getter(runtime, item));
  return runtime.MakeList(std::move(parts));
}

Value ItemsOf(Runtime& runtime, const KeyedItems& keyed) {
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (const auto& [key, item] : keyed) items.push_back(item);
  return runtime.MakeList(std::move(items));
}

Value Sort(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [reverse, case_sensitive, attribute] =
      BindArguments<3>(runtime, "sort", args, {"reverse", "case_sensitive", "attribute"}, 0);
  if (runtime.failed()) return Value();
  const bool ignore_case = !TruthyOr(runtime, case_sensitive, false);
  std::vector<AttributeGetter> getters;
  if (attribute.is_string()) {
    std::string_view rest = attribute.text();
    for (;;) {
      const size_t comma = std::min(rest.find(','), rest.size());
      getters.emplace_back(runtime.MakeString(std::string(rest.substr(0, comma))), Value(), ignore_case);
      if (comma == rest.size()) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    getters.emplace_back(attribute, Value(), ignore_case);
  }
  KeyedItems keyed;
  ForEach(runtime, value,
          [&](const Value& item) { keyed.emplace_back(SortKey(runtime, getters, item), item); });
  SortByKey(runtime, &keyed, TruthyOr(runtime, reverse, false));
  return ItemsOf(runtime, keyed);
}

Value DictSort(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [case_sensitive, by, reverse] =
      BindArguments<3>(runtime, "dictsort", args, {"case_sensitive", "by", "reverse"}, 0);
  if (runtime.failed()) return Value();
  const std::string by_text = by.missing() ? "key" : ToText(runtime, by);
  if (by_text != "key" && by_text != "value")
    return runtime.Fail("You can only sort by either \"key\" or \"value\"");
  if (value.is_undefined()) return runtime.FailUndefined(value);
  if (!value.is(Kind::kDict)) return runtime.Fail("'{}' object has no attribute 'items'", TypeName(value));
  const bool ignore_case = !TruthyOr(runtime, case_sensitive, false);
  KeyedItems keyed;
  for (const Dict::Entry& entry : value.dict().entries) {
    const Value& sorted_by = by_text == "key" ? entry.key : entry.value;
    keyed.emplace_back(ignore_case ? IgnoreCase(runtime, sorted_by) : sorted_by,
                       runtime.MakeTuple({entry.key, entry.value}));
    if (runtime.failed()) return Value();
  }
  SortByKey(runtime, &keyed, TruthyOr(runtime, reverse, false));
  return ItemsOf(runtime, keyed);
}

Value GroupBy(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [attribute, fallback, case_sensitive] =
      BindArguments<3>(runtime, "groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  if (runtime.failed()) return Value();
  const AttributeGetter key_of(attribute, fallback, !TruthyOr(runtime, case_sensitive, false));
  const AttributeGetter shown_key_of(attribute, fallback, false);
  KeyedItems keyed;
  ForEach(runtime, value, [&](const Value& item) { keyed.emplace_back(key_of(runtime, item), item); });
  SortByKey(runtime, &keyed, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < keyed.size() && !runtime.failed();) {
    std::vector<Value> members;
    size_t end = i;
    for (; end < keyed.size() && Equal(runtime, keyed[end].first, keyed[i].first); ++end) {
      members.push_back(keyed[end].second);
    }
    if (end == i) break;  // only after a failure
    const Value group =
        runtime.MakeTuple({shown_key_of(runtime, keyed[i].second), runtime.MakeList(std::move(members))});
    if (runtime.failed()) return Value();
    static_cast<List&>(*group.object()).group_tuple = true;
    groups.push_back(group);
    i = end;
  }
  return runtime.MakeList(std::move(groups));
}

template <bool kMax>
Value Extreme(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [case_sensitive, attribute] =
      BindArguments<2>(runtime, kMax ? "max" : "min", args, {"case_sensitive", "attribute"}, 0);
  if (runtime.failed()) return Value();
  const AttributeGetter getter(attribute, Value(), !TruthyOr(runtime, case_sensitive, false));
  Value best;
  Value best_key;
  ForEach(runtime, value, [&](const Value& item) {
    const Value key = getter(runtime, item);
    const bool better =
        best.missing() || Compare(runtime, kMax ? CompareOp::kGreater : CompareOp::kLess, key, best_key);
    if (runtime.failed() || !better) return;
    best = item;
    best_key = key;
  });
  return best.missing() ? runtime.MakeUndefined("No aggregated item, sequence was empty.") : best;
}

// --- ends, order, shape

Value First(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "first", args, 0, 0)) return Value();
  const Value iterator = Iterate(runtime, value);
  Value item;
  if (runtime.failed()) return Value();
  if (iterator.iterator().Next(runtime, &item)) return item;
  return runtime.MakeUndefined("No first item, sequence was empty.");
}

Value Last(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "last", args, 0, 0)) return Value();
  if (!IsIterable(value) || value.is(Kind::kIterator)) {
    return runtime.Fail("'{}' object is not reversible", TypeName(value));
  }
  std::vector<Value> items = Collect(runtime, value);
  return items.empty() ? runtime.MakeUndefined("No last item, sequence was empty.") : items.back();
}

Value ReverseFilter(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "reverse", args, 0, 0)) return Value();
  if (value.is_string()) {
    return GetSlice(runtime, value, Value(), Value(), Value::Integer(-1));
  }
  if (!IsIterable(value)) return runtime.Fail("argument must be iterable");
  std::vector<Value> items = Collect(runtime, value);
  std::reverse(items.begin(), items.end());
  if (value.is(Kind::kIterator)) return runtime.MakeList(std::move(items));
  return IterateItems(runtime, std::move(items), "list_reverseiterator");
}

Value ListFilter(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "list", args, 0, 0)) return Value();
  return runtime.MakeList(Collect(runtime, value));
}

Value Items(Runtime& runtime, const Value& value, const Arguments& args) {
  if (!CheckPositional(runtime, "items", args, 0, 0)) return Value();
  if (value.is_undefined()) return IterateItems(runtime, {}, "generator");
  if (!value.is(Kind::kDict)) return runtime.Fail("Can only get item pairs from a mapping.");
  return Iterate(runtime, FindContainerMethod(Kind::kDict, "items")(runtime, value, {}));
}

Value Join(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [separator, attribute] = BindArguments<2>(runtime, "join", args, {"d", "attribute"}, 0);
  if (runtime.failed()) return Value();
  const AttributeGetter getter(attribute, Value(), false);
  const std::string between = separator.missing() ? "" : ToText(runtime, separator);
  TextBuilder out(runtime);
  bool first = true;
  ForEach(runtime, value, [&](const Value& item) {
    if (!first) out.Append(between);
    first = false;
    const Value part = getter(runtime, item);
    out.Append(part.is_string() ? part.text() : ToText(runtime, part));
  });
  return runtime.MakeString(out.Take());
}

Value Sum(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [attribute, start] = BindArguments<2>(runtime, "sum", args, {"attribute", "start"}, 0);
  if (runtime.failed()) return Value();
  if (start.is_string()) return runtime.Fail("sum() can't sum strings [use ''.join(seq) instead]");
  const AttributeGetter getter(attribute, Value(), false);
  Value total = start.missing() ? Value::Integer(0) : start;
  ForEach(runtime, value,
          [&](const Value& item) { total = Binary(runtime, BinaryOp::kAdd, total, getter(runtime, item)); });
  return total;
}

Value Batch(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [count_value, fill] = BindArguments<2>(runtime, "batch", args, {"linecount", "fill_with"}, 1);
  if (runtime.failed()) return Value();
  const auto count = ToIndex(runtime, count_value, "linecount");
  if (!count) return Value();
  std::vector<Value> batches;
  std::vector<Value> batch;
  ForEach(runtime, value, [&](const Value& item) {
    if (static_cast<Int>(batch.size()) == *count) {
      batches.push_back(runtime.MakeList(std::move(batch)));
      batch.clear();
    }
    batch.push_back(item);
  });
  if (!batch.empty()) {
    if (!fill.missing() && !fill.is_none() && static_cast<Int>(batch.size()) < *count) {
      if (*count > static_cast<Int>(runtime.free_bytes() / sizeof(Value))) {
        runtime.Reserve(runtime.limits().max_memory_bytes + 1);
        return Value();
      }
      batch.resize(static_cast<size_t>(*count), fill);
    }
    batches.push_back(runtime.MakeList(std::move(batch)));
  }
  return IterateItems(runtime, std::move(batches), "generator");
}

Value Slice(Runtime& runtime, const Value& value, const Arguments& args) {
  const auto [slices_value, fill] = BindArguments<2>(runtime, "slice", args, {"slices", "fill_with"}, 1);
  if (runtime.failed()) return Value();
  const auto slices = ToIndex(runtime, slices_value, "slices");
  if (!slices) return Value();
  const std::vector<Value> items = Collect(runtime, value);
  if (*slices == 0) return runtime.Fail("integer division or modulo by zero");
  std::vector<Value> columns;
  const auto length = static_cast<Int>(items.size());
  Int start = 0;
  for (Int column = 0; column < *slices && runtime.Charge(); ++column) {
    const bool longer = column < length % *slices;
    const Int end = start + length / *slices + (longer ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<ptrdiff_t>(start),
                            items.begin() + static_cast<ptrdiff_t>(end));
    if (!fill.missing() && !fill.is_none() && !longer) part.push_back(fill);
    columns.push_back(runtime.MakeList(std::move(part)));
    start = end;
  }
  return IterateItems(runtime, std::move(columns), "generator");
}

constexpr std::array<FilterEntry, 20> kFilters = {{
    {"batch", Batch},
    {"dictsort", DictSort},
    {"first", First},
    {"groupby", GroupBy},
    {"items", Items},
    {"join", Join},
    {"last", Last},
    {"list", ListFilter},
    {"map", Map},
    {"max", Extreme<true>},
    {"min", Extreme<false>},
    {"reject", Select<false, false>},
    {"rejectattr", Select<true, false>},
    {"reverse", ReverseFilter},
    {"select", Select<false, true>},
    {"selectattr", Select<true, true>},
    {"slice", Slice},
    {"sort", Sort},
    {"sum", Sum},
    {"unique", Unique},
}};

}  // namespace

Filter FindSequenceFilter(std::string_view name) {
  const auto found = std::find_if(kFilters.begin(), kFilters.end(),
                                  [&](const FilterEntry& entry) { return entry.name == name; });
  return found == kFilters.end() ? nullptr : found->filter;
}

}  // namespace lamina::jinja
