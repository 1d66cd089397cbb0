// Random weights, written to external data as they are drawn.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "generate/synth/synthetic_decoder.h"
#include "model/graph.h"
#include "model/onnx/external_data_writer.h"

namespace lamina {

// Adds constants to a graph whose bytes go to a data file. Not thread-safe.
class WeightWriter {
 public:
  WeightWriter(Graph& graph, ExternalDataWriter& data, uint64_t seed,
               const std::function<Status(uint64_t)>& progress)
      : graph_(graph), data_(data), state_(seed), progress_(progress) {}

  // Elements uniform in [-bound, bound] of kFloat or kFloat16.
  Result<ValueId> Uniform(const std::string& name, DataType type, const Shape& shape, float bound);
  // Elements around 1 (norm weights), and the rows of the rotary tables.
  Result<ValueId> AroundOne(const std::string& name, DataType type, const Shape& shape);
  Result<ValueId> Rotary(const std::string& name, DataType type, int64_t positions, int64_t half_size,
                         bool sine);
  // Random bits: packed quantised weights.
  Result<ValueId> Bits(const std::string& name, const Shape& shape);
  // Positive quantisation scales of about `scale`.
  Result<ValueId> Scales(const std::string& name, DataType type, const Shape& shape, float scale);

 private:
  // `draw` gives the element at an index.
  Result<ValueId> Write(const std::string& name, DataType type, const Shape& shape,
                        const std::function<float(int64_t index)>& draw);
  Result<ValueId> Finish(const std::string& name, DataType type, const Shape& shape);
  uint64_t Next();
  float NextUnit();  // in [-1, 1)

  Graph& graph_;
  ExternalDataWriter& data_;
  uint64_t state_;
  const std::function<Status(uint64_t)>& progress_;
};

}  // namespace lamina
