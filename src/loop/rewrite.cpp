// What passes are written with: names, places, uses, combiners.
#include "tcc/loop/rewrite.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "tcc/loop/fields.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {
namespace {

void reserve_names(const Block& block, NameTable& names) {
  walk(block, [&](const Stmt& stmt) { each_definition(stmt, [&](const auto& defined) { names.reserve(defined->name); }); });
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
  each_definition(stmt, [&]<class Ref>(const Ref& defined) {
    if constexpr (std::same_as<Ref, VarRef>) uses.loops.insert(defined.get());
    if constexpr (std::same_as<Ref, ScalarRef>) uses.defines.insert(defined.get());
    if constexpr (std::same_as<Ref, BufferRef>) uses.writes.insert(defined.get());
  });
  const auto add_buffer = [&](Effect effect, const BufferRef& buffer) {
    if (effect == Effect::reads || effect == Effect::updates) uses.reads.insert(buffer.get());
    if (effect == Effect::writes || effect == Effect::updates) uses.writes.insert(buffer.get());
  };
  each_buffer(stmt, add_buffer);
  each_place(stmt, [&](Effect effect, const BufferRef& buffer, const std::vector<Index>& indices) {
    add_buffer(effect, buffer);
    add_indices(indices, uses);
  });
  uses.barrier = uses.barrier || together(stmt).keeps_order;
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
    each_definition(stmt, [&]<class Ref>(const Ref& defined) {
      if constexpr (std::same_as<Ref, BufferRef>) result = defined->name == name ? defined : result;
    });
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
    return f(args == expr->args ? expr : with_args(*expr, std::move(args)));
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

ExprPtr identity_value(Combiner combiner, DType dtype) {
  const Identity identity = identity_of(combiner, dtype);
  return is_float(dtype) ? constant_float(dtype, identity.float_value) : constant_int(dtype, identity.int_value);
}

}  // namespace tcc::loop
