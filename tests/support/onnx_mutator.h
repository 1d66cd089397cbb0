// Damages ONNX files, for tests that reading them never crashes, hangs or takes memory without bound.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace lamina::testing {

// Half of the mutations change bytes (flip, insert, delete, copy, cut off), which mostly breaks the encoding;
// the other half change the tree of messages (remove, repeat, exchange and move fields, extreme numbers,
// texts of other fields, deep nesting) and encode it again, so that the damage reaches past the decoder. The
// same seed gives the same sequence.
class OnnxMutator {
 public:
  OnnxMutator(std::string original, uint32_t seed);
  ~OnnxMutator();
  OnnxMutator(const OnnxMutator&) = delete;
  OnnxMutator& operator=(const OnnxMutator&) = delete;

  // A copy of the original with one to eight changes.
  std::string Next();

  // A field of the wire format; one that holds a message has children instead of bytes.
  struct Field {
    uint32_t number = 0;
    uint32_t wire_type = 0;
    uint64_t value = 0;  // of varints and fixed values
    std::string bytes;
    bool is_message = false;
    std::vector<Field> children;
  };

 private:
  size_t Random(size_t count) { return count == 0 ? 0 : random_() % count; }
  uint64_t ExtremeNumber();
  void ChangeBytes(std::string& bytes);
  void ChangeTree(std::vector<Field>& root);
  void ChangeField(std::vector<Field>& siblings, size_t index, const std::vector<Field*>& all);

  std::string original_;
  std::vector<Field> tree_;
  std::mt19937 random_;
};

}  // namespace lamina::testing
