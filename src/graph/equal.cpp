// Structural equality of graphs: the same nodes in the same order on corresponding values. What inner values are called does not matter.

#include <algorithm>

#include "tcc/graph/attr_values.h"
#include "tcc/graph/graph.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

class Comparison {
 public:
  Comparison(const Graph& a, const Graph& b) : a_(a), b_(b), partner_(static_cast<size_t>(a.num_values()), nullptr) {}

  bool run() {
    if (a_.name != b_.name) return differ("the graphs are @" + a_.name + " and @" + b_.name);
    if (!same_args(a_.body, b_.body, true) || !same_nodes(a_.body, b_.body)) return false;
    if (a_.output_names != b_.output_names) return differ("the names of the outputs differ");
    if (a_.state_updates.size() != b_.state_updates.size()) return differ("the numbers of state updates differ");
    for (size_t i = 0; i < a_.state_updates.size(); ++i) {
      const StateUpdate& x = a_.state_updates[i];
      const StateUpdate& y = b_.state_updates[i];
      if (x.weight->name != y.weight->name || !same_value(x.value, y.value))
        return differ("the new state of @" + x.weight->name + " differs");
    }
    return true;
  }

  std::string why;

 private:
  bool differ(std::string text) {
    if (why.empty()) why = std::move(text);
    return false;
  }

  bool same_value(const Value* x, const Value* y) {
    if (x == nullptr || y == nullptr) return x == y;
    if (x->kind != Value::Kind::weight) return partner_[static_cast<size_t>(x->id)] == y;
    if (y->kind != Value::Kind::weight || x->name != y->name) return false;
    if (partner_[static_cast<size_t>(x->id)] == y) return true;
    if (!x->weight->tensor.same_bytes(y->weight->tensor)) return differ("the bytes or types of @" + x->name + " differ");
    if (x->weight->is_state != y->weight->is_state) return differ("@" + x->name + " is state in one only");
    partner_[static_cast<size_t>(x->id)] = y;
    return true;
  }

  bool same_args(const Region& x, const Region& y, bool names) {
    if (x.args.size() != y.args.size())
      return differ(std::to_string(x.args.size()) + " and " + std::to_string(y.args.size()) + (names ? " inputs" : " arguments"));
    for (size_t i = 0; i < x.args.size(); ++i) {
      if (names && x.args[i]->name != y.args[i]->name)
        return differ("input " + std::to_string(i) + " is %" + x.args[i]->name + " and %" + y.args[i]->name);
      if (x.args[i]->type != y.args[i]->type)
        return differ("%" + x.args[i]->name + " is " + to_string(x.args[i]->type) + " and " + to_string(y.args[i]->type));
      partner_[static_cast<size_t>(x.args[i]->id)] = y.args[i];
    }
    return true;
  }

  bool same_nodes(const Region& x, const Region& y) {
    for (size_t i = 0; i < std::min(x.nodes.size(), y.nodes.size()); ++i) {
      if (!same_node(*x.nodes[i], *y.nodes[i]))
        return differ("node " + std::to_string(i) + " differs:\n  " + print(*x.nodes[i]) + "\n  " + print(*y.nodes[i]));
    }
    if (x.nodes.size() != y.nodes.size()) {
      const Region& longer = x.nodes.size() > y.nodes.size() ? x : y;
      return differ(std::to_string(x.nodes.size()) + " and " + std::to_string(y.nodes.size()) + " nodes; the first without partner is\n  " +
                    print(*longer.nodes[std::min(x.nodes.size(), y.nodes.size())]));
    }
    if (x.results.size() != y.results.size()) return differ("the numbers of results differ");
    for (size_t i = 0; i < x.results.size(); ++i) {
      if (!same_value(x.results[i], y.results[i]))
        return differ("result " + std::to_string(i) + " is another value: %" + x.results[i]->name + " and %" + y.results[i]->name);
    }
    return true;
  }

  bool same_node(const Node& x, const Node& y) {
    if (x.op != y.op || x.operands.size() != y.operands.size() || x.results.size() != y.results.size() ||
        x.regions.size() != y.regions.size())
      return false;
    if (!same_bits(x.attrs, y.attrs)) return false;
    for (size_t i = 0; i < x.operands.size(); ++i) {
      if (!same_value(x.operands[i], y.operands[i])) return false;
    }
    for (size_t i = 0; i < x.regions.size(); ++i) {
      if (!same_args(*x.regions[i], *y.regions[i], false) || !same_nodes(*x.regions[i], *y.regions[i])) return false;
    }
    for (size_t i = 0; i < x.results.size(); ++i) {
      if (x.results[i]->type != y.results[i]->type) return false;
      partner_[static_cast<size_t>(x.results[i]->id)] = y.results[i];
    }
    return true;
  }

  const Graph& a_;
  const Graph& b_;
  std::vector<const Value*> partner_;  // by id in a
};

}  // namespace

bool equal(const Graph& a, const Graph& b, std::string* why) {
  Comparison comparison(a, b);
  const bool result = comparison.run();
  if (why != nullptr) *why = comparison.why;
  return result;
}

}  // namespace tcc
