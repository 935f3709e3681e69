// Makes the lets that pulling left behind readable, and equal for equal units.
//
//   %t3: f32 = load %a0[%i]            %v0: f32 = load %a0[%i]
//   %t7: f32 = mul(%t3, %t3)      ->   store exp(mul(%v0, %v0)), %r0[%i]
//   %t9: f32 = exp(%t7)
//   store %t9, %r0[%i]
//
// A let that nothing reads goes; one that is read once, in its own block, by an expression (not by an index) moves there, unless it is a load (loads keep a
// name, schedules speak of them) or the expression grows beyond what one can read. The scalars are then numbered in order.

#include <functional>
#include <unordered_map>

#include "group/inliner.h"
#include "tcc/loop/fields.h"
#include "tcc/loop/rewrite.h"

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

/// Counts the uses of scalars by what is not dead. Everything is visited backwards, so that a dead let does not count as a user.
class Counter {
 public:
  std::unordered_map<const Scalar*, Use> uses;

  void block(const Block& statements) {
    for (size_t i = statements.size(); i-- > 0;) stmt(statements[i], statements);
  }

 private:
  /// The fields of a statement, which come forwards, as steps to be taken.
  struct Steps : loop::NoFields {
    Counter& counter;
    const Block& in;
    std::vector<std::function<void()>> steps;
    Steps(Counter& counter, const Block& in) : counter(counter), in(in) {}

    void condition(const ExprPtr& condition) { expr(condition); }
    void expr(const ExprPtr& value) {
      steps.emplace_back([this, &value] { counter.expr(value, in); });
    }
    void yields(const ExprPtr& value, const Block& body) {
      steps.emplace_back([this, &value, &body] { counter.expr(value, body); });
    }
    void place(loop::Effect, const loop::BufferRef&, const std::vector<Index>& indices) {
      steps.emplace_back([this, &indices] {
        for (const Index& index : indices) counter.index(index, in);
      });
    }
    void block(const Block& inner) {
      steps.emplace_back([this, &inner] { counter.block(inner); });
    }
    void combine(const std::shared_ptr<const loop::Combine>& custom) {
      if (!custom) return;
      steps.emplace_back([this, &custom] {
        for (const ExprPtr& result : custom->results) counter.expr(result, custom->body);
        counter.block(custom->body);
      });
    }
  };

  void stmt(const Stmt& statement, const Block& in) {
    if (const auto* let = loop::as<loop::Let>(statement); let && uses[let->scalar.get()].count == 0) return;
    Steps steps(*this, in);
    fields_of(statement, steps);
    for (size_t i = steps.steps.size(); i-- > 0;) steps.steps[i]();
  }
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
};

class Tidier {
 public:
  explicit Tidier(std::unordered_map<const Scalar*, Use> uses) : uses_(std::move(uses)) {}

  /// In place.
  void block(Block& statements) { block(statements, statements); }

  // The fields of statements. Results are numbered before what is inside: they are seen first by who reads the text.
  void defines(ScalarRef& scalar) { scalar = rename(scalar); }
  void defines(loop::BufferRef&) {}
  void defines(loop::PipeRef&) {}
  void dims(std::vector<loop::Dim>&) {}
  void box(std::vector<loop::VarRef>&) {}
  void condition(ExprPtr& condition) { condition = replaced(condition); }
  void expr(ExprPtr& value) { value = replaced(value); }
  void yields(ExprPtr& value, Block&) { value = replaced(value); }
  void place(loop::Effect, loop::BufferRef&, std::vector<Index>& at) { at = indices(at); }
  void buffer(loop::Effect, loop::BufferRef&) {}
  void pipe(loop::PipeRef&) {}
  void combine(std::shared_ptr<const loop::Combine>& custom) {
    if (!custom) return;
    auto copy = std::make_shared<loop::Combine>(*custom);
    for (ScalarRef& scalar : copy->left) scalar = rename(scalar);
    for (ScalarRef& scalar : copy->right) scalar = rename(scalar);
    block(copy->body, custom->body);
    for (ExprPtr& result : copy->results) result = replaced(result);
    custom = std::move(copy);
  }
  void together(const loop::Together&) {}

 private:
  /// `counted`: the block that the uses name.
  void block(Block& statements, const Block& counted) {
    Block result;
    for (Stmt& statement : statements) {
      if (auto* let = loop::as<loop::Let>(statement)) {
        if (!stays(*let, counted)) continue;
      } else {
        fields_of(statement, *this);
      }
      result.push_back(std::move(statement));
    }
    statements = std::move(result);
  }

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
  ExprPtr replaced(const ExprPtr& expression, int* ops) {
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
        copy->otherwise = replaced(expression->otherwise, ops);
        return copy;
      }
      case Expr::Kind::op: {
        auto copy = std::make_shared<Expr>(*expression);
        ++*ops;
        for (ExprPtr& arg : copy->args) arg = replaced(arg, ops);
        return copy;
      }
    }
    return nullptr;
  }
  ExprPtr replaced(const ExprPtr& expression) {
    int ops = 0;
    return replaced(expression, &ops);
  }

  /// Whether the let stays a statement; else it is dead, or its value moves to its use.
  bool stays(loop::Let& let, const Block& in) {
    const Use& use = uses_[let.scalar.get()];
    if (use.count == 0) return false;
    int ops = 0;
    const ExprPtr value = replaced(let.value, &ops);
    const bool moves = use.count == 1 && !use.in_index && use.block == &in && value->kind != Expr::Kind::load && ops < kMaxExpressionOps;
    if (moves) {
      replacements_[let.scalar.get()] = {value, ops};
      return false;
    }
    let = {rename(let.scalar), value};
    return true;
  }

  std::unordered_map<const Scalar*, Use> uses_;
  std::unordered_map<const Scalar*, Replacement> replacements_;
  int next_ = 0;
};

}  // namespace

void tidy(Block& block) {
  Counter counter;
  counter.block(block);
  Tidier(std::move(counter.uses)).block(block);
}

}  // namespace tcc::group
