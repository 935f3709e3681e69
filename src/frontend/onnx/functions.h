// The functions that a model has of its own, and the names of domains.
#pragma once

#include <map>
#include <string>

#include "frontend/onnx/proto.h"

namespace tcc::onnx {

/// The default domain has two spellings: "" inside of tcc, "ai.onnx" in messages.
inline std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }
inline std::string domain_text(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

class Functions {
 public:
  /// False when there is one of that domain, name and overload.
  bool add(const pb::FunctionProto& function);
  /// The function that a node calls; null when it is an op.
  const pb::FunctionProto* find(const pb::NodeProto& node) const;
  /// RuleError "too-complex" when a graph would become too large by inlining them (frontend/base/inlining.h).
  void check_size_in(const pb::GraphProto& graph) const;

 private:
  std::map<std::string, const pb::FunctionProto*> functions_;
};

}  // namespace tcc::onnx
