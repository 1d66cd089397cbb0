// The one place that decodes protocol buffers: protozero behind checks of its own.
//
//   ProtoFile file("model.onnx", bytes);
//   ProtoReader model(&file);
//   while (model.Next()) {
//     switch (model.field()) {
//       case ModelProto::kIrVersion: ir_version = model.Int64(); break;
//       case ModelProto::kGraph: ReadGraph(model.Message()); break;
//     }                                     // what is not taken is skipped
//   }
//   return file.status();
//
// The first error stays in the ProtoFile and ends the loops of all its readers; what a getter returns after
// an error is empty. Errors name the file and the absolute byte offset of the field. A length is checked
// against the rest of its message, and against 4 GiB, before protozero sees it; messages nest at most
// kMaxDepth deep. Nothing is copied: texts and bytes are views of the file.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lamina/status.h"

namespace lamina::onnx {

// The bytes being read, their name, and the first error met in them.
class ProtoFile {
 public:
  // `bytes` must outlive the object.
  ProtoFile(std::string name, std::span<const std::byte> bytes) : name_(std::move(name)), bytes_(bytes) {}
  ProtoFile(const ProtoFile&) = delete;
  ProtoFile& operator=(const ProtoFile&) = delete;

  const std::string& name() const { return name_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }

  // Keeps the first error. `offset_bytes` counts from the start of the file.
  void Fail(StatusCode code, uint64_t offset_bytes, std::string_view message);
  // An error that already says where it is within the file.
  void Fail(const Status& status);

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
  Status status_;
};

// A cursor over the fields of one message. Cheap to copy: a copy reads on from where the original stands.
class ProtoReader {
 public:
  static constexpr int kMaxDepth = 100;

  // Of an absent message: it has no fields.
  ProtoReader() = default;
  // Of the whole file.
  explicit ProtoReader(ProtoFile* file);

  // Moves to the next field; false at the end of the message and after an error.
  bool Next();
  // Moves to the next field with this number.
  bool Next(uint32_t field_number);
  uint32_t field() const { return field_; }
  bool ok() const { return file_ == nullptr || file_->ok(); }
  ProtoFile& file() const { return *file_; }
  // Of the current field, or of the message before the first Next.
  uint64_t offset_bytes() const { return offset_bytes_; }

  // The value of the current field. A field of another wire type is an error.
  int64_t Int64();
  uint64_t Uint64();
  // An enum or int32 field; an error where the value does not fit.
  int32_t Int32();
  float Float();
  std::string_view Text();
  std::span<const std::byte> Bytes();
  ProtoReader Message();

  // Calls visit(value) for each value of a repeated field, packed or single; values are int64_t or uint64_t
  // bits of a varint, or T = float, double.
  template <typename Visitor>
  void EachVarint(Visitor&& visit);
  template <typename T, typename Visitor>
  void EachFixed(Visitor&& visit);

  // Ends reading with INVALID_MODEL (or UNSUPPORTED) at the current field.
  template <typename... Args>
  void Fail(fmt::format_string<Args...> format, Args&&... args) {
    file_->Fail(StatusCode::kInvalidModel, offset_bytes_, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void FailUnsupported(fmt::format_string<Args...> format, Args&&... args) {
    file_->Fail(StatusCode::kUnsupported, offset_bytes_, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  ProtoReader(ProtoFile* file, std::span<const std::byte> message, int depth);

  // The offset in the file of protozero's position.
  uint64_t Position() const;
  // The length of the current length-delimited field; an error where it passes the end or 4 GiB.
  bool CheckLength();
  bool Expect(protozero::pbf_wire_type wire_type);
  bool IsPacked() const { return wire_type_ == protozero::pbf_wire_type::length_delimited; }
  // A varint inside a packed field.
  bool DecodeVarint(const char** data, const char* end, uint64_t* value);

  ProtoFile* file_ = nullptr;
  protozero::pbf_reader pbf_;
  protozero::pbf_wire_type wire_type_ = protozero::pbf_wire_type::unknown;
  bool value_pending_ = false;
  int depth_ = 0;
  uint32_t field_ = 0;
  uint64_t offset_bytes_ = 0;
};

template <typename Visitor>
void ProtoReader::EachVarint(Visitor&& visit) {
  if (!IsPacked()) {
    const uint64_t value = Uint64();
    if (ok()) visit(value);
    return;
  }
  const std::span<const std::byte> packed = Bytes();
  const char* data = reinterpret_cast<const char*>(packed.data());
  const char* const end = data + packed.size();
  uint64_t value = 0;
  while (data != end && ok() && DecodeVarint(&data, end, &value)) visit(value);
}

template <typename T, typename Visitor>
void ProtoReader::EachFixed(Visitor&& visit) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  T value = 0;
  if (!IsPacked()) {
    constexpr auto kWireType =
        sizeof(T) == 4 ? protozero::pbf_wire_type::fixed32 : protozero::pbf_wire_type::fixed64;
    if (!Expect(kWireType)) return;
    std::memcpy(&value, pbf_.data().data(), sizeof(T));  // Next has checked that the bytes are there
    visit(value);
    return;
  }
  const std::span<const std::byte> packed = Bytes();
  if (packed.size() % sizeof(T) != 0) {
    Fail("field {}: {} bytes are no whole number of values of {} bytes", field_, packed.size(), sizeof(T));
    return;
  }
  for (size_t i = 0; i < packed.size() && ok(); i += sizeof(T)) {
    std::memcpy(&value, packed.data() + i, sizeof(T));
    visit(value);
  }
}

}  // namespace lamina::onnx
