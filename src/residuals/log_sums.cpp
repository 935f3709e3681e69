// A softmax that the backward half computes again from the maxima and the sums of its rows takes both from one number a row, the logarithm of the sum of its
// exponentials:
//
//   %p = mul(exp(sub(%x, broadcast_in_dim(%m))), broadcast_in_dim(%r))          ->          %p = exp(sub(%x, broadcast_in_dim(%l)))
//   %w = select(isnan(%p), 0, %p)                                                           %w = %p
//
// where the forward half computes %l = select(isnan(%r), inf, sub(%m, log(%r))). Kernels that make tiles of %p read half as much for their rows and columns, and
// multiply less. Rows that are NaN become zero, which is what the gradient of a softmax counts them as; where an element of %x is itself NaN, %p is.
//
// Only where %p is rounded to 16 bits: the difference of %x and %l has the rounding of a number as large as %l.
#include "residuals/log_sums.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "tcc/graph/splat.h"
#include "tcc/graph/uses.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/rules_common.h"
#include "tcc/rules/softmax.h"

namespace tcc::residuals {
namespace {

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph), users_(users_of(graph.body)) {
    for (const Value* result : graph.body.results) held_.insert(result);
    for (const StateUpdate& update : graph.state_updates) held_.insert(update.value);
  }

  bool run() {
    for (Node* node : graph_.body.nodes) {
      if (node->op == Op::mul_ && node->loc.phase == "grad") fold(*node);
    }
    if (replaced_.empty()) return false;
    std::vector<Node*> nodes;
    for (Node* node : graph_.body.nodes) {
      if (const auto made = before_.find(node); made != before_.end()) nodes.insert(nodes.end(), made->second.begin(), made->second.end());
      nodes.push_back(node);
      if (const auto made = behind_.find(node); made != behind_.end()) nodes.insert(nodes.end(), made->second.begin(), made->second.end());
    }
    graph_.body.nodes = std::move(nodes);
    replace_values(graph_, replaced_);
    return true;
  }

 private:
  void fold(const Node& node) {
    const std::optional<Softmax> softmax = as_softmax(node.result(), alike_);
    // Of rows that the forward half has computed, not this one again.
    if (!softmax || !softmax->maximum->producer->loc.phase.empty() || !softmax->inverse->producer->loc.phase.empty()) return;
    if (held_.contains(node.result()) || !is_rounded(node.result())) return;
    Region emitted;
    Builder builder(graph_, emitted, node.loc);
    builder.name_as_parts_of(node.result()->name);
    const Shape shape = rules::shape_of(node.result());
    Value* spread = builder.broadcast_in_dim(log_sum(*softmax), shape, rules::other_axes(node.result()->type.rank(), softmax->axes));
    Value* weights = builder.unary(Op::exp_, builder.sub(softmax->x, spread));
    before_[&node] = std::move(emitted.nodes);
    replaced_[node.result()] = weights;
    drop_masks(node.result());
  }

  bool is_rounded(const Value* value) const {
    const auto users = users_.find(value);
    return users != users_.end() && std::ranges::all_of(users->second, [](const Node* user) {
             return user->op == Op::cast_ && is_float(user->result()->type.dtype) && size_bits(user->result()->type.dtype) <= 16;
           });
  }

  /// The logarithm of the sum of a row's exponentials; where the row is NaN, what makes it zero.
  Value* log_sum(const Softmax& softmax) {
    Value*& known = log_sums_[{softmax.maximum, softmax.inverse}];
    if (known != nullptr) return known;
    const Node* last = softmax.inverse->producer;
    Region emitted;
    Builder builder(graph_, emitted, last->loc);
    builder.name_as_parts_of(softmax.inverse->name);
    Value* infinite = builder.full_like(softmax.inverse, std::numeric_limits<double>::infinity());
    Value* log_sum = builder.sub(softmax.maximum, builder.unary(Op::log_, softmax.inverse));
    known = builder.select(builder.unary(Op::isnan_, softmax.inverse), infinite, log_sum);
    behind_[last] = std::move(emitted.nodes);
    return known;
  }

  /// What is zero where the value is NaN is as it is: through casts.
  void drop_masks(const Value* value) {
    const auto users = users_.find(value);
    if (users == users_.end()) return;
    for (const Node* user : users->second) {
      if (user->op == Op::cast_ && is_float(user->result()->type.dtype)) drop_masks(user->result());
      if (user->op != Op::isnan_) continue;
      const auto selects = users_.find(user->result());
      if (selects == users_.end()) continue;
      for (const Node* select : selects->second) {
        if (select->op == Op::select_ && select->operand(0) == user->result() && is_zero(select->operand(1)))
          replaced_[select->result()] = select->operand(2);
      }
    }
  }

  static bool is_zero(const Value* value) {
    const Node* full = made_by(value, Op::full_);
    return full != nullptr && splat_of_full(*full).as_double() == 0;
  }

  Graph& graph_;
  Alike alike_;
  const Users users_;
  std::unordered_set<const Value*> held_;
  std::map<std::pair<const Value*, const Value*>, Value*> log_sums_;
  std::unordered_map<const Node*, std::vector<Node*>> before_, behind_;
  std::unordered_map<Value*, Value*> replaced_;
};

}  // namespace

void fold_log_sums(Graph& graph) {
  if (Folder(graph).run()) eliminate_dead_code(graph);
}

}  // namespace tcc::residuals
