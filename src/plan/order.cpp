// A step waits for what it reads, and a step that overwrites bytes for those that still read them.

#include "plan/order.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tcc/support/diagnostics.h"

namespace tcc::plan {

void Order::add(int before, int after) { after_[static_cast<size_t>(before)].push_back(after); }

bool Order::try_add(const std::vector<int>& before, int after) {
  if (before.empty()) return true;
  // A cycle would lead from `after` to one of `before`.
  std::vector<char> target(after_.size()), seen(after_.size());
  for (int step : before) target[static_cast<size_t>(step)] = 1;
  std::vector<int> stack{after};
  seen[static_cast<size_t>(after)] = 1;
  while (!stack.empty()) {
    const int at = stack.back();
    stack.pop_back();
    if (target[static_cast<size_t>(at)]) return false;
    for (int next : after_[static_cast<size_t>(at)]) {
      if (std::exchange(seen[static_cast<size_t>(next)], 1) == 0) stack.push_back(next);
    }
  }
  for (int step : before) add(step, after);
  return true;
}

void Order::remove(const std::vector<int>& before, int after) {
  for (int step : before) {
    auto& list = after_[static_cast<size_t>(step)];
    const auto at = std::find(list.rbegin(), list.rend(), after);
    check(at != list.rend(), "an edge that is taken back was never added");
    list.erase(std::next(at).base());
  }
}

namespace {

constexpr int64_t kNextToNothing = 4096;

/// What lives while steps are taken one after the other.
class Memory {
 public:
  explicit Memory(const Footprints& footprints)
      : footprints_(footprints), uses_(footprints.block_bytes.size()), lives_(footprints.block_bytes.size()) {
    for (const auto& blocks : footprints.blocks) {
      for (int block : blocks) ++uses_[static_cast<size_t>(block)];
    }
  }

  /// Whether the step may come early: it leaves less behind than was there, or next to nothing (scalars that steps which free wait for), with no new peak.
  bool may_come_early(int step) const {
    const Change change = change_of(step);
    const int64_t needed = change.made + footprints_.own_bytes[static_cast<size_t>(step)];
    if (live_ + needed > peak_) return needed <= kNextToNothing;
    return change.made <= kNextToNothing || change.freed > change.made;
  }

  /// What lives more after the step than before.
  int64_t growth(int step) const {
    const Change change = change_of(step);
    return change.made - change.freed;
  }

  void take(int step) {
    for (int block : blocks(step)) {
      if (std::exchange(lives_[static_cast<size_t>(block)], 1) == 0) live_ += footprints_.block_bytes[static_cast<size_t>(block)];
    }
    peak_ = std::max(peak_, live_ + footprints_.own_bytes[static_cast<size_t>(step)]);
    for (int block : blocks(step)) {
      if (--uses_[static_cast<size_t>(block)] == 0) live_ -= footprints_.block_bytes[static_cast<size_t>(block)];
    }
  }

 private:
  struct Change {
    int64_t made = 0, freed = 0;
  };
  Change change_of(int step) const {
    Change change;
    for (int block : blocks(step)) {
      const size_t at = static_cast<size_t>(block);
      if (!lives_[at]) change.made += footprints_.block_bytes[at];
      if (uses_[at] == 1) change.freed += footprints_.block_bytes[at];
    }
    return change;
  }

  const std::vector<int>& blocks(int step) const { return footprints_.blocks[static_cast<size_t>(step)]; }

  const Footprints& footprints_;
  std::vector<int> uses_;  ///< by steps to come
  std::vector<char> lives_;
  int64_t live_ = 0, peak_ = 0;
};

}  // namespace

template <class Pick> std::vector<int> Order::sort(Pick pick) const {
  std::vector<int> waits(after_.size());
  for (const auto& list : after_) {
    for (int step : list) ++waits[static_cast<size_t>(step)];
  }
  std::set<int> ready;
  for (size_t i = 0; i < waits.size(); ++i) {
    if (waits[i] == 0) ready.insert(static_cast<int>(i));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int at = pick(ready);
    ready.erase(at);
    order.push_back(at);
    for (int next : after_[static_cast<size_t>(at)]) {
      if (--waits[static_cast<size_t>(next)] == 0) ready.insert(next);
    }
  }
  check(order.size() == after_.size(), "the steps of a plan wait for each other in a cycle");
  return order;
}

std::vector<std::vector<int>> Order::sorted(const Footprints& footprints) const {
  std::vector<std::vector<int>> orders;
  auto add = [&](auto pick) {
    Memory memory(footprints);
    std::vector<int> order = sort([&](const std::set<int>& ready) {
      const int step = pick(ready, memory);
      memory.take(step);
      return step;
    });
    if (std::find(orders.begin(), orders.end(), order) == orders.end()) orders.push_back(std::move(order));
  };
  add([](const std::set<int>& ready, const Memory&) { return *ready.begin(); });
  add([](const std::set<int>& ready, const Memory& memory) {
    const auto at = std::find_if(ready.begin(), ready.end(), [&](int step) { return memory.may_come_early(step); });
    return at == ready.end() ? *ready.begin() : *at;
  });
  for (const int window : {8, 32}) {
    add([window](const std::set<int>& ready, const Memory& memory) {
      const auto early = std::find_if(ready.begin(), ready.end(), [&](int step) { return memory.may_come_early(step); });
      if (early != ready.end()) return *early;
      int best = *ready.begin();
      for (auto at = ready.begin(); at != ready.end() && *at < *ready.begin() + window; ++at) {
        if (memory.growth(*at) < memory.growth(best)) best = *at;
      }
      return best;
    });
  }
  return orders;
}

}  // namespace tcc::plan
