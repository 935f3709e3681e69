// What conditions say about indices: ranges of sums under `where`, `if` and the extents of loops.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tcc/loop/loop.h"

namespace tcc::loop {

struct Bounds {
  int64_t low, high;  ///< inclusive
};

class IndexBounds {
 public:
  /// Takes in what holds where the condition does: comparisons of indices joined by `and`; the rest is not understood and says nothing.
  void assume(const ExprPtr& condition);
  void assume_not(const ExprPtr& condition);
  /// Bounds of the index; nullopt where a scalar takes part that no fact bounds.
  std::optional<Bounds> bounds(const Index& index) const;
  /// Whether a condition speaks of a variable of the index.
  bool mentions(const Index& index) const;
  bool proves(const Index& index, int64_t low, int64_t high) const;  ///< low <= index < high
  bool proves(const ExprPtr& condition) const;                       ///< comparisons of indices joined by `and`; null is true

 private:
  void add(Op op, const Index& a, const Index& b);
  void add_at_most(const Index& sum, int64_t high);
  std::optional<Bounds> bounds_of(const Atom& atom) const;
  std::optional<Bounds> by_terms(const Index& index) const;

  struct Upper {
    Index sum;     ///< without constant
    int64_t high;  ///< sum <= high
  };
  std::vector<Upper> uppers_;
  std::map<const void*, std::pair<std::optional<int64_t>, std::optional<int64_t>>> leaves_;  ///< of single variables and scalars
  mutable int depth_ = 0;  ///< of divisions within divisions: a fact may hold the very division that it bounds
};

/// Whether `conclusion` holds wherever `premise` does, for all values of the variables in their extents. Null means true. False also where that is not seen.
bool implies(const ExprPtr& premise, const ExprPtr& conclusion);

/// The value of an integer expression as an index: constants, indices, scalars, their sums and multiples.
std::optional<Index> index_of(const ExprPtr& expr);

}  // namespace tcc::loop
