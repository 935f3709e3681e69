#include "schedule/contraction.h"

#include <algorithm>
#include <map>

#include "tcc/loop/edit.h"

namespace tcc::schedule {

using namespace tcc::loop;

int Factor::axis_of(const Var* var) const {
  int found = -1;
  for (size_t axis = 0; axis < indices.size(); axis++) {
    if (!indices[axis].uses(var)) continue;
    bool inside = false;
    if (found >= 0 || indices[axis].coefficient_of(var, &inside) != 1 || inside) return -1;
    found = static_cast<int>(axis);
  }
  return found;
}

bool Factor::uses(const Var* var) const {
  for (const Index& index : indices) {
    if (index.uses(var)) return true;
  }
  return false;
}

namespace {

bool is_zero(const ExprPtr& expr) { return expr->kind == Expr::Kind::constant && expr->float_value == 0 && expr->int_value == 0; }

/// A value computed of elements of 4 or 8 bits, and of others that are the same for several of those: the narrow load says where the factor lies.
std::optional<Factor> as_computed_factor(const ExprPtr& expr, DType dtype, const std::map<const Scalar*, ExprPtr>& lets) {
  std::vector<const Expr*> loads;
  bool is_plain = true;
  const auto look = [&](const auto& self, const ExprPtr& e) -> void {
    if (e->kind == Expr::Kind::scalar) {
      const auto found = lets.find(e->scalar.get());
      if (found == lets.end()) is_plain = false;
      else self(self, found->second);
    } else if (e->kind == Expr::Kind::load) {
      is_plain = is_plain && (!e->otherwise || is_zero(e->otherwise));
      for (const Index& index : e->indices) is_plain = is_plain && !index.uses_scalars();
      loads.push_back(e.get());
    } else if (e->kind == Expr::Kind::op) {
      is_plain = is_plain && info(e->op).cost != ScalarCost::function && e->op != Op::check_index_;
      for (const ExprPtr& arg : e->args) self(self, arg);
    } else {
      is_plain = is_plain && e->kind == Expr::Kind::constant;
    }
  };
  look(look, expr);
  if (!is_plain || loads.empty()) return std::nullopt;
  const auto vars_of = [](const Expr& load) {
    std::vector<VarRef> vars;
    for (const Index& index : load.indices) collect_vars(index, vars);
    return vars;
  };
  const Expr* element =
      *std::max_element(loads.begin(), loads.end(), [&](const Expr* x, const Expr* y) { return vars_of(*x).size() < vars_of(*y).size(); });
  for (const Expr* load : loads) {
    if (load != element && load->buffer->count() >= element->buffer->count() && load->buffer->dtype == element->buffer->dtype)
      return std::nullopt;
  }
  // Of several loads with the same variables, the narrow one with the most elements.
  for (const Expr* load : loads) {
    if (vars_of(*load).size() == vars_of(*element).size() && load->buffer->count() > element->buffer->count()) element = load;
  }
  if (size_bits(element->buffer->dtype) > 8 || element->buffer->dtype == DType::boolean) return std::nullopt;
  const std::vector<VarRef> own = vars_of(*element);
  for (const Expr* load : loads) {
    for (const VarRef& var : vars_of(*load)) {
      if (std::find(own.begin(), own.end(), var) == own.end()) return std::nullopt;
    }
    if (load != element && load->buffer == element->buffer) return std::nullopt;
  }
  return Factor{element->buffer, element->indices, element->otherwise != nullptr, dtype, true};
}

/// The load that an expression is, through lets, casts to the dtype of the sum and one to a 16-bit float; or what is computed of such a load.
std::optional<Factor> as_factor(ExprPtr expr, DType sum, const std::map<const Scalar*, ExprPtr>& lets) {
  std::optional<DType> narrowed;
  while (true) {
    if (expr->kind == Expr::Kind::scalar) {
      const auto found = lets.find(expr->scalar.get());
      if (found == lets.end()) return std::nullopt;
      expr = found->second;
    } else if (expr->kind == Expr::Kind::op && expr->op == Op::cast_ && expr->dtype == sum &&
               is_float(sum) >= is_float(expr->args[0]->dtype)) {
      expr = expr->args[0];
    } else if (expr->kind == Expr::Kind::op && expr->op == Op::cast_ && (expr->dtype == DType::bf16 || expr->dtype == DType::f16) &&
               !narrowed && (is_float(expr->args[0]->dtype) || is_float(sum))) {
      narrowed = expr->dtype;
      expr = expr->args[0];
    } else {
      break;
    }
  }
  if (expr->kind == Expr::Kind::op) return as_computed_factor(expr, narrowed.value_or(sum), lets);
  // Integers of more than 8 bits are rounded to what they are narrowed to.
  if (narrowed && expr->kind == Expr::Kind::load && !is_float(expr->dtype) && size_bits(expr->dtype) > 8) return std::nullopt;
  if (expr->kind != Expr::Kind::load || (expr->otherwise && !is_zero(expr->otherwise))) return std::nullopt;
  for (const Index& index : expr->indices) {
    if (index.uses_scalars()) return std::nullopt;
  }
  return Factor{expr->buffer, expr->indices, expr->otherwise != nullptr, narrowed};
}

/// Says why something is not what it was taken for.
std::nullopt_t no(std::string* why_not, std::string reason) {
  if (why_not) *why_not = std::move(reason);
  return std::nullopt;
}

/// The one reduce and the first store of a nest; `reduce` is null, with a reason, where there is something else.
struct Parts {
  const Reduce* reduce = nullptr;
  const Store* store = nullptr;
};
Parts parts_of(const Loop& nest, std::string* why_not) {
  Parts parts;
  for (const Stmt& part : nest.body) {
    if (const auto* found = std::get_if<Reduce>(&part.node)) {
      if (parts.reduce) {
        no(why_not, "it has several reduces");
        return {};
      }
      parts.reduce = found;
    } else if (const auto* store = std::get_if<Store>(&part.node)) {
      if (!parts.store) parts.store = store;
    } else if (!std::holds_alternative<Let>(part.node)) {
      no(why_not, "it has loops beside the sum");
      return {};
    }
  }
  if (!parts.store) {
    no(why_not, "it stores nothing");
    return {};
  }
  if (!parts.reduce) no(why_not, "it has no reduce");
  return parts;
}

}  // namespace

std::optional<Contraction> as_contraction(const Stmt& stmt, std::string* why_not, bool masked) {
  const auto* nest = std::get_if<Loop>(&stmt.node);
  if (!nest || nest->kind != Loop::Kind::map || (nest->where && !masked) || nest->tile) return no(why_not, "its results are masked");
  const auto [reduce, first_store] = parts_of(*nest, why_not);
  if (!reduce) return std::nullopt;
  if (reduce->states.size() != 1 || reduce->combine || (reduce->where && !masked)) return no(why_not, "the reduce is not one plain sum");
  const State& state = reduce->states[0];
  if (state.combiner != Combiner::sum || state.init) return no(why_not, "the reduce is not one plain sum");
  const DType dtype = state.result->dtype;
  if (dtype != DType::f32 && dtype != DType::i32)
    return no(why_not, "the sum is in " + std::string(name_of(dtype)) + ", not in f32 or i32");

  std::map<const Scalar*, ExprPtr> lets;
  for (const Stmt& part : nest->body) {
    if (const auto* let = std::get_if<Let>(&part.node)) lets[let->scalar.get()] = let->value;
  }
  for (const Stmt& part : reduce->body) {
    const auto* let = std::get_if<Let>(&part.node);
    if (!let) return no(why_not, "there is a loop in the sum");
    lets[let->scalar.get()] = let->value;
  }
  if (reduce->dims.empty()) return no(why_not, "the sum has no dims");
  ExprPtr product = state.value;
  while (product->kind == Expr::Kind::scalar) {
    const auto found = lets.find(product->scalar.get());
    if (found == lets.end()) return no(why_not, "it is not a sum of products");
    product = found->second;
  }
  if (product->kind != Expr::Kind::op || product->op != Op::mul_) return no(why_not, "it is not a sum of products");
  const auto factor_of = [&](ExprPtr expr) {
    const bool dilated = product == state.value && expr->kind == Expr::Kind::op && expr->op == Op::select_ && is_zero(expr->args[2]);
    if (dilated) expr = expr->args[1];
    std::optional<Factor> factor = as_factor(expr, dtype, lets);
    if (factor) factor->dilated = dilated;
    return factor;
  };
  std::optional<Factor> a = factor_of(product->args[0]), b = factor_of(product->args[1]);
  if (!a || !b) return no(why_not, "a factor is not a load at indices of the loops");

  Contraction result;
  result.accumulator = state.result->name;
  result.dtype = dtype;
  for (const auto& dim : nest->dims) result.dims.push_back(dim.var);
  for (const auto& dim : reduce->dims) result.k_dims.push_back(dim.var);
  const Access stored = access_of(first_store->buffer, first_store->indices, true, false);
  for (const VarRef& var : result.dims) {
    if (var->extent > 1 && stride_of(stored, var.get()) == 1) result.contiguous = var;
  }
  // The factor that varies along neighbouring results is b, whose dims are columns.
  if (result.contiguous && a->uses(result.contiguous.get()) && !b->uses(result.contiguous.get())) std::swap(a, b);
  result.a = std::move(*a);
  result.b = std::move(*b);
  for (const VarRef& var : result.dims) {
    const bool in_a = result.a.uses(var.get()), in_b = result.b.uses(var.get());
    (in_a == in_b ? result.batch_dims : in_a ? result.m_dims : result.n_dims).push_back(var);
  }
  if (result.results() == 0 || result.length() == 0) return no(why_not, "it is empty");
  return result;
}

std::optional<Matmul> as_matmul(const Contraction& c, std::string* why_not) {
  if (c.a.dilated || c.b.dilated) return no(why_not, "a factor has zeros between its elements");
  if (c.k_dims.size() != 1) return no(why_not, "it is not summed over one dim");
  if (c.a.buffer == c.b.buffer) return no(why_not, "both factors are one buffer");
  Matmul mm;
  mm.k = c.k_dims[0];
  // Of several dims of one side the longest is tiled, the others count as batch.
  const auto longest = [&](const std::vector<VarRef>& vars, const Factor& factor) {
    VarRef best;
    for (const VarRef& var : vars) {
      if (factor.axis_of(var.get()) < 0) continue;
      if (var == c.contiguous && var->extent >= 16) return var;
      if (!best || var->extent >= best->extent) best = var;
    }
    return best;
  };
  mm.m = longest(c.m_dims, c.a);
  mm.n = longest(c.n_dims, c.b);
  if (!mm.m) return no(why_not, "it has no dim of rows");
  if (!mm.n) return no(why_not, "it has no dim of columns");
  for (const VarRef& var : c.dims) {
    if (var != mm.m && var != mm.n) mm.batch.push_back(var);
  }
  mm.a_m = c.a.axis_of(mm.m.get());
  mm.a_k = c.a.axis_of(mm.k.get());
  mm.b_n = c.b.axis_of(mm.n.get());
  mm.b_k = c.b.axis_of(mm.k.get());
  if (mm.a_k < 0 || mm.b_k < 0 || mm.a_k == mm.a_m || mm.b_k == mm.b_n) return no(why_not, "the sum is not along an axis of each factor");
  return mm;
}

namespace {

bool is_plain(const Factor& factor, const VarRef& var) {
  const int axis = factor.axis_of(var.get());
  return axis >= 0 && factor.indices[static_cast<size_t>(axis)] == Index(var);
}

/// How far apart the elements of the factor are: its one divided index says so. Nothing where an index is another one that is not a sum.
std::optional<int64_t> base_dilation_of(const Contraction& c) {
  int64_t dilation = 1;
  for (const Factor* factor : {&c.a, &c.b}) {
    for (const Index& index : factor->indices) {
      for (const Term& term : index.terms()) {
        if (term.atom.kind == Atom::Kind::var) continue;
        if (term.atom.kind != Atom::Kind::floor_div || !factor->dilated || index.terms().size() != 1 || term.coefficient != 1)
          return std::nullopt;
        if (dilation != 1 && dilation != term.atom.divisor) return std::nullopt;
        dilation = term.atom.divisor;
        for (const Term& inner : term.atom.operand->terms()) {
          if (inner.atom.kind != Atom::Kind::var) return std::nullopt;
        }
      }
    }
  }
  return c.a.dilated || c.b.dilated != (dilation > 1) ? std::nullopt : std::optional(dilation);
}

}  // namespace

std::optional<Convolution> as_convolution(const Contraction& c, std::string* why_not) {
  if (!c.contiguous) return no(why_not, "results are not neighbours along a dim");
  if (c.a.buffer == c.b.buffer) return no(why_not, "both factors are one buffer");
  if (!c.a.buffer->strides.empty() || !c.b.buffer->strides.empty()) return no(why_not, "a factor is not dense");
  const std::optional<int64_t> dilation = base_dilation_of(c);
  if (!dilation) return no(why_not, "an index is not a sum of loops");
  Convolution conv;
  conv.base_dilation = *dilation;
  const int last = static_cast<int>(c.b.indices.size()) - 1;
  if (last < 2) return no(why_not, "no factor is images with channels");
  conv.columns = c.contiguous;
  conv.in_channels = c.k_dims[0];
  const Var* sum = conv.in_channels.get();
  if (c.a.axis_of(sum) < 0 || c.b.axis_of(sum) < 0 || c.b.axis_of(sum) >= last) return no(why_not, "the sum is not over channels");
  for (size_t i = 1; i < c.k_dims.size(); i++) {
    if (!c.a.uses(c.k_dims[i].get()) || !c.b.uses(c.k_dims[i].get())) return no(why_not, "a summed dim is not a window's");
    conv.window.push_back(c.k_dims[i]);
    conv.positions *= c.k_dims[i]->extent;
  }
  for (const VarRef& var : c.m_dims) {
    if (is_plain(c.a, var) && (!conv.out_channels || var->extent > conv.out_channels->extent)) conv.out_channels = var;
  }
  if (!conv.out_channels) return no(why_not, "it has no output channels");
  const auto uses = [&](int axis, const VarRef& var) {
    for (int other = 0; other <= last; other++) {
      if (c.b.indices[static_cast<size_t>(other)].uses(var.get()) != (other == axis)) return false;
    }
    return true;
  };
  bool has_columns = false;
  for (const VarRef& var : c.n_dims) {
    if (var == conv.columns) has_columns = uses(last, var);
    else if (uses(last - 1, var) && !conv.rows) conv.rows = var;
    else if (is_plain(c.b, var) && (!conv.images || var->extent > conv.images->extent)) conv.images = var;
  }
  if (!has_columns) return no(why_not, "results are not along the columns of images");
  if (conv.window.empty() && !conv.rows) return no(why_not, "without a window and with one dim of pixels it is a matmul");
  for (const VarRef& var : c.dims) {
    if (var != conv.out_channels && var != conv.columns && var != conv.rows && var != conv.images) conv.batch.push_back(var);
  }
  return conv;
}

}  // namespace tcc::schedule
