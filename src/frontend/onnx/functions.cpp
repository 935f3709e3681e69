#include "frontend/onnx/functions.h"

#include "frontend/base/inlining.h"
#include "frontend/onnx/node_names.h"

namespace tcc::onnx {

namespace {

std::string key_of(const std::string& domain, const std::string& name, const std::string& overload) {
  return domain_of(domain) + "\n" + name + "\n" + overload;
}

}  // namespace

bool Functions::add(const pb::FunctionProto& function) {
  return functions_.emplace(key_of(function.domain(), function.name(), function.overload()), &function).second;
}

const pb::FunctionProto* Functions::find(const pb::NodeProto& node) const {
  const auto found = functions_.find(key_of(node.domain(), node.op_type(), node.overload()));
  return found == functions_.end() ? nullptr : found->second;
}

void Functions::check_size_in(const pb::GraphProto& graph) const {
  const auto body_of_graph = [](const pb::GraphProto& of) { return InlinedBody{&of, of.name(), false}; };
  check_inlining(body_of_graph(graph), [&](const InlinedBody& body) {
    std::vector<InlinedNode> nodes;
    for (const auto& node :
         body.is_function ? static_cast<const pb::FunctionProto*>(body.at)->node() : static_cast<const pb::GraphProto*>(body.at)->node()) {
      InlinedNode& inlined = nodes.emplace_back(InlinedNode{name_of_node(node).size(), {}});
      if (const pb::FunctionProto* function = find(node)) inlined.bodies.push_back({function, function->name(), true});
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) inlined.bodies.push_back(body_of_graph(attribute.g()));
        for (const auto& subgraph : attribute.graphs()) inlined.bodies.push_back(body_of_graph(subgraph));
      }
    }
    return nodes;
  });
}

}  // namespace tcc::onnx
