#include "group/join_units.h"

#include <algorithm>
#include <iterator>

#include "group/lower.h"
#include "group/materialize.h"
#include "group/merge.h"
#include "group/structure.h"

namespace tcc::group {

UnitJoiner::UnitJoiner(Groups& groups, const GroupOptions& options) : groups_(groups), storage_(groups), options_(options) {
  for (const Node* node : groups.graph->body.nodes) position_.emplace(node, position_.size());
  for (size_t i = 0; i < groups.units.size(); ++i) {
    for (const Value* output : groups.units[i].outputs) writer_[output] = i;
    for (const Value* input : groups.units[i].inputs) readers_[storage_.of(input)].insert(i);
  }
  for (const Value* result : groups.graph->body.results) held_.insert(storage_.of(result));
  for (const StateUpdate& update : groups.graph->state_updates) held_.insert(storage_.of(update.value));
}

std::optional<size_t> UnitJoiner::writer_of(const Value* value) const {
  const Value* stored = storage_.of(value);
  const auto writer = writer_.find(stored);
  if (writer == writer_.end() || gone_.contains(writer->second) || held_.contains(stored)) return std::nullopt;
  return writer->second;
}

const std::unordered_set<size_t>& UnitJoiner::readers_of(const Value* stored) const {
  static const std::unordered_set<size_t> none;
  const auto found = readers_.find(stored);
  return found == readers_.end() ? none : found->second;
}

bool UnitJoiner::is_whole(const Value* value) const {
  const Value* stored = storage_.of(value);
  while (value != stored && value->producer != nullptr && is_bijective_view(*value->producer)) value = value->producer->operand(0);
  return value == stored;
}

/// Whether the unit makes one value of nothing but positions, at little cost: a mask. Then it is made where it is read.
bool UnitJoiner::is_of_positions(size_t number) const {
  constexpr int kMostCost = 32;
  const Unit& unit = groups_.units[number];
  int cost = 0;
  for (const Node* node : unit.nodes) cost += is_pointwise(*node) ? op_cost(*node) : 0;
  return unit.kind == UnitKind::map && unit.inputs.empty() && unit.outputs.size() == 1 && !held_.contains(unit.outputs[0]) &&
         cost <= kMostCost;
}

UnitJoiner::Union UnitJoiner::union_of(UnitKind kind, const std::vector<size_t>& numbers,
                                       const std::unordered_set<const Value*>& inside) const {
  Union result;
  Unit& joined = result.unit;
  std::unordered_set<Node*> nodes;
  for (const size_t number : numbers) {
    const Unit& unit = groups_.units[number];
    nodes.insert(unit.nodes.begin(), unit.nodes.end());
    for (Value* input : unit.inputs) {
      const Value* stored = storage_.of(input);
      const auto writer = writer_.find(stored);
      const bool is_made_here = is_whole(input) && writer != writer_.end() && is_of_positions(writer->second);
      if (is_made_here) {
        const std::vector<Node*>& made = groups_.units[writer->second].nodes;
        nodes.insert(made.begin(), made.end());
        result.positions.insert(writer->second);
      } else if (!inside.contains(stored)) {
        if (std::find(joined.inputs.begin(), joined.inputs.end(), input) == joined.inputs.end()) joined.inputs.push_back(input);
        continue;
      }
      // Another name for it is a view, which is now of the unit.
      for (const Value* value = input; value != stored; value = value->producer->operand(0)) nodes.insert(value->producer);
    }
  }
  joined.kind = kind;
  joined.nodes.assign(nodes.begin(), nodes.end());
  std::sort(joined.nodes.begin(), joined.nodes.end(), [&](const Node* a, const Node* b) { return position_.at(a) < position_.at(b); });
  joined.outputs = groups_.units[numbers.back()].outputs;
  joined.anchor = groups_.units[numbers.back()].anchor;
  joined.label = label_of(joined);
  return result;
}

bool UnitJoiner::may_wait(size_t unit, size_t number) const {
  return std::ranges::all_of(groups_.units[unit].outputs, [&](const Value* output) {
    return std::ranges::all_of(readers_of(storage_.of(output)), [&](size_t reader) { return reader > number; });
  });
}

std::optional<double> UnitJoiner::ns_of(const Unit& unit) const {
  if (unit.inputs.size() + unit.outputs.size() > kMaxUnitBuffers) return std::nullopt;
  const auto time = [&] { return options_.stream_ns(lower(*groups_.graph, unit)); };
  const std::optional<std::string> structure = structure_of(unit);
  return structure ? *options_.stream_times->find_or_make(*structure, [&] { return std::make_shared<std::optional<double>>(time()); })
                   : time();
}

void UnitJoiner::replace(size_t last, Union joined, const std::vector<size_t>& gone, const std::unordered_set<const Value*>& not_stored) {
  for (const Value* output : joined.unit.outputs) writer_[output] = last;
  for (const Value* input : joined.unit.inputs) readers_[storage_.of(input)].insert(last);
  groups_.units[last] = std::move(joined.unit);
  gone_.insert(gone.begin(), gone.end());
  not_stored_.insert(not_stored.begin(), not_stored.end());
  for (const size_t number : joined.positions) {
    std::unordered_set<size_t>& readers = readers_.at(groups_.units[number].outputs[0]);
    for (const size_t reader : gone) readers.erase(reader);
    readers.erase(last);
    if (!readers.empty()) continue;
    gone_.insert(number);
    not_stored_.insert(groups_.units[number].outputs[0]);
  }
}

bool UnitJoiner::finish() {
  if (gone_.empty()) return false;
  std::vector<Unit> left;
  for (size_t i = 0; i < groups_.units.size(); ++i) {
    if (gone_.contains(i)) continue;
    groups_.units[i].id = static_cast<int>(left.size());
    left.push_back(std::move(groups_.units[i]));
  }
  groups_.units = std::move(left);
  std::erase_if(groups_.aliases, [&](const Alias& alias) { return not_stored_.contains(storage_.of(alias.value)); });
  return true;
}

}  // namespace tcc::group
