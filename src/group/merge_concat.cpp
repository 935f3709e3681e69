// A concat that costs nothing: where every piece is a contiguous range of the result, its producer writes it there.
//
//   %c: f32[1, 96, 8, 8] = concat(%a, %b) {axis=1}     ->     alias %a = %c + 0, alias %b = %c + 8192
//
// That takes pieces that some unit stores anyway, each of them in one place only: not an input, not an output, not a piece of another concat. Other concats
// are computed like pointwise nodes, by choosing among the pieces.

#include <algorithm>

#include "group/merge.h"

namespace tcc::group {
namespace {

/// The core result that a piece is, seen through reshapes alone; null when it is something else.
Value* stored_piece(Value* piece) {
  while (piece->producer && piece->producer->op == Op::reshape_) piece = piece->producer->operand(0);
  if (!piece->producer || !Clusters::is_core(*piece->producer)) return nullptr;
  const Lowering lowering = info(piece->producer->op).lowering;
  return lowering == Lowering::contract || lowering == Lowering::window || lowering == Lowering::pointwise || lowering == Lowering::reduce
             ? piece
             : nullptr;
}

}  // namespace

void fix_concat(Clusters& clusters, Node& node) {
  const Shape shape = node.result()->type.shape();
  const size_t axis = static_cast<size_t>(node.attrs.get_int("axis"));
  if (std::any_of(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(axis), [](int64_t extent) { return extent != 1; })) return;
  if (size_bits(node.result()->type.dtype) < 8 || node.operands.size() < 2) return;
  std::vector<Value*> pieces;
  for (Value* operand : node.operands) {
    Value* piece = stored_piece(operand);
    if (!piece || piece->type.count() == 0 || clusters.read_by_output(piece)) return;
    if (std::find(pieces.begin(), pieces.end(), piece) != pieces.end()) return;
    for (const Node* reader : clusters.consumers(piece)) {
      if (reader != &node && clusters[clusters.cluster_of(reader)].fixed) return;
    }
    pieces.push_back(piece);
  }
  clusters[clusters.cluster_of(&node)].fixed = true;
}

}  // namespace tcc::group
