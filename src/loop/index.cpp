// Quasi-affine sums in one canonical form. Views are free because of this file: an index that went through reshapes, splits and merges comes out as the
// index that a direct access would have.
//
//   (%i * 32 + %j) / 32            ->  %i                    %j < 32
//   (%i * 4 + %j * 4 + %r) / 8     ->  (%i + %j) / 2         %r < 4
//   (%i * 4 + %r) mod 8            ->  %i mod 2 * 4 + %r     %r < 4
//   %x / 4 * 4 + %x mod 4          ->  %x
//
// How a / d and a mod d are taken apart (dynamic_split): a = d * quotient + rest, where the rest keeps what d does not divide; both functions use the same
// rest, so that a sum of the two parts finds back together (recombine). Then the rest is scaled down by a common factor g of d where what g does not
// divide stays within one multiple of g. What is left becomes an atom.
//
// Decided by ranges of variables alone, one interval per term: sums whose terms depend on each other (%x - %x mod 4 + ...) are bounded loosely, never wrongly.
#include "tcc/loop/index.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>

#include "tcc/support/diagnostics.h"
#include "tcc/support/text.h"

namespace tcc::loop {
namespace {

std::atomic<int> next_id{1};

int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
int64_t mod_of(int64_t a, int64_t b) { return a - floor_of(a, b) * b; }

int compare(const Index& a, const Index& b);

template <class T> int three_way(const T& a, const T& b) { return a < b ? -1 : b < a ? 1 : 0; }

int compare(const Index& a, const Index& b) {
  if (int c = three_way(a.terms().size(), b.terms().size())) return c;
  for (size_t i = 0; i < a.terms().size(); ++i) {
    if (int c = loop::compare(a.terms()[i].atom, b.terms()[i].atom)) return c;
    if (int c = three_way(a.terms()[i].coefficient, b.terms()[i].coefficient)) return c;
  }
  return three_way(a.constant(), b.constant());
}

struct Range {
  int64_t low, high;
};
std::optional<Range> range_of(const Index& index) {
  const auto low = index.min(), high = index.max();
  if (!low || !high) return std::nullopt;
  return Range{*low, *high};
}

std::optional<Range> range_of(const Atom& atom) {
  switch (atom.kind) {
    case Atom::Kind::var: return Range{0, std::max<int64_t>(atom.var->extent - 1, 0)};
    case Atom::Kind::scalar: return std::nullopt;
    case Atom::Kind::floor_div: {
      const auto operand = range_of(*atom.operand);
      if (!operand) return std::nullopt;
      return Range{floor_of(operand->low, atom.divisor), floor_of(operand->high, atom.divisor)};
    }
    case Atom::Kind::mod: return Range{0, atom.divisor - 1};  // one that never wraps is not an atom
  }
  internal_error("no such atom");
}

Atom div_atom(const Index& operand, int64_t divisor) {
  Atom atom;
  atom.kind = Atom::Kind::floor_div;
  atom.operand = std::make_shared<const Index>(operand);
  atom.divisor = divisor;
  return atom;
}
Atom mod_atom(const Index& operand, int64_t divisor) {
  Atom atom = div_atom(operand, divisor);
  atom.kind = Atom::Kind::mod;
  return atom;
}

bool is_single(const Index& index, Atom::Kind kind) {
  return index.constant() == 0 && index.terms().size() == 1 && index.terms()[0].coefficient == 1 && index.terms()[0].atom.kind == kind;
}

}  // namespace

/// What src/loop/index.cpp alone may do to an Index.
struct IndexBuilder {
  static void add(Index& index, int64_t coefficient, const Atom& atom) { index.add_term(coefficient, atom); }
  static Index of(int64_t coefficient, const Atom& atom) {
    Index index;
    index.add_term(coefficient, atom);
    return index;
  }
  static void set_constant(Index& index, int64_t value) { index.constant_ = value; }
  static void add_all(Index& to, const Index& from, int64_t factor) {
    to.constant_ += from.constant_ * factor;
    for (const Term& term : from.terms_) to.add_term(term.coefficient * factor, term.atom);
  }
};

namespace {

/// The terms of the sum that `keep` accepts, without the constant.
template <class F> Index part(const Index& index, F keep) {
  Index result;
  for (const Term& term : index.terms()) {
    if (keep(term)) IndexBuilder::add(result, term.coefficient, term.atom);
  }
  return result;
}

Index divided(const Index& index, int64_t factor) {
  Index result(index.constant() / factor);
  for (const Term& term : index.terms()) IndexBuilder::add(result, term.coefficient / factor, term.atom);
  return result;
}

/// a = divisor * quotient + rest.
struct Parts {
  Index quotient, rest;
};

/// A rest whose range shows that it never leaves one multiple of d is moved into [0, d) whole. Otherwise it keeps the given coefficients where it is never
/// negative, else it has those of the smallest magnitude (d / 2 stays positive); its constant is in [0, d).
Parts dynamic_split(const Index& a, int64_t d) {
  auto settle = [d](Parts& parts) {
    const auto range = range_of(parts.rest);
    if (!range || floor_of(range->low, d) != floor_of(range->high, d)) return false;
    const int64_t q = floor_of(range->low, d);
    parts.quotient = parts.quotient + Index(q);
    parts.rest = parts.rest - Index(q * d);
    return true;
  };
  Parts exact;  // only multiples of d leave: the coefficients that stay are the given ones
  Parts positive, small;
  for (const Term& term : a.terms()) {
    const int64_t c = term.coefficient, remainder = mod_of(c, d);
    auto give = [&](Parts& parts, int64_t stays) {
      if (stays != 0) IndexBuilder::add(parts.rest, stays, term.atom);
      if (stays != c) IndexBuilder::add(parts.quotient, (c - stays) / d, term.atom);
    };
    give(exact, remainder == 0 ? 0 : c);
    give(positive, remainder);
    give(small, remainder * 2 > d ? remainder - d : remainder);
  }
  const int64_t constant = mod_of(a.constant(), d), whole = floor_of(a.constant(), d);
  for (Parts* parts : {&exact, &positive, &small}) {
    IndexBuilder::set_constant(parts->rest, constant);
    IndexBuilder::set_constant(parts->quotient, whole);
  }
  if (settle(exact)) return exact;
  if (settle(positive)) return positive;
  // No multiple of d holds the rest. Coefficients as given keep its range tight and, where it is not negative, divisions unsigned.
  const auto range = range_of(exact.rest);
  if (range && range->low >= 0) return exact;
  settle(small);
  return small;
}

/// rest = g * multiple + remainder with 0 <= remainder < g and g a divisor of d, the largest that works; g is 1 when none does.
struct Factored {
  int64_t g = 1;
  Index multiple, remainder;
};
Factored factor_out(const Index& rest, int64_t d) {
  std::vector<int64_t> candidates;
  for (const Term& term : rest.terms()) {
    const int64_t g = std::gcd(term.coefficient, d);
    if (g > 1 && std::find(candidates.begin(), candidates.end(), g) == candidates.end()) candidates.push_back(g);
  }
  std::sort(candidates.rbegin(), candidates.rend());
  // A common divisor of all coefficients may be smaller than each gcd with d.
  int64_t common = d;
  for (const Term& term : rest.terms()) common = std::gcd(common, term.coefficient);
  if (common > 1) candidates.push_back(common);
  for (int64_t g : candidates) {
    Index remainder = part(rest, [g](const Term& term) { return term.coefficient % g != 0; });
    IndexBuilder::set_constant(remainder, rest.constant());
    const auto range = range_of(remainder);
    if (!range || floor_of(range->low, g) != floor_of(range->high, g)) continue;
    const int64_t q = floor_of(range->low, g);
    Factored result;
    result.g = g;
    result.multiple = divided(part(rest, [g](const Term& term) { return term.coefficient % g == 0; }), g) + Index(q);
    result.remainder = remainder - Index(q * g);
    return result;
  }
  return {};
}

bool within(const Index& index, int64_t d) {
  const auto range = range_of(index);
  return range && range->low >= 0 && range->high < d;
}

bool has_operand(const Term& term) { return term.atom.operand != nullptr; }

Index mod_of(const Index& a, int64_t d);

Index div_of(const Index& a, int64_t d) {
  if (d == 1) return a;
  const Parts parts = dynamic_split(a, d);
  const Index& rest = parts.rest;
  if (rest.is_constant() || within(rest, d)) return parts.quotient;
  if (const Factored f = factor_out(rest, d); f.g > 1) return parts.quotient + div_of(f.multiple, d / f.g);
  // (x mod a) / b = (x / b) mod (a / b) where b divides a.
  if (is_single(rest, Atom::Kind::mod) && rest.terms()[0].atom.divisor % d == 0) {
    const Atom& inner = rest.terms()[0].atom;
    return parts.quotient + mod_of(div_of(*inner.operand, d), inner.divisor / d);
  }
  // (s + x / a) / b = (s * a + x) / (a * b): one division where there is one to join.
  const auto is_division = [](const Term& term) { return term.coefficient == 1 && term.atom.kind == Atom::Kind::floor_div; };
  if (std::count_if(rest.terms().begin(), rest.terms().end(), is_division) == 1) {
    const Atom inner = std::find_if(rest.terms().begin(), rest.terms().end(), is_division)->atom;
    const Index others = rest - IndexBuilder::of(1, inner);
    return parts.quotient + div_of(others * inner.divisor + *inner.operand, inner.divisor * d);
  }
  return parts.quotient + IndexBuilder::of(1, div_atom(rest, d));
}

Index mod_of(const Index& a, int64_t d) {
  if (d == 1) return {};
  const Parts parts = dynamic_split(a, d);
  const Index& rest = parts.rest;
  if (rest.is_constant() || within(rest, d)) return rest;
  if (const Factored f = factor_out(rest, d); f.g > 1) return mod_of(f.multiple, d / f.g) * f.g + f.remainder;
  // (x mod a) mod b = x mod b where b divides a.
  if (is_single(rest, Atom::Kind::mod) && rest.terms()[0].atom.divisor % d == 0) return mod_of(*rest.terms()[0].atom.operand, d);
  // The division may see more, because it joins: where it comes out without divisions, so does this.
  if (const Index quotient = div_of(rest, d); std::none_of(quotient.terms().begin(), quotient.terms().end(), has_operand))
    return rest - quotient * d;
  return IndexBuilder::of(1, mod_atom(rest, d));
}

/// The position of the atom among the terms, -1 when absent.
int find_atom(const Index& index, const Atom& atom) {
  for (size_t i = 0; i < index.terms().size(); ++i) {
    if (compare(index.terms()[i].atom, atom) == 0) return static_cast<int>(i);
  }
  return -1;
}

/// Whether the sum has the divisions and remainders within `part`, `factor` times exactly, and there are any. Not when it has more: `%x / 4 * 8 + %x mod 4`
/// (rows of 4 in rows of 8) divides by 8, `%x + %x / 4 * 4` does not.
bool covers(const Index& sum, const Index& part, int64_t factor) {
  int found = 0;
  for (const Term& term : part.terms()) {
    if (!term.atom.operand) continue;
    const int at = find_atom(sum, term.atom);
    if (at < 0 || sum.terms()[static_cast<size_t>(at)].coefficient != term.coefficient * factor) return false;
    ++found;
  }
  return found > 0;
}

/// One step of joining what div and mod took apart; false when there is nothing to join.
///   x / a * (a * c) + x mod a * c              ->  x * c
///   (x / a) mod b * (a * c) + x mod a * c      ->  x mod (a * b) * c
bool recombine_once(Index& sum) {
  for (const Term& term : sum.terms()) {
    if (term.atom.kind != Atom::Kind::mod) continue;
    const int64_t c = term.coefficient, a = term.atom.divisor;
    const Index& x = *term.atom.operand;
    const Index quotient = div_of(x, a);
    if (covers(sum, quotient, c * a)) {
      const Atom remainder = term.atom;
      const Index whole = x;
      IndexBuilder::add_all(sum, quotient, -c * a);
      IndexBuilder::add(sum, -c, remainder);
      IndexBuilder::add_all(sum, whole, c);
      return true;
    }
    for (const Term& other : sum.terms()) {
      if (other.atom.kind != Atom::Kind::mod || other.coefficient != c * a) continue;
      Index shift = *other.atom.operand - quotient;  // the operand of x mod a lacks multiples of a
      if (!shift.is_constant()) shift = Index(0);
      if (!(mod_of(quotient + shift, other.atom.divisor) == IndexBuilder::of(1, other.atom))) continue;
      const Atom low = term.atom, high = other.atom;
      const Index joined = mod_of(x + shift * a, a * high.divisor);
      // Only where it is one atom: another form could be taken apart again for ever.
      if (!is_single(joined, Atom::Kind::mod)) continue;
      IndexBuilder::add(sum, -c, low);
      IndexBuilder::add(sum, -c * a, high);
      IndexBuilder::add_all(sum, joined, c);
      return true;
    }
  }
  return false;
}

void recombine(Index& sum) {
  int mods = 0;
  for (const Term& term : sum.terms()) mods += term.atom.kind == Atom::Kind::mod;
  if (mods == 0 || sum.terms().size() < 2) return;
  while (recombine_once(sum)) {}
}

}  // namespace

VarRef make_var(std::string name, int64_t extent) {
  auto var = std::make_shared<Var>();
  var->id = next_id++;
  var->name = std::move(name);
  var->extent = extent;
  return var;
}

ScalarRef make_scalar(std::string name, DType dtype) {
  auto scalar = std::make_shared<Scalar>();
  scalar->id = next_id++;
  scalar->name = std::move(name);
  scalar->dtype = dtype;
  return scalar;
}

int compare(const Atom& a, const Atom& b) {
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  switch (a.kind) {
    case Atom::Kind::var: return three_way(a.var->id, b.var->id);
    case Atom::Kind::scalar: return three_way(a.scalar->id, b.scalar->id);
    case Atom::Kind::floor_div:
    case Atom::Kind::mod:
      if (int c = three_way(a.divisor, b.divisor)) return c;
      return a.operand == b.operand ? 0 : compare(*a.operand, *b.operand);
  }
  internal_error("no such atom");
}

Index::Index(const VarRef& var) {
  if (var->extent == 1) return;
  Atom atom;
  atom.var = var;
  add_term(1, atom);
}

Index Index::of_scalar(const ScalarRef& scalar) {
  Atom atom;
  atom.kind = Atom::Kind::scalar;
  atom.scalar = scalar;
  return IndexBuilder::of(1, atom);
}

void Index::add_term(int64_t coefficient, const Atom& atom) {
  const auto at =
      std::lower_bound(terms_.begin(), terms_.end(), atom, [](const Term& term, const Atom& key) { return compare(term.atom, key) < 0; });
  if (at == terms_.end() || compare(at->atom, atom) != 0) {
    if (coefficient != 0) terms_.insert(at, Term{coefficient, atom});
    return;
  }
  at->coefficient += coefficient;
  if (at->coefficient == 0) terms_.erase(at);
}

int64_t Index::coefficient_of(const Var* var, bool* inside) const {
  int64_t result = 0;
  if (inside) *inside = false;
  for (const Term& term : terms_) {
    if (term.atom.kind == Atom::Kind::var && term.atom.var.get() == var) result = term.coefficient;
    if (inside && term.atom.operand && term.atom.operand->uses(var)) *inside = true;
  }
  return result;
}

bool Index::uses(const Var* var) const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [var](const Term& term) { return term.atom.var.get() == var || (term.atom.operand && term.atom.operand->uses(var)); });
}

bool Index::uses_scalars() const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [](const Term& term) { return term.atom.scalar || (term.atom.operand && term.atom.operand->uses_scalars()); });
}

namespace {

/// Bounds of the sum, term by term.
std::optional<Range> loose_range(int64_t constant, const std::vector<Term>& terms) {
  Range result{constant, constant};
  for (const Term& term : terms) {
    const auto range = range_of(term.atom);
    if (!range) return std::nullopt;
    result.low += term.coefficient * (term.coefficient > 0 ? range->low : range->high);
    result.high += term.coefficient * (term.coefficient > 0 ? range->high : range->low);
  }
  return result;
}

/// The same with what stands beside a division moved into it, which sees that they depend on each other:
///   %i + (%j - %i * 64) / 192  =  (%i * 128 + %j) / 192
std::optional<Range> range_through_divisions(int64_t constant, const std::vector<Term>& terms) {
  auto result = loose_range(constant, terms);
  for (const Term& division : terms) {
    if (!result) break;
    if (division.atom.kind != Atom::Kind::floor_div) continue;
    const int64_t c = division.coefficient, d = division.atom.divisor;
    Index inside = *division.atom.operand;
    std::vector<Term> outside;
    bool moved = false;
    for (const Term& term : terms) {
      if (&term == &division) continue;
      if (term.coefficient % c == 0 && term.atom.kind == Atom::Kind::var && inside.uses(term.atom.var.get())) {
        IndexBuilder::add(inside, term.coefficient / c * d, term.atom);
        moved = true;
      } else {
        outside.push_back(term);
      }
    }
    const auto rest = loose_range(constant, outside), operand = loose_range(inside.constant(), inside.terms());
    if (!moved || !rest || !operand) continue;
    const int64_t low = floor_of(operand->low, d) * c, high = floor_of(operand->high, d) * c;
    result->low = std::max(result->low, rest->low + std::min(low, high));
    result->high = std::min(result->high, rest->high + std::max(low, high));
  }
  return result;
}

}  // namespace

std::optional<int64_t> Index::min() const {
  const auto range = range_through_divisions(constant_, terms_);
  return range ? std::optional(range->low) : std::nullopt;
}

std::optional<int64_t> Index::max() const {
  const auto range = range_through_divisions(constant_, terms_);
  return range ? std::optional(range->high) : std::nullopt;
}

Index operator+(const Index& a, const Index& b) {
  Index result = a;
  IndexBuilder::add_all(result, b, 1);
  recombine(result);
  return result;
}

Index operator-(const Index& a, const Index& b) {
  Index result = a;
  IndexBuilder::add_all(result, b, -1);
  recombine(result);
  return result;
}

Index operator*(const Index& a, int64_t factor) {
  Index result;
  IndexBuilder::add_all(result, a, factor);
  return result;
}

Index floor_div(const Index& a, int64_t divisor) {
  check(divisor > 0, "the divisor of an index is not positive");
  return div_of(a, divisor);
}

Index mod(const Index& a, int64_t divisor) {
  check(divisor > 0, "the divisor of an index is not positive");
  return mod_of(a, divisor);
}

bool operator==(const Index& a, const Index& b) { return compare(a, b) == 0; }

namespace {

/// Rebuilds the sum with `leaf` in place of each variable and scalar (nullopt: keep).
Index rebuild(const Index& index, const std::function<std::optional<Index>(const Atom&)>& leaf) {
  Index result(index.constant());
  for (const Term& term : index.terms()) {
    const Atom& atom = term.atom;
    if (!atom.operand) {
      const auto replacement = leaf(atom);
      result = result + (replacement ? *replacement : IndexBuilder::of(1, atom)) * term.coefficient;
      continue;
    }
    const Index operand = rebuild(*atom.operand, leaf);
    result = result + (atom.kind == Atom::Kind::mod ? mod(operand, atom.divisor) : floor_div(operand, atom.divisor)) * term.coefficient;
  }
  return result;
}

}  // namespace

Index substitute(const Index& index, const std::function<std::optional<Index>(const VarRef&)>& map) {
  return rebuild(index, [&](const Atom& atom) { return atom.var ? map(atom.var) : std::nullopt; });
}

Index substitute_scalars(const Index& index, const std::function<std::optional<Index>(const ScalarRef&)>& map) {
  return rebuild(index, [&](const Atom& atom) { return atom.scalar ? map(atom.scalar) : std::nullopt; });
}

void collect_vars(const Index& index, std::vector<VarRef>& vars) {
  for (const Term& term : index.terms()) {
    if (term.atom.operand) collect_vars(*term.atom.operand, vars);
    if (!term.atom.var) continue;
    const auto at =
        std::lower_bound(vars.begin(), vars.end(), term.atom.var, [](const VarRef& a, const VarRef& b) { return a->id < b->id; });
    if (at == vars.end() || *at != term.atom.var) vars.insert(at, term.atom.var);
  }
}

Index flatten(const std::vector<Index>& indices, const std::vector<int64_t>& extents) {
  check(indices.size() == extents.size(), "as many indices as extents are needed to flatten them");
  Index result;
  for (size_t i = 0; i < indices.size(); ++i) result = result * extents[i] + indices[i];
  return result;
}

std::vector<Index> unflatten(const Index& flat, const std::vector<int64_t>& extents) {
  std::vector<Index> result(extents.size());
  Index rest = flat;
  for (size_t i = extents.size(); i-- > 0;) {
    const int64_t extent = std::max<int64_t>(extents[i], 1);
    result[i] = i == 0 && extent > 1 ? rest : mod(rest, extent);  // the offset is within the extents, so the first index needs no mod
    rest = floor_div(rest, extent);
  }
  return result;
}

namespace {

std::string leaf_text(const Atom& atom) { return print_value_name(atom.var ? atom.var->name : atom.scalar->name); }

}  // namespace

std::string to_string(const Index& index) {
  std::string text;
  for (const Term& term : index.terms()) {
    const int64_t magnitude = std::abs(term.coefficient);
    text += text.empty() ? (term.coefficient < 0 ? "-" : "") : (term.coefficient < 0 ? " - " : " + ");
    if (term.atom.operand) {
      const std::string operand = to_string(*term.atom.operand);
      const bool bare = term.atom.operand->constant() == 0 && term.atom.operand->terms().size() == 1 &&
                        term.atom.operand->terms()[0].coefficient == 1;  // `%x / 4 mod 3` reads from the left
      text += (bare ? operand : "(" + operand + ")") + (term.atom.kind == Atom::Kind::mod ? " mod " : " / ") +
              std::to_string(term.atom.divisor);
    } else {
      text += leaf_text(term.atom);
    }
    if (magnitude != 1) text += " * " + std::to_string(magnitude);
  }
  if (index.constant() != 0 || text.empty()) {
    if (text.empty()) return std::to_string(index.constant());
    text += (index.constant() < 0 ? " - " : " + ") + std::to_string(std::abs(index.constant()));
  }
  return text;
}

}  // namespace tcc::loop
