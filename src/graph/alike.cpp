#include "tcc/graph/alike.h"

namespace tcc {

bool Alike::operator()(const Value* a, const Value* b) {
  constexpr size_t kMostPairs = 4096;
  if (a == b) return true;
  if (a == nullptr || b == nullptr || a->producer == nullptr || b->producer == nullptr) return false;
  if (a->index != b->index || !(a->type == b->type)) return false;
  const auto [known, is_new] = known_.try_emplace({a, b}, false);
  if (!is_new) return known->second;
  const Node &x = *a->producer, &y = *b->producer;
  bool alike = known_.size() < kMostPairs && x.op == y.op && x.attrs == y.attrs && x.operands.size() == y.operands.size() &&
               x.regions.empty() && y.regions.empty();
  for (size_t i = 0; alike && i < x.operands.size(); ++i) alike = (*this)(x.operands[i], y.operands[i]);
  return known_[{a, b}] = alike;
}

}  // namespace tcc
