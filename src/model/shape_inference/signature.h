// What an operator takes and gives, written as text and checked against nodes.
//
//   "T T? I -> T bool | T=numeric I=i32,i64"
//
// Parameters stand for inputs, then outputs. A parameter is a type variable, defined after the bar (one that
// is not defined is any tensor), or a type by itself. All parameters of one variable have the same type; a
// variable defined with ~ has a type of its own at every place. Suffix ? is optional, * any number (also
// none), + one or more.
// Types: f16 f32 f64 bf16 i2 i4 i8 i16 i32 i64 u2 u4 u8 u16 u32 u64 bool string c64 c128 f4 and the sets
// float (f16 f32 f64 bf16), sint, uint, int (8 to 64 bits), numeric (int and float), f8 (all 8-bit floats),
// any (every tensor), seq (sequences), opt (optionals), map, value (everything).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/types.h"
#include "model/graph.h"

namespace lamina {

// A set of value types: tensors by element type, other kinds as a whole.
struct TypeSet {
  uint32_t tensors = 0;  // bit N: DataType N
  uint8_t kinds = 0;     // bit N: ValueKind N

  bool Contains(const ValueType& type) const;
  // The only type in it, or kUndefined.
  ValueType Single() const;
  std::string ToString() const;
};

struct Parameter {
  int variable = 0;  // index in Signature::variables
  bool optional = false;
  bool variadic = false;
};

struct TypeVariable {
  std::string name;
  TypeSet types;
  bool heterogeneous = false;
};

struct Signature {
  std::vector<Parameter> inputs;
  std::vector<Parameter> outputs;
  std::vector<TypeVariable> variables;
  int min_inputs = 0;
  int max_inputs = 0;  // INT_MAX for variadic
  int min_outputs = 0;
  int max_outputs = 0;

  // REQUIRES: a well-formed text (they are constants of this program).
  static Signature Parse(std::string_view text);
  const Parameter& Input(int index) const;
  const Parameter& Output(int index) const;
};

}  // namespace lamina
