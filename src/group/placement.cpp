// Spreads places through a unit until nothing changes. Two strengths: what follows from equal elements is taken first; where a place must be made up
// (the axes that a broadcast adds, the axes that a reduction takes away) fresh inner variables are made, one node at a time, only when nothing else is left.

#include "group/placement.h"

#include <algorithm>
#include <functional>

namespace tcc::group {

using loop::Index;
using loop::make_var;
using loop::VarRef;

std::string loop_letter(int depth) {
  static const char letters[] = "ijklmnpqtuvw";
  const int count = static_cast<int>(sizeof letters) - 1;
  return depth < count ? std::string(1, letters[depth]) : "x" + std::to_string(depth);
}

const Indices* Placement::find(const Value* value) const {
  const auto it = at.find(value);
  return it == at.end() ? nullptr : it->second.get();
}

std::vector<VarRef> Placement::inner_vars(const Indices& index) const {
  std::vector<VarRef> result;
  for (const Index& component : index) {
    std::vector<VarRef> vars;
    collect_vars(component, vars);
    for (const VarRef& var : vars) {
      if (std::find(domain.begin(), domain.end(), var) != domain.end()) continue;
      if (std::find(result.begin(), result.end(), var) == result.end()) result.push_back(var);
    }
  }
  return result;
}

bool Placement::covers_domain(const Indices& index) const {
  const auto vars = vars_of(index);
  return std::all_of(domain.begin(), domain.end(),
                     [&](const VarRef& var) { return std::find(vars.begin(), vars.end(), var) != vars.end(); });
}

namespace {

/// Which axis of an operand each axis of a product's result is; -1: one of the other operand.
std::vector<int64_t> axes_in_result(const Node& product, bool left) {
  std::vector<int64_t> axes = product.attrs.get_ints(left ? "lhs_batch" : "rhs_batch");
  const auto add_free = [&](bool of_left) {
    const auto& batch = product.attrs.get_ints(of_left ? "lhs_batch" : "rhs_batch");
    const auto& sum = product.attrs.get_ints(of_left ? "lhs_contract" : "rhs_contract");
    for (int64_t axis = 0; axis < product.operand(of_left ? 0 : 1)->type.rank(); ++axis) {
      const auto has = [&](const std::vector<int64_t>& list) { return std::find(list.begin(), list.end(), axis) != list.end(); };
      if (!has(batch) && !has(sum)) axes.push_back(of_left == left ? axis : -1);
    }
  };
  add_free(true);
  add_free(false);
  return axes;
}

class Spreader {
 public:
  /// `product`: a contraction that places go through, from the operand that has one; null: none.
  Spreader(Placement& placement, const std::vector<Node*>& nodes, const Node* product)
      : placement_(placement), nodes_(nodes), product_(product) {}

  void run() {
    while (true) {
      while (sweep()) {}
      if (!make_up()) return;
    }
  }

 private:
  /// Element i of the result belongs to element i of the operands.
  static bool is_elementwise(const Node& node) { return is_pointwise(node) || node.op == Op::cumulative_; }
  bool placed(const Value* value) const { return placement_.at.count(value) != 0; }
  bool set(const Value* value, Indices at) { return share(value, std::make_shared<const Indices>(std::move(at))); }
  bool share(const Value* value, std::shared_ptr<const Indices> at) { return placement_.at.emplace(value, std::move(at)).second; }
  std::shared_ptr<const Indices> shared_place(const Value* value) const {
    const auto found = placement_.at.find(value);
    return found == placement_.at.end() ? nullptr : found->second;
  }

  /// One pass over the nodes, forward then backward; whether anything was placed.
  bool sweep() {
    bool changed = false;
    for (const Node* node : nodes_) changed |= forward(*node);
    for (size_t i = nodes_.size(); i-- > 0;) changed |= backward(*nodes_[i]);
    return changed;
  }

  bool forward(const Node& node) {
    if (node.results.size() != 1 || placed(node.result())) return false;
    if (is_elementwise(node)) {
      for (const Value* operand : node.operands) {
        if (std::shared_ptr<const Indices> at = shared_place(operand)) return share(node.result(), std::move(at));
      }
    } else if (is_bijective_view(node)) {
      if (const Indices* at = placement_.find(node.operand(0))) return set(node.result(), push_forward(node, *at));
    } else if (is_reduce(node)) {
      if (const Indices* at = placement_.find(node.operand(0))) {
        Indices to;
        for (int axis : kept_axes(node)) to.push_back((*at)[static_cast<size_t>(axis)]);
        return set(node.result(), std::move(to));
      }
    } else if (&node == product_) {
      return through_product(node);
    }
    return false;
  }

  /// The results of a product have the rows of the operand that is placed, and columns of their own.
  bool through_product(const Node& product) {
    for (const bool left : {true, false}) {
      const Indices* from = placement_.find(product.operand(left ? 0 : 1));
      if (!from) continue;
      const Shape shape = product.result()->type.shape();
      const std::vector<int64_t> axes = axes_in_result(product, left);
      Indices to;
      for (size_t i = 0; i < axes.size(); ++i)
        to.push_back(axes[i] >= 0 ? (*from)[static_cast<size_t>(axes[i])] : Index(make_var("inner", shape[i])));
      return set(product.result(), std::move(to));
    }
    return false;
  }

  bool backward(const Node& node) {
    if (node.results.size() != 1) return false;
    const std::shared_ptr<const Indices> at = shared_place(node.result());
    if (!at) return false;
    if (is_elementwise(node)) {
      bool changed = false;
      for (const Value* operand : node.operands) changed |= share(operand, at);
      return changed;
    }
    if ((is_bijective_view(node) || node.op == Op::broadcast_in_dim_) && !placed(node.operand(0)))
      return set(node.operand(0), pull_back(node, *at));
    return false;
  }

  /// Makes up the place of one value.
  bool make_up() {
    for (const Node* node : nodes_) {
      if (node->op == Op::broadcast_in_dim_ && !placed(node->result())) {
        const Indices* operand = placement_.find(node->operand(0));
        if (!operand) continue;
        const Shape shape = node->result()->type.shape(), from = node->operand(0)->type.shape();
        const auto& dims = node->attrs.get_ints("dims");
        Indices at(shape.size());
        for (size_t i = 0; i < shape.size(); ++i) {
          const auto source = std::find(dims.begin(), dims.end(), static_cast<int64_t>(i));
          const size_t axis = static_cast<size_t>(source - dims.begin());
          at[i] = source != dims.end() && from[axis] != 1 ? (*operand)[axis] : Index(make_var("inner", shape[i]));
        }
        return set(node->result(), std::move(at));
      }
      if (is_reduce(*node) && !placed(node->operand(0))) {
        const Indices* result = placement_.find(node->result());
        if (!result) continue;
        const Shape shape = node->operand(0)->type.shape();
        Indices at(shape.size());
        for (size_t i = 0; i < shape.size(); ++i) at[i] = Index(make_var("inner", shape[i]));
        const auto kept = kept_axes(*node);
        for (size_t i = 0; i < kept.size(); ++i) at[static_cast<size_t>(kept[i])] = (*result)[i];
        return set(node->operand(0), std::move(at));
      }
    }
    return false;
  }

  Placement& placement_;
  const std::vector<Node*>& nodes_;
  const Node* product_;
};

/// A second sum of a chain: the results have the rows of those of the anchor, where the larger factor has the same axes in both, and the columns, if as many.
void place_beside(Placement& placement, const Node& anchor, const Node& node) {
  if (&node == &anchor || node.op != Op::dot_general_ || placement.find(node.result()) != nullptr) return;
  const auto is_left = [](const Node& product) { return product.operand(0)->type.count() > product.operand(1)->type.count(); };
  const bool left = is_left(node), anchor_left = is_left(anchor);
  if (!(node.operand(left ? 0 : 1)->type.dims == anchor.operand(anchor_left ? 0 : 1)->type.dims)) return;
  const std::vector<int64_t> axes = axes_in_result(node, left), of_anchor = axes_in_result(anchor, anchor_left);
  const Indices& from = *placement.find(anchor.result());
  Indices at;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto same = std::find(of_anchor.begin(), of_anchor.end(), axes[i]) - of_anchor.begin();
    if (same == std::ssize(of_anchor)) return;  // summed over in the anchor
    const auto place = static_cast<size_t>(same);
    if (!(node.result()->type.dims[i] == anchor.result()->type.dims[place])) return;
    at.push_back(from[place]);
  }
  if (at.size() == from.size()) placement.at[node.result()] = std::make_shared<const Indices>(std::move(at));
}

/// Fresh variables for a shape; those above extent 1 join the domain.
Indices fresh_domain(Placement& placement, const Shape& shape) {
  Indices at;
  for (int64_t extent : shape) {
    const VarRef var = make_var(loop_letter(static_cast<int>(placement.domain.size())), extent);
    at.emplace_back(var);
    if (extent != 1) placement.domain.push_back(var);
  }
  return at;
}

}  // namespace

Placement place(UnitKind kind, const std::vector<Node*>& nodes, const Node* anchor, const Value* main) {
  Placement placement;
  const auto put = [&](const Value* value, Indices at) { placement.at[value] = std::make_shared<const Indices>(std::move(at)); };
  switch (kind) {
    case UnitKind::map: put(main, fresh_domain(placement, main->type.shape())); break;
    case UnitKind::stream:
    case UnitKind::rows: {
      const auto first = std::find_if(nodes.begin(), nodes.end(), [](const Node* node) { return is_reduce(*node); });
      const Node& reduce = **first;
      put(reduce.result(), fresh_domain(placement, reduce.result()->type.shape()));
      break;
    }
    case UnitKind::chain:
    case UnitKind::contract: {
      // Grouped convolution: output channel = group * (channels of a group) + channel, so that the group is a loop of its own.
      const int64_t groups = anchor->op == Op::conv_general_ ? anchor->attrs.get_int("groups") : 1;
      Shape shape = anchor->result()->type.shape();
      if (groups > 1) {
        const int64_t channels = shape[1] / groups;
        Shape split = shape;
        split[1] = channels;
        split.insert(split.begin() + 1, groups);
        Indices at = fresh_domain(placement, split);
        at[1] = at[1] * channels + at[2];
        at.erase(at.begin() + 2);
        put(anchor->result(), std::move(at));
      } else {
        put(anchor->result(), fresh_domain(placement, shape));
      }
      break;
    }
    case UnitKind::window: put(anchor->result(), fresh_domain(placement, anchor->result()->type.shape())); break;
    case UnitKind::scan: {
      // The rows are the domain; the scanned axis is an inner variable.
      const size_t axis = static_cast<size_t>(anchor->attrs.get_int("axis"));
      Shape rows = anchor->result()->type.shape();
      const int64_t extent = rows[axis];
      rows[axis] = 1;
      Indices at = fresh_domain(placement, rows);
      at[axis] = Index(make_var("inner", extent));
      put(anchor->result(), std::move(at));
      break;
    }
    case UnitKind::scatter:
    case UnitKind::sort: return placement;
  }
  if (kind == UnitKind::chain) {
    for (const Node* node : nodes) place_beside(placement, *anchor, *node);
  }
  Spreader(placement, nodes, kind == UnitKind::stream ? anchor : nullptr).run();
  return placement;
}

}  // namespace tcc::group
