// What recognisers of products of matrices within a nest share (streamed_rows.cpp, product_chain.cpp).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "tcc/loop/loop.h"

namespace tcc::loop {

/// Why a nest is not what is looked for.
struct Refused {
  std::string why;
};
[[noreturn]] void refuse(std::string why);
/// What Recogniser().run(nest) returns; nothing, with a reason, where it refuses.
template <class Recogniser> auto recognised(const Stmt& nest, std::string* why_not) {
  std::optional<decltype(Recogniser().run(nest))> form;
  try {
    form = Recogniser().run(nest);
  } catch (const Refused& refused) {
    if (why_not) *why_not = refused.why;
  }
  return form;
}

/// Scalars with the expressions that they stand for, down to loads and results of reduces.
class Meanings {
 public:
  void add(const Let& let) { meanings_[let.scalar.get()] = of(let.value); }
  ExprPtr of(const ExprPtr& expr) const;

 private:
  std::map<const Scalar*, ExprPtr> meanings_;
};

ExprPtr without_casts(ExprPtr expr);  ///< between floats
bool is_op(const ExprPtr& expr, Op op);
bool is_zero(const ExprPtr& expr);  ///< a float, seen through casts

/// A sum of products of what two loads read.
struct RowProduct {
  ScalarRef result;
  VarRef k;
  ExprPtr x, y;
};
/// Refuses other sums.
RowProduct product_of(const Reduce& sum, const Meanings& around);

/// What a causal mask leaves of an element, where it holds: `visible` where row + diagonal - column is not negative, else a number that no exponential survives.
struct Masked {
  ExprPtr visible;
  Index distance;
};
std::optional<Masked> masked_part(const ExprPtr& expr);

}  // namespace tcc::loop
