// Best fit over live intervals: each buffer in turn takes the smallest gap that holds it among the buffers placed before that live at the same time.
//
// The order of placing decides how good that is, and no order is best for all models, so a few are tried and the smallest arena wins: the largest first, the
// longest-living first, by bytes times lifetime, and in order of time.

#include "plan/arena.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace tcc::plan {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

int64_t lifetime(const Interval& interval) { return interval.last - interval.first + 1; }

/// Offsets in the given order; the bytes they need.
int64_t place_in_order(const std::vector<Interval>& intervals, const std::vector<size_t>& order, std::vector<int64_t>& offsets) {
  std::vector<size_t> placed;  // by offset
  int64_t total = 0;
  for (size_t number : order) {
    const Interval& interval = intervals[number];
    const int64_t size = aligned(interval.size_bytes);
    if (size == 0) {
      offsets[number] = 0;
      continue;
    }
    int64_t best = -1, best_gap = std::numeric_limits<int64_t>::max(), end = 0;
    for (size_t other_number : placed) {
      const Interval& other = intervals[other_number];
      if (other.last < interval.first || other.first > interval.last) continue;
      const int64_t gap = offsets[other_number] - end;
      if (gap >= size && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, offsets[other_number] + aligned(other.size_bytes));
    }
    offsets[number] = best >= 0 ? best : end;
    total = std::max(total, offsets[number] + size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), number, [&](size_t a, size_t b) { return offsets[a] < offsets[b]; }),
                  number);
  }
  return total;
}

}  // namespace

int64_t place_intervals(std::vector<Interval>& intervals) {
  const std::vector<std::function<bool(const Interval&, const Interval&)>> orders{
      [](const Interval& a, const Interval& b) { return a.size_bytes > b.size_bytes; },
      [](const Interval& a, const Interval& b) { return lifetime(a) > lifetime(b); },
      [](const Interval& a, const Interval& b) { return a.size_bytes * lifetime(a) > b.size_bytes * lifetime(b); },
      [](const Interval& a, const Interval& b) { return a.first < b.first; },
  };
  int64_t best = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> best_offsets(intervals.size());
  for (const auto& before : orders) {
    std::vector<size_t> order(intervals.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return before(intervals[a], intervals[b]); });
    std::vector<int64_t> offsets(intervals.size());
    const int64_t total = place_in_order(intervals, order, offsets);
    if (total < best) {
      best = total;
      best_offsets = std::move(offsets);
    }
  }
  for (size_t i = 0; i < intervals.size(); ++i) intervals[i].offset = best_offsets[i];
  return intervals.empty() ? 0 : best;
}

}  // namespace tcc::plan
