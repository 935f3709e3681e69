// Copies with other names in them. One Copier serves both entry points: `substitute` replaces uses (and definitions of buffers), `clone_fresh` gives
// everything that the block defines a new identity.
#include <map>
#include <utility>

#include "tcc/loop/fields.h"
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

  /// In place: the statements are copies already.
  void block(Block& block) {
    for (Stmt& stmt : block) fields_of(stmt, *this);
  }

  ExprPtr replaced(const ExprPtr& from) {
    if (!from) return nullptr;
    switch (from->kind) {
      case Expr::Kind::constant: return from;
      case Expr::Kind::index: return index_value(replaced(from->index));
      case Expr::Kind::scalar: {
        const ExprPtr replacement = scalar(from->scalar);
        return replacement ? replacement : from;
      }
      case Expr::Kind::load: return load(replaced(from->buffer), replaced(from->indices), replaced(from->otherwise));
      case Expr::Kind::op: {
        std::vector<ExprPtr> args;
        for (const ExprPtr& arg : from->args) args.push_back(replaced(arg));
        return args == from->args ? from : with_args(*from, std::move(args));
      }
    }
    internal_error("no such expression");
  }

  // The fields of statements. Definitions stay the same objects unless names are made fresh.
  void defines(ScalarRef& scalar) {
    if (!rename_) return;
    const ScalarRef fresh = make_scalar((*rename_)(scalar->name), scalar->dtype);
    scalars_[scalar.get()] = fresh;
    scalar = fresh;
  }
  void defines(VarRef& var) {
    if (!rename_) return;
    const VarRef fresh = make_var((*rename_)(var->name), var->extent);
    vars_[var.get()] = fresh;
    var = fresh;
  }
  void defines(BufferRef& buffer) {
    if (!rename_) {
      buffer = replaced(buffer);
      return;
    }
    Buffer prototype = *buffer;
    prototype.name = (*rename_)(buffer->name);
    const BufferRef fresh = make_buffer(std::move(prototype));
    buffers_[buffer.get()] = fresh;
    buffer = fresh;
  }
  void defines(PipeRef& pipe) {
    std::vector<BufferRef> stages = pipe->buffers;
    for (BufferRef& stage : stages) defines(stage);
    if (!rename_ && stages == pipe->buffers) return;
    const PipeRef fresh = make_pipe(rename_ ? (*rename_)(pipe->name) : pipe->name, pipe->kind, pipe->stages, std::move(stages));
    pipes_[pipe.get()] = fresh;
    pipe = fresh;
  }
  void dims(std::vector<Dim>& dims) {
    for (Dim& dim : dims) defines(dim.var);
  }
  void box(std::vector<VarRef>& vars) {
    for (VarRef& var : vars) defines(var);
  }
  void condition(ExprPtr& condition) { condition = replaced(condition); }
  void expr(ExprPtr& expr) { expr = replaced(expr); }
  void yields(ExprPtr& value, Block&) { value = replaced(value); }
  void place(Effect, BufferRef& buffer, std::vector<Index>& indices) {
    buffer = replaced(buffer);
    indices = replaced(indices);
  }
  void buffer(Effect, BufferRef& buffer) { buffer = replaced(buffer); }
  void pipe(PipeRef& pipe) {
    if (const auto at = pipes_.find(pipe.get()); at != pipes_.end()) pipe = at->second;
  }
  void combine(std::shared_ptr<const Combine>& combine) {
    if (!combine) return;
    auto copy = std::make_shared<Combine>(*combine);
    for (ScalarRef& scalar : copy->left) defines(scalar);
    for (ScalarRef& scalar : copy->right) defines(scalar);
    block(copy->body);
    for (ExprPtr& result : copy->results) expr(result);
    combine = std::move(copy);
  }
  void together(const Together&) {}

 private:
  Index replaced(const Index& from) {
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
  std::vector<Index> replaced(const std::vector<Index>& from) {
    std::vector<Index> result;
    for (const Index& i : from) result.push_back(replaced(i));
    return result;
  }
  ExprPtr scalar(const ScalarRef& s) {
    if (rename_) {
      const auto at = scalars_.find(s.get());
      return at == scalars_.end() ? nullptr : scalar_value(at->second);
    }
    return given_.scalar ? given_.scalar(s) : nullptr;
  }
  BufferRef replaced(const BufferRef& b) {
    if (!b) return nullptr;
    if (const auto at = buffers_.find(b.get()); at != buffers_.end()) return at->second;
    const BufferRef replacement = given_.buffer ? given_.buffer(b) : nullptr;
    return replacement ? replacement : b;
  }

  Substitution given_;
  const std::function<std::string(const std::string&)>* rename_ = nullptr;
  std::map<const Var*, VarRef> vars_;
  std::map<const Scalar*, ScalarRef> scalars_;
  std::map<const Buffer*, BufferRef> buffers_;
  std::map<const Pipe*, PipeRef> pipes_;
};

Block copied(const Block& from, Copier copier) {
  Block result = from;
  copier.block(result);
  return result;
}

}  // namespace

ExprPtr substitute(const ExprPtr& expr, const Substitution& substitution) { return Copier(substitution).replaced(expr); }
Block substitute(const Block& block, const Substitution& substitution) { return copied(block, Copier(substitution)); }
Block clone_fresh(const Block& block, const std::function<std::string(const std::string&)>& rename) {
  return copied(block, Copier(rename));
}

}  // namespace tcc::loop
