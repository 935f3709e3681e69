// Copies with other names in them. One Copier serves both entry points: `substitute` replaces uses (and definitions of buffers), `clone_fresh` gives
// everything that the block defines a new identity.
#include <map>
#include <utility>

#include "tcc/loop/loop.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {
namespace {

/// The index that stands for a scalar's replacement where the scalar is used in index arithmetic.
Index index_of(const ExprPtr& expr, const ScalarRef& scalar) {
  if (expr->kind == Expr::Kind::scalar) return Index::of_scalar(expr->scalar);
  if (expr->kind == Expr::Kind::index) return expr->index;
  if (expr->kind == Expr::Kind::constant && !is_float(expr->dtype)) return Index(expr->int_value);
  internal_error("%" + scalar->name + " is used in an index, so only a scalar or an index can replace it");
}

class Copier {
 public:
  explicit Copier(const Substitution& given) : given_(given) {}
  explicit Copier(const std::function<std::string(const std::string&)>& rename) : rename_(&rename) {}

  Block block(const Block& from) {
    Block result;
    result.reserve(from.size());
    for (const Stmt& s : from) result.push_back(stmt(s));
    return result;
  }

  ExprPtr expr(const ExprPtr& from) {
    if (!from) return nullptr;
    switch (from->kind) {
      case Expr::Kind::constant: return from;
      case Expr::Kind::index: return index_value(index(from->index));
      case Expr::Kind::scalar: {
        const ExprPtr replacement = scalar(from->scalar);
        return replacement ? replacement : from;
      }
      case Expr::Kind::load: return load(buffer(from->buffer), indices(from->indices), expr(from->otherwise));
      case Expr::Kind::op: {
        std::vector<ExprPtr> args;
        for (const ExprPtr& arg : from->args) args.push_back(expr(arg));
        if (args == from->args) return from;
        if (from->op == Op::cast_) return cast_to(args[0], from->dtype);
        if (from->op == Op::bitcast_) return bitcast_to(args[0], from->dtype);
        return apply(from->op, std::move(args));
      }
    }
    internal_error("no such expression");
  }

 private:
  Index index(const Index& from) {
    Index result = loop::substitute(from, [&](const VarRef& v) -> std::optional<Index> {
      if (rename_) {
        const auto at = vars_.find(v.get());
        return at == vars_.end() ? std::nullopt : std::optional<Index>(at->second);
      }
      return given_.var ? given_.var(v) : std::nullopt;
    });
    if (!result.uses_scalars()) return result;
    return substitute_scalars(result, [&](const ScalarRef& s) -> std::optional<Index> {
      const ExprPtr replacement = scalar(s);
      return replacement ? std::optional<Index>(index_of(replacement, s)) : std::nullopt;
    });
  }
  std::vector<Index> indices(const std::vector<Index>& from) {
    std::vector<Index> result;
    for (const Index& i : from) result.push_back(index(i));
    return result;
  }
  ExprPtr scalar(const ScalarRef& s) {
    if (rename_) {
      const auto at = scalars_.find(s.get());
      return at == scalars_.end() ? nullptr : scalar_value(at->second);
    }
    return given_.scalar ? given_.scalar(s) : nullptr;
  }
  BufferRef buffer(const BufferRef& b) {
    if (!b) return nullptr;
    if (const auto at = buffers_.find(b.get()); at != buffers_.end()) return at->second;
    const BufferRef replacement = given_.buffer ? given_.buffer(b) : nullptr;
    return replacement ? replacement : b;
  }

  // Definitions: the same object unless names are made fresh.
  Dim dim(const Dim& from) {
    if (!rename_) return from;
    const VarRef fresh = make_var((*rename_)(from.var->name), from.var->extent);
    vars_[from.var.get()] = fresh;
    return {fresh, from.bind};
  }
  std::vector<Dim> dims(const std::vector<Dim>& from) {
    std::vector<Dim> result;
    for (const Dim& d : from) result.push_back(dim(d));
    return result;
  }
  ScalarRef define(const ScalarRef& from) {
    if (!rename_) return from;
    const ScalarRef fresh = make_scalar((*rename_)(from->name), from->dtype);
    scalars_[from.get()] = fresh;
    return fresh;
  }
  BufferRef define(const BufferRef& from) {
    if (!rename_) return buffer(from);
    Buffer prototype = *from;
    prototype.name = (*rename_)(from->name);
    const BufferRef fresh = make_buffer(std::move(prototype));
    buffers_[from.get()] = fresh;
    return fresh;
  }
  PipeRef pipe(const PipeRef& from) {
    if (const auto at = pipes_.find(from.get()); at != pipes_.end()) return at->second;
    return from;
  }
  PipeRef define(const PipeRef& from) {
    std::vector<BufferRef> stages;
    for (const BufferRef& b : from->buffers) stages.push_back(define(b));
    if (!rename_ && stages == from->buffers) return from;
    const PipeRef fresh = make_pipe(rename_ ? (*rename_)(from->name) : from->name, from->stages, std::move(stages));
    pipes_[from.get()] = fresh;
    return fresh;
  }

  /// The states' values are seen from within the body, their results after it.
  std::vector<State> states(const std::vector<State>& from) {
    std::vector<State> result;
    for (const State& state : from) result.push_back({state.result, state.combiner, expr(state.init), expr(state.value)});
    for (State& state : result) state.result = define(state.result);
    return result;
  }
  std::shared_ptr<const Combine> combine(const std::shared_ptr<const Combine>& from) {
    if (!from) return nullptr;
    auto result = std::make_shared<Combine>();
    for (const ScalarRef& s : from->left) result->left.push_back(define(s));
    for (const ScalarRef& s : from->right) result->right.push_back(define(s));
    result->body = block(from->body);
    for (const ExprPtr& e : from->results) result->results.push_back(expr(e));
    return result;
  }

  Stmt stmt(const Stmt& from) {
    return std::visit([&](const auto& node) { return Stmt{copy(node)}; }, from.node);
  }
  Loop copy(const Loop& from) {
    Loop result{from.kind, dims(from.dims), nullptr, buffer(from.tile), {}};
    result.where = expr(from.where);
    result.body = block(from.body);
    return result;
  }
  Reduce copy(const Reduce& from) {
    Reduce result;
    result.dims = dims(from.dims);
    result.where = expr(from.where);
    result.body = block(from.body);
    result.states = states(from.states);
    result.combine = combine(from.combine);
    return result;
  }
  Scan copy(const Scan& from) {
    Scan result;
    result.dims = dims(from.dims);
    result.body = block(from.body);
    result.states = states(from.states);
    result.combine = combine(from.combine);
    result.exclusive = from.exclusive;
    result.after = block(from.after);
    return result;
  }
  Let copy(const Let& from) {
    ExprPtr value = expr(from.value);
    return {define(from.scalar), std::move(value)};
  }
  Store copy(const Store& from) { return {buffer(from.buffer), indices(from.indices), expr(from.value)}; }
  Scatter copy(const Scatter& from) { return {buffer(from.buffer), indices(from.indices), from.combiner, expr(from.value)}; }
  If copy(const If& from) {
    If result{expr(from.condition), {}, {}};
    result.then = block(from.then);
    result.otherwise = block(from.otherwise);
    return result;
  }
  Alloc copy(const Alloc& from) { return {define(from.buffer)}; }
  Barrier copy(const Barrier& from) { return from; }
  Copy copy(const Copy& from) {
    Copy result = from;
    result.source = buffer(from.source);
    result.destination = buffer(from.destination);
    result.from = indices(from.from);
    result.to = indices(from.to);
    return result;
  }
  PipeDecl copy(const PipeDecl& from) { return {define(from.pipe)}; }
  PipeOp copy(const PipeOp& from) { return {from.kind, pipe(from.pipe)}; }
  Mma copy(const Mma& from) {
    Mma result = from;
    result.accumulator = buffer(from.accumulator);
    result.a = buffer(from.a);
    result.b = buffer(from.b);
    result.a_from = indices(from.a_from);
    result.b_from = indices(from.b_from);
    return result;
  }

  Substitution given_;
  const std::function<std::string(const std::string&)>* rename_ = nullptr;
  std::map<const Var*, VarRef> vars_;
  std::map<const Scalar*, ScalarRef> scalars_;
  std::map<const Buffer*, BufferRef> buffers_;
  std::map<const Pipe*, PipeRef> pipes_;
};

}  // namespace

ExprPtr substitute(const ExprPtr& expr, const Substitution& substitution) { return Copier(substitution).expr(expr); }
Block substitute(const Block& block, const Substitution& substitution) { return Copier(substitution).block(block); }
Block clone_fresh(const Block& block, const std::function<std::string(const std::string&)>& rename) { return Copier(rename).block(block); }

}  // namespace tcc::loop
