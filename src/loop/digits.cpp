// Which part of a block's or thread's number each bound dim is: decided here once, for the verifier, the interpreter and the emitters.
#include <algorithm>

#include "tcc/loop/rewrite.h"

namespace tcc::loop {
namespace {

bool is_numbered(Bind bind) {
  return bind == Bind::block || bind == Bind::parallel || bind == Bind::thread || bind == Bind::warp || bind == Bind::lane;
}

using Radix = std::map<Bind, int64_t>;  // stride of the innermost dim around, by level

void visit(const Block& block, const Radix& around, std::map<const Var*, Digit>& digits) {
  for (const Stmt& stmt : block) {
    Radix inside = around;
    if (const auto* dims = dims_of(stmt)) {
      for (size_t d = 0; d < dims->size(); ++d) {
        const Bind bind = (*dims)[d].bind;
        if (!is_numbered(bind)) continue;
        int64_t stride = 1;
        for (size_t e = d + 1; e < dims->size(); ++e)
          stride = (*dims)[e].bind == bind ? capped_product(stride, (*dims)[e].var->extent) : stride;
        int64_t within = 1;
        for (const Block* inner : blocks_of(stmt)) within = std::max(within, nest_extent(*inner, bind));
        stride = capped_product(stride, within);
        digits[(*dims)[d].var.get()] = {stride, inside.count(bind) ? inside[bind] : 0};
        inside[bind] = stride;
      }
    }
    for (const Block* inner : blocks_of(stmt)) visit(*inner, inside, digits);
  }
}

}  // namespace

int64_t capped_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, std::max<int64_t>(b, 1), &product) ? kMostIterations : std::min(product, kMostIterations);
}

int64_t nest_extent(const Block& body, Bind bind) {
  int64_t largest = 1;
  for (const Stmt& stmt : body) {
    int64_t extent = 1;
    for (const Block* inner : blocks_of(stmt)) extent = std::max(extent, nest_extent(*inner, bind));
    if (const auto* dims = dims_of(stmt)) {
      for (const Dim& dim : *dims) extent = dim.bind == bind ? capped_product(extent, dim.var->extent) : extent;
    }
    largest = std::max(largest, extent);
  }
  return largest;
}

std::map<const Var*, Digit> digits_of(const Block& body) {
  std::map<const Var*, Digit> digits;
  visit(body, {}, digits);
  return digits;
}

}  // namespace tcc::loop
