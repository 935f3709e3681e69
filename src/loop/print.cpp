// The text of the loop IR (docs/ir_loop.md has the grammar). Canonical: terms of an index stand in the order in which their variables are defined, names are
// unique, so that equal units with equal names give equal text, whatever order they were built in. parse(print(x)) equals x.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "loop/printer.h"
#include "tcc/loop/rewrite.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/text.h"

namespace tcc::loop {
namespace {

template <class T> int three_way(const T& a, const T& b) { return a < b ? -1 : b < a ? 1 : 0; }

std::string list(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t v : values) text += (text.empty() ? "" : ", ") + std::to_string(v);
  return text;
}

std::string_view name_of(Space space) {
  switch (space) {
    case Space::global: return "global";
    case Space::local: return "local";
    case Space::registers: return "registers";
    case Space::scratch: return "scratch";
    case Space::shared: return "shared";
  }
  internal_error("no such space");
}

std::string_view name_of(PipeOp::Kind kind) {
  switch (kind) {
    case PipeOp::Kind::acquire: return "acquire";
    case PipeOp::Kind::commit: return "commit";
    case PipeOp::Kind::wait: return "wait";
    case PipeOp::Kind::release: return "release";
  }
  internal_error("no such pipe operation");
}

std::string print_tile(const TileLayout& layout) {
  constexpr std::string_view levels[] = {"reg", "lane", "warp"};
  std::string text;
  for (const TileDigit& digit : layout.digits) {
    text += (text.empty() ? "" : ", ") + std::string(levels[static_cast<int>(digit.level)]) + " " + std::to_string(digit.axis) + " " +
            std::to_string(digit.extent) + " " + std::to_string(digit.stride);
  }
  return "tile(" + text + ")";
}

}  // namespace

// ---------------------------------------------------------------------------------------------------- names and order

const std::string& Printer::name(const void* key, const std::string& own, char kind) {
  const auto at = named_.find(key);
  if (at != named_.end()) return at->second.text;
  const int order = static_cast<int>(named_.size());
  std::string unique = structural_ ? kind + std::to_string(order) : own;
  if (!taken_.insert(unique).second) {
    const std::string base = unique + (std::isdigit(static_cast<unsigned char>(unique.back())) ? "_" : "");
    int number = 1;
    do unique = base + std::to_string(number++);
    while (!taken_.insert(unique).second);
  }
  return named_.emplace(key, Named{print_value_name(unique), order}).first->second.text;
}

int Printer::order(const Atom& leaf) {
  if (leaf.var) {
    var(leaf.var);
    return named_.at(leaf.var.get()).order;
  }
  scalar(leaf.scalar);
  return named_.at(leaf.scalar.get()).order;
}

int Printer::compare(const Atom& a, const Atom& b) {
  if (a.kind != b.kind) return three_way(a.kind, b.kind);
  if (!a.operand) return three_way(order(a), order(b));
  if (const int c = three_way(a.divisor, b.divisor)) return c;
  return compare(*a.operand, *b.operand);
}

int Printer::compare(const Index& a, const Index& b) {
  auto sorted = [&](const Index& index) {
    std::vector<Term> terms = index.terms();
    std::sort(terms.begin(), terms.end(), [&](const Term& x, const Term& y) { return compare(x.atom, y.atom) < 0; });
    return terms;
  };
  const auto x = sorted(a), y = sorted(b);
  if (const int c = three_way(x.size(), y.size())) return c;
  for (size_t i = 0; i < x.size(); ++i) {
    if (const int c = compare(x[i].atom, y[i].atom)) return c;
    if (const int c = three_way(x[i].coefficient, y[i].coefficient)) return c;
  }
  return three_way(a.constant(), b.constant());
}

std::string Printer::index(const Index& index) {
  std::vector<Term> terms = index.terms();
  std::sort(terms.begin(), terms.end(), [&](const Term& x, const Term& y) { return compare(x.atom, y.atom) < 0; });
  std::string text;
  for (const Term& term : terms) {
    text += text.empty() ? (term.coefficient < 0 ? "-" : "") : (term.coefficient < 0 ? " - " : " + ");
    if (const auto& operand = term.atom.operand) {
      const bool bare = operand->constant() == 0 && operand->terms().size() == 1 && operand->terms()[0].coefficient == 1;
      const std::string inner = this->index(*operand);  // `%x / 4 mod 3` reads from the left, so one term needs no parentheses
      text +=
          (bare ? inner : "(" + inner + ")") + (term.atom.kind == Atom::Kind::mod ? " mod " : " / ") + std::to_string(term.atom.divisor);
    } else {
      text += term.atom.var ? var(term.atom.var) : scalar(term.atom.scalar);
    }
    if (std::abs(term.coefficient) != 1) text += " * " + std::to_string(std::abs(term.coefficient));
  }
  if (text.empty()) return std::to_string(index.constant());
  if (index.constant() != 0) text += (index.constant() < 0 ? " - " : " + ") + std::to_string(std::abs(index.constant()));
  return text;
}

std::string Printer::indices(const std::vector<Index>& list) {
  std::string text;
  for (const Index& i : list) text += (text.empty() ? "" : ", ") + index(i);
  return "[" + text + "]";
}

// -------------------------------------------------------------------------------------------------------- expressions

std::string Printer::constant(const Expr& expr) {
  if (expr.dtype == DType::boolean) return expr.int_value ? "true" : "false";
  if (expr.dtype == DType::i64) return std::to_string(expr.int_value);
  const std::string dtype(tcc::name_of(expr.dtype));
  if (!is_float(expr.dtype)) {
    const bool big = expr.dtype == DType::u64 && expr.int_value < 0;
    return dtype + "(" + (big ? std::to_string(static_cast<uint64_t>(expr.int_value)) : std::to_string(expr.int_value)) + ")";
  }
  std::string text = expr.dtype == DType::f64 ? print_float(expr.float_value) : print_float32(static_cast<float>(expr.float_value));
  const bool bits = text.starts_with("0x");
  if (std::isfinite(expr.float_value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return expr.dtype == DType::f32 && !bits ? text : dtype + "(" + text + ")";
}

std::string Printer::element(const BufferRef& target, const std::vector<Index>& at) { return buffer(target) + indices(at); }

std::string Printer::exprs(const std::vector<ExprPtr>& list) {
  std::string text;
  for (const ExprPtr& e : list) text += (text.empty() ? "" : ", ") + expr(e);
  return text;
}

std::string Printer::expr(const ExprPtr& e) {
  switch (e->kind) {
    case Expr::Kind::constant: return constant(*e);
    case Expr::Kind::index: return "index(" + index(e->index) + ")";
    case Expr::Kind::scalar: return scalar(e->scalar);
    case Expr::Kind::load: return "load " + element(e->buffer, e->indices) + (e->otherwise ? " else " + expr(e->otherwise) : "");
    case Expr::Kind::op: {
      std::string name = (e->approximate ? "approx." : "") + std::string(tcc::name_of(e->op));
      if (e->op == Op::cast_ || e->op == Op::bitcast_) name += "<" + std::string(tcc::name_of(e->dtype)) + ">";
      return name + "(" + exprs(e->args) + ")";
    }
  }
  internal_error("no such expression");
}

// ------------------------------------------------------------------------------------------------------- declarations

std::string Printer::declaration(const BufferRef& b) {
  std::string text = buffer(b) + ": " + std::string(tcc::name_of(b->dtype)) + "[" + list(b->extents) + "]";
  if (!b->strides.empty()) text += " strides(" + list(b->strides) + ")";
  if (b->space != Space::global) text += " " + std::string(name_of(b->space));
  if (b->swizzle.bits != 0) text += " swizzle(" + list({b->swizzle.bits, b->swizzle.base, b->swizzle.shift}) + ")";
  if (b->panel != 0) text += " panel(" + std::to_string(b->panel) + ")";
  if (b->tile) text += " " + print_tile(*b->tile);
  if (!b->distributed.empty()) text += " distributed(" + list({b->distributed.begin(), b->distributed.end()}) + ")";
  return text;
}

std::string Printer::params(const std::vector<Param>& params) {
  // The written ones at the end stand after the arrow; one before a parameter that is only read says so.
  size_t results = params.size();
  while (results > 0 && params[results - 1].written) --results;
  std::string text = "(";
  for (size_t i = 0; i < params.size(); ++i) {
    if (i == results) text += ") -> (";
    else if (i > 0) text += ", ";
    text += params[i].written && i < results ? "written " : params[i].constant ? "constant " : "";
    text += declaration(params[i].buffer);
  }
  return text + (results == params.size() ? ") -> ()" : ")");
}

std::string Printer::dims(const std::vector<Dim>& dims, const ExprPtr& where) {
  std::string text;
  for (const Dim& dim : dims) {
    text += (text.empty() ? " " : ", ") + var(dim.var) + " in " + std::to_string(dim.var->extent);
    if (dim.bind != Bind::none) text += " bind(" + std::string(loop::name_of(dim.bind)) + ")";
  }
  return text + (where ? " where " + expr(where) : "");
}

std::string Printer::results(const std::vector<State>& states) {
  std::string text;
  for (const State& state : states) {
    text += (text.empty() ? "" : ", ") + scalar(state.result) + ": " + std::string(tcc::name_of(state.result->dtype));
  }
  return text;
}

std::string Printer::combiners(const std::vector<State>& states, bool custom) {
  std::string text;
  if (!custom) {
    for (const State& state : states) text += (text.empty() ? "" : ", ") + std::string(tcc::name_of(state.combiner));
    text = states.size() == 1 ? " " + text : " (" + text + ")";
  }
  if (std::any_of(states.begin(), states.end(), [](const State& state) { return state.init != nullptr; })) {
    std::string init;
    for (const State& state : states) init += (init.empty() ? "" : ", ") + (state.init ? expr(state.init) : "_");
    text += " init(" + init + ")";
  }
  return text;
}

// --------------------------------------------------------------------------------------------------------- statements

void Printer::yielding(const Block& body, const std::vector<ExprPtr>& values, int indent) {
  if (body.empty()) {
    out_ += " { yield " + exprs(values) + " }";
    return;
  }
  out_ += " {\n";
  block(body, indent + 2);
  line(indent + 2);
  out_ += "yield " + exprs(values) + "\n";
  line(indent);
  out_ += "}";
}

void Printer::combine(const Combine& combine, int indent) {
  auto side = [&](const std::vector<ScalarRef>& scalars) {
    std::string text;
    for (const ScalarRef& s : scalars) text += (text.empty() ? "" : ", ") + scalar(s) + ": " + std::string(tcc::name_of(s->dtype));
    return "(" + text + ")";
  };
  out_ += " combine " + side(combine.left) + ", ";
  out_ += side(combine.right);
  yielding(combine.body, combine.results, indent);
}

namespace {

std::vector<ExprPtr> values_of(const std::vector<State>& states) {
  std::vector<ExprPtr> values;
  for (const State& state : states) values.push_back(state.value);
  return values;
}

}  // namespace

void Printer::stmt(const Loop& loop, int indent) {
  out_ += loop.kind == Loop::Kind::map ? "map" : "for";
  if (loop.tile) out_ += " " + buffer(loop.tile) + ":";
  out_ += dims(loop.dims, loop.where) + " {\n";
  block(loop.body, indent + 2);
  line(indent);
  out_ += "}";
}

void Printer::stmt(const Reduce& reduce, int indent) {
  out_ += results(reduce.states) + " = reduce" + combiners(reduce.states, reduce.combine != nullptr);
  if (reduce.tile) out_ += " " + buffer(reduce.tile) + ":";
  out_ += dims(reduce.dims, reduce.where);
  yielding(reduce.body, values_of(reduce.states), indent);
  if (reduce.combine) combine(*reduce.combine, indent);
}

void Printer::stmt(const Scan& scan, int indent) {
  out_ += results(scan.states) + " = scan" + combiners(scan.states, scan.combine != nullptr) + (scan.exclusive ? " exclusive" : "");
  out_ += dims(scan.dims, nullptr);
  yielding(scan.body, values_of(scan.states), indent);
  if (scan.combine) combine(*scan.combine, indent);
  out_ += " after {\n";
  block(scan.after, indent + 2);
  line(indent);
  out_ += "}";
}

void Printer::stmt(const Let& let, int) {
  const std::string value = expr(let.value);  // before the scalar gets its name: a value never reads it
  out_ += scalar(let.scalar) + ": " + std::string(tcc::name_of(let.scalar->dtype)) + " = " + value;
}

void Printer::stmt(const Store& store, int) {
  const std::string value = expr(store.value);
  out_ += "store " + value + ", " + element(store.buffer, store.indices);
}

void Printer::stmt(const Scatter& scatter, int) {
  const std::string value = expr(scatter.value);
  out_ += "scatter " + std::string(scatter_name_of(scatter.combiner)) + " " + value + ", " + element(scatter.buffer, scatter.indices);
}

void Printer::stmt(const If& branch, int indent) {
  out_ += "if " + expr(branch.condition) + " {\n";
  block(branch.then, indent + 2);
  line(indent);
  out_ += "}";
  if (branch.otherwise.empty()) return;
  out_ += " else {\n";
  block(branch.otherwise, indent + 2);
  line(indent);
  out_ += "}";
}

void Printer::stmt(const Alloc& alloc, int) { out_ += "alloc " + declaration(alloc.buffer); }
void Printer::stmt(const Barrier&, int) { out_ += "barrier"; }

void Printer::stmt(const Copy& copy, int) {
  out_ += copy.kind == Copy::Kind::async ? "copy.async (" : copy.kind == Copy::Kind::tma ? "copy.tma (" : "copy (";
  for (size_t i = 0; i < copy.box.size(); ++i) out_ += (i ? ", " : "") + var(copy.box[i]) + " in " + std::to_string(copy.box[i]->extent);
  out_ += (copy.where ? " where " + expr(copy.where) : "") + ") ";
  out_ += element(copy.source, copy.from) + " -> ";
  out_ += element(copy.destination, copy.to) + " bytes " + std::to_string(copy.vector_bytes);
  if (copy.value) out_ += " as " + expr(copy.value);
}

void Printer::stmt(const PipeDecl& decl, int) {
  out_ += "pipe " + pipe(decl.pipe) + " stages " + std::to_string(decl.pipe->stages) +
          (decl.pipe->kind == Pipe::Kind::mbarrier ? " mbarrier (" : " (");
  for (size_t i = 0; i < decl.pipe->buffers.size(); ++i) out_ += (i ? ", " : "") + declaration(decl.pipe->buffers[i]);
  out_ += ")";
}

void Printer::stmt(const PipeOp& op, int) { out_ += std::string(name_of(op.kind)) + " " + pipe(op.pipe); }

void Printer::stmt(const Mma& mma, int) {
  out_ += std::string(mma.async ? "mma.async " : "mma ") + (mma.zero_first ? "zero " : "") + buffer(mma.accumulator) + ", ";
  out_ += std::string(mma.transpose_a ? "transpose " : "") + element(mma.a, mma.a_from) + ", ";
  out_ += std::string(mma.transpose_b ? "transpose " : "") + element(mma.b, mma.b_from);
  out_ += " size(" + list({mma.m, mma.n, mma.k}) + ") shape " + mma.shape;
}

void Printer::stmt(const MmaWait& wait, int) {
  out_ += "mma.wait " + std::to_string(wait.pending);
  for (size_t i = 0; i < wait.accumulators.size(); ++i) out_ += (i ? ", " : " (") + buffer(wait.accumulators[i]);
  if (!wait.accumulators.empty()) out_ += ")";
}

void Printer::stmt(const Roles& roles, int indent) {
  out_ += "roles {\n";
  for (const Role& role : roles.roles) {
    line(indent + 2);
    out_ += "role " + role.name + " warps " + std::to_string(role.warps) +
            (role.registers > 0 ? " registers " + std::to_string(role.registers) : "") + " {\n";
    block(role.body, indent + 4);
    line(indent + 2);
    out_ += "}\n";
  }
  line(indent);
  out_ += "}";
}

void Printer::block(const Block& block, int indent) {
  for (const Stmt& s : block) {
    line(indent);
    std::visit([&](const auto& node) { stmt(node, indent); }, s.node);
    out_ += "\n";
  }
}

std::string Printer::unit(const Unit& unit) {
  out_ += "unit " + params(unit.params) + " {\n";
  block(unit.body, 2);
  out_ += "}\n";
  return take();
}

std::string Printer::kernel(const Kernel& kernel, const std::string& name) {
  out_ += "kernel #" + name + " target " + kernel.target + " grid " + std::to_string(kernel.grid) + " threads " +
          std::to_string(kernel.threads) + " shared " + std::to_string(kernel.shared_bytes) + " ";
  out_ += params(kernel.params) + " {\n";
  block(kernel.body, 2);
  out_ += "}\n";
  return take();
}

std::string print(const Unit& unit) { return Printer().unit(unit); }
std::string print(const Kernel& kernel, const std::string& name) { return Printer().kernel(kernel, name); }
std::string print(const Block& block, int indent) {
  Printer printer;
  printer.block(block, indent);
  return printer.take();
}
std::string print(const Stmt& stmt) {
  std::string text = print(Block{stmt}, 0);
  text.pop_back();  // the newline
  return text;
}
std::string print(const ExprPtr& expr) { return Printer().expr(expr); }

}  // namespace tcc::loop
