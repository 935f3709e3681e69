// vjp.def as a table.

#include "autograd/vjp.h"
#include "tcc/support/diagnostics.h"

namespace tcc::autograd {
namespace {

struct Row {
  VjpEntry entry;
  bool (*predicate)(const Node&) = nullptr;
};

using Table = std::vector<Row>;

Table make_table() {
  Table table(static_cast<size_t>(num_ops()));
  for (size_t i = 0; i < table.size(); ++i) {
    if (info(static_cast<Op>(i)).kind == OpKind::composite) table[i].entry.kind = VjpEntry::Kind::decompose;
  }
#define TCC_VJP(op, function) table[static_cast<size_t>(Op::op##_)] = {{VjpEntry::Kind::rule, function}, nullptr};
#define TCC_VJP_WHEN(op, holds, function) table[static_cast<size_t>(Op::op##_)] = {{VjpEntry::Kind::rule, function}, holds};
#define TCC_VJP_ZERO(op) table[static_cast<size_t>(Op::op##_)] = {{VjpEntry::Kind::zero, nullptr}, nullptr};
#include "autograd/vjp.def"
  return table;
}

}  // namespace

VjpEntry find_vjp(const Node& node) {
  static const Table table = make_table();
  const Row& row = table[static_cast<size_t>(node.op)];
  if (row.predicate == nullptr || row.predicate(node)) return row.entry;
  return {info(node.op).kind == OpKind::composite ? VjpEntry::Kind::decompose : VjpEntry::Kind::missing, nullptr};
}

Value* sum_to(Builder& b, Value* value, const Shape& shape) {
  const Shape from = value->type.shape();
  if (from == shape) return value;
  const size_t lead = from.size() - shape.size();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i < lead || (shape[i - lead] == 1 && from[i] != 1)) axes.push_back(static_cast<int64_t>(i));
  }
  return b.reshape(b.reduce(Op::reduce_sum_, value, axes), shape);
}

void Vjp::give(int operand, Value* cotangent) {
  if (!wants(operand)) return;
  const Value* target = x(operand);
  check(cotangent->type.dtype == target->type.dtype, "a vjp rule gives a cotangent of another dtype than its operand has");
  check(cotangent->type.rank() >= target->type.rank(), "a vjp rule gives a cotangent of a lower rank than its operand has");
  Value* summed = sum_to(b, cotangent, target->type.shape());
  Value*& sum = given_[static_cast<size_t>(operand)];
  sum = sum == nullptr ? summed : b.add(sum, summed);
}

}  // namespace tcc::autograd
