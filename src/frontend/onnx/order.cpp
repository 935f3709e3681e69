// Topological order. Some tools write nodes in any order although ONNX forbids it; a cycle can't be repaired and is described.
#include "frontend/onnx/order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

#include "frontend/onnx/node_names.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"

namespace tcc::onnx {
namespace {

/// Names that a node reads: its operands, and what its subgraphs take from around them.
void for_each_read(const pb::NodeProto& node, const std::function<void(const std::string&)>& read) {
  for (const std::string& input : node.input()) {
    if (!input.empty()) read(input);
  }
  // The results of ONNX's Gradient depend on what its attributes name.
  const bool is_gradient = node.op_type() == "Gradient" && node.domain() == "ai.onnx.preview.training";
  for (const auto& attribute : node.attribute()) {
    if (is_gradient && attribute.name() == "y") read(attribute.s());
    if (is_gradient) std::for_each(attribute.strings().begin(), attribute.strings().end(), read);
    // Names made inside are passed too: no name is reused inside (ONNX forbids shadowing), so they meet no producer outside.
    auto subgraph = [&](const pb::GraphProto& graph) {
      for (const auto& inner : graph.node()) for_each_read(inner, read);
      for (const auto& output : graph.output()) read(output.name());
    };
    if (attribute.has_g()) subgraph(attribute.g());
    for (const auto& graph : attribute.graphs()) subgraph(graph);
  }
}

}  // namespace

std::vector<const pb::NodeProto*> order_nodes(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes) {
  const int count = nodes.size();
  std::unordered_map<std::string, int> producer;
  for (int i = 0; i < count; ++i) {
    for (const std::string& output : nodes.Get(i).output()) {
      if (output.empty()) continue;
      const auto [at, fresh] = producer.emplace(output, i);
      if (!fresh) {
        throw RuleError{"malformed-file", "value `" + output + "` is made twice, by `" + name_of_node(nodes.Get(at->second)) +
                                              "` and by `" + name_of_node(nodes.Get(i)) + "`"};
      }
    }
  }
  std::vector<std::vector<int>> reads(static_cast<size_t>(count)), readers(static_cast<size_t>(count));
  bool sorted = true;
  for (int i = 0; i < count; ++i) {
    for_each_read(nodes.Get(i), [&](const std::string& name) {
      const auto found = producer.find(name);
      if (found == producer.end()) return;
      sorted = sorted && found->second < i;
      reads[static_cast<size_t>(i)].push_back(found->second);
      readers[static_cast<size_t>(found->second)].push_back(i);
    });
  }
  std::vector<const pb::NodeProto*> ordered;
  ordered.reserve(static_cast<size_t>(count));
  if (sorted) {
    for (const auto& node : nodes) ordered.push_back(&node);
    return ordered;
  }

  std::vector<size_t> waiting(static_cast<size_t>(count));
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;  // the smallest index first keeps the order of the file where it can be
  for (int i = 0; i < count; ++i) {
    waiting[static_cast<size_t>(i)] = reads[static_cast<size_t>(i)].size();
    if (waiting[static_cast<size_t>(i)] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    ordered.push_back(&nodes.Get(node));
    for (const int reader : readers[static_cast<size_t>(node)]) {
      if (--waiting[static_cast<size_t>(reader)] == 0) ready.push(reader);
    }
  }
  if (ordered.size() == static_cast<size_t>(count)) return ordered;

  // Every node that still waits reads another that does: following those ends in a cycle.
  int at = 0;
  while (waiting[static_cast<size_t>(at)] == 0) ++at;
  std::vector<int> path;
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    for (const int next : reads[static_cast<size_t>(at)]) {
      if (waiting[static_cast<size_t>(next)] > 0) {
        at = next;
        break;
      }
    }
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  std::reverse(path.begin(), path.end());  // from producer to consumer
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  std::string text;
  for (const int node : path) text += "`" + name_of_node(nodes.Get(node)) + "` -> ";
  throw RuleError{"cyclic-graph", "the nodes form a cycle: " + text + "`" + name_of_node(nodes.Get(path.front())) + "`"};
}

}  // namespace tcc::onnx
