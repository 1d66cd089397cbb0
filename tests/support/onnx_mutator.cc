#include "support/onnx_mutator.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace lamina::testing {
namespace {

using Field = OnnxMutator::Field;

constexpr uint32_t kVarint = 0;
constexpr uint32_t kFixed64 = 1;
constexpr uint32_t kBytes = 2;
constexpr uint32_t kFixed32 = 5;
constexpr int kMaxTreeDepth = 12;

std::optional<uint64_t> TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// The fields of a message, or nothing where the bytes are none. A text that happens to be one does no harm:
// it is encoded as it was.
std::optional<std::vector<Field>> Parse(std::string_view bytes, int depth) {
  std::vector<Field> fields;
  while (!bytes.empty()) {
    const std::optional<uint64_t> tag = TakeVarint(bytes);
    if (!tag || *tag >> 3 == 0 || *tag >> 3 > 30) return std::nullopt;
    Field& field = fields.emplace_back();
    field.number = static_cast<uint32_t>(*tag >> 3);
    field.wire_type = static_cast<uint32_t>(*tag & 7);
    if (field.wire_type == kVarint || field.wire_type == kBytes) {
      const std::optional<uint64_t> value = TakeVarint(bytes);
      if (!value) return std::nullopt;
      field.value = *value;
      if (field.wire_type == kVarint) continue;
      if (*value > bytes.size()) return std::nullopt;
      field.bytes = bytes.substr(0, *value);
      bytes.remove_prefix(*value);
      if (field.bytes.empty() || depth == kMaxTreeDepth) continue;
      if (std::optional<std::vector<Field>> children = Parse(field.bytes, depth + 1)) {
        field.is_message = true;
        field.children = *std::move(children);
        field.bytes.clear();
      }
    } else if (field.wire_type == kFixed64 || field.wire_type == kFixed32) {
      const size_t size = field.wire_type == kFixed64 ? 8 : 4;
      if (bytes.size() < size) return std::nullopt;
      std::memcpy(&field.value, bytes.data(), size);
      bytes.remove_prefix(size);
    } else {
      return std::nullopt;
    }
  }
  return fields;
}

void PutVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

std::string Encode(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& field : fields) {
    PutVarint((uint64_t{field.number} << 3) | field.wire_type, out);
    if (field.wire_type == kVarint) {
      PutVarint(field.value, out);
    } else if (field.wire_type == kBytes) {
      const std::string content = field.is_message ? Encode(field.children) : field.bytes;
      PutVarint(content.size(), out);
      out += content;
    } else {
      out.append(reinterpret_cast<const char*>(&field.value), field.wire_type == kFixed64 ? 8 : 4);
    }
  }
  return out;
}

void CollectFields(std::vector<Field>& fields, std::vector<Field*>& all) {
  for (Field& field : fields) {
    all.push_back(&field);
    CollectFields(field.children, all);
  }
}

void CollectLists(std::vector<Field>& fields, std::vector<std::vector<Field>*>& lists) {
  if (!fields.empty()) lists.push_back(&fields);
  for (Field& field : fields) CollectLists(field.children, lists);
}

}  // namespace

OnnxMutator::OnnxMutator(std::string original, uint32_t seed)
    : original_(std::move(original)),
      tree_(Parse(original_, 0).value_or(std::vector<Field>())),
      random_(seed) {}
OnnxMutator::~OnnxMutator() = default;

std::string OnnxMutator::Next() {
  const size_t changes = 1 + Random(8);
  if (!tree_.empty() && Random(2) == 0) {
    std::vector<Field> tree = tree_;
    for (size_t i = 0; i < changes; ++i) ChangeTree(tree);
    return Encode(tree);
  }
  std::string bytes = original_;
  for (size_t i = 0; i < changes; ++i) ChangeBytes(bytes);
  return bytes;
}

uint64_t OnnxMutator::ExtremeNumber() {
  constexpr uint64_t kNumbers[] = {0,
                                   1,
                                   2,
                                   16,
                                   17,
                                   127,
                                   128,
                                   255,
                                   65535,
                                   65536,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   uint64_t{1} << 32,
                                   uint64_t{1} << 40,
                                   uint64_t{1} << 61,
                                   0x7fffffffffffffff,
                                   0x8000000000000000,
                                   0xfffffffffffffffe,
                                   0xffffffffffffffff};
  return Random(3) == 0 ? random_() : kNumbers[Random(std::size(kNumbers))];
}

void OnnxMutator::ChangeBytes(std::string& bytes) {
  if (bytes.empty()) return;
  const size_t position = Random(bytes.size());
  const size_t length = std::min(bytes.size() - position, size_t{1} << Random(12));
  switch (Random(8)) {
    case 0:
      bytes[position] = static_cast<char>(bytes[position] ^ (1 << Random(8)));
      break;
    case 1:
      bytes[position] = static_cast<char>(ExtremeNumber());
      break;
    case 2:
      bytes.insert(position, 1 + Random(8), static_cast<char>(ExtremeNumber()));
      break;
    case 3:
      bytes.erase(position, length);
      break;
    case 4:
      bytes.insert(Random(bytes.size()), bytes.substr(position, length));
      break;
    case 5:
      bytes.resize(position);
      break;
    case 6: {
      std::string varint;
      PutVarint(ExtremeNumber(), varint);
      bytes.replace(position, std::min(varint.size(), bytes.size() - position), varint);
      break;
    }
    default:
      std::swap(bytes[position], bytes[Random(bytes.size())]);
  }
}

void OnnxMutator::ChangeTree(std::vector<Field>& root) {
  std::vector<std::vector<Field>*> lists;
  CollectLists(root, lists);
  if (lists.empty()) return;
  std::vector<Field*> all;
  CollectFields(root, all);
  std::vector<Field>& siblings = *lists[Random(lists.size())];
  ChangeField(siblings, Random(siblings.size()), all);
}

void OnnxMutator::ChangeField(std::vector<Field>& siblings, size_t index, const std::vector<Field*>& all) {
  Field& field = siblings[index];
  const auto at = [&siblings](size_t position) {
    return siblings.begin() + static_cast<std::ptrdiff_t>(position);
  };
  switch (Random(9)) {
    case 0:
      siblings.erase(at(index));
      break;
    case 1: {
      Field copy = field;
      siblings.insert(at(Random(siblings.size())), std::move(copy));
      break;
    }
    case 2:
      std::swap(field, siblings[Random(siblings.size())]);
      break;
    case 3:
      field.number = static_cast<uint32_t>(1 + Random(30));
      break;
    case 4: {  // becomes another field of the file; a copy, because that may hold this one
      Field other = *all[Random(all.size())];
      field = std::move(other);
      break;
    }
    case 5: {  // the content of a field of the same number: names become those of other things
      std::vector<const Field*> alike;
      for (const Field* candidate : all) {
        if (candidate->number == field.number && candidate->wire_type == field.wire_type)
          alike.push_back(candidate);
      }
      Field other = alike.empty() ? field : *alike[Random(alike.size())];
      field = std::move(other);
      break;
    }
    case 6: {  // nested in copies of itself
      for (size_t depth = 1 + Random(60); depth > 0; --depth) {
        Field outer = field;
        outer.wire_type = kBytes;
        outer.bytes.clear();
        outer.is_message = true;
        outer.children.clear();
        outer.children.push_back(std::move(field));
        field = std::move(outer);
      }
      break;
    }
    case 7:
      field.wire_type = kVarint;
      field.value = ExtremeNumber();
      break;
    default:
      field.value = ExtremeNumber();
      if (field.wire_type == kBytes && !field.is_message) ChangeBytes(field.bytes);
  }
}

}  // namespace lamina::testing
