// cache(x, registers): a value that several loops over a row compute alike is computed once and kept.
//
//   map %i in R {
//     %m: f32 = reduce max %j in C { %x: f32 = load %z[%i, %j];  yield %x }
//     map %j1 in C { %x1: f32 = load %z[%i, %j1];  store sub(%x1, %m), %y[%i, %j1] }
//   }
// becomes
//   map %i in R {
//     alloc %x.kept: f32[C] registers
//     map %j.keep in C { store load %z[%i, %j.keep], %x.kept[%j.keep] }
//     %m: f32 = reduce max %j in C { yield load %x.kept[%j] }
//     map %j1 in C { store sub(load %x.kept[%j1], %m), %y[%i, %j1] }
//   }
//
// The loops must be split and bound alike: position by position the same extents and places, so that each thread reads what it wrote itself. A loop reads
// what was kept only if its mask implies the mask under which that was computed (rows of 83 and of 82 elements make equally many pieces of 8), and no loop
// does after one that writes what the value is made of. Axes of dims bound to threads, warps or lanes are distributed. The name of a reduce means the value that its iterations yield. Equal values are found by numbering, so the other loops may name them differently.
#include <algorithm>
#include <map>
#include <utility>

#include "loop/index_bounds.h"
#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"
#include "tcc/support/text.h"

namespace tcc::loop {

namespace {

/// Numbers expressions so that equal values of loops alike get equal numbers.
class Numbering {
 public:
  /// From now on these dims stand for the canonical ones.
  void enter(const std::vector<Dim>& dims, const std::vector<Dim>& canonical) {
    vars_.clear();
    for (size_t i = 0; i < dims.size(); i++) vars_.emplace(dims[i].var.get(), canonical[i].var);
  }
  void define(const Scalar* scalar, int number) { scalars_[scalar] = number; }

  int number(const ExprPtr& expr) {
    std::string key = std::string(name_of(expr->dtype));
    switch (expr->kind) {
      case Expr::Kind::constant:
        key += is_float(expr->dtype) ? " c " + print_float(expr->float_value) : " c " + std::to_string(expr->int_value);
        break;
      case Expr::Kind::index: key += " i " + text(expr->index); break;
      case Expr::Kind::scalar: {
        const auto found = scalars_.find(expr->scalar.get());
        if (found != scalars_.end()) return found->second;
        key += " s " + std::to_string(expr->scalar->id);
        break;
      }
      case Expr::Kind::load:
        key += " l " + std::to_string(expr->buffer->id);
        for (const Index& index : expr->indices) key += " [" + text(index);
        if (expr->otherwise) key += " else " + std::to_string(number(expr->otherwise));
        break;
      case Expr::Kind::op:
        key += (expr->approximate ? " a " : " o ") + std::string(tcc::name_of(expr->op));
        for (const ExprPtr& arg : expr->args) key += ' ' + std::to_string(number(arg));
        break;
    }
    return numbers_.emplace(std::move(key), static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::string text(const Index& index) const {
    return to_string(substitute(index, [&](const VarRef& var) -> std::optional<Index> {
      const auto found = vars_.find(var.get());
      if (found == vars_.end()) return std::nullopt;
      return Index(found->second);
    }));
  }

  std::map<std::string, int> numbers_;
  std::map<const Scalar*, int> scalars_;
  std::map<const Var*, VarRef> vars_;
};

bool alike(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++) {
    if (a[i].var->extent != b[i].var->extent || a[i].bind != b[i].bind) return false;
  }
  return true;
}

/// Whether each iteration of `reader` has an iteration of `writer`, whose dims are alike.
bool covers(const Stmt& writer, const Stmt& reader) {
  const std::vector<Dim>&canonical = *dims_of(writer), &dims = *dims_of(reader);
  ExprPtr mask = condition_of(reader);
  for (size_t i = 0; i < dims.size(); i++) mask = substitute_var(mask, dims[i].var, Index(canonical[i].var));
  return implies(mask, condition_of(writer));
}

class Keeper {
 public:
  Keeper(const Unit& unit, std::string scalar, Space space) : names_(unit), scalar_(std::move(scalar)), space_(space) {}

  void edit(Block& row) {
    for (size_t i = 0; i < row.size(); i++) {
      const std::vector<Dim>* dims = dims_of(row[i]);
      if (!dims || std::holds_alternative<Scan>(row[i].node)) continue;
      ExprPtr value;
      for (const Stmt& stmt : *blocks_of(row[i])[0]) {
        const auto* let = std::get_if<Let>(&stmt.node);
        if (let && let->scalar->name == scalar_) value = let->value;
      }
      if (const auto* reduce = std::get_if<Reduce>(&row[i].node)) {
        for (const State& state : reduce->states) {
          if (state.result->name == scalar_) value = state.value;
        }
      }
      if (!value) continue;
      keep(row, i, value);
      found_ = true;
      return;
    }
  }
  bool found() const { return found_; }

 private:
  void keep(Block& row, size_t first, const ExprPtr& value) {
    const std::vector<Dim> dims = *dims_of(row[first]);
    const Block body = *blocks_of(row[first])[0];
    Buffer prototype;
    prototype.name = names_.fresh(scalar_ + ".kept");
    prototype.dtype = value->dtype;
    prototype.space = space_;
    for (size_t axis = 0; axis < dims.size(); axis++) {
      prototype.extents.push_back(dims[axis].var->extent);
      const Bind bind = dims[axis].bind;
      if (bind == Bind::thread || bind == Bind::warp || bind == Bind::lane) prototype.distributed.push_back(static_cast<int>(axis));
    }
    const BufferRef buffer = make_buffer(std::move(prototype));

    Numbering numbering;
    numbering.enter(dims, dims);
    for (const Stmt& stmt : body) {
      const auto* let = std::get_if<Let>(&stmt.node);
      if (let) numbering.define(let->scalar.get(), numbering.number(let->value));
    }
    const int wanted = numbering.number(value);

    Loop fill = make_fill(row[first], dims, body, value, buffer);
    const std::set<const Buffer*> made_of = uses_of(fill.body).reads;
    const Stmt writer = row[first];
    for (size_t i = first; i < row.size(); i++) {
      const std::vector<Dim>* others = dims_of(row[i]);
      const std::set<const Buffer*> written = uses_of(row[i]).writes;
      if (std::any_of(written.begin(), written.end(), [&](const Buffer* one) { return made_of.contains(one); })) break;
      if (others && alike(dims, *others) && covers(writer, row[i])) replace(row[i], dims, numbering, wanted, buffer);
    }
    row.insert(row.begin() + static_cast<std::ptrdiff_t>(first), {Stmt{Alloc{buffer}}, Stmt{std::move(fill)}});
  }

  Loop make_fill(const Stmt& stmt, const std::vector<Dim>& dims, const Block& body, const ExprPtr& value, const BufferRef& buffer) {
    Loop fill;
    fill.where = condition_of(stmt);
    Block lets;
    std::set<const Scalar*> roots;
    collect_scalars(value, roots);
    if (!needed_lets(body, roots, lets)) unfit("`" + scalar_ + "` depends on a reduce inside its loop");
    std::vector<Index> indices;
    for (const Dim& dim : dims) indices.emplace_back(dim.var);
    lets.push_back({Store{buffer, indices, value}});
    fill.body = clone_fresh(lets, [&](const std::string& name) { return names_.fresh(name + ".keep"); });
    for (const Dim& dim : dims) {
      const VarRef var = make_var(names_.fresh(dim.var->name + ".keep"), dim.var->extent);
      fill.dims.push_back({var, dim.bind});
      fill.where = substitute_var(fill.where, dim.var, var);
      fill.body = substitute_var(fill.body, dim.var, var);
    }
    return fill;
  }

  static void replace(Stmt& stmt, const std::vector<Dim>& canonical, Numbering& numbering, int wanted, const BufferRef& buffer) {
    const std::vector<Dim> dims = *dims_of(stmt);
    numbering.enter(dims, canonical);
    std::vector<Index> indices;
    for (const Dim& dim : dims) indices.emplace_back(dim.var);
    const auto swap = [&](const ExprPtr& expr) {
      const bool candidate = expr->dtype == buffer->dtype && (expr->kind == Expr::Kind::load || expr->kind == Expr::Kind::op);
      return candidate && numbering.number(expr) == wanted ? load(buffer, indices) : expr;
    };
    // A let's own number is taken before anything in it is replaced.
    for (Block* inner : blocks_of(stmt)) {
      for (Stmt& part : *inner) {
        auto* let = std::get_if<Let>(&part.node);
        if (let) numbering.define(let->scalar.get(), numbering.number(let->value));
      }
    }
    Block whole{std::move(stmt)};
    rewrite_exprs(whole, swap);
    stmt = std::move(whole[0]);
    std::set<const Scalar*> roots;
    if (auto* reduce = std::get_if<Reduce>(&stmt.node)) {
      for (const State& state : reduce->states) collect_scalars(state.value, roots);
      drop_unused(reduce->body, roots);
    } else if (auto* loop = std::get_if<Loop>(&stmt.node)) {
      drop_unused(loop->body, roots);
    }
  }

  NameTable names_;
  std::string scalar_;
  Space space_;
  bool found_ = false;
};

}  // namespace

Unit cache(const Unit& unit, const std::string& scalar, Space space) {
  Unit result = unit;
  Keeper keeper(unit, scalar, space);
  for_each_block(result.body, [&](Block& block) {
    if (!keeper.found()) keeper.edit(block);
  });
  if (!keeper.found()) no_such_value(unit, scalar, "computed by a loop directly inside a block");
  return result;
}

}  // namespace tcc::loop
