// Joins what makes rows by a product of matrices, normalises them, and uses them up in another product, where the rows then need not be stored: attention.
//
//   unit 5 contract {%s = dot_general(%q, %k)} -> (%s)                     unit 5 stream {%s, %m, %e, %l, %p, %o} anchor %o (%q, %k, %v) -> (%o)
//   unit 6 rows {%m, %e, %l, %p} (%s) -> (%p)                        ->
//   unit 7 contract {%o = dot_general(%p, %v)} (%p, %v) -> (%o)
//
// Three units, of which nothing else reads the first two's results, but for what the second stores of each row: the backward pass computes the weights again from
// maxima and sums. A mask that is made of positions alone is made where it is read, in each unit again. Whether a kernel can do it the target says, of the loops that come out: where it can't, each
// score would be computed again for each use.
#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "group/materialize.h"
#include "group/memory.h"
#include "group/merge.h"
#include "tcc/group/group.h"

namespace tcc::group {

namespace {

class RowStreamer {
 public:
  RowStreamer(Groups& groups, const StreamTest& can_stream) : groups_(groups), can_stream_(can_stream), storage_(groups) {
    for (const Node* node : groups.graph->body.nodes) position_.emplace(node, position_.size());
    for (size_t i = 0; i < groups.units.size(); ++i) {
      for (const Value* output : groups.units[i].outputs) writer_[output] = i;
      for (const Value* input : groups.units[i].inputs) readers_[storage_.of(input)].insert(i);
    }
    for (const Value* result : groups.graph->body.results) held_.insert(storage_.of(result));
    for (const StateUpdate& update : groups.graph->state_updates) held_.insert(storage_.of(update.value));
  }

  bool run() {
    for (size_t last = 0; last < groups_.units.size(); ++last) {
      const Unit& unit = groups_.units[last];
      if (!is_product(unit)) continue;
      for (const Value* weights : unit.inputs) {
        const std::optional<size_t> rows = sole_writer(weights, last);
        if (!rows || groups_.units[*rows].kind != UnitKind::rows) continue;
        if (join(*rows, weights, last)) break;
      }
    }
    finish();
    return !gone_.empty();
  }

 private:
  static bool is_product(const Unit& unit) { return unit.kind == UnitKind::contract && unit.anchor->op == Op::dot_general_; }

  /// The unit that stores the value, where unit `reader` alone reads it, and nothing else that is not one for a row.
  std::optional<size_t> sole_writer(const Value* value, size_t reader) const {
    const Value* stored = storage_.of(value);
    const auto writer = writer_.find(stored);
    if (writer == writer_.end() || gone_.contains(writer->second) || held_.contains(stored)) return std::nullopt;
    if (readers_.at(stored) != std::unordered_set<size_t>{reader}) return std::nullopt;
    const auto is_other = [&](const Value* output) { return output != stored && !is_of_rows(output, stored, reader); };
    return std::ranges::any_of(groups_.units[writer->second].outputs, is_other) ? std::nullopt : std::optional(writer->second);
  }

  /// Whether the value is one for each row of another, and read by later units than that.
  bool is_of_rows(const Value* value, const Value* rows, size_t unit) const {
    if (rows->type.rank() == 0 || value->type.count() * rows->type.shape().back() != rows->type.count()) return false;
    const auto readers = readers_.find(storage_.of(value));
    return readers == readers_.end() || std::ranges::all_of(readers->second, [&](size_t reader) { return reader > unit; });
  }

  /// Whether the units that make the rows, normalise them and use them became one.
  bool join(size_t rows, const Value* weights, size_t last) {
    for (const Value* scores : groups_.units[rows].inputs) {
      const std::optional<size_t> first = sole_writer(scores, rows);
      if (!first || !is_product(groups_.units[*first]) || groups_.units[*first].outputs.size() != 1) continue;
      const std::unordered_set<const Value*> inside{storage_.of(scores), storage_.of(weights)};
      Unit joined = union_of({*first, rows, last}, inside);
      if (joined.inputs.size() + joined.outputs.size() > kMaxUnitBuffers || !can_stream_(lower(*groups_.graph, joined))) continue;
      for (const Value* output : joined.outputs) writer_[output] = last;
      groups_.units[last] = std::move(joined);
      gone_.insert({*first, rows});
      not_stored_.insert(inside.begin(), inside.end());
      for (const size_t number : positions_) {
        std::unordered_set<size_t>& readers = readers_.at(groups_.units[number].outputs[0]);
        for (const size_t reader : {*first, rows, last}) readers.erase(reader);
        if (!readers.empty()) continue;
        gone_.insert(number);
        not_stored_.insert(groups_.units[number].outputs[0]);
      }
      return true;
    }
    return false;
  }

  /// Whether the unit makes one value of nothing but positions, at little cost: a mask. Then it is made where it is read.
  bool is_of_positions(size_t number) const {
    constexpr int kMostCost = 32;
    const Unit& unit = groups_.units[number];
    int cost = 0;
    for (const Node* node : unit.nodes) cost += is_pointwise(*node) ? op_cost(*node) : 0;
    return unit.kind == UnitKind::map && unit.inputs.empty() && unit.outputs.size() == 1 && !held_.contains(unit.outputs[0]) &&
           cost <= kMostCost;
  }

  /// `inside`: what the units store for each other.
  Unit union_of(const std::vector<size_t>& numbers, const std::unordered_set<const Value*>& inside) {
    positions_.clear();
    Unit result;
    std::unordered_set<Node*> nodes;
    for (const size_t number : numbers) {
      const Unit& unit = groups_.units[number];
      nodes.insert(unit.nodes.begin(), unit.nodes.end());
      for (Value* input : unit.inputs) {
        const Value* stored = storage_.of(input);
        const auto writer = writer_.find(stored);
        if (writer != writer_.end() && is_of_positions(writer->second)) {
          const std::vector<Node*>& made = groups_.units[writer->second].nodes;
          nodes.insert(made.begin(), made.end());
          positions_.insert(writer->second);
        } else if (!inside.contains(stored)) {
          if (std::find(result.inputs.begin(), result.inputs.end(), input) == result.inputs.end()) result.inputs.push_back(input);
          continue;
        }
        // Another name for it is a view, which is now of the unit.
        for (const Value* value = input; value != stored; value = value->producer->operand(0)) nodes.insert(value->producer);
      }
    }
    result.kind = UnitKind::stream;
    result.nodes.assign(nodes.begin(), nodes.end());
    std::sort(result.nodes.begin(), result.nodes.end(), [&](const Node* a, const Node* b) { return position_.at(a) < position_.at(b); });
    result.outputs = groups_.units[numbers.back()].outputs;
    for (size_t i = 0; i + 1 < numbers.size(); ++i) {
      const auto& stored = groups_.units[numbers[i]].outputs;
      std::ranges::copy_if(stored, std::back_inserter(result.outputs), [&](const Value* value) { return !inside.contains(value); });
    }
    result.anchor = groups_.units[numbers.back()].anchor;
    result.label = label_of(result);
    return result;
  }

  void finish() {
    if (gone_.empty()) return;
    std::vector<Unit> left;
    for (size_t i = 0; i < groups_.units.size(); ++i) {
      if (gone_.contains(i)) continue;
      groups_.units[i].id = static_cast<int>(left.size());
      left.push_back(std::move(groups_.units[i]));
    }
    groups_.units = std::move(left);
    std::erase_if(groups_.aliases, [&](const Alias& alias) { return not_stored_.contains(storage_.of(alias.value)); });
  }

  Groups& groups_;
  const StreamTest& can_stream_;
  const Storage storage_;
  std::unordered_map<const Node*, size_t> position_;
  std::unordered_map<const Value*, size_t> writer_;                       ///< units, by what they store
  std::unordered_map<const Value*, std::unordered_set<size_t>> readers_;  ///< by what they read, other names resolved
  std::unordered_set<const Value*> held_;                                 ///< results of the graph, and what state takes
  std::unordered_set<size_t> positions_;                                  ///< units of positions that the last union has in it
  std::unordered_set<size_t> gone_;                                       ///< units that are part of another
  std::unordered_set<const Value*> not_stored_;                           ///< any more
};

}  // namespace

bool stream_rows(Groups& groups, const StreamTest& can_stream) { return RowStreamer(groups, can_stream).run(); }

}  // namespace tcc::group
