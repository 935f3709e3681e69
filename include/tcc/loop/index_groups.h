// Neighbouring elements that are inside a buffer together, or outside.
#pragma once

#include <algorithm>

#include "tcc/loop/index.h"

namespace tcc::loop {

/// Whether of `size` values of the variable that begin at 0 all give an index in [0, extent), or none does, whatever the others are: `%k + %i * 128 - 2048` of
/// groups of 8.
inline bool is_inside_by_groups(const Index& index, int64_t extent, const Var* var, int64_t size) {
  bool within = false;
  if (index.coefficient_of(var, &within) != 1 || within) return false;
  return extent % size == 0 && index.constant() % size == 0 && std::ranges::all_of(index.terms(), [&](const Term& term) {
           return term.coefficient % size == 0 || (term.atom.kind == Atom::Kind::var && term.atom.var.get() == var);
         });
}

}  // namespace tcc::loop
