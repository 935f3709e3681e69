// A step waits for what it reads, and a step that overwrites bytes for those that still read them.

#include "plan/order.h"

#include <algorithm>
#include <functional>
#include <queue>
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

std::vector<int> Order::sorted() const {
  std::vector<int> waits(after_.size());
  for (const auto& list : after_) {
    for (int step : list) ++waits[static_cast<size_t>(step)];
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < waits.size(); ++i) {
    if (waits[i] == 0) ready.push(static_cast<int>(i));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int at = ready.top();
    ready.pop();
    order.push_back(at);
    for (int next : after_[static_cast<size_t>(at)]) {
      if (--waits[static_cast<size_t>(next)] == 0) ready.push(next);
    }
  }
  check(order.size() == after_.size(), "the steps of a plan wait for each other in a cycle");
  return order;
}

}  // namespace tcc::plan
