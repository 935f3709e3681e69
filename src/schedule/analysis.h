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
Access access_of(const loop::BufferRef& buffer, const std::vector<loop::Index>& indices, bool store, bool guarded);
std::vector<Access> accesses_of(const loop::Block& block);
std::vector<Access> accesses_of(const loop::ExprPtr& expr);

/// Elements between neighbours along the variable; nothing when that is not constant (within a div or mod, or through a scalar's let).
std::optional<int64_t> stride_of(const Access& access, const loop::Var* var);

/// The index with the variable as a number of a group of so many values and a place in it: a division may take the place away.
struct InGroups {
  loop::Index index;
  loop::VarRef place;
};
InGroups in_groups(const loop::Index& index, const loop::Var* var, int64_t width);

/// Whether the variable decides, among others, whether a guarded load is inside the buffer, within groups of so many values.
bool guard_varies(const Access& access, const loop::Var* var, int64_t width);

/// Whether all indices inside stay sums of variables when two neighbouring dims become one.
bool fuses(const loop::Stmt& stmt, const loop::Dim& outer, const loop::Dim& inner);

/// Loads and stores that are contiguous along the variable, less those that jump. More along one variable than along another: neighbours in memory are
/// neighbours along that.
int contiguity(const std::vector<Access>& accesses, const loop::Var* var);

/// Whether there is a transcendental function in it.
bool is_costly(const loop::ExprPtr& expr);

/// What a unit does as written, each loop's body once: work that a value kept in registers would save.
struct WrittenWork {
  int global_loads = 0, costly_ops = 0;
};
WrittenWork written_work(const loop::Unit& unit);

int64_t iterations(const std::vector<loop::Dim>& dims);
int64_t iterations(const std::vector<loop::VarRef>& vars);

}  // namespace tcc::schedule
