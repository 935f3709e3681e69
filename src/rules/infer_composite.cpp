// Shape rules of composites whose result does not simply have the type of operand 0, and of ops that wait to be resolved.

#include <algorithm>
#include <string>

#include "tcc/rules/builder.h"
#include "tcc/rules/infer.h"
#include "tcc/rules/rules.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

namespace {

/// Dtypes are known before shapes are: most composites keep that of operand 0.
DType dtype_before_shapes(const InferInput& input, int result) {
  const DType x = input.operand(0).dtype;
  switch (input.op) {
    case Op::arg_reduce_: return DType::i64;
    case Op::max_pool_: return result == 1 ? DType::i64 : x;
    case Op::matmul_integer_: return DType::i32;
    case Op::quantize_linear_: return input.attrs.get_dtype("dtype");
    case Op::dequantize_linear_: return input.operand(1).dtype;
    case Op::dynamic_quantize_linear_: return result == 1 ? x : DType::u8;
    case Op::layer_norm_:
    case Op::rms_norm_:
    case Op::group_norm_: return result == 0 ? x : compute_dtype(x);
    case Op::batch_norm_train_: return result == 0 ? x : result < 3 ? input.operand(2 + result).dtype : compute_dtype(x);
    case Op::one_hot_: return input.operand(1).dtype;
    default: return x;
  }
}

}  // namespace

// The decomposition is the one place that knows the shapes of a composite, so it is run on placeholders in a graph of its own and its types are taken.
std::vector<Type> infer_by_decomposition(const InferInput& input) {
  std::vector<Type> types;
  for (const Type* type : input.operands) {
    if (type != nullptr && !type->is_static()) {
      // Not known before shapes are bound; resolve asks again then.
      for (int i = 0; i < input.num_results; ++i) types.push_back(Type::unranked(dtype_before_shapes(input, i)));
      return types;
    }
  }
  Graph scratch("shapes");
  std::vector<Value*> operands;
  for (const Type* type : input.operands) operands.push_back(type == nullptr ? nullptr : scratch.add_input("x", *type));
  Node* node = scratch.make_node(input.op, std::move(operands), input.attrs, std::vector<Type>(static_cast<size_t>(input.num_results)), {});
  Builder builder(scratch, scratch.body, {});
  const std::vector<Value*> results = decompose_node(builder, *node);
  if (static_cast<int>(results.size()) != input.num_results) {
    type_error("`" + std::string(name_of(input.op)) + "` has " + std::to_string(input.num_results) + " results, it makes " +
               std::to_string(results.size()));
  }
  for (const Value* value : results) types.push_back(value->type);
  return types;
}

std::vector<Type> infer_resize(const InferInput& input) {
  const Type& x = input.operand(0);
  const Type result = type_of_shape(x.dtype, input.attrs.get_ints("sizes"));
  if (x.ranked && x.rank() != result.rank())
    type_error("`sizes` has " + std::to_string(result.rank()) + " entries, the operand is " + to_string(x));
  return {result};
}

std::vector<Type> infer_shape_of(const InferInput& input) {
  const Type& x = input.operand(0);
  if (!x.ranked) return {make_type(DType::i64, {unknown_dim()})};
  const int64_t rank = x.rank();
  const auto clamp = [rank](int64_t position) { return std::clamp<int64_t>(position < 0 ? position + rank : position, 0, rank); };
  const int64_t start = clamp(input.attrs.get_int("start")), end = clamp(input.attrs.has("end") ? input.attrs.get_int("end") : rank);
  return {Type(DType::i64, {std::max<int64_t>(end - start, 0)})};
}

std::vector<Type> infer_size_of(const InferInput&) { return {Type(DType::i64, {})}; }

// One gradient per x, of its type.
std::vector<Type> infer_gradient(const InferInput& input) {
  if (input.num_results < 1 || input.num_results >= static_cast<int>(input.operands.size()))
    type_error("`gradient` has " + std::to_string(input.num_results) + " results and " + std::to_string(input.operands.size()) +
               " operands, expected at most one result for each operand but the first");
  std::vector<Type> types;
  for (int i = 1; i <= input.num_results; ++i) types.push_back(input.operand(i));
  return types;
}

// Only the dtypes of these are known before their operands are.
std::vector<Type> infer_unknown(const InferInput& input) {
  DType dtype = input.operand(0).dtype;
  if (input.op == Op::constant_of_shape_) dtype = input.attrs.get_dtype("dtype");
  if (input.op == Op::dynamic_one_hot_) dtype = input.operand(2).dtype;
  std::vector<Type> types(static_cast<size_t>(input.num_results), Type::unranked(dtype));
  if (input.op == Op::dynamic_topk_) types.back().dtype = DType::i64;
  return types;
}

}  // namespace tcc
