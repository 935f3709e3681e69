// A nest read as a contraction: which loop dims are rows, columns, batch and summed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/analysis.h"

namespace tcc::schedule {

/// One of the two factors.
struct Factor {
  loop::BufferRef buffer;
  std::vector<loop::Index> indices;
  bool guarded = false;                     ///< load with `else 0`
  bool spread = false;                      ///< zero where a condition on the dims says so: elements with zeros between them
  int axis_of(const loop::Var* var) const;  ///< the one axis whose index is var + things without it; -1
  bool uses(const loop::Var* var) const;
};

/// r[batch..., m, n] = epilogue(sum over k... of a[batch..., m, k...] * b[batch..., n, k...]). `n` is the dim along which results are neighbours in memory.
struct Contraction {
  std::string accumulator;
  std::vector<loop::VarRef> dims;  ///< of the map, in order
  std::vector<loop::VarRef> sums;  ///< of the reduce, in order
  Factor a, b;
  std::vector<loop::VarRef> only_a, only_b, both;  ///< dims of the map by which factor uses them; `both` also has those that neither uses
  loop::VarRef neighbour;                          ///< dim with stride 1 in the first store; null when there is none

  int64_t results() const;
  int64_t length() const;  ///< of the sum
};
/// `with_spread`: also where a factor is spread by zeros, select(condition, load, 0).
std::optional<Contraction> as_contraction(const loop::Stmt& stmt, bool with_spread = false);

}  // namespace tcc::schedule
