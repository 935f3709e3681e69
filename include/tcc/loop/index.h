// Index arithmetic of the loop IR: quasi-affine sums in one canonical form, with ranges.
//
//   %i * 32 + %j + 5        (%i * 4 + %j) / 8        (%i * 4 + %j) mod 8        %i + %s   (%s: a scalar read from memory)
//
// Canonical: terms sorted by atom (creation id), coefficients non-zero, nested div/mod simplified by the ranges of their variables, so equal
// functions of the kind that lowering and scheduling make compare equal. Division is floor division, mod is non-negative, divisors are positive.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tcc/support/dtype.h"

namespace tcc::loop {

/// No loop has more iterations, no buffer more bytes and no coefficient of an index a larger value: what sums of products make of them fits 64 bits.
inline constexpr int64_t kMostIterations = int64_t{1} << 47;

/// A loop variable, in [0, extent). Identity is the pointer. `runtime` (later) names the scalar that bounds it from within `extent`.
struct Var {
  int id = 0;        ///< creation order; the canonical order of terms
  std::string name;  ///< unique in its unit, without '%'
  int64_t extent = 1;
};
using VarRef = std::shared_ptr<const Var>;
VarRef make_var(std::string name, int64_t extent);

/// A scalar value with one definition: a let, the result of a reduce, a state of a scan.
struct Scalar {
  int id = 0;
  std::string name;
  DType dtype = DType::f32;
};
using ScalarRef = std::shared_ptr<const Scalar>;
ScalarRef make_scalar(std::string name, DType dtype);

class Index;
/// What a term multiplies.
struct Atom {
  enum class Kind : uint8_t { var, scalar, floor_div, mod };
  Kind kind = Kind::var;
  VarRef var;                            ///< var
  ScalarRef scalar;                      ///< scalar: an integer value known only at run time
  std::shared_ptr<const Index> operand;  ///< floor_div, mod
  int64_t divisor = 1;
};
int compare(const Atom& a, const Atom& b);  ///< -1, 0, 1: a total order; structural

struct Term {
  int64_t coefficient = 1;
  Atom atom;
};

class Index {
 public:
  Index() = default;
  Index(int64_t constant) : constant_(constant) {}  // NOLINT: a constant is an index
  Index(const VarRef& var);                         // NOLINT; of extent 1: the constant 0
  static Index of_scalar(const ScalarRef& scalar);

  int64_t constant() const { return constant_; }
  const std::vector<Term>& terms() const { return terms_; }
  bool is_constant() const { return terms_.empty(); }
  /// The coefficient of a bare variable term, 0 when absent. `inside` says whether the variable also occurs within a div or mod.
  int64_t coefficient_of(const Var* var, bool* inside = nullptr) const;
  bool uses(const Var* var) const;  ///< anywhere
  bool uses_scalars() const;

  /// Inclusive bounds from the extents of the variables; nullopt where a scalar takes part.
  std::optional<int64_t> min() const;
  std::optional<int64_t> max() const;

  friend Index operator+(const Index& a, const Index& b);
  friend Index operator-(const Index& a, const Index& b);
  friend Index operator*(const Index& a, int64_t factor);
  friend Index floor_div(const Index& a, int64_t divisor);
  friend Index mod(const Index& a, int64_t divisor);
  friend bool operator==(const Index& a, const Index& b);

 private:
  friend struct IndexBuilder;  // src/loop/index.cpp
  void add_term(int64_t coefficient, const Atom& atom);
  int64_t constant_ = 0;
  std::vector<Term> terms_;
};
Index floor_div(const Index& a, int64_t divisor);
Index mod(const Index& a, int64_t divisor);

/// Replaces variables (nullopt from `map`: keep) and re-canonicalises.
Index substitute(const Index& index, const std::function<std::optional<Index>(const VarRef&)>& map);
Index substitute_scalars(const Index& index, const std::function<std::optional<Index>(const ScalarRef&)>& map);
void collect_vars(const Index& index, std::vector<VarRef>& vars);  ///< each once, in canonical order

/// Row-major flat offset of `indices` in `extents`, and its inverse.
Index flatten(const std::vector<Index>& indices, const std::vector<int64_t>& extents);
std::vector<Index> unflatten(const Index& flat, const std::vector<int64_t>& extents);

std::string to_string(const Index& index);

}  // namespace tcc::loop
