// Index maps of the views. Reshape is unflatten(flatten(index)) over each run of dimensions whose products agree, so that a reshape that only merges or
// splits dimensions never mixes what it leaves alone.

#include "group/index_maps.h"

#include <algorithm>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/limits.h"
#include "tcc/support/diagnostics.h"

namespace tcc::group {

using loop::Index;

namespace {

/// Terms of an index, those inside its divisions too: each reshape between transposes may double them.
constexpr int kMaxTerms = 20'000;

bool has_terms_left(const Index& index, int& left) {
  for (const loop::Term& term : index.terms()) {
    if (--left < 0 || (term.atom.operand && !has_terms_left(*term.atom.operand, left))) return false;
  }
  return true;
}

Indices bounded(Indices indices, const Node& view) {
  int left = kMaxTerms;
  for (const Index& index : indices) {
    if (!has_terms_left(index, left)) {
      throw RuleError{"too-complex", "the index of `" + view.result()->name + "` has more than " + std::to_string(kMaxTerms) +
                                         " terms: too many transposes and reshapes in a row, which do not become one"};
    }
  }
  return indices;
}

}  // namespace

Indices reshape_indices(const Indices& at, const Shape& from, const Shape& to) {
  Indices result(to.size());
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    // One run: from[i, i_end) and to[j, j_end) with equal products.
    size_t i_end = i, j_end = j;
    int64_t a = 1, b = 1;
    if (i_end < from.size()) a = from[i_end++];
    if (j_end < to.size()) b = to[j_end++];
    while (a != b) {
      if (a < b) {
        if (i_end == from.size()) break;
        a *= from[i_end++];
      } else {
        if (j_end == to.size()) break;
        b *= to[j_end++];
      }
    }
    if (i_end - i == 1 && j_end - j == 1) {
      result[j] = at[i];
    } else {
      const Index flat = flatten(Indices(at.begin() + static_cast<ptrdiff_t>(i), at.begin() + static_cast<ptrdiff_t>(i_end)),
                                 Shape(from.begin() + static_cast<ptrdiff_t>(i), from.begin() + static_cast<ptrdiff_t>(i_end)));
      const Indices parts = unflatten(flat, Shape(to.begin() + static_cast<ptrdiff_t>(j), to.begin() + static_cast<ptrdiff_t>(j_end)));
      std::copy(parts.begin(), parts.end(), result.begin() + static_cast<ptrdiff_t>(j));
    }
    i = i_end;
    j = j_end;
  }
  return result;
}

Indices pull_back(const Node& view, const Indices& at) {
  const Shape operand = view.operand(0)->type.shape();
  const Shape result = view.result()->type.shape();
  Indices to(operand.size());
  switch (view.op) {
    case Op::broadcast_in_dim_: {
      const auto& dims = view.attrs.get_ints("dims");
      for (size_t i = 0; i < operand.size(); ++i) to[i] = operand[i] == 1 ? Index(0) : at[static_cast<size_t>(dims[i])];
      return to;
    }
    case Op::reshape_: return bounded(reshape_indices(at, result, operand), view);
    case Op::transpose_: {
      const auto& permutation = view.attrs.get_ints("permutation");
      for (size_t i = 0; i < operand.size(); ++i) to[static_cast<size_t>(permutation[i])] = at[i];
      return to;
    }
    case Op::slice_: {
      const auto& starts = view.attrs.get_ints("starts");
      const auto& steps = view.attrs.get_ints("steps");
      for (size_t i = 0; i < operand.size(); ++i) to[i] = at[i] * (steps.empty() ? 1 : steps[i]) + Index(starts[i]);
      return to;
    }
    case Op::reverse_: {
      to = at;
      for (int64_t axis : view.attrs.get_ints("axes"))
        to[static_cast<size_t>(axis)] = Index(operand[static_cast<size_t>(axis)] - 1) - at[static_cast<size_t>(axis)];
      return to;
    }
    default: internal_error("no index map for " + std::string(name_of(view.op)));
  }
}

Indices push_forward(const Node& view, const Indices& at) {
  const Shape operand = view.operand(0)->type.shape();
  switch (view.op) {
    case Op::reshape_: return bounded(reshape_indices(at, operand, view.result()->type.shape()), view);
    case Op::transpose_: {
      const auto& permutation = view.attrs.get_ints("permutation");
      Indices to(operand.size());
      for (size_t i = 0; i < operand.size(); ++i) to[i] = at[static_cast<size_t>(permutation[i])];
      return to;
    }
    case Op::reverse_: return pull_back(view, at);
    default: internal_error(std::string(name_of(view.op)) + " is not a bijective view");
  }
}

std::vector<int64_t> reduced_axes(const Node& reduce) {
  if (reduce.op == Op::argmax_ || reduce.op == Op::argmin_) return {reduce.attrs.get_int("axis")};
  return reduce.attrs.get_ints("axes");
}

std::vector<int> kept_axes(const Node& reduce) {
  const auto axes = reduced_axes(reduce);
  std::vector<int> kept;
  for (int i = 0; i < reduce.operand(0)->type.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) kept.push_back(i);
  }
  return kept;
}

std::vector<loop::VarRef> vars_of(const Indices& at) {
  std::vector<loop::VarRef> vars;
  for (const Index& index : at) collect_vars(index, vars);
  return vars;
}

bool is_affine(const Indices& at) {
  for (const Index& index : at) {
    for (const loop::Term& term : index.terms()) {
      if (term.atom.kind != loop::Atom::Kind::var) return false;
    }
  }
  return true;
}

namespace {

/// Additions and products that are computed again for each reader, at most; what a value is shifted and scaled by is smaller than it by this.
constexpr int kMostArithmetic = 3;
constexpr int64_t kMuchSmaller = 32;

bool is_widening(const Node& node) {
  if (node.op != Op::cast_) return false;
  const DType from = node.operand(0)->type.dtype, to = node.result()->type.dtype;
  return (from == DType::bf16 || from == DType::f16) && to == DType::f32;
}

/// Whether it is a question about numbers of 16 bits: whoever wants the answer, which takes a byte, mostly reads the number, too.
bool tests_narrow(const Node& node) {
  return node.op == Op::isnan_ && (node.operand(0)->type.dtype == DType::bf16 || node.operand(0)->type.dtype == DType::f16);
}

bool is_small(const Value* value, const Value* beside) {
  if (value->producer && is_create(*value->producer)) return true;
  return value->producer && value->producer->op == Op::broadcast_in_dim_ &&
         value->producer->operand(0)->type.count() * kMuchSmaller <= beside->type.count();
}

/// Additions and products from 16 bits to the result; -1 where it is made of something else.
int arithmetic_from_narrow(const Node& node) {
  if (is_widening(node) || tests_narrow(node)) return 0;
  if (node.op != Op::add_ && node.op != Op::sub_ && node.op != Op::mul_) return -1;
  for (const int wide : {0, 1}) {
    const Node* producer = node.operand(wide)->producer;
    if (!producer || !is_small(node.operand(1 - wide), node.result())) continue;
    const int before = arithmetic_from_narrow(*producer);
    if (before >= 0 && before < kMostArithmetic) return before + 1;
  }
  return -1;
}

}  // namespace

bool can_be_read_narrow(const Node& node) { return arithmetic_from_narrow(node) >= 0; }
bool is_arithmetic_on_narrow(const Node& node) { return arithmetic_from_narrow(node) > 0; }

}  // namespace tcc::group
