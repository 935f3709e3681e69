// How much work a piece of loop IR is, and how long that takes.
#pragma once

#include <map>
#include <string>

#include "tcc/schedule/schedule.h"

namespace tcc::schedule {

/// Work of one run of a block, with loops multiplied out.
struct Work {
  double ops = 0;                            ///< arithmetic, a division counts 4, a transcendental function 20
  double vector_ops = 0;                     ///< the part of it that is inside a vector dim, in lanes
  std::map<std::string, double> matrix_ops;  ///< multiplications and additions of tensor cores, by instruction
  double load_bytes = 0;                     ///< asked for, whether they hit a cache or not
  /// From global and from shared memory, what unrolled loops load again counted once: it stays in registers.
  double global_bytes = 0, shared_bytes = 0;
  double unique_bytes = 0;  ///< each buffer's elements once
};
Work measure_work(const loop::Block& block);

/// Of the shorter of products of tensor cores and other arithmetic, what is not done at the same time. Measured on an H200.
inline constexpr double kApart = 0.4;

/// Time of the work on one core (multiprocessor: the whole chip is counted) when it is vectorised as it stands.
double time_ns(const Work& work, const Target& target, double parallel);

/// An operand of a contraction that is copied on the host before it is used: into panels, or spread out.
struct Packing {
  double bytes = 4;         ///< of an element
  double bytes_per_ns = 1;  ///< that the copy reads and writes
  double products = 1;      ///< that an element is used for
};
/// Whether the copy takes little beside the products.
bool pays(const Packing& packing, const Target& target);

}  // namespace tcc::schedule
