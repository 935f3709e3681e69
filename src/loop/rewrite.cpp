// What passes are written with: names, places, uses, combiners.
#include "tcc/loop/rewrite.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "loop/visit.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {
namespace {

void reserve_names(const Block& block, NameTable& names) {
  walk(block, [&](const Stmt& stmt) {
    if (const auto* dims = dims_of(stmt)) {
      for (const Dim& dim : *dims) names.reserve(dim.var->name);
    }
    for (const ScalarRef& scalar : defined_by(stmt)) names.reserve(scalar->name);
    if (const Combine* combine = combine_of(stmt)) {
      for (const ScalarRef& scalar : combine->left) names.reserve(scalar->name);
      for (const ScalarRef& scalar : combine->right) names.reserve(scalar->name);
    }
    if (const auto* alloc = as<Alloc>(stmt)) names.reserve(alloc->buffer->name);
    if (const auto* decl = as<PipeDecl>(stmt)) {
      names.reserve(decl->pipe->name);
      for (const BufferRef& buffer : decl->pipe->buffers) names.reserve(buffer->name);
    }
  });
}

template <class F> bool find_where(Block& block, Place& place, F matches) {
  for (size_t i = 0; i < block.size(); ++i) {
    place.path.push_back({&block, i});
    if (matches(block[i])) {
      place.block = &block;
      place.index = i;
      return true;
    }
    for (Block* inner : blocks_of(block[i])) {
      if (find_where(*inner, place, matches)) return true;
    }
    place.path.pop_back();
  }
  return false;
}

void add_index(const Index& index, Uses& uses) {
  for (const Term& term : index.terms()) {
    if (term.atom.var) uses.vars.insert(term.atom.var.get());
    if (term.atom.scalar) uses.scalars.insert(term.atom.scalar.get());
    if (term.atom.operand) add_index(*term.atom.operand, uses);
  }
}
void add_indices(const std::vector<Index>& indices, Uses& uses) {
  for (const Index& index : indices) add_index(index, uses);
}

void add_expr(const ExprPtr& expr, Uses& uses) {
  if (!expr) return;
  if (expr->kind == Expr::Kind::index) add_index(expr->index, uses);
  if (expr->kind == Expr::Kind::scalar) uses.scalars.insert(expr->scalar.get());
  if (expr->kind == Expr::Kind::load) {
    uses.reads.insert(expr->buffer.get());
    add_indices(expr->indices, uses);
    add_expr(expr->otherwise, uses);
  }
  for (const ExprPtr& arg : expr->args) add_expr(arg, uses);
}

void add_stmt(const Stmt& stmt, Uses& uses) {
  each_expr(stmt, [&](const ExprPtr& expr) { add_expr(expr, uses); });
  if (const auto* dims = dims_of(stmt)) {
    for (const Dim& dim : *dims) uses.loops.insert(dim.var.get());
  }
  for (const ScalarRef& scalar : defined_by(stmt)) uses.defines.insert(scalar.get());
  if (const Combine* combine = combine_of(stmt)) {
    for (const ScalarRef& scalar : combine->left) uses.defines.insert(scalar.get());
    for (const ScalarRef& scalar : combine->right) uses.defines.insert(scalar.get());
  }
  if (const auto* store = as<Store>(stmt)) {
    uses.writes.insert(store->buffer.get());
    add_indices(store->indices, uses);
  }
  if (const auto* scatter = as<Scatter>(stmt)) {
    uses.writes.insert(scatter->buffer.get());
    uses.reads.insert(scatter->buffer.get());
    add_indices(scatter->indices, uses);
  }
  if (const auto* copy = as<Copy>(stmt)) {
    uses.reads.insert(copy->source.get());
    uses.writes.insert(copy->destination.get());
    add_indices(copy->from, uses);
    add_indices(copy->to, uses);
  }
  if (const auto* mma = as<Mma>(stmt)) {
    uses.reads.insert({mma->a.get(), mma->b.get(), mma->accumulator.get()});
    uses.writes.insert(mma->accumulator.get());
    add_indices(mma->a_from, uses);
    add_indices(mma->b_from, uses);
  }
  if (const auto* alloc = as<Alloc>(stmt)) uses.writes.insert(alloc->buffer.get());
  if (as<Barrier>(stmt) || as<PipeOp>(stmt) || as<PipeDecl>(stmt)) uses.barrier = true;
}

template <class A, class B> bool meet(const std::set<A>& a, const std::set<B>& b) {
  return std::any_of(a.begin(), a.end(), [&](const A& x) { return b.count(x) != 0; });
}

}  // namespace

NameTable::NameTable(const Block& block) { reserve_names(block, *this); }
NameTable::NameTable(const Unit& unit) {
  for (const Param& param : unit.params) reserve(param.buffer->name);
  reserve_names(unit.body, *this);
}

std::string NameTable::fresh(const std::string& base) {
  const auto at = taken_.find(base);
  if (at == taken_.end()) {
    taken_[base] = 1;
    return base;
  }
  std::string name;
  do {
    name = base + (std::isdigit(static_cast<unsigned char>(base.back())) ? "_" : "") + std::to_string(at->second++);
  } while (taken_.count(name));
  taken_[name] = 1;
  return name;
}

Place find_dim(Block& body, const std::string& variable) {
  Place place;
  find_where(body, place, [&](Stmt& stmt) {
    const auto* dims = dims_of(stmt);
    for (size_t d = 0; dims && d < dims->size(); ++d) {
      if ((*dims)[d].var->name != variable) continue;
      place.dim = static_cast<int>(d);
      return true;
    }
    return false;
  });
  return place;
}

Place find_definition(Block& body, const std::string& scalar) {
  Place place;
  find_where(body, place, [&](Stmt& stmt) {
    const auto defined = defined_by(stmt);
    return std::any_of(defined.begin(), defined.end(), [&](const ScalarRef& s) { return s->name == scalar; });
  });
  return place;
}

Place find_alloc(Block& body, const std::string& buffer) {
  Place place;
  find_where(body, place, [&](Stmt& stmt) { return as<Alloc>(stmt) && as<Alloc>(stmt)->buffer->name == buffer; });
  return place;
}

BufferRef find_buffer(const Unit& unit, const std::string& name) {
  for (const Param& param : unit.params) {
    if (param.buffer->name == name) return param.buffer;
  }
  BufferRef result;
  walk(unit.body, [&](const Stmt& stmt) {
    if (const auto* alloc = as<Alloc>(stmt); alloc && alloc->buffer->name == name) result = alloc->buffer;
    if (const auto* decl = as<PipeDecl>(stmt)) {
      for (const BufferRef& buffer : decl->pipe->buffers) result = buffer->name == name ? buffer : result;
    }
  });
  return result;
}

Uses uses_of(const Block& block) {
  Uses uses;
  walk(block, [&](const Stmt& stmt) { add_stmt(stmt, uses); });
  return uses;
}
Uses uses_of(const Stmt& stmt) { return uses_of(Block{stmt}); }
Uses uses_of(const ExprPtr& expr) {
  Uses uses;
  add_expr(expr, uses);
  return uses;
}

bool depends(const Uses& second, const Uses& first) {
  return meet(second.scalars, first.defines) || meet(second.reads, first.writes) || meet(second.writes, first.writes) ||
         meet(second.writes, first.reads) || second.barrier || first.barrier;
}

ExprPtr rewrite_expr(const ExprPtr& expr, const std::function<ExprPtr(const ExprPtr&)>& f) {
  if (!expr) return nullptr;
  if (expr->kind == Expr::Kind::op) {
    std::vector<ExprPtr> args;
    for (const ExprPtr& arg : expr->args) args.push_back(rewrite_expr(arg, f));
    if (args == expr->args) return f(expr);
    if (expr->op == Op::cast_) return f(cast_to(args[0], expr->dtype));
    if (expr->op == Op::bitcast_) return f(bitcast_to(args[0], expr->dtype));
    return f(apply(expr->op, std::move(args)));
  }
  if (expr->kind == Expr::Kind::load && expr->otherwise) {
    const ExprPtr otherwise = rewrite_expr(expr->otherwise, f);
    return f(otherwise == expr->otherwise ? expr : load(expr->buffer, expr->indices, otherwise));
  }
  return f(expr);
}

void rewrite_exprs(Block& block, const std::function<ExprPtr(const ExprPtr&)>& f) {
  for (Stmt& stmt : block) {
    each_expr(stmt, [&](ExprPtr& expr) { expr = rewrite_expr(expr, f); });
    for (Block* inner : blocks_of(stmt)) rewrite_exprs(*inner, f);
  }
}

Block replace_buffers(const Block& block, const std::map<const Buffer*, BufferRef>& map) {
  Substitution substitution;
  substitution.buffer = [&](const BufferRef& buffer) {
    const auto at = map.find(buffer.get());
    return at == map.end() ? nullptr : at->second;
  };
  return substitute(block, substitution);
}

Op pointwise_of(Op combiner) {
  switch (combiner) {
    case Op::reduce_sum_: return Op::add_;
    case Op::reduce_prod_: return Op::mul_;
    case Op::reduce_max_: return Op::max_;
    case Op::reduce_min_: return Op::min_;
    case Op::reduce_and_: return Op::and_;
    case Op::reduce_or_: return Op::or_;
    default: internal_error("`" + std::string(name_of(combiner)) + "` is not a combiner");
  }
}

std::string_view combiner_name(Op combiner) {
  switch (combiner) {
    case Op::reduce_sum_: return "sum";
    case Op::reduce_prod_: return "prod";
    case Op::reduce_max_:
    case Op::max_: return "max";
    case Op::reduce_min_:
    case Op::min_: return "min";
    case Op::reduce_and_: return "and";
    case Op::reduce_or_: return "or";
    case Op::add_: return "add";
    case Op::mul_: return "mul";
    case Op::identity_: return "assign";
    default: internal_error("`" + std::string(name_of(combiner)) + "` is not a combiner");
  }
}

ExprPtr identity_of(Op combiner, DType dtype) {
  const bool is_max = combiner == Op::reduce_max_;
  switch (combiner) {
    case Op::reduce_sum_:
    case Op::reduce_or_:
    case Op::reduce_prod_:
    case Op::reduce_and_: {
      const bool ones = combiner == Op::reduce_and_, one = combiner == Op::reduce_prod_;
      if (is_float(dtype)) return constant_float(dtype, one ? 1 : 0);
      return constant_int(dtype, ones ? -1 : one ? 1 : 0);
    }
    case Op::reduce_max_:
    case Op::reduce_min_: {
      if (is_float(dtype))
        return constant_float(dtype, is_max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
      if (dtype == DType::boolean) return constant_int(dtype, is_max ? 0 : 1);
      const int bits = size_bits(dtype);
      if (is_unsigned_integer(dtype)) return constant_int(dtype, is_max ? 0 : -1);
      const int64_t lowest = std::numeric_limits<int64_t>::min() >> (64 - bits);
      return constant_int(dtype, is_max ? lowest : ~lowest);
    }
    default: internal_error("`" + std::string(name_of(combiner)) + "` is not a combiner");
  }
}

}  // namespace tcc::loop
