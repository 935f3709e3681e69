// Nodes of many operands and values of many slices, made into kernels of bounded size: otherwise code grows with their number.
//
//   %y = concat(%0, ..., %1999)              ->  %a = concat(%0, ..., %15), ..., %y = concat(%a, ...)          each chooses among a few pieces
//   %0 = slice(%x) {0:2}, %1 = slice(%x) {2:4}, ... , each an output
//     where a slice is contiguous in memory      an alias of %x, which is copied to the output: no kernel
//     elsewhere                              ->  %0 = gather(%x, add(@start0, iota)), ...                      one kernel body: where it starts is read
//
// Leaves alone: concats whose pieces are written in place, and slices that other nodes read, which are index maps in those.

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "group/index_maps.h"
#include "group/merge.h"
#include "tcc/group/group.h"
#include "tcc/rules/builder.h"
#include "tcc/support/integer_math.h"

namespace tcc::group {
namespace {

/// Concats of more operands are made of several; values of more slices are read by one body.
constexpr size_t kMaxOperands = 32, kMaxSlices = 32;
/// Operands of each concat of several.
constexpr size_t kSplitOperands = 16;

/// The one axis along which a slice of step 1 cuts; -1 where there is none, or several.
int cut_axis(const Node& slice) {
  const Shape from = slice.operand(0)->type.shape(), to = slice.result()->type.shape();
  int axis = -1;
  for (size_t i = 0; i < from.size(); ++i) {
    if (slice.attrs.get_ints("steps")[i] != 1) return -1;
    if (from[i] == to[i]) continue;
    if (axis >= 0) return -1;
    axis = static_cast<int>(i);
  }
  return axis;
}

bool is_contiguous(const Node& slice, int axis) {
  const Shape from = slice.operand(0)->type.shape();
  return std::all_of(from.begin(), from.begin() + axis, [](int64_t extent) { return extent == 1; });
}

/// Values that outputs alone read, seen through reshapes.
class OutputReaders {
 public:
  explicit OutputReaders(const Graph& graph) : readers_(static_cast<size_t>(graph.num_values())) {
    for (const Node* node : graph.body.nodes) {
      for (const Value* operand : node->operands) readers_[static_cast<size_t>(operand->id)].push_back(node);
    }
    for (const StateUpdate& update : graph.state_updates) readers_[static_cast<size_t>(update.value->id)].push_back(nullptr);
  }
  bool only(const Value* value) const {
    const auto& readers = readers_[static_cast<size_t>(value->id)];
    return std::all_of(readers.begin(), readers.end(),
                       [&](const Node* node) { return node != nullptr && node->op == Op::reshape_ && only(node->result()); });
  }

 private:
  std::vector<std::vector<const Node*>> readers_;  // of each value; null for the state
};

/// Slices that outputs alone read, along one axis, of values that have many.
std::vector<const Node*> many_slices(const Graph& graph) {
  std::vector<const Node*> order;
  std::unordered_map<const Value*, size_t> counts;
  const auto is_slice = [](const Node& node) { return node.op == Op::slice_ && node.result()->type.count() > 0; };
  for (const Node* node : graph.body.nodes) {
    if (is_slice(*node)) ++counts[node->operand(0)];
  }
  if (std::none_of(counts.begin(), counts.end(), [](const auto& entry) { return entry.second > kMaxSlices; })) return order;
  const OutputReaders outputs(graph);
  for (const Node* node : graph.body.nodes) {
    const bool is_one = is_slice(*node) && counts[node->operand(0)] > kMaxSlices;
    if (is_one && cut_axis(*node) >= 0 && outputs.only(node->result())) order.push_back(node);
  }
  return order;
}

Value* as_gather(Graph& graph, const Node& slice, int axis) {
  Builder b(graph, graph.body, slice.loc);
  b.set_name_hint(slice.result()->name);
  const int64_t start = slice.attrs.get_ints("starts")[static_cast<size_t>(axis)];
  const int64_t extent = slice.result()->type.shape()[static_cast<size_t>(axis)];
  Value* indices = b.constant(Tensor::from_ints({start}), slice.result()->name + ".start");
  if (extent > 1) indices = b.add(b.broadcast_in_dim(indices, {extent}, {0}), b.iota(DType::i64, {extent}, 0));
  return b.emit(Op::gather_, {slice.operand(0), indices}, {{"axis", int64_t{axis}}});
}

/// Whether fix_concat() will find that the pieces are written where they belong: nobody else reads them.
bool is_written_in_place(const Node& concat, const std::vector<int>& uses) {
  const Shape shape = concat.result()->type.shape();
  const int64_t axis = concat.attrs.get_int("axis");
  if (std::any_of(shape.begin(), shape.begin() + axis, [](int64_t extent) { return extent != 1; })) return false;
  int64_t offset = 0;
  return std::all_of(concat.operands.begin(), concat.operands.end(), [&](const Value* piece) {
    const bool aligned = offset % kConcatAlignment == 0;
    offset += piece->type.size_bytes();
    bool alone = uses[static_cast<size_t>(piece->id)] == 1;
    for (; piece->producer != nullptr && piece->producer->op == Op::reshape_; piece = piece->producer->operand(0)) {
      alone = alone && uses[static_cast<size_t>(piece->producer->operand(0)->id)] == 1;
    }
    return aligned && alone && is_stored_by_producer(piece) && piece->type.count() > 0;
  });
}

/// Concats of some of the operands each, until there are few; appends them to the graph.
std::vector<Value*> few_operands(Graph& graph, const Node& concat) {
  std::vector<Value*> pieces = concat.operands;
  Builder b(graph, graph.body, concat.loc);
  b.set_name_hint(concat.result()->name);
  while (pieces.size() > kSplitOperands) {
    std::vector<Value*> joined;
    const size_t count = ceil_div(pieces.size(), kSplitOperands);
    for (size_t i = 0; i < count; ++i) {
      const auto begin = pieces.begin() + static_cast<ptrdiff_t>(pieces.size() * i / count);
      const auto end = pieces.begin() + static_cast<ptrdiff_t>(pieces.size() * (i + 1) / count);
      joined.push_back(b.concat({begin, end}, concat.attrs.get_int("axis")));
    }
    pieces = std::move(joined);
  }
  return pieces;
}

}  // namespace

std::unordered_map<const Value*, int64_t> copied_slices(const Graph& graph) {
  std::unordered_map<const Value*, int64_t> offsets;
  for (const Node* slice : many_slices(graph)) {
    const int axis = cut_axis(*slice);
    const Type& type = slice->operand(0)->type;
    if (!is_contiguous(*slice, axis) || size_bits(type.dtype) < 8) continue;
    const int64_t row_bytes = type.size_bytes() / type.shape()[static_cast<size_t>(axis)];
    offsets[slice->result()] = slice->attrs.get_ints("starts")[static_cast<size_t>(axis)] * row_bytes;
  }
  return offsets;
}

void split_wide_nodes(Graph& graph) {
  std::unordered_map<const Node*, int> gathered;  // the axis
  std::map<std::tuple<const Value*, int, int64_t>, std::vector<const Node*>> alike;
  for (const Node* slice : many_slices(graph)) {
    const int axis = cut_axis(*slice);
    if (is_contiguous(*slice, axis) && size_bits(slice->result()->type.dtype) >= 8) continue;
    alike[{slice->operand(0), axis, slice->result()->type.shape()[static_cast<size_t>(axis)]}].push_back(slice);
  }
  for (const auto& [key, slices] : alike) {
    if (slices.size() <= kMaxSlices) continue;
    for (const Node* slice : slices) gathered[slice] = std::get<int>(key);
  }
  const std::unordered_set<const Node*> in_place = long_concats_with_places(graph);
  const std::vector<int> uses = count_uses(graph);
  std::unordered_map<Value*, Value*> replaced;
  std::vector<Node*> nodes;
  nodes.swap(graph.body.nodes);
  for (Node* node : nodes) {
    if (const auto found = gathered.find(node); found != gathered.end()) {
      replaced[node->result()] = as_gather(graph, *node, found->second);
      continue;
    }
    const bool wide = node->op == Op::concat_ && node->operands.size() > kMaxOperands;
    if (wide && in_place.count(node) == 0 && !is_written_in_place(*node, uses)) node->operands = few_operands(graph, *node);
    graph.body.nodes.push_back(node);
  }
  if (!replaced.empty()) replace_values(graph, replaced);
}

}  // namespace tcc::group
