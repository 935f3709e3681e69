#include "schedule/decisions.h"

#include <algorithm>
#include <numeric>

namespace tcc::schedule {

namespace {

/// Numbers of the options but for the best one.
std::vector<size_t> others(size_t count, size_t best) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  std::erase(numbers, best);
  return numbers;
}

}  // namespace

size_t Decisions::take(std::string what, std::span<const double> ns, size_t best) {
  if (muted_ > 0 || ns.size() < 2) return best;
  std::vector<size_t> order = others(ns.size(), best);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ns[a] < ns[b]; });
  const size_t rank = next_rank();
  Point& point = points_.emplace_back(Point{std::move(what), {}, order.size()});
  for (const size_t option : order) point.slower.push_back(ns[best] > 0 ? ns[option] / ns[best] : 1);
  return rank == 0 || rank > order.size() ? best : order[rank - 1];
}

size_t Decisions::take(std::string what, size_t count, size_t best) {
  if (muted_ > 0 || count < 2) return best;
  const std::vector<size_t> order = others(count, best);
  const size_t rank = next_rank();
  points_.push_back({std::move(what), {}, order.size()});
  return rank == 0 || rank > order.size() ? best : order[rank - 1];
}

size_t Decisions::pass_over(std::string what) {
  if (muted_ > 0) return 0;
  const size_t rank = next_rank();
  points_.push_back({std::move(what), {}, 0, true});
  return rank;
}

}  // namespace tcc::schedule
