// A concat that costs nothing: where every piece is a contiguous range of the result, its producer writes it there.
//
//   %c: f32[1, 96, 8, 8] = concat(%a, %b) {axis=1}     ->     alias %a = %c + 0, alias %b = %c + 8192
//
// That takes pieces that some unit stores anyway, each of them in one place only: not an input, not an output, not a piece of another concat; and offsets
// that keep to the alignment which kernels rely on for their arguments. Other concats are computed like pointwise nodes, by choosing among the pieces.
//
// Long vectors of many pieces (all gradients as one flat tensor) are never computed that way, since each element would go through all the choices: there a
// piece may be anything that can be stored, a padded gradient too. copy_concat_pieces() sees to it that each has one place.

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "group/merge.h"
#include "tcc/rules/builder.h"

namespace tcc::group {
namespace {

/// A vector of more pieces is not computed by choosing among them.
constexpr size_t kMaxChosenPieces = 4;

/// What is stored for a piece: it without reshapes.
Value* without_reshapes(Value* value) {
  while (value->producer && value->producer->op == Op::reshape_) value = value->producer->operand(0);
  return value;
}

/// The core result that a piece is, seen through reshapes alone; null when it is something else.
Value* stored_piece(Value* piece) {
  piece = without_reshapes(piece);
  return is_stored_by_producer(piece) ? piece : nullptr;
}

bool is_long(const Node& concat) { return concat.result()->type.rank() == 1 && concat.operands.size() > kMaxChosenPieces; }

/// What may not lie in a concat: outputs and new state, seen through reshapes.
std::unordered_set<const Value*> stored_outside(const Graph& graph) {
  std::unordered_set<const Value*> values;
  for (Value* output : graph.body.results) values.insert(without_reshapes(output));
  for (const StateUpdate& update : graph.state_updates) values.insert(without_reshapes(update.value));
  return values;
}

/// Every piece of a long concat has something to be stored, and this concat alone to be stored in, at an address that suits kernels. A piece that is such a
/// concat itself has nothing to be stored.
bool has_places(const Node& node, const std::unordered_set<const Value*>& outside, std::unordered_set<const Value*>& placed) {
  std::vector<const Value*> pieces;
  int64_t offset = 0;
  for (Value* operand : node.operands) {
    const Value* piece = without_reshapes(operand);
    const bool is_aligned = offset % kConcatAlignment == 0 && size_bits(piece->type.dtype) >= 8;
    offset += operand->type.size_bytes();
    const bool is_stored = piece->producer && !(piece->producer->op == Op::concat_ && is_long(*piece->producer));
    const bool fits = is_aligned && is_stored && piece->type.count() > 0 && outside.count(piece) == 0 && placed.insert(piece).second;
    if (fits) {
      pieces.push_back(piece);
      continue;
    }
    for (const Value* taken : pieces) placed.erase(taken);
    return false;
  }
  return true;
}

}  // namespace

bool is_stored_by_producer(const Value* value) {
  if (!value->producer) return false;
  const Lowering lowering = info(value->producer->op).lowering;
  return lowering == Lowering::contract || lowering == Lowering::window || lowering == Lowering::pointwise || lowering == Lowering::reduce;
}

std::unordered_set<const Node*> long_concats_with_places(const Graph& graph) {
  std::unordered_set<const Value*> placed;
  std::optional<std::unordered_set<const Value*>> outside;
  std::unordered_set<const Node*> result;
  for (const Node* node : graph.body.nodes) {
    if (node->op != Op::concat_ || !is_long(*node)) continue;
    if (!outside) outside = stored_outside(graph);
    if (has_places(*node, *outside, placed)) result.insert(node);
  }
  return result;
}

void fix_long_concats(Clusters& clusters) {
  for (const Node* node : long_concats_with_places(clusters.graph())) clusters[clusters.cluster_of(node)].fixed = true;
}

void copy_concat_pieces(Graph& graph) {
  std::unordered_set<const Value*> placed = stored_outside(graph);
  std::vector<Node*> nodes;
  nodes.swap(graph.body.nodes);
  for (Node* node : nodes) {
    if (node->op == Op::concat_ && is_long(*node)) {
      for (Value*& operand : node->operands) {
        const Value* piece = without_reshapes(operand);
        if (operand->type.count() == 0 || (piece->producer && placed.insert(piece).second)) continue;
        Builder b(graph, graph.body, node->loc);
        operand = b.emit(Op::concat_, {operand}, {{"axis", int64_t(0)}});
      }
    }
    graph.body.nodes.push_back(node);
  }
}

void fix_concat(Clusters& clusters, Node& node) {
  if (is_long(node)) return;
  const Shape shape = node.result()->type.shape();
  const size_t axis = static_cast<size_t>(node.attrs.get_int("axis"));
  if (std::any_of(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(axis), [](int64_t extent) { return extent != 1; })) return;
  if (size_bits(node.result()->type.dtype) < 8 || node.operands.size() < 2) return;
  int64_t offset = 0;
  std::vector<Value*> pieces;
  for (Value* operand : node.operands) {
    Value* piece = stored_piece(operand);
    if (offset % kConcatAlignment != 0) return;
    offset += operand->type.size_bytes();
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
