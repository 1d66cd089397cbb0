// The assignment of a model of which every node runs on one provider.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "rewrite/node_assignment.h"

namespace lamina {

class SingleProvider : public NodeAssignment {
 public:
  explicit SingleProvider(std::string provider) : provider_(std::move(provider)) {}
  std::string_view ProviderOf(const Graph& /*graph*/, NodeId /*node*/) const override { return provider_; }
  void Inherit(const Graph& /*graph*/, NodeId /*made*/, NodeId /*original*/) override {}

 private:
  std::string provider_;
};

}  // namespace lamina
