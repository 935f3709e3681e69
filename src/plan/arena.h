// Places for buffers that live during parts of a run.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tcc/loop/loop.h"
#include "tcc/support/integer_math.h"
#include "tcc/support/tensor.h"

namespace tcc::plan {

inline constexpr int64_t kArenaAlignment = 256;
constexpr int64_t aligned(int64_t bytes) { return align_up(bytes, kArenaAlignment); }

/// What a temporary takes: its strides may leave gaps. kMaxTensorBytes + 1 for more than that.
int64_t span_bytes(const loop::Buffer& buffer);

/// With the padding behind rows (Buffer::row_padding), as if it were elements.
Shape padded_shape(Shape shape, int64_t row_padding);

/// A buffer of the arena: `size_bytes` needed from launch `first` to launch `last`, both included.
struct Interval {
  int64_t size_bytes = 0;
  int first = 0, last = 0;
  int64_t offset = 0;  ///< set by place_intervals
};

/// The most bytes that live at a time: no placing needs less. Intervals with a negative `first` live never.
int64_t most_live_bytes(const std::vector<Interval>& intervals);

/// Sets the offset of each interval so that no two that live at the same time overlap; returns the bytes of the arena. Where these are not below `limit`, it
/// returns `limit`, and the offsets mean nothing.
int64_t place_intervals(std::vector<Interval>& intervals, int64_t limit = std::numeric_limits<int64_t>::max());

}  // namespace tcc::plan
