#include "frontend/base/inlining.h"

#include <algorithm>
#include <cstdio>
#include <unordered_map>

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"

namespace tcc {

namespace {

struct Size {
  double nodes = 0, name_bytes = 0;  // floats: they double with each call
};

struct Cost {
  Size all, added;  // `added`: by calls of functions
  int depth = 0;
};

void add(Size& to, const Size& size) {
  to.nodes += size.nodes;
  to.name_bytes += size.name_bytes;
}

class Counter {
 public:
  using NodesOf = std::function<std::vector<InlinedNode>(const InlinedBody&)>;
  explicit Counter(const NodesOf& nodes_of) : nodes_of_(nodes_of) {}

  Cost of_body(const InlinedBody& body) {
    if (!body.is_function) return of_nodes(body);
    const auto [at, is_new] = functions_.try_emplace(body.at);
    if (!is_new) {
      check_depth(depth_ + 1 + at->second.depth, body.name);
      return at->second;
    }
    const Cost cost = of_nodes(body);
    return functions_[body.at] = cost;
  }

 private:
  static void check_depth(int depth, const std::string& name) {
    if (depth > kMaxNesting) {
      throw RuleError{"too-complex", "calls of functions and subgraphs are nested more than " + std::to_string(kMaxNesting) +
                                         " deep, in `" + name + "` for one"};
    }
  }

  Cost of_nodes(const InlinedBody& body) {
    check_depth(++depth_, body.name);
    Cost total;
    for (const InlinedNode& node : nodes_of_(body)) {
      const double name = static_cast<double>(node.name_bytes) + 1;
      add(total.all, {1, name});
      for (const InlinedBody& inner : node.bodies) {
        Cost cost = of_body(inner);
        if (inner.is_function) {
          cost.all.name_bytes += cost.all.nodes * name;  // the name of the call stands in front of each
          cost.added = cost.all;
        }
        add(total.all, cost.all);
        add(total.added, cost.added);
        total.depth = std::max(total.depth, 1 + cost.depth);
      }
    }
    --depth_;
    return total;
  }

  const NodesOf& nodes_of_;
  std::unordered_map<const void*, Cost> functions_;  // of one that is looked at now: nothing
  int depth_ = 0;
};

}  // namespace

void check_inlining(const InlinedBody& model, const std::function<std::vector<InlinedNode>(const InlinedBody&)>& nodes_of) {
  const Size added = Counter(nodes_of).of_body(model).added;
  if (added.nodes > kMaxInlinedNodes) {
    char count[32];
    std::snprintf(count, sizeof count, "%.4g", added.nodes);
    throw RuleError{"too-complex", "inlining the model's functions makes " + std::string(count) + " nodes, the most is " +
                                       std::to_string(static_cast<int>(kMaxInlinedNodes))};
  }
  if (added.name_bytes > kMaxInlinedNameBytes) {
    throw RuleError{"too-complex", "inlining the model's functions makes names of more than " +
                                       std::to_string(static_cast<int>(kMaxInlinedNameBytes) >> 20) + " MiB"};
  }
}

}  // namespace tcc
