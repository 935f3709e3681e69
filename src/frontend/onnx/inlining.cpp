#include "frontend/onnx/inlining.h"

#include <algorithm>
#include <unordered_map>

#include "frontend/onnx/order.h"
#include "tcc/graph/graph.h"

namespace tcc::onnx {
namespace {

struct Cost {
  double nodes = 0, name_bytes = 0;  // floats: they double with each call
  int depth = 0;
};

class Counter {
 public:
  explicit Counter(const FindFunction& find) : find_(find) {}

  Cost of_graph(const pb::GraphProto& graph) {
    const Nesting nesting(*this, graph.name());
    return of_nodes(graph.node());
  }

 private:
  using Nodes = google::protobuf::RepeatedPtrField<pb::NodeProto>;

  /// One level of calls and subgraphs, while it is looked at.
  struct Nesting {
    Nesting(Counter& in, const std::string& name) : counter(in) { counter.check_depth(++counter.depth_, name); }
    ~Nesting() { --counter.depth_; }
    Counter& counter;
  };

  void check_depth(int depth, const std::string& name) const {
    if (depth > kMaxNesting) {
      throw RuleError{"too-complex", "calls of functions and subgraphs are nested more than " + std::to_string(kMaxNesting) +
                                         " deep, in `" + name + "` for one"};
    }
  }

  Cost of_nodes(const Nodes& nodes) {
    Cost total;
    const auto add = [&](const Cost& cost) {
      total.nodes += cost.nodes;
      total.name_bytes += cost.name_bytes;
      total.depth = std::max(total.depth, 1 + cost.depth);
    };
    for (const auto& node : nodes) {
      const double name = static_cast<double>(name_of_node(node).size()) + 1;
      total.nodes += 1;
      total.name_bytes += name;
      if (const pb::FunctionProto* function = find_(node)) {
        Cost cost = of_function(*function);
        cost.name_bytes += cost.nodes * name;
        add(cost);
      }
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) add(of_graph(attribute.g()));
        for (const auto& graph : attribute.graphs()) add(of_graph(graph));
      }
    }
    return total;
  }

  Cost of_function(const pb::FunctionProto& function) {
    const auto [at, is_new] = costs_.try_emplace(&function);
    if (!is_new) {
      check_depth(depth_ + 1 + at->second.depth, function.name());
      return at->second;
    }
    const Nesting nesting(*this, function.name());
    const Cost cost = of_nodes(function.node());
    return costs_[&function] = cost;
  }

  const FindFunction& find_;
  std::unordered_map<const pb::FunctionProto*, Cost> costs_;  // of one that is looked at now: nothing
  int depth_ = 0;
};

}  // namespace

void check_inlining(const pb::GraphProto& graph, const FindFunction& find) {
  const FindFunction none = [](const pb::NodeProto&) { return nullptr; };
  const Cost total = Counter(find).of_graph(graph), own = Counter(none).of_graph(graph);
  if (total.nodes - own.nodes > kMaxInlinedNodes) {
    char count[32];
    std::snprintf(count, sizeof count, "%.4g", total.nodes - own.nodes);
    throw RuleError{"too-complex", "inlining the model's functions makes " + std::string(count) + " nodes, the most is " +
                                       std::to_string(static_cast<int>(kMaxInlinedNodes))};
  }
  if (total.name_bytes - own.name_bytes > kMaxInlinedNameBytes) {
    throw RuleError{"too-complex", "inlining the model's functions makes names of more than " +
                                       std::to_string(static_cast<int>(kMaxInlinedNameBytes) >> 20) + " MiB"};
  }
}

}  // namespace tcc::onnx
