// The values of a rendering: Python's, as far as templates see them.
//
// A Value is small and cheap to copy; strings, lists and dicts are shared and never change once made. What
// does change (namespaces, loops, frames of local variables) derives from MutableObject, so that cycles
// through it can be cut when the rendering ends. Objects report their size to the rendering's Budget.
// Values belong to one rendering on one thread, except constants of a template, which have no budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lamina::jinja {

class Runtime;

using Int = __int128;

enum class Kind : uint8_t {
  kMissing,  // no value at all: an unset variable or an absent argument; never visible to a template
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kDictView,
  kRange,
  kIterator,
  kNamespace,
  kCallable,
  kLoop,
};

// What a rendering has used. Live bytes fall when objects die.
struct Budget {
  size_t live_bytes = 0;
  uint64_t steps = 0;
};

class Object {
 public:
  Object(Budget* budget, size_t bytes) : budget_(budget), bytes_(bytes) {
    if (budget_ != nullptr) budget_->live_bytes += bytes_;
  }
  virtual ~Object() {
    if (budget_ != nullptr) budget_->live_bytes -= bytes_;
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  // For objects that grow after creation.
  void AddBytes(size_t bytes) {
    bytes_ += bytes;
    if (budget_ != nullptr) budget_->live_bytes += bytes;
  }

 private:
  Budget* budget_;
  size_t bytes_;
};

struct Undefined;
struct String;
struct List;
struct Dict;
struct DictView;
struct Range;
struct Iterator;
struct Namespace;
struct Callable;
struct Loop;

class Value {
 public:
  Value() = default;
  static Value None() { return Value(Kind::kNone); }
  static Value Bool(bool value) {
    Value result(Kind::kBool);
    result.scalar_.boolean = value;
    return result;
  }
  static Value Integer(Int value) {
    Value result(Kind::kInt);
    result.scalar_.integer = value;
    return result;
  }
  static Value Float(double value) {
    Value result(Kind::kFloat);
    result.scalar_.real = value;
    return result;
  }
  // The object must be the struct that belongs to `kind`.
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool missing() const { return kind_ == Kind::kMissing; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_string() const { return kind_ == Kind::kString; }
  // list or tuple
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  // int or bool: Python's bool is an int
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }

  // REQUIRES for each: the kind fits.
  bool boolean() const { return scalar_.boolean; }
  Int integer() const { return kind_ == Kind::kBool ? Int{scalar_.boolean} : scalar_.integer; }
  double real() const { return kind_ == Kind::kFloat ? scalar_.real : static_cast<double>(integer()); }
  inline const Undefined& undefined() const;
  inline const String& string() const;
  inline const std::string& text() const;
  inline const std::vector<Value>& items() const;  // of a list or tuple
  inline const Dict& dict() const;
  inline const DictView& dict_view() const;
  inline const Range& range() const;
  inline Iterator& iterator() const;
  inline Namespace& name_space() const;
  inline const Callable& callable() const;
  inline Loop& loop() const;

  const std::shared_ptr<Object>& object() const { return object_; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::kMissing;
  union {
    bool boolean;
    Int integer = 0;
    double real;
  } scalar_;
  std::shared_ptr<Object> object_;
};

// What a name or attribute that does not exist gives. Most uses fail with `message`.
struct Undefined : Object {
  Undefined(Budget* budget, std::string text, bool from_sandbox)
      : Object(budget, sizeof(*this) + text.size()), message(std::move(text)), unsafe(from_sandbox) {}
  std::string message;  // "'x' is undefined"
  bool unsafe;          // the sandbox hides the attribute: a call or use is a security error
};

struct String : Object {
  String(Budget* budget, std::string bytes, bool is_markup);
  std::string text;  // valid UTF-8
  size_t length;     // code points
  bool markup;       // marked safe: other strings are escaped when they are joined to it
  bool ascii() const { return length == text.size(); }
};

struct List : Object {
  List(Budget* budget, std::vector<Value> values, int nesting)
      : Object(budget, sizeof(*this) + values.size() * sizeof(Value)),
        items(std::move(values)),
        depth(nesting) {}
  std::vector<Value> items;
  int depth;                 // nesting of containers, 1 for a flat list
  bool group_tuple = false;  // a tuple of `groupby`, with attributes grouper and list
};

// Insertion order, Python's key equality (1 == 1.0 == True). Lists and dicts cannot be keys.
struct Dict : Object {
  struct Entry {
    Value key;
    Value value;
    std::string encoded;  // of keys that are not strings
  };
  explicit Dict(Budget* budget) : Object(budget, sizeof(*this)) {}

  // The value of an encoded key (a string's encoding is the string); null where absent.
  const Value* Find(std::string_view encoded) const;
  // `encoded`: EncodeKey(key); replaces the value of an equal key and keeps its place.
  void Set(Value key, std::string encoded, Value value);

  std::vector<Entry> entries;
  int depth = 1;  // as of List

 private:
  std::string_view KeyOf(const Entry& entry) const;
  ptrdiff_t IndexOf(std::string_view encoded) const;
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, size_t, TextHash, std::equal_to<>> index_;  // only of large dicts
};

// Appends the text by which equal keys are equal; a string's is the string itself, all others start with a
// byte that no UTF-8 text has. False for a value that cannot be a key.
bool EncodeKey(const Value& key, std::string* encoded);

struct DictView : Object {
  enum class Part { kKeys, kValues, kItems };
  DictView(Budget* budget, Value whole, Part shown)
      : Object(budget, sizeof(*this)), source(std::move(whole)), part(shown) {}
  Value source;
  Part part;
};

struct Range : Object {
  Range(Budget* budget, Int first, Int end, Int stride)
      : Object(budget, sizeof(*this)), start(first), stop(end), step(stride) {}
  Int start;
  Int stop;
  Int step;
  Int length() const {
    if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
    return start > stop ? (start - stop - 1) / -step + 1 : 0;
  }
};

// Python's iterators and generators: items come once, each when it is asked for.
struct Iterator : Object {
  Iterator(Budget* budget, const char* python_type, int nesting)
      : Object(budget, sizeof(*this)), type_name(python_type), depth(nesting) {}
  // False at the end and after a failure of the rendering.
  virtual bool Next(Runtime& runtime, Value* item) = 0;
  const char* type_name;
  int depth;
};

// An object that can change, and so may be part of a cycle.
struct MutableObject : Object {
  using Object::Object;
  // Gives up all references. The rendering is over.
  virtual void Clear() = 0;
  size_t registry_slot = 0;  // of Runtime
};

struct Namespace : MutableObject {
  explicit Namespace(Budget* budget) : MutableObject(budget, sizeof(*this)) {}
  void Clear() override { attributes.clear(); }
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* Find(std::string_view name) const;
};

// Positional and keyword arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Callable : Object {
  Callable(Budget* budget, const char* python_type, int nesting)
      : Object(budget, sizeof(*this)), type_name(python_type), depth(nesting) {}
  virtual Value Call(Runtime& runtime, Arguments arguments) const = 0;
  // An attribute of the callable itself; missing where it has none.
  virtual Value Attribute(Runtime& runtime, std::string_view name) const;
  virtual std::string Describe() const = 0;  // what printing it shows
  const char* type_name;
  int depth;
};

// The variable `loop` of a for statement.
struct Loop : MutableObject {
  explicit Loop(Budget* budget) : MutableObject(budget, sizeof(*this)) {}
  void Clear() override;
  // Gets the next item into `current`; false at the end.
  bool Advance(Runtime& runtime);
  Value Attribute(Runtime& runtime, std::string_view name);
  Int Length(Runtime& runtime);

  Value source;    // what is iterated
  Value iterator;  // over source
  Value current;
  Value before;
  Value after;  // peeked item
  Value last_changed;
  Value recurse;  // renders the body again for `loop(items)`; missing where the loop is not recursive
  Int index0 = -1;
  Int known_length = -1;
  int depth0 = 0;

 private:
  bool Peek(Runtime& runtime);
};

const Undefined& Value::undefined() const { return static_cast<const Undefined&>(*object_); }
const String& Value::string() const { return static_cast<const String&>(*object_); }
const std::string& Value::text() const { return string().text; }
const std::vector<Value>& Value::items() const { return static_cast<const List&>(*object_).items; }
const Dict& Value::dict() const { return static_cast<const Dict&>(*object_); }
const DictView& Value::dict_view() const { return static_cast<const DictView&>(*object_); }
const Range& Value::range() const { return static_cast<const Range&>(*object_); }
Iterator& Value::iterator() const { return static_cast<Iterator&>(*object_); }
Namespace& Value::name_space() const { return static_cast<Namespace&>(*object_); }
const Callable& Value::callable() const { return static_cast<const Callable&>(*object_); }
Loop& Value::loop() const { return static_cast<Loop&>(*object_); }

// Python's name of the value's type: "str", "NoneType", "dict_items".
std::string TypeName(const Value& value);

// How deep containers in the value nest; 0 for scalars.
int NestingOf(const Value& value);

}  // namespace lamina::jinja
