// The shape rule of recurrent layers. The decomposition has nodes for each step, so types are taken from the operands.
#include <algorithm>
#include <string>

#include "tcc/rules/infer.h"
#include "tcc/rules/limits.h"

namespace tcc {

namespace {

/// Gates of the cell that `order` names; 0 when it names none.
int64_t num_gates(std::string order) {
  if (order == "h" || order == "zrh" || order == "rzh") return static_cast<int64_t>(order.size());
  std::sort(order.begin(), order.end());
  return order == "cfio" ? 4 : 0;
}

int64_t num_words(const std::string& list) { return 1 + std::count(list.begin(), list.end(), ','); }

void check_attributes_of(const InferInput& input, int64_t gates) {
  const std::string& order = input.attrs.get_string("gates");
  if (gates == 0) type_error("`gates` is \"" + order + "\", expected are h, zrh, rzh, or i, o, f and c in some order");
  const int64_t activations = gates == 1 ? 1 : gates - 1;
  if (num_words(input.attrs.get_string("activations")) != activations)
    type_error("`activations` is \"" + input.attrs.get_string("activations") + "\", expected are " + std::to_string(activations));
  for (const char* name : {"alpha", "beta"}) {
    if (static_cast<int64_t>(input.attrs.get_floats(name).size()) != activations)
      type_error("`" + std::string(name) + "` has " + std::to_string(input.attrs.get_floats(name).size()) +
                 " numbers, expected is one for each of the " + std::to_string(activations) + " activations");
  }
  const int results = gates == 4 ? 3 : 2;
  if (input.num_results != results)
    type_error("a recurrent layer of gates " + order + " has " + std::to_string(results) + " results, found are " +
               std::to_string(input.num_results));
}

void expect(const InferInput& input, size_t i, const char* name, const Shape& shape) {
  if (i >= input.operands.size() || input.operands[i] == nullptr) return;
  const Type& type = *input.operands[i];
  if (type.shape() != shape)
    type_error("operand " + std::to_string(i) + " (" + name + ") is " + to_string(type) + ", expected is the shape " + to_string(shape));
}

}  // namespace

std::vector<Type> infer_recurrent(const InferInput& input) {
  const int64_t gates = num_gates(input.attrs.get_string("gates"));
  check_attributes_of(input, gates);
  const DType dtype = input.operand(0).dtype;
  const auto has = [&](size_t i) { return i < input.operands.size() && input.operands[i] != nullptr; };
  for (size_t i = 0; i < input.operands.size(); ++i) {
    if (!has(i)) continue;
    const Type& type = *input.operands[i];
    const bool fits = i == 7 ? type.dtype == DType::i32 || type.dtype == DType::i64 : type.dtype == dtype && is_float(dtype);
    if (!fits)
      type_error("operand " + std::to_string(i) + " is " + to_string(type) +
                 (i == 7 ? ", lengths are i32 or i64" : ", expected is the float dtype of operand 0"));
  }
  if (gates != 4 && (has(6) || has(8))) type_error("a cell state and peepholes are operands of an LSTM");
  for (const Type* type : input.operands) {
    if (type != nullptr && !type->is_static()) return std::vector<Type>(static_cast<size_t>(input.num_results), Type::unranked(dtype));
  }
  const Type &x = input.operand(0), &w = input.operand(1), &r = input.operand(2);
  if (x.rank() != 3 || w.rank() != 2 || r.rank() != 2 || w.shape()[0] % gates != 0)
    type_error("a recurrent layer of " + std::to_string(gates) + " gates over " + to_string(x) + " with weights " + to_string(w) + " and " +
               to_string(r) + ", expected are [length, batch, size], [gates * hidden, size] and [gates * hidden, state]");
  const int64_t length = x.shape()[0], batch = x.shape()[1], hidden = w.shape()[0] / gates, state = has(9) ? r.shape()[1] : hidden;
  expect(input, 1, "w", {gates * hidden, x.shape()[2]});
  expect(input, 2, "r", {gates * hidden, state});
  expect(input, 3, "w_bias", {gates * hidden});
  expect(input, 4, "r_bias", {gates * hidden});
  expect(input, 5, "h", {batch, state});
  expect(input, 6, "c", {batch, hidden});
  expect(input, 7, "lengths", {batch});
  expect(input, 8, "peepholes", {3 * hidden});
  expect(input, 9, "projection", {state, hidden});
  if (length > kMaxMadeNodes)
    throw RuleError{"too-complex", "a recurrent layer has " + std::to_string(length) +
                                       " steps, which are unrolled: " + std::to_string(kMaxMadeNodes) + " at most are possible"};
  std::vector<Type> types{Type(dtype, {length, batch, state}), Type(dtype, {batch, state})};
  if (gates == 4) types.push_back(Type(dtype, {batch, hidden}));
  return types;
}

}  // namespace tcc
