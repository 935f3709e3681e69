// Makes the lets that pulling left behind readable, and equal for equal units.
//
//   %t3: f32 = load %a0[%i]            %v0: f32 = load %a0[%i]
//   %t7: f32 = mul(%t3, %t3)      ->   store exp(mul(%v0, %v0)), %r0[%i]
//   %t9: f32 = exp(%t7)
//   store %t9, %r0[%i]
//
// A let that nothing reads goes; one that is read once, in its own block, by an expression (not by an index) moves there, unless it is a load (loads keep a
// name, schedules speak of them) or the expression grows beyond what one can read. The scalars are then numbered in order.

#include <unordered_map>

#include "group/pull.h"
#include "tcc/support/diagnostics.h"

namespace tcc::group {
namespace {

using loop::Block;
using loop::Expr;
using loop::ExprPtr;
using loop::Index;
using loop::Scalar;
using loop::ScalarRef;
using loop::Stmt;

constexpr int kMaxExpressionOps = 12;

struct Use {
  int count = 0;
  bool in_index = false;
  const Block* block = nullptr;  ///< of the last use seen
};

/// Counts the uses of scalars by what is not dead. Blocks are visited backwards, so that a dead let does not count as a user.
class Counter {
 public:
  std::unordered_map<const Scalar*, Use> uses;

  void block(const Block& statements) {
    for (size_t i = statements.size(); i-- > 0;) std::visit([&](const auto& node) { visit(node, statements); }, statements[i].node);
  }

 private:
  void use(const ScalarRef& scalar, const Block& in, bool index) {
    Use& use = uses[scalar.get()];
    ++use.count;
    use.in_index |= index;
    use.block = &in;
  }
  void index(const Index& index, const Block& in) {
    if (!index.uses_scalars()) return;
    substitute_scalars(index, [&](const ScalarRef& scalar) {
      use(scalar, in, true);
      return std::optional<Index>();
    });
  }
  void expr(const ExprPtr& expression, const Block& in) {
    if (!expression) return;
    switch (expression->kind) {
      case Expr::Kind::constant: return;
      case Expr::Kind::index: return index(expression->index, in);
      case Expr::Kind::scalar: return use(expression->scalar, in, false);
      case Expr::Kind::load:
        for (const Index& i : expression->indices) index(i, in);
        return expr(expression->otherwise, in);
      case Expr::Kind::op:
        for (const ExprPtr& arg : expression->args) expr(arg, in);
    }
  }
  void states(const std::vector<loop::State>& states, const Block& body, const Block& in) {
    for (const loop::State& state : states) {
      expr(state.init, in);
      expr(state.value, body);
    }
  }
  void combine(const std::shared_ptr<const loop::Combine>& combine) {
    if (!combine) return;
    for (const ExprPtr& result : combine->results) expr(result, combine->body);
    block(combine->body);
  }

  void visit(const loop::Loop& loop, const Block& in) {
    block(loop.body);
    expr(loop.where, in);
  }
  void visit(const loop::Reduce& reduce, const Block& in) {
    states(reduce.states, reduce.body, in);
    combine(reduce.combine);
    block(reduce.body);
    expr(reduce.where, in);
  }
  void visit(const loop::Scan& scan, const Block& in) {
    block(scan.after);
    states(scan.states, scan.body, in);
    combine(scan.combine);
    block(scan.body);
  }
  void visit(const loop::Let& let, const Block& in) {
    if (uses[let.scalar.get()].count > 0) expr(let.value, in);
  }
  void visit(const loop::Store& store, const Block& in) {
    for (const Index& i : store.indices) index(i, in);
    expr(store.value, in);
  }
  void visit(const loop::Scatter& scatter, const Block& in) {
    for (const Index& i : scatter.indices) index(i, in);
    expr(scatter.value, in);
  }
  void visit(const loop::If& branch, const Block& in) {
    block(branch.then);
    block(branch.otherwise);
    expr(branch.condition, in);
  }
  template <class Other> void visit(const Other&, const Block&) { internal_error("a statement that lowering does not make"); }
};

class Tidier {
 public:
  explicit Tidier(std::unordered_map<const Scalar*, Use> uses) : uses_(std::move(uses)) {}

  Block block(const Block& statements) {
    Block result;
    for (const Stmt& statement : statements) {
      std::visit([&](const auto& node) { visit(node, statements, result); }, statement.node);
    }
    return result;
  }

 private:
  struct Replacement {
    ExprPtr expr;
    int ops = 0;  ///< of an expression that moves to its use
  };

  ScalarRef rename(const ScalarRef& scalar) {
    const ScalarRef fresh = loop::make_scalar("v" + std::to_string(next_++), scalar->dtype);
    replacements_[scalar.get()] = {scalar_value(fresh), 0};
    return fresh;
  }
  Index index(const Index& index) {
    if (!index.uses_scalars()) return index;
    return substitute_scalars(
        index, [&](const ScalarRef& scalar) { return std::optional(Index::of_scalar(replacements_.at(scalar.get()).expr->scalar)); });
  }
  std::vector<Index> indices(const std::vector<Index>& list) {
    std::vector<Index> result;
    for (const Index& i : list) result.push_back(index(i));
    return result;
  }
  /// `ops` grows by the operations of the result.
  ExprPtr expr(const ExprPtr& expression, int* ops) {
    if (!expression) return nullptr;
    switch (expression->kind) {
      case Expr::Kind::constant: return expression;
      case Expr::Kind::scalar: {
        const Replacement& to = replacements_.at(expression->scalar.get());
        *ops += to.ops;
        return to.expr;
      }
      case Expr::Kind::index: {
        if (!expression->index.uses_scalars()) return expression;
        auto copy = std::make_shared<Expr>(*expression);
        copy->index = index(expression->index);
        return copy;
      }
      case Expr::Kind::load: {
        auto copy = std::make_shared<Expr>(*expression);
        copy->indices = indices(expression->indices);
        copy->otherwise = expr(expression->otherwise, ops);
        return copy;
      }
      case Expr::Kind::op: {
        auto copy = std::make_shared<Expr>(*expression);
        ++*ops;
        for (ExprPtr& arg : copy->args) arg = expr(arg, ops);
        return copy;
      }
    }
    return nullptr;
  }
  ExprPtr expr(const ExprPtr& expression) {
    int ops = 0;
    return expr(expression, &ops);
  }

  void visit(const loop::Let& let, const Block& in, Block& out) {
    const Use& use = uses_[let.scalar.get()];
    if (use.count == 0) return;
    int ops = 0;
    const ExprPtr value = expr(let.value, &ops);
    const bool moves = use.count == 1 && !use.in_index && use.block == &in && value->kind != Expr::Kind::load && ops < kMaxExpressionOps;
    if (moves) {
      replacements_[let.scalar.get()] = {value, ops};
    } else {
      out.push_back({loop::Let{rename(let.scalar), value}});
    }
  }
  void visit(const loop::Loop& loop, const Block&, Block& out) {
    loop::Loop copy = loop;
    copy.where = expr(loop.where);
    copy.body = block(loop.body);
    out.push_back({std::move(copy)});
  }
  std::shared_ptr<const loop::Combine> combine(const std::shared_ptr<const loop::Combine>& from) {
    if (!from) return nullptr;
    auto copy = std::make_shared<loop::Combine>(*from);
    for (ScalarRef& scalar : copy->left) scalar = rename(scalar);
    for (ScalarRef& scalar : copy->right) scalar = rename(scalar);
    copy->body = block(from->body);
    for (ExprPtr& result : copy->results) result = expr(result);
    return copy;
  }
  void visit(const loop::Reduce& reduce, const Block&, Block& out) {
    loop::Reduce copy = reduce;
    copy.where = expr(reduce.where);
    std::vector<ScalarRef> results;  // numbered before what is inside: they are seen first by who reads the text
    for (loop::State& state : copy.states) {
      state.init = expr(state.init);
      results.push_back(rename(state.result));
    }
    copy.body = block(reduce.body);
    for (size_t i = 0; i < copy.states.size(); ++i) {
      copy.states[i].result = results[i];
      copy.states[i].value = expr(reduce.states[i].value);
    }
    copy.combine = combine(reduce.combine);
    out.push_back({std::move(copy)});
  }
  void visit(const loop::Scan& scan, const Block&, Block& out) {
    loop::Scan copy = scan;
    std::vector<ScalarRef> results;
    for (loop::State& state : copy.states) {
      state.init = expr(state.init);
      results.push_back(rename(state.result));
    }
    copy.body = block(scan.body);
    for (size_t i = 0; i < copy.states.size(); ++i) {
      copy.states[i].result = results[i];
      copy.states[i].value = expr(scan.states[i].value);
    }
    copy.combine = combine(scan.combine);
    copy.after = block(scan.after);
    out.push_back({std::move(copy)});
  }
  void visit(const loop::Store& store, const Block&, Block& out) {
    out.push_back({loop::Store{store.buffer, indices(store.indices), expr(store.value)}});
  }
  void visit(const loop::Scatter& scatter, const Block&, Block& out) {
    out.push_back({loop::Scatter{scatter.buffer, indices(scatter.indices), scatter.combiner, expr(scatter.value)}});
  }
  void visit(const loop::If& branch, const Block&, Block& out) {
    const ExprPtr condition = expr(branch.condition);
    loop::Block then = block(branch.then);
    out.push_back({loop::If{condition, std::move(then), block(branch.otherwise)}});
  }
  template <class Other> void visit(const Other&, const Block&, Block&) { internal_error("a statement that lowering does not make"); }

  std::unordered_map<const Scalar*, Use> uses_;
  std::unordered_map<const Scalar*, Replacement> replacements_;
  int next_ = 0;
};

}  // namespace

void tidy(Block& block) {
  Counter counter;
  counter.block(block);
  block = Tidier(std::move(counter.uses)).block(block);
}

}  // namespace tcc::group
