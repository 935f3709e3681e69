// Sequences of tensors. The importer keeps those whose elements it sees being put in as lists of values: building, inserting and reading cost nothing
// and leave no trace in the graph. What SplitToSequence makes has a length that shapes tell: where they are not
// known yet, it goes to `resolve` with the SequenceAt that reads it.
#include <array>

#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/handlers.h"
#include "tcc/rules/limits.h"

namespace tcc::onnx {
namespace {

/// A position in a list, counted from the end when negative; one past the end is allowed where something is inserted.
size_t position_in(NodeContext& node, int operand, size_t size, bool past_end) {
  const int64_t length = static_cast<int64_t>(size);
  int64_t position = node.require_constant(operand, "position").as_int64(0);
  if (position < 0) position += length;
  if (position < 0 || position >= length + (past_end ? 1 : 0)) {
    node.refuse("type-error", "`position` is " + std::to_string(position) + ", the sequence has " + std::to_string(length) + " elements");
  }
  return static_cast<size_t>(position);
}

void import_construct(NodeContext& node) { node.set_sequence(0, node.all_inputs(), node.dtype()); }

void import_empty(NodeContext& node) { node.set_sequence(0, {}, node.dtype_attribute("dtype", DType::f32)); }

void import_insert(NodeContext& node) {
  std::vector<Value*> list = node.sequence(0);
  const size_t at = node.has(2) ? position_in(node, 2, list.size(), true) : list.size();
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), node.in(1));
  node.set_sequence(0, std::move(list), node.dtype(1));
}

void import_erase(NodeContext& node) {
  std::vector<Value*> list = node.sequence(0);
  if (list.empty()) node.refuse("type-error", "an element is erased from an empty sequence");
  const size_t at = node.has(1) ? position_in(node, 1, list.size(), false) : list.size() - 1;
  const DType dtype = list[at]->type.dtype;
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
  node.set_sequence(0, std::move(list), dtype);
}

void import_length(NodeContext& node) {
  const auto length = static_cast<int64_t>(node.sequence(0).size());
  node.result(Op::full_, {}, {{"value", length}, {"shape", std::vector<int64_t>()}, {"dtype", DType::i64}});
}

void import_at(NodeContext& node) {
  if (!node.is_list(0)) return node.result(Op::sequence_at_, {node.in(0), node.in(1)});
  const auto& list = node.sequence(0);
  node.set(0, list[position_in(node, 1, list.size(), false)]);
}

void import_concat_from_sequence(NodeContext& node) {
  std::vector<Value*> list = node.sequence(0);
  if (list.empty()) node.refuse("type-error", "the sequence is empty, at least one element was expected");
  const int64_t axis = node.integer("axis");
  if (node.flag("new_axis", false)) {
    Arithmetic m(node);
    for (Value*& element : list) element = m.unsqueeze(element, {axis});
  }
  node.result(Op::concat_, std::move(list), {{"axis", axis}});
}

/// The pieces of x where their sizes are known now; false where only `resolve` will know them.
bool split_known(NodeContext& node, int64_t axis, bool keepdims) {
  const Type type = node.type_of(node.in(0));
  const auto sizes = node.constant(1);
  if (!type.is_static() || (node.has(1) && !sizes) || axis < 0 || axis >= type.rank()) return false;
  const int64_t extent = type.shape()[static_cast<size_t>(axis)];
  Arithmetic m(node);
  std::vector<Value*> pieces;
  const bool in_equal_parts = !sizes || sizes->rank() == 0;
  const int64_t part = sizes && in_equal_parts ? sizes->as_int64(0) : 1;
  if (part < 1) return false;  // refused there
  if ((in_equal_parts ? extent / part : sizes->count()) > kMaxMadeNodes) return false;
  int64_t start = 0;
  for (int64_t i = 0; in_equal_parts ? start < extent : i < sizes->count(); ++i) {
    const int64_t size = in_equal_parts ? std::min(part, extent - start) : sizes->as_int64(i);
    if (size < 0 || size > extent - start) return false;
    pieces.push_back(node.has(1) || keepdims ? m.part(node.in(0), start, start + size, axis) : m.element(node.in(0), start, axis));
    start += size;
  }
  if (start != extent) return false;
  node.set_sequence(0, std::move(pieces), type.dtype);
  return true;
}

void import_split_to_sequence(NodeContext& node) {
  const int64_t axis = node.axis("axis", 0);
  const bool keepdims = node.flag("keepdims", true);
  if (split_known(node, axis, keepdims)) return;
  std::vector<Value*> operands{node.in(0)};
  if (node.has(1)) operands.push_back(node.in(1));
  node.result(Op::split_to_sequence_, std::move(operands), {{"axis", axis}, {"keepdims", keepdims}});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "ConcatFromSequence", import_concat_from_sequence},
    {"", "SequenceAt", import_at},
    {"", "SequenceConstruct", import_construct},
    {"", "SequenceEmpty", import_empty},
    {"", "SequenceErase", import_erase},
    {"", "SequenceInsert", import_insert},
    {"", "SequenceLength", import_length},
    {"", "SplitToSequence", import_split_to_sequence},
});

}  // namespace

std::span<const Handler> sequence_handlers() { return kHandlers; }

}  // namespace tcc::onnx
