// Facts about a nest that the choice of a schedule rests on: which memory it touches and with which strides.
#pragma once

#include <optional>
#include <vector>

#include "tcc/loop/loop.h"

namespace tcc::schedule {

struct Access {
  loop::BufferRef buffer;
  std::vector<loop::Index> indices;
  loop::Index flat;  ///< offset in elements
  bool store = false;
  bool guarded = false;  ///< load with `else`
};
std::vector<Access> accesses_of(const loop::Block& block);
std::vector<Access> accesses_of(const loop::ExprPtr& expr);

/// Elements between neighbours along the variable; nothing when that is not constant (within a div or mod, or through a scalar's let).
std::optional<int64_t> stride_of(const Access& access, const loop::Var* var);

/// Whether all indices inside stay sums of variables when two neighbouring dims become one.
bool fuses(const loop::Stmt& stmt, const loop::Dim& outer, const loop::Dim& inner);

/// Transcendental functions and divisions in it.
bool is_costly(const loop::ExprPtr& expr);

int64_t iterations(const std::vector<loop::Dim>& dims);

}  // namespace tcc::schedule
