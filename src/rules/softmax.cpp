#include "tcc/rules/softmax.h"

#include <algorithm>

#include "tcc/graph/uses.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace {

std::vector<int64_t> axes_of(const Node& reduce) {
  std::vector<int64_t> axes = reduce.attrs.get_ints("axes");
  std::sort(axes.begin(), axes.end());
  return axes;
}

/// The maximum of x along axes: x, seen through what computes it.
bool is_maximum(const Value* rows, const Value* x, Alike& alike) {
  const Node* reduce = made_by(rows, Op::reduce_max_);
  return reduce != nullptr && alike(reduce->operand(0), x);
}

/// Of exp(x - maximum), spread as `exponential` is: 1 / sum.
bool is_inverse(const Value* rows, const Value* exponential, const std::vector<int64_t>& axes, Alike& alike) {
  const Node* recip = made_by(rows, Op::recip_);
  const Node* sum = recip != nullptr ? made_by(recip->operand(0), Op::reduce_sum_) : nullptr;
  return sum != nullptr && axes_of(*sum) == axes && alike(sum->operand(0), exponential);
}

}  // namespace

std::optional<Softmax> as_softmax(const Value* value, Alike& alike) {
  const Node* product = made_by(value, Op::mul_);
  if (product == nullptr || !is_float(value->type.dtype)) return std::nullopt;
  for (const int side : {0, 1}) {
    const Node* exponential = made_by(product->operand(side), Op::exp_);
    const Node* difference = exponential != nullptr ? made_by(exponential->operand(0), Op::sub_) : nullptr;
    const Node* spread_inverse = made_by(product->operand(1 - side), Op::broadcast_in_dim_);
    const Node* spread_maximum = difference != nullptr ? made_by(difference->operand(1), Op::broadcast_in_dim_) : nullptr;
    if (spread_inverse == nullptr || spread_maximum == nullptr) continue;
    Softmax softmax{difference->operand(0), spread_maximum->operand(0), spread_inverse->operand(0), {}};
    if (!is_maximum(softmax.maximum, softmax.x, alike)) continue;
    softmax.axes = axes_of(*softmax.maximum->producer);
    const std::vector<int64_t> kept = rules::other_axes(value->type.rank(), softmax.axes);
    if (spread_inverse->attrs.get_ints("dims") != kept || spread_maximum->attrs.get_ints("dims") != kept) continue;
    if (is_inverse(softmax.inverse, product->operand(side), softmax.axes, alike)) return softmax;
  }
  return std::nullopt;
}

bool bounds_rows(const Value* rows, const Value* x, Alike& alike) {
  if (is_maximum(rows, x, alike)) return true;
  // select(isnan(inverse), inf, maximum - log(inverse)), the inverse at most 1.
  const Node* select = made_by(rows, Op::select_);
  const Node* difference = select != nullptr ? made_by(select->operand(2), Op::sub_) : nullptr;
  const Node* log = difference != nullptr ? made_by(difference->operand(1), Op::log_) : nullptr;
  const Node* recip = log != nullptr ? made_by(log->operand(0), Op::recip_) : nullptr;
  const Node* sum = recip != nullptr ? made_by(recip->operand(0), Op::reduce_sum_) : nullptr;
  const Node* exponential = sum != nullptr ? made_by(sum->operand(0), Op::exp_) : nullptr;
  const Node* shifted = exponential != nullptr ? made_by(exponential->operand(0), Op::sub_) : nullptr;
  const Node* spread = shifted != nullptr ? made_by(shifted->operand(1), Op::broadcast_in_dim_) : nullptr;
  return spread != nullptr && spread->operand(0) == difference->operand(0) && is_maximum(difference->operand(0), x, alike);
}

}  // namespace tcc
