// Says of which products rows and columns lie the other way round in memory.
//
//   %k: bf16[48, 64, 1024] = dot_general(%q, %s)    unit 0 contract -> (%k)             layout %k [0, 2, 1]
//   %t = transpose(%k)                              unit 1 map {%t, ...} (%k, %v)
//
// A product computes its result in any order as fast as in another. Gradients of what was transposed before it was multiplied are transposed again by whoever reads
// them, who would then read one element of each row. So where all readers have the neighbours of the last but one axis as neighbours, that one is the last in memory.
// The readers are maps and rows: a product takes its factors as they are. What the epilogue reads beside is in the order of the result, so such products keep it.
#include <algorithm>
#include <unordered_set>

#include "group/memory.h"
#include "tcc/group/group.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/fields.h"
#include "tcc/loop/rewrite.h"

namespace tcc::group {

namespace {

/// Below that a transposed read costs nothing.
constexpr int64_t kFewestNeighbours = 16;

class ResultTurner {
 public:
  ResultTurner(Groups& groups, const ChannelsLast& pays) : groups_(groups), pays_(pays), storage_(groups) {}

  bool run() {
    for (const Unit& unit : groups_.units) {
      for (const Value* result : unit.outputs) {
        if (is_turnable(unit, result)) results_.insert(result);
      }
    }
    for (const Layout& layout : groups_.layouts) results_.erase(layout.value);
    for (const Alias& alias : groups_.aliases) {
      if (order_of_alias(alias, turned_order(alias.base->type.dims.size())).empty()) results_.erase(storage_.of(alias.base));
    }
    for (const Value* result : groups_.graph->body.results) results_.erase(storage_.of(result));
    for (const StateUpdate& update : groups_.graph->state_updates) results_.erase(storage_.of(update.value));
    for (const Unit& unit : groups_.units) look_at_reads(unit);
    const size_t before = groups_.layouts.size();
    for (const Unit& unit : groups_.units) {
      for (Value* output : unit.outputs) {
        if (results_.contains(output) && wanted_.contains(output))
          groups_.layouts.push_back({output, turned_order(output->type.dims.size())});
      }
    }
    spread_layouts(groups_);
    return groups_.layouts.size() > before;
  }

 private:
  /// Whether it is the one result of a product, or one of a chain's, that is computed in any order.
  bool is_turnable(const Unit& unit, const Value* result) const {
    const bool chains = unit.kind == UnitKind::chain;
    if ((!chains && unit.kind != UnitKind::contract) || unit.anchor->op != Op::dot_general_ || (!chains && unit.outputs.size() != 1))
      return false;
    const Shape shape = result->type.shape();
    if (result->type.rank() < 2 || result->type.count() != unit.anchor->result()->type.count()) return false;
    if (!pays_(result->type.dtype) || std::min(shape[shape.size() - 2], shape.back()) < kFewestNeighbours) return false;
    const std::unordered_set<const Value*> factors = factor_inputs(unit);
    const auto is_beside = [&](const Value* input) { return !factors.contains(input) && input->type.count() == result->type.count(); };
    return std::ranges::none_of(unit.inputs, is_beside);
  }

  void look_at_reads(const Unit& unit) {
    const auto is_ours = [&](const Value* input) { return results_.contains(storage_.of(input)); };
    if (std::ranges::none_of(unit.inputs, is_ours)) return;
    const bool has_transpose = std::ranges::any_of(unit.nodes, [](const Node* node) { return node->op == Op::transpose_; });
    if ((unit.kind != UnitKind::map && unit.kind != UnitKind::rows) || !has_transpose) {
      for (const Value* input : unit.inputs) results_.erase(storage_.of(input));
      return;
    }
    const loop::Unit lowered = lower(*groups_.graph, unit);
    for (size_t i = 0; i < unit.inputs.size(); ++i) {
      if (!is_ours(unit.inputs[i])) continue;
      if (reads_turned(lowered, *lowered.params[i].buffer)) wanted_.insert(storage_.of(unit.inputs[i]));
      else results_.erase(storage_.of(unit.inputs[i]));
    }
  }

  /// Whether in all loads of the buffer the innermost loop moves along the last axis but one.
  static bool reads_turned(const loop::Unit& unit, const loop::Buffer& buffer) {
    bool turned = true;
    std::vector<loop::VarRef> around;
    visit(unit.body, around, [&](const loop::Expr& load) {
      if (load.buffer.get() == &buffer) turned = turned && moves_along(load.indices, around) + 2 == static_cast<int>(load.indices.size());
    });
    return turned;
  }

  template <class F> static void visit(const loop::Block& block, std::vector<loop::VarRef>& around, const F& f) {
    for (const loop::Stmt& stmt : block) {
      const size_t outside = around.size();
      if (const std::vector<loop::Dim>* dims = loop::dims_of(stmt)) {
        for (const loop::Dim& dim : *dims) around.push_back(dim.var);
      }
      loop::each_expr(stmt, [&](const loop::ExprPtr& expr) {
        loop::visit(expr, [&](const loop::Expr& part) {
          if (part.kind == loop::Expr::Kind::load) f(part);
        });
      });
      for (const loop::Block* inner : loop::blocks_of(stmt)) visit(*inner, around, f);
      around.resize(outside);
    }
  }

  /// The axis along which the innermost loop that the indices follow goes from one element to the next; -1.
  static int moves_along(const std::vector<loop::Index>& indices, const std::vector<loop::VarRef>& around) {
    for (auto var = around.rbegin(); var != around.rend(); ++var) {
      const auto at = [&](const loop::Index& index, int64_t step) {
        return loop::substitute(
            index, [&](const loop::VarRef& other) -> std::optional<loop::Index> { return loop::Index(other == *var ? step : 0); });
      };
      int found = -1;
      bool follows = false;
      for (size_t axis = 0; axis < indices.size(); ++axis) {
        follows = follows || indices[axis].uses(var->get());
        const loop::Index step = at(indices[axis], 1) - at(indices[axis], 0);
        if (step == loop::Index(0)) continue;
        if (found >= 0 || !(step == loop::Index(1))) return -1;
        found = static_cast<int>(axis);
      }
      if (follows) return found;
    }
    return -1;
  }

  Groups& groups_;
  const ChannelsLast& pays_;
  const Storage storage_;
  std::unordered_set<const Value*> results_, wanted_;  ///< that can be turned, and that a reader wants so
};

}  // namespace

bool turn_results(Groups& groups, const ChannelsLast& pays) { return ResultTurner(groups, pays).run(); }

}  // namespace tcc::group
