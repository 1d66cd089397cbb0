// Builds small graphs, applies rewrites to them and counts what is left.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lamina/session.h"
#include "model/onnx/model_writer.h"
#include "model/shape_inference/shape_inference.h"
#include "rewrite/rewriter.h"
#include "support/random_data.h"

namespace lamina::testing {

// Names of all level-1 rewrites.
inline std::vector<std::string> Level1Names() {
  std::vector<std::string> names;
  for (const auto& rewrite : Level1Rewrites()) names.emplace_back(rewrite->name());
  return names;
}

// The value of session.disabled_rewrites that leaves these alone.
inline std::string AllBut(const std::vector<std::string>& kept) {
  std::string disabled;
  for (const std::string& name : Level1Names()) {
    if (std::find(kept.begin(), kept.end(), name) == kept.end()) disabled += name + ",";
  }
  return disabled;
}

class RewriteTest : public ::testing::Test {
 protected:
  RewriteTest() { Reset(17); }

  void Reset(int opset) {
    model_ = std::make_unique<Model>();
    model_->ir_version = 10;
    model_->opset_imports[""] = opset;
    model_->opset_imports["com.microsoft"] = 1;
    model_->names = std::make_shared<NamePool>();
    model_->graph = std::make_unique<Graph>(model_->names, nullptr);
  }

  Graph& graph() { return *model_->graph; }

  // Dimensions as in files: "batch", "4".
  ValueId In(std::string_view name, const std::vector<std::string>& dims, DataType type = DataType::kFloat) {
    SymbolicShape shape;
    for (const std::string& dim : dims) shape.dims.push_back(DimExpr::FromDimParam(dim));
    for (DimExpr& dim : shape.dims) {
      const std::string_view symbol = dim.symbol();
      if (!symbol.empty() && symbol.find_first_not_of("0123456789") == std::string_view::npos) {
        dim = DimExpr(std::stoll(std::string(symbol)));
      }
    }
    const ValueId id = graph().MakeValue(name, ValueType::Tensor(type), std::move(shape));
    graph().AddInput(id);
    return id;
  }

  template <typename T>
  ValueId Constant(const Shape& shape, const std::vector<T>& values, DataType type) {
    const ValueId id = graph().MakeValue({});
    Initializer initializer;
    initializer.type = type;
    initializer.shape = shape;
    initializer.source = *Tensor::FromValues<T>(type, shape, std::span<const T>(values));
    graph().AddInitializer(id, std::move(initializer));
    return id;
  }
  ValueId Floats(const Shape& shape, const std::vector<float>& values) {
    return Constant<float>(shape, values, DataType::kFloat);
  }
  ValueId Float(float value) { return Floats(Shape{}, {value}); }
  ValueId Ints(const std::vector<int64_t>& values) {
    return Constant<int64_t>(Shape{static_cast<int64_t>(values.size())}, values, DataType::kInt64);
  }

  Attribute Attr(std::string_view name, AttributeValue value) {
    return {model_->names->Intern(name), std::move(value), {}, AttributeType::kUndefined};
  }

  ValueId Op(std::string_view op_type, std::vector<ValueId> inputs, std::vector<Attribute> attributes = {},
             std::string_view domain = "") {
    const ValueId output = graph().MakeValue({});
    last_node_ = graph().AddNode("", op_type, domain, domain.empty() ? model_->opset_imports[""] : 1,
                                 std::move(inputs), {output}, std::move(attributes));
    return output;
  }

  void Out(ValueId id) { graph().AddOutput(id); }

  RewriteReport Apply(const std::vector<std::string>& only = Level1Names()) {
    EXPECT_TRUE(InferShapes(*model_).ok()) << InferShapes(*model_).message();
    RewriteOptions options;
    options.disabled = AllBut(only);
    Result<RewriteReport> report = ApplyRewrites(*model_, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : RewriteReport();
  }

  int Count(std::string_view op_type) {
    int count = 0;
    for (const Node& node : graph().nodes()) count += node.alive && node.op_type == op_type ? 1 : 0;
    return count;
  }

  const Node* Only(std::string_view op_type) {
    const Node* found = nullptr;
    for (const Node& node : graph().nodes()) {
      if (node.alive && node.op_type == op_type) found = &node;
    }
    EXPECT_EQ(Count(op_type), 1) << op_type;
    static const Node kNone;
    return found != nullptr ? found : &kNone;
  }

  // What the model gives for these inputs, with all rewrites or without any.
  std::vector<Tensor> Run(const std::vector<Tensor>& inputs, bool rewritten) {
    const Result<std::string> bytes = EncodeModel(*model_);
    EXPECT_TRUE(bytes.ok()) << bytes.status().message();
    SessionOptions options;
    EXPECT_TRUE(options.Set("session.disabled_rewrites", rewritten ? "" : "all").ok());
    const auto session =
        Session::Load(*Env::Create({1}), std::as_bytes(std::span(*bytes)), /*folder=*/"", options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    std::vector<Value> outputs;
    if (session.ok()) {
      const Status status = (*session)->Run({}, std::vector<Value>(inputs.begin(), inputs.end()), &outputs);
      EXPECT_TRUE(status.ok()) << status.message();
    }
    std::vector<Tensor> tensors;
    for (const Value& output : outputs) tensors.push_back(output.tensor());
    return tensors;
  }

  // Runs the model as it is and with all rewrites: fp32 outputs are equal to rounding, bytes to a step.
  void ExpectRewritesKeepResults(const std::vector<Tensor>& inputs) {
    const std::vector<Tensor> plain = Run(inputs, false);
    const std::vector<Tensor> rewritten = Run(inputs, true);
    ASSERT_EQ(plain.size(), rewritten.size());
    for (size_t i = 0; i < plain.size(); ++i) {
      ASSERT_EQ(plain[i].type(), rewritten[i].type());
      ASSERT_EQ(plain[i].shape(), rewritten[i].shape());
      for (int64_t element = 0; element < plain[i].num_elements(); ++element) {
        const auto [a, b, tolerance] = ElementsAt(plain[i], rewritten[i], element);
        ASSERT_NEAR(a, b, tolerance) << "output " << i << " element " << element;
      }
    }
  }

  static Tensor FloatTensor(const Shape& shape, uint32_t seed = 1) {
    const std::vector<float> values = RandomNumbers(shape.num_elements(), seed);
    return *Tensor::FromValues<float>(DataType::kFloat, shape, std::span<const float>(values));
  }

  std::unique_ptr<Model> model_;
  NodeId last_node_;

 private:
  static std::tuple<double, double, double> ElementsAt(const Tensor& a, const Tensor& b, int64_t i) {
    switch (a.type()) {
      case DataType::kUint8:
        return {a.data<uint8_t>()[i], b.data<uint8_t>()[i], 1};
      case DataType::kInt8:
        return {a.data<int8_t>()[i], b.data<int8_t>()[i], 1};
      default:
        EXPECT_EQ(a.type(), DataType::kFloat);
        return {a.data<float>()[i], b.data<float>()[i], 1e-5 + 1e-4 * std::abs(a.data<float>()[i])};
    }
  }
};

}  // namespace lamina::testing
