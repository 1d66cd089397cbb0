#include "model/onnx/proto_reader.h"

#include <limits>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

#include "base/error.h"

namespace lamina::onnx {
namespace {

using protozero::pbf_wire_type;

const char* WireTypeName(pbf_wire_type type) {
  switch (type) {
    case pbf_wire_type::varint:
      return "varint";
    case pbf_wire_type::fixed64:
      return "64-bit";
    case pbf_wire_type::length_delimited:
      return "length-delimited";
    case pbf_wire_type::fixed32:
      return "32-bit";
    default:
      return "unknown";
  }
}

const char* AsChars(std::span<const std::byte> bytes) { return reinterpret_cast<const char*>(bytes.data()); }

}  // namespace

void ProtoFile::Fail(StatusCode code, uint64_t offset_bytes, std::string_view message) {
  if (status_.ok()) status_ = Status(code, fmt::format("{}: byte {}: {}", name_, offset_bytes, message));
}

void ProtoFile::Fail(const Status& status) {
  if (status_.ok()) status_ = status.WithContext(name_);
}

ProtoReader::ProtoReader(ProtoFile* file) : ProtoReader(file, file->bytes(), 0) {}

ProtoReader::ProtoReader(ProtoFile* file, std::span<const std::byte> message, int depth)
    : file_(file), pbf_(AsChars(message), message.size()), depth_(depth) {
  offset_bytes_ = Position();
}

uint64_t ProtoReader::Position() const {
  return static_cast<uint64_t>(pbf_.data().data() - AsChars(file_->bytes()));
}

bool ProtoReader::Next() {
  if (!file_ || !file_->ok()) return false;
  try {
    if (value_pending_) pbf_.skip();
    value_pending_ = false;
    offset_bytes_ = Position();
    if (!pbf_.next()) return false;
  } catch (const protozero::exception& error) {
    Fail("not a field of a protocol buffer message ({})", error.what());
    return false;
  }
  field_ = pbf_.tag();
  wire_type_ = pbf_.wire_type();
  value_pending_ = true;
  const size_t left_bytes = pbf_.length();
  const size_t needed_bytes = wire_type_ == pbf_wire_type::fixed32   ? 4
                              : wire_type_ == pbf_wire_type::fixed64 ? 8
                                                                     : 1;
  if (left_bytes < needed_bytes) {
    Fail("field {} needs {} bytes, but its message ends after {}", field_, needed_bytes, left_bytes);
    return false;
  }
  return wire_type_ != pbf_wire_type::length_delimited || CheckLength();
}

bool ProtoReader::Next(uint32_t field_number) {
  while (Next()) {
    if (field_ == field_number) return true;
  }
  return false;
}

bool ProtoReader::CheckLength() {
  const char* data = pbf_.data().data();
  const char* const end = data + pbf_.length();
  uint64_t length_bytes = 0;
  if (!DecodeVarint(&data, end, &length_bytes)) return false;
  const auto left_bytes = static_cast<uint64_t>(end - data);
  if (length_bytes > left_bytes) {
    Fail("field {} has a length of {} bytes, but only {} are left", field_, length_bytes, left_bytes);
    return false;
  }
  if (length_bytes > std::numeric_limits<uint32_t>::max()) {
    FailUnsupported("field {} is {} bytes long; more than 4 GiB must be in external data files", field_,
                    length_bytes);
    return false;
  }
  return true;
}

bool ProtoReader::DecodeVarint(const char** data, const char* end, uint64_t* value) {
  try {
    *value = protozero::decode_varint(data, end);
    return true;
  } catch (const protozero::exception&) {
    Fail("field {} has a varint that does not end", field_);
    return false;
  }
}

bool ProtoReader::Expect(pbf_wire_type wire_type) {
  if (!file_ || !file_->ok()) return false;
  if (wire_type == wire_type_) return true;
  Fail("field {} has wire type {}, expected {}", field_, WireTypeName(wire_type_), WireTypeName(wire_type));
  return false;
}

uint64_t ProtoReader::Uint64() {
  if (!Expect(pbf_wire_type::varint)) return 0;
  const char* data = pbf_.data().data();
  uint64_t value = 0;
  DecodeVarint(&data, data + pbf_.length(), &value);
  return value;
}

int64_t ProtoReader::Int64() { return static_cast<int64_t>(Uint64()); }

int32_t ProtoReader::Int32() {
  const int64_t value = Int64();
  if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
    Fail("field {}: {} does not fit 32 bits", field_, value);
    return 0;
  }
  return static_cast<int32_t>(value);
}

float ProtoReader::Float() {
  float value = 0;
  if (Expect(pbf_wire_type::fixed32)) std::memcpy(&value, pbf_.data().data(), sizeof(value));
  return value;
}

std::span<const std::byte> ProtoReader::Bytes() {
  if (!Expect(pbf_wire_type::length_delimited)) return {};
  const protozero::data_view view = protozero::pbf_reader(pbf_).get_view();  // CheckLength has passed
  return {reinterpret_cast<const std::byte*>(view.data()), view.size()};
}

std::string_view ProtoReader::Text() {
  const std::span<const std::byte> bytes = Bytes();
  return {AsChars(bytes), bytes.size()};
}

ProtoReader ProtoReader::Message() {
  const std::span<const std::byte> bytes = Bytes();
  if (ok() && depth_ == kMaxDepth) Fail("messages are nested more than {} deep", kMaxDepth);
  return ok() ? ProtoReader(file_, bytes, depth_ + 1) : ProtoReader(file_, file_->bytes().first(0), depth_);
}

}  // namespace lamina::onnx
