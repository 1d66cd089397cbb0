#include "text/jinja/iterators.h"

#include <algorithm>
#include <utility>

#include "text/jinja/unicode.h"

namespace lamina::jinja {

namespace {

class SequenceIterator final : public Iterator {
 public:
  SequenceIterator(Budget* budget, Value sequence, const char* type, int nesting)
      : Iterator(budget, type, nesting), sequence_(std::move(sequence)) {}

  bool Next(Runtime& runtime, Value* item) override {
    if (!runtime.Charge() || index_ >= sequence_.items().size()) return false;
    *item = sequence_.items()[index_++];
    return true;
  }

 private:
  Value sequence_;
  size_t index_ = 0;
};

class ItemsIterator final : public Iterator {
 public:
  ItemsIterator(Budget* budget, std::vector<Value> items, const char* type, int nesting)
      : Iterator(budget, type, nesting), items_(std::move(items)) {
    AddBytes(items_.size() * sizeof(Value));
  }

  bool Next(Runtime& runtime, Value* item) override {
    if (!runtime.Charge() || index_ >= items_.size()) return false;
    *item = items_[index_++];
    return true;
  }

 private:
  std::vector<Value> items_;
  size_t index_ = 0;
};

class StringIterator final : public Iterator {
 public:
  StringIterator(Budget* budget, Value text) : Iterator(budget, "str_iterator", 1), text_(std::move(text)) {}

  bool Next(Runtime& runtime, Value* item) override {
    const std::string& text = text_.text();
    if (!runtime.Charge() || position_ >= text.size()) return false;
    const size_t start = position_;
    NextCodePoint(text, &position_);
    *item = runtime.MakeString(text.substr(start, position_ - start));
    return !runtime.failed();
  }

 private:
  Value text_;
  size_t position_ = 0;
};

class DictIterator final : public Iterator {
 public:
  DictIterator(Budget* budget, Value dict, DictView::Part part, int nesting)
      : Iterator(budget, TypeOf(part), nesting), dict_(std::move(dict)), part_(part) {}

  bool Next(Runtime& runtime, Value* item) override {
    if (!runtime.Charge() || index_ >= dict_.dict().entries.size()) return false;
    const Dict::Entry& entry = dict_.dict().entries[index_++];
    switch (part_) {
      case DictView::Part::kKeys:
        *item = entry.key;
        break;
      case DictView::Part::kValues:
        *item = entry.value;
        break;
      case DictView::Part::kItems:
        *item = runtime.MakeTuple({entry.key, entry.value});
        break;
    }
    return !runtime.failed();
  }

 private:
  static const char* TypeOf(DictView::Part part) {
    return part == DictView::Part::kKeys     ? "dict_keyiterator"
           : part == DictView::Part::kValues ? "dict_valueiterator"
                                             : "dict_itemiterator";
  }

  Value dict_;
  DictView::Part part_;
  size_t index_ = 0;
};

class RangeIterator final : public Iterator {
 public:
  RangeIterator(Budget* budget, const Range& range)
      : Iterator(budget, "range_iterator", 1), next_(range.start), step_(range.step), left_(range.length()) {}

  bool Next(Runtime& runtime, Value* item) override {
    if (!runtime.Charge() || left_ == 0) return false;
    *item = Value::Integer(next_);
    if (--left_ > 0) next_ += step_;
    return true;
  }

 private:
  Int next_;
  Int step_;
  Int left_;
};

Value Wrap(std::shared_ptr<Object> iterator) { return Value(Kind::kIterator, std::move(iterator)); }

// Adapts `loop.cycle` and `loop.changed`.
class LoopMethod final : public Callable {
 public:
  LoopMethod(Budget* budget, Value loop, bool cycle)
      : Callable(budget, "method", 1), loop_(std::move(loop)), cycle_(cycle) {}

  Value Call(Runtime& runtime, Arguments arguments) const override {
    if (!arguments.named.empty()) return runtime.Fail("loop methods take no keyword arguments");
    Loop& loop = loop_.loop();
    if (cycle_) {
      if (arguments.positional.empty()) return runtime.Fail("no items for cycling given");
      return arguments.positional[static_cast<size_t>(loop.index0) % arguments.positional.size()];
    }
    const Value key = runtime.MakeTuple(std::move(arguments.positional));
    if (runtime.failed()) return Value();
    if (!loop.last_changed.missing() && Equal(runtime, loop.last_changed, key)) return Value::Bool(false);
    loop.last_changed = key;
    return Value::Bool(true);
  }

  std::string Describe() const override { return cycle_ ? "<method loop.cycle>" : "<method loop.changed>"; }

 private:
  Value loop_;
  bool cycle_;
};

}  // namespace

bool IsIterable(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kRange:
    case Kind::kIterator:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

Value Iterate(Runtime& runtime, const Value& value) {
  const int nesting = runtime.NestOver(NestingOf(value));
  switch (value.kind()) {
    case Kind::kUndefined:
      return IterateItems(runtime, {}, "generator");
    case Kind::kString:
      return Wrap(runtime.New<StringIterator>(value));
    case Kind::kList:
      return Wrap(runtime.New<SequenceIterator>(value, "list_iterator", nesting));
    case Kind::kTuple:
      return Wrap(runtime.New<SequenceIterator>(value, "tuple_iterator", nesting));
    case Kind::kDict:
      return Wrap(runtime.New<DictIterator>(value, DictView::Part::kKeys, nesting));
    case Kind::kDictView:
      return Wrap(runtime.New<DictIterator>(value.dict_view().source, value.dict_view().part, nesting));
    case Kind::kRange:
      return Wrap(runtime.New<RangeIterator>(value.range()));
    case Kind::kIterator:
      return value;
    case Kind::kLoop:
      return runtime.FailUnsupported("iterating over 'loop' is not supported");
    default:
      return runtime.Fail("'{}' object is not iterable", TypeName(value));
  }
}

std::vector<Value> Collect(Runtime& runtime, const Value& iterable) {
  std::vector<Value> items;
  size_t reserved = 0;
  ForEach(runtime, iterable, [&](const Value& item) {
    items.push_back(item);
    if (items.capacity() * sizeof(Value) > reserved) {
      reserved = items.capacity() * sizeof(Value);
      runtime.Reserve(reserved);
    }
  });
  return items;
}

Value IterateItems(Runtime& runtime, std::vector<Value> items, const char* type_name) {
  int inner = 0;
  for (const Value& item : items) inner = std::max(inner, NestingOf(item));
  return Wrap(runtime.New<ItemsIterator>(std::move(items), type_name, runtime.NestOver(inner)));
}

void Loop::Clear() {
  for (Value* value : {&source, &iterator, &current, &before, &after, &last_changed, &recurse})
    *value = Value();
}

bool Loop::Peek(Runtime& runtime) {
  if (after.missing() && iterator.is(Kind::kIterator)) iterator.iterator().Next(runtime, &after);
  return !after.missing();
}

bool Loop::Advance(Runtime& runtime) {
  Value next;
  if (!after.missing()) {
    next = std::exchange(after, Value());
  } else if (!iterator.iterator().Next(runtime, &next)) {
    return false;
  }
  ++index0;
  before = std::exchange(current, std::move(next));
  return !runtime.failed();
}

Int Loop::Length(Runtime& runtime) {
  if (known_length >= 0) return known_length;
  if (const auto length = jinja::Length(runtime, source)) {
    known_length = *length;
  } else {
    std::vector<Value> rest = Collect(runtime, iterator);
    known_length = static_cast<Int>(rest.size()) + index0 + 1 + (after.missing() ? 0 : 1);
    iterator = IterateItems(runtime, std::move(rest), "list_iterator");
  }
  return known_length;
}

Value Loop::Attribute(Runtime& runtime, std::string_view name) {
  if (name == "index0") return Value::Integer(index0);
  if (name == "index") return Value::Integer(index0 + 1);
  if (name == "first") return Value::Bool(index0 == 0);
  if (name == "last") return Value::Bool(!Peek(runtime));
  if (name == "length") return Value::Integer(Length(runtime));
  if (name == "revindex") return Value::Integer(Length(runtime) - index0);
  if (name == "revindex0") return Value::Integer(Length(runtime) - index0 - 1);
  if (name == "depth0") return Value::Integer(depth0);
  if (name == "depth") return Value::Integer(depth0 + 1);
  if (name == "previtem") return index0 == 0 ? runtime.MakeUndefined("there is no previous item") : before;
  if (name == "nextitem") return Peek(runtime) ? after : runtime.MakeUndefined("there is no next item");
  return Value();
}

Value MakeLoopMethod(Runtime& runtime, const Value& loop, std::string_view name) {
  if (name != "cycle" && name != "changed") return Value();
  return Value(Kind::kCallable, runtime.New<LoopMethod>(loop, name == "cycle"));
}

}  // namespace lamina::jinja
