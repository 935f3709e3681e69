// Best fit over live intervals: each buffer in turn takes the smallest gap that holds it among the buffers placed before that live at the same time.
//
// The order of placing decides how good that is, and no order is best for all models, so a few are tried and the smallest arena wins: the largest first, the
// longest-living first, by bytes times lifetime, and in order of time.

#include "plan/arena.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "tcc/rules/limits.h"

namespace tcc::plan {
namespace {

int64_t lifetime(const Interval& interval) { return interval.last - interval.first + 1; }

/// Bytes of the arena: [begin, end).
struct Range {
  int64_t begin, end;
};

/// What is occupied, as few ranges as that takes, in order. Buffers lie close to each other, so these are far fewer than buffers.
class Ranges {
 public:
  void add(Range range) {
    const auto first =
        std::lower_bound(list_.begin(), list_.end(), range.begin, [](const Range& a, int64_t begin) { return a.end < begin; });
    auto last = first;
    for (; last != list_.end() && last->begin <= range.end; ++last) {
      range.begin = std::min(range.begin, last->begin);
      range.end = std::max(range.end, last->end);
    }
    if (first == last) {
      list_.insert(first, range);
      return;
    }
    *first = range;
    list_.erase(std::next(first), last);
  }
  const std::vector<Range>& list() const { return list_; }

 private:
  std::vector<Range> list_;
};

/// A segment tree over time: what is occupied at some time of an interval is found in a number of steps that grows with the logarithm of the time.
class Occupied {
 public:
  explicit Occupied(int num_times) : num_times_(num_times), nodes_(4 * static_cast<size_t>(num_times)) {}

  void add(const Interval& interval, Range range) { add(interval, range, 1, 0, num_times_ - 1); }

  /// In order of where they begin; they may overlap.
  const std::vector<Range>& during(const Interval& interval) {
    found_.clear();
    collect(interval, 1, 0, num_times_ - 1);
    std::sort(found_.begin(), found_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    return found_;
  }

 private:
  struct Node {
    Ranges always;     ///< of intervals that cover the times of this node, but not all of the node above
    Ranges sometimes;  ///< of all intervals that touch the times of this node
  };

  void add(const Interval& interval, Range range, size_t node, int first, int last) {
    if (interval.last < first || last < interval.first) return;
    nodes_[node].sometimes.add(range);
    if (interval.first <= first && last <= interval.last) {
      nodes_[node].always.add(range);
      return;
    }
    const int middle = (first + last) / 2;
    add(interval, range, 2 * node, first, middle);
    add(interval, range, 2 * node + 1, middle + 1, last);
  }

  void collect(const Interval& interval, size_t node, int first, int last) {
    if (interval.last < first || last < interval.first) return;
    const bool whole = interval.first <= first && last <= interval.last;
    const std::vector<Range>& ranges = (whole ? nodes_[node].sometimes : nodes_[node].always).list();
    found_.insert(found_.end(), ranges.begin(), ranges.end());
    if (whole) return;
    const int middle = (first + last) / 2;
    collect(interval, 2 * node, first, middle);
    collect(interval, 2 * node + 1, middle + 1, last);
  }

  int num_times_;
  std::vector<Node> nodes_;
  std::vector<Range> found_;
};

/// Offsets in the given order; the bytes they need. Stops once these reach `limit`.
int64_t place_in_order(const std::vector<Interval>& intervals, const std::vector<size_t>& order, int num_times, int64_t limit,
                       std::vector<int64_t>& offsets) {
  Occupied occupied(num_times);
  int64_t total = 0;
  for (size_t number : order) {
    const Interval& interval = intervals[number];
    const int64_t size = aligned(interval.size_bytes);
    if (size == 0) {
      offsets[number] = 0;
      continue;
    }
    int64_t best = -1, best_gap = std::numeric_limits<int64_t>::max(), end = 0;
    for (const Range& range : occupied.during(interval)) {
      const int64_t gap = range.begin - end;
      if (gap >= size && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, range.end);
    }
    offsets[number] = best >= 0 ? best : end;
    total = std::max(total, offsets[number] + size);
    if (total >= limit) break;
    occupied.add(interval, {offsets[number], offsets[number] + size});
  }
  return total;
}

}  // namespace

int64_t span_bytes(const loop::Buffer& buffer) {
  if (bounded_product(buffer.extents) < 0) return kMaxTensorBytes + 1;
  if (buffer.count() == 0) return 0;
  int64_t last = 0;
  const std::vector<int64_t> strides = buffer.element_strides();
  for (size_t i = 0; i < strides.size(); ++i) {
    int64_t step;
    const bool fits = !__builtin_mul_overflow(buffer.extents[i] - 1, strides[i], &step) && !__builtin_add_overflow(last, step, &last);
    if (!fits || last > kMaxTensorBytes) return kMaxTensorBytes + 1;
  }
  return std::min(storage_bytes(buffer.dtype, last + 1), kMaxTensorBytes + 1);
}

Shape padded_shape(Shape shape, int64_t row_padding) {
  if (!shape.empty()) shape.back() += row_padding;
  return shape;
}

int64_t most_live_bytes(const std::vector<Interval>& intervals) {
  std::vector<int64_t> change;
  for (const Interval& interval : intervals) {
    if (interval.first < 0) continue;
    change.resize(std::max(change.size(), static_cast<size_t>(interval.last) + 2));
    change[static_cast<size_t>(interval.first)] += aligned(interval.size_bytes);
    change[static_cast<size_t>(interval.last) + 1] -= aligned(interval.size_bytes);
  }
  int64_t live = 0, most = 0;
  for (const int64_t bytes : change) {
    live += bytes;
    most = std::max(most, live);
  }
  return most;
}

int64_t place_intervals(std::vector<Interval>& intervals, int64_t limit) {
  if (intervals.empty()) return 0;
  const std::vector<std::function<bool(const Interval&, const Interval&)>> orders{
      [](const Interval& a, const Interval& b) { return a.size_bytes > b.size_bytes; },
      [](const Interval& a, const Interval& b) { return lifetime(a) > lifetime(b); },
      [](const Interval& a, const Interval& b) { return a.size_bytes * lifetime(a) > b.size_bytes * lifetime(b); },
      [](const Interval& a, const Interval& b) { return a.first < b.first; },
  };
  int64_t best = limit;
  int num_times = 1;
  for (const Interval& interval : intervals) num_times = std::max(num_times, interval.last + 1);
  const int64_t least = most_live_bytes(intervals);
  std::vector<int64_t> best_offsets(intervals.size());
  for (const auto& before : orders) {
    if (best <= least) break;
    std::vector<size_t> order(intervals.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return before(intervals[a], intervals[b]); });
    std::vector<int64_t> offsets(intervals.size());
    const int64_t total = place_in_order(intervals, order, num_times, best, offsets);
    if (total < best) {
      best = total;
      best_offsets = std::move(offsets);
    }
  }
  for (size_t i = 0; i < intervals.size(); ++i) intervals[i].offset = best_offsets[i];
  return best;
}

}  // namespace tcc::plan
