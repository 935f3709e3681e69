// The schedule of a unit: a list of primitives that name its loops and scalars. `choose` writes it, `apply` obeys, one loop pass per primitive.
//
//   split(i, 4) bind(i0, block) bind(i1, warp) split(j, 4) bind(j0, lane) vectorize(j1) cache(x, registers)
//
// The text is what `--emit=schedule` prints, tests contain and a tuning record holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tcc/loop/loop.h"
#include "tcc/target/target.h"

namespace tcc::schedule {

/// Names of the vocabulary: split fuse reorder tile bind vectorize unroll fuse_online_reduction cache stage pipeline reduce_across split_reduce two_level_sum compute_at tensorize epilogue skip_zeros.
/// Arguments in order: names (of loop variables, scalars, buffers, or words such as `block`), integers, or key=value.
struct Argument {
  std::string key;  ///< empty: positional
  std::variant<std::string, int64_t> value;
  bool operator==(const Argument&) const = default;
};
struct Primitive {
  std::string name;
  std::vector<Argument> arguments;
  /// Where a choice begins: the strategy that was taken, and why not the ones before it; a line for each. No part of what the schedule is.
  std::string why = {};
  bool operator==(const Primitive& other) const { return name == other.name && arguments == other.arguments; }
};
using Schedule = std::vector<Primitive>;

std::string print(const Schedule& schedule);    ///< one line
std::string explain(const Schedule& schedule);  ///< why it was chosen, as lines of comments; empty for one that was read
Schedule parse_schedule(std::string_view text, const std::string& file);
std::vector<std::string> primitive_names();  ///< in alphabetical order

using tcc::Target;

/// Chooses the primitives for a unit by the cost model of the target. Deterministic.
Schedule choose(const loop::Unit& unit, const Target& target);

/// Whether the target has kernels for some units of rows between two products (group.h: kind stream).
bool has_streams(const Target& target);
/// Whether it has one for this unit, in its first form.
std::optional<double> stream_ns(const loop::Unit& unit, const Target& target);
/// Whether convolutions of this dtype are faster where the channels of images are last.
bool prefers_channels_last(DType dtype, const Target& target);
/// Applies them in order; the result is in scheduled form. Error (usage, "invalid-schedule") naming the primitive when one doesn't fit.
loop::Unit apply(const loop::Unit& unit, const Schedule& schedule, const Target& target);
/// Cuts a scheduled unit into kernels: one per top-level loop; temporaries of the unit that pass between kernels become parameters.
/// `temporaries` receives those buffers (each is a parameter of at least two kernels).
std::vector<loop::Kernel> split_kernels(const loop::Unit& unit, const Target& target, std::vector<loop::BufferRef>* temporaries);
/// Estimated time of one kernel in ns on the target (what the pool and the plan use).
double estimate_ns(const loop::Kernel& kernel, const Target& target);

}  // namespace tcc::schedule
