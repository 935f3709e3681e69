// The folding operations of reductions, scans and windows: one place for what max does with NaN.
//
// Floats add and multiply in f64 whatever the working dtype is, which is more exact than any order of f32 additions; max and min stay.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "tcc/graph/graph.h"
#include "tcc/ops/combiner.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/dtype.h"
#include "tcc/support/extremes.h"

namespace tcc::rules {

template <class T> struct Sum {
  using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  static Accumulator fold(Accumulator a, Accumulator b) { return a + b; }
};
template <class T> struct Product {
  using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  static Accumulator fold(Accumulator a, Accumulator b) { return a * b; }
};
/// NaN wins, and the zeros are ordered.
template <class T> struct Maximum {
  using Accumulator = T;
  static Accumulator fold(Accumulator a, Accumulator b) { return larger(a, b); }
};
template <class T> struct Minimum {
  using Accumulator = T;
  static Accumulator fold(Accumulator a, Accumulator b) { return smaller(a, b); }
};
template <class T> struct And {
  using Accumulator = T;
  static Accumulator fold(Accumulator a, Accumulator b) { return a & b; }
};
template <class T> struct Or {
  using Accumulator = T;
  static Accumulator fold(Accumulator a, Accumulator b) { return a | b; }
};

/// Calls f(Reducer, identity) for a combiner other than `assign`. `dtype` is that of the tensor, not the working one.
template <class T, class F> void visit_reducer(Combiner combiner, DType dtype, F&& f) {
  const auto call = [&](auto reducer) {
    using Accumulator = typename decltype(reducer)::Accumulator;
    const Identity identity = identity_of(combiner, dtype);
    if constexpr (std::is_floating_point_v<Accumulator>) f(reducer, static_cast<Accumulator>(identity.float_value));
    else f(reducer, static_cast<Accumulator>(identity.int_value));
  };
  switch (combiner) {
    case Combiner::sum: return call(Sum<T>{});
    case Combiner::prod: return call(Product<T>{});
    case Combiner::max: return call(Maximum<T>{});
    case Combiner::min: return call(Minimum<T>{});
    case Combiner::and_:
    case Combiner::or_:
      if constexpr (std::is_integral_v<T>) return combiner == Combiner::and_ ? call(And<T>{}) : call(Or<T>{});
      break;
    case Combiner::assign: break;
  }
  internal_error("a reduction of " + std::string(name_of(dtype)) + " by `" + std::string(name_of(combiner)) + "`");
}

/// The combiner that an attribute names.
inline Combiner combiner_in(const Attrs& attrs, const std::string& name) {
  const std::optional<Combiner> combiner = combiner_named(attrs.get_string(name));
  check(combiner.has_value(), "an attribute that names a combiner");
  return *combiner;
}

}  // namespace tcc::rules
