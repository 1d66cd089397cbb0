// Interned names: one copy of every text, compared by address.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>

namespace lamina {

// A name of a NamePool, which must outlive it. The default is the empty name, equal in every pool.
class Name {
 public:
  Name() = default;
  std::string_view view() const { return text_ ? std::string_view(*text_) : std::string_view(); }
  std::string str() const { return std::string(view()); }
  bool empty() const { return text_ == nullptr; }
  operator std::string_view() const { return view(); }  // NOLINT(google-explicit-constructor)
  // Names of one pool.
  friend bool operator==(Name a, Name b) { return a.text_ == b.text_; }
  friend bool operator==(Name a, std::string_view b) { return a.view() == b; }

 private:
  friend class NamePool;
  friend struct std::hash<Name>;
  explicit Name(const std::string* text) : text_(text) {}
  const std::string* text_ = nullptr;
};

// Not thread-safe for Intern; names stay valid while the pool lives.
class NamePool {
 public:
  Name Intern(std::string_view text) {
    if (text.empty()) return Name();
    const auto found = texts_.find(text);
    return Name(found != texts_.end() ? &*found : &*texts_.emplace(text).first);
  }
  // The name where the pool has it, else the empty name.
  Name Find(std::string_view text) const {
    const auto found = texts_.find(text);
    return found != texts_.end() ? Name(&*found) : Name();
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_set<std::string, Hash, std::equal_to<>> texts_;
};

}  // namespace lamina

template <>
struct std::hash<lamina::Name> {
  size_t operator()(lamina::Name name) const { return std::hash<const void*>()(name.text_); }
};
