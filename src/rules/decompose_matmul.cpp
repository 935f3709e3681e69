// matmul, gemm and matmul_integer as dot_general.
//
// A batch axis that the right operand does not have (or has with extent 1 throughout) needs no batch: the left operand's batch axes are
// free axes of one larger product, [B, S, K] x [K, N] -> [B, S, N], which reads the weight once. Otherwise both are broadcast to the common batch.

#include "tcc/graph/rule_error.h"
#include "tcc/rules/rules_common.h"

namespace tcc {

namespace {

using Results = std::vector<Value*>;

/// Without its leading axes when they are all 1: [1, 1, K, N] -> [K, N].
Value* without_unit_batch(Builder& b, Value* x) {
  Shape shape = rules::shape_of(x);
  if (shape.size() <= 2 || !std::all_of(shape.begin(), shape.end() - 2, [](int64_t extent) { return extent == 1; })) return x;
  return b.reshape(x, {shape[shape.size() - 2], shape.back()});
}

std::vector<int64_t> range_of(int64_t count) { return rules::axes_from(0, static_cast<int>(count)); }

Value* dot(Builder& b, Value* x, Value* y, int64_t batch, int64_t x_contract, int64_t y_contract, DType dtype) {
  return b.emit(Op::dot_general_, {x, y},
                {{"lhs_batch", range_of(batch)},
                 {"rhs_batch", range_of(batch)},
                 {"lhs_contract", std::vector<int64_t>{x_contract}},
                 {"rhs_contract", std::vector<int64_t>{y_contract}},
                 {"dtype", dtype}});
}

}  // namespace

namespace rules {

Value* matmul(Builder& b, Value* x, Value* y, DType dtype) {
  if (x->type.rank() == 0 || y->type.rank() == 0)
    throw RuleError{"type-error", "an operand of matmul is a scalar, rank 1 or more is needed"};
  const Shape x_shape = shape_of(x), y_shape = shape_of(y);
  const int64_t depth = x_shape.back();
  const int64_t other = y_shape.size() == 1 ? y_shape[0] : y_shape[y_shape.size() - 2];
  if (depth != other) {
    throw RuleError{"type-error", "matmul sums over " + std::to_string(depth) + " elements of `" + to_string(x->type) + "` and " +
                                      std::to_string(other) + " of `" + to_string(y->type) + "`"};
  }
  // The result as numpy has it: the broadcast batch, then M and N where the operands have them.
  const size_t x_batch = x_shape.size() < 2 ? 0 : x_shape.size() - 2, y_batch = y_shape.size() < 2 ? 0 : y_shape.size() - 2;
  Shape batch(std::max(x_batch, y_batch), 1);
  for (size_t i = 0; i < batch.size(); ++i) {
    const int64_t p = i + x_batch < batch.size() ? 1 : x_shape[i + x_batch - batch.size()];
    const int64_t q = i + y_batch < batch.size() ? 1 : y_shape[i + y_batch - batch.size()];
    if (p != q && p != 1 && q != 1) {
      throw RuleError{"type-error", "the batch axes of `" + to_string(x->type) + "` and `" + to_string(y->type) + "` do not broadcast"};
    }
    batch[i] = p == 1 ? q : p;
  }
  Shape shape = batch;
  if (x_shape.size() > 1) shape.push_back(x_shape[x_shape.size() - 2]);
  if (y_shape.size() > 1) shape.push_back(y_shape.back());

  Value* result;
  Value* right = without_unit_batch(b, y);
  Value* left = without_unit_batch(b, x);
  if (right->type.rank() <= 2) {
    result = dot(b, x, right, 0, x->type.rank() - 1, 0, dtype);
  } else if (left->type.rank() == 1) {
    result = dot(b, left, y, 0, 0, y->type.rank() - 2, dtype);
  } else {
    auto batched = [&](Value* value, const Shape& own) {
      Shape full = batch;
      full.insert(full.end(), own.end() - 2, own.end());
      return b.broadcast_to(value, full);
    };
    const int64_t axes = static_cast<int64_t>(batch.size());
    result = dot(b, batched(x, x_shape), batched(y, y_shape), axes, axes + 1, axes, dtype);
  }
  return b.reshape(result, shape);
}

}  // namespace rules

Results decompose_matmul(Builder& b, const Node& node) {
  return {rules::matmul(b, node.operand(0), node.operand(1), rules::dtype_of(node.operand(0)))};
}

Results decompose_gemm(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  Value* y = node.operand(1);
  if (x->type.rank() != 2 || y->type.rank() != 2) {
    throw RuleError{"type-error", "gemm multiplies `" + to_string(x->type) + "` and `" + to_string(y->type) + "`, both need rank 2"};
  }
  const DType dtype = rules::dtype_of(x);
  const double alpha = node.attrs.get_float("alpha"), beta = node.attrs.get_float("beta");
  for (double factor : {alpha, beta}) {
    if (!is_float(dtype) && factor != static_cast<double>(static_cast<int64_t>(factor))) {
      throw RuleError{"unsupported-attribute", "`alpha` or `beta` is " + std::to_string(factor) + ", for integers it must be whole"};
    }
  }
  Value* result = dot(b, x, y, 0, node.attrs.get_bool("transpose_a") ? 0 : 1, node.attrs.get_bool("transpose_b") ? 1 : 0, dtype);
  if (alpha != 1) result = b.binary(Op::mul_, result, alpha);
  if (Value* c = node.operand(2); c != nullptr && beta != 0) {
    if (beta != 1) c = b.binary(Op::mul_, c, beta);
    result = b.add(result, b.broadcast_to(c, rules::shape_of(result)));
  }
  return {result};
}

/// Products and sums in i32. Without zero points the operands stay 8-bit; with them they become i32 first, where the difference fits.
Results decompose_matmul_integer(Builder& b, const Node& node) {
  auto shifted = [&](int operand, int zero_point, bool per_row) {
    Value* x = node.operand(operand);
    Value* zero = node.operand(zero_point);
    if (zero == nullptr) return x;
    // One per row of the left operand stands along its rows, one per column of the right one along its columns (which numpy's rule gives).
    if (per_row && zero->type.rank() == 1 && rules::extent_of(zero, 0) != 1) zero = b.reshape(zero, {rules::extent_of(zero, 0), 1});
    return b.sub(b.cast(x, DType::i32), b.broadcast_to(b.cast(zero, DType::i32), rules::shape_of(x)));
  };
  Value* x = shifted(0, 2, true);
  Value* y = shifted(1, 3, false);
  if (rules::dtype_of(x) != rules::dtype_of(y)) {
    x = b.cast(x, DType::i32);
    y = b.cast(y, DType::i32);
  }
  return {rules::matmul(b, x, y, DType::i32)};
}

}  // namespace tcc
