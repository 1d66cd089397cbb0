// Field numbers of the messages of the ONNX format (facts of the format; ONNX IR version 13).
#pragma once

#include <cstdint>

namespace lamina::onnx {

struct ModelProto {
  static constexpr uint32_t kIrVersion = 1, kProducerName = 2, kProducerVersion = 3, kDomain = 4,
                            kModelVersion = 5, kDocString = 6, kGraph = 7, kOpsetImport = 8,
                            kMetadataProps = 14, kTrainingInfo = 20, kFunctions = 25;
};

struct OperatorSetIdProto {
  static constexpr uint32_t kDomain = 1, kVersion = 2;
};

struct StringStringEntryProto {
  static constexpr uint32_t kKey = 1, kValue = 2;
};

struct GraphProto {
  static constexpr uint32_t kNode = 1, kName = 2, kInitializer = 5, kDocString = 10, kInput = 11,
                            kOutput = 12, kValueInfo = 13, kSparseInitializer = 15, kMetadataProps = 16;
};

struct NodeProto {
  static constexpr uint32_t kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5, kDocString = 6,
                            kDomain = 7, kOverload = 8, kMetadataProps = 9;
};

struct FunctionProto {
  static constexpr uint32_t kName = 1, kInput = 4, kOutput = 5, kAttribute = 6, kNode = 7, kDocString = 8,
                            kOpsetImport = 9, kDomain = 10, kAttributeProto = 11, kValueInfo = 12,
                            kOverload = 13, kMetadataProps = 14;
};

struct AttributeProto {
  static constexpr uint32_t kName = 1, kF = 2, kI = 3, kS = 4, kT = 5, kG = 6, kFloats = 7, kInts = 8,
                            kStrings = 9, kTensors = 10, kGraphs = 11, kDocString = 13, kTp = 14,
                            kTypeProtos = 15, kType = 20, kRefAttrName = 21, kSparseTensor = 22,
                            kSparseTensors = 23;
};

struct TensorProto {
  static constexpr uint32_t kDims = 1, kDataType = 2, kSegment = 3, kFloatData = 4, kInt32Data = 5,
                            kStringData = 6, kInt64Data = 7, kName = 8, kRawData = 9, kDoubleData = 10,
                            kUint64Data = 11, kDocString = 12, kExternalData = 13, kDataLocation = 14;
  static constexpr int64_t kDataLocationExternal = 1;
};

struct SparseTensorProto {
  static constexpr uint32_t kValues = 1, kIndices = 2, kDims = 3;
};

struct ValueInfoProto {
  static constexpr uint32_t kName = 1, kType = 2, kDocString = 3, kMetadataProps = 4;
};

struct TypeProto {
  static constexpr uint32_t kTensorType = 1, kSequenceType = 4, kMapType = 5, kDenotation = 6,
                            kOpaqueType = 7, kSparseTensorType = 8, kOptionalType = 9;
  struct Tensor {  // also SparseTensor
    static constexpr uint32_t kElemType = 1, kShape = 2;
  };
  struct Sequence {  // also Optional
    static constexpr uint32_t kElemType = 1;
  };
  struct Map {
    static constexpr uint32_t kKeyType = 1, kValueType = 2;
  };
};

struct TensorShapeProto {
  static constexpr uint32_t kDim = 1;
  struct Dimension {
    static constexpr uint32_t kDimValue = 1, kDimParam = 2, kDenotation = 3;
  };
};

// Kinds of containers in SequenceProto.elem_type and OptionalProto.elem_type.
enum class ContainerElement : int32_t {
  kUndefined = 0,
  kTensor = 1,
  kSparseTensor = 2,
  kSequence = 3,
  kMap = 4,
  kOptional = 5,
};

struct SequenceProto {
  static constexpr uint32_t kName = 1, kElemType = 2, kTensorValues = 3, kSparseTensorValues = 4,
                            kSequenceValues = 5, kMapValues = 6, kOptionalValues = 7;
};

struct MapProto {
  static constexpr uint32_t kName = 1, kKeyType = 2, kKeys = 3, kStringKeys = 4, kValues = 5;
};

struct OptionalProto {
  static constexpr uint32_t kName = 1, kElemType = 2, kTensorValue = 3, kSparseTensorValue = 4,
                            kSequenceValue = 5, kMapValue = 6, kOptionalValue = 7;
};

}  // namespace lamina::onnx
