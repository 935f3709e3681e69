// A new value may be written into the state once nobody needs the old one:
//
//   unit 3 (%h, @w) -> (%d)     unit 4 (%g, @w, %lr) -> (%w.new)      state(@w = %w.new)
//
// Unit 4 writes @w itself if unit 3 comes first, which becomes an edge of the order, and if it reads @w only where it writes (loop/overwrite.h). Weights may
// overlap (a flat tensor and its parts), so bytes are compared, not names. One update after the other is tried: one whose edges would close a cycle stays
// with a copy at the end.
//
// A base that several units write (the pieces of a concat) goes in place with all of them or not at all.

#include "plan/state_writes.h"

#include <algorithm>

#include "tcc/support/diagnostics.h"

namespace tcc::plan {

const StateTensor* StateWeights::find(const Value* value) const {
  return value->kind == Value::Kind::weight ? find(value->weight) : nullptr;
}

const StateTensor* StateWeights::find(const Weight* weight) const {
  const StateTensor* tensor = layout_ ? layout_->find(weight->name) : nullptr;
  if (tensor && (tensor->dtype != weight->tensor.dtype() || tensor->size_bytes() != weight->tensor.size_bytes()))
    internal_error("the state's `" + tensor->name + "` has another type than the weight of that name");
  return tensor;
}

namespace {

class Chooser {
 public:
  Chooser(const group::Groups& groups, const BufferAliases& aliases, const std::vector<const schedule::ScheduledUnit*>& scheduled,
          const std::vector<StateRead>& reads, const std::unordered_map<const Value*, int>& padding_steps, Order& order)
      : groups_(groups), aliases_(aliases), scheduled_(scheduled), reads_(reads), padding_steps_(padding_steps), order_(order) {
    writes_.overwrites.resize(groups.units.size());
  }

  /// Whether all that write the base may write the tensor; adds the edges if so.
  bool try_in_place(const Value* base, const StateTensor& tensor) {
    const auto& writers = aliases_.writers(base);
    if (writers.empty()) return false;
    std::vector<std::pair<int, std::vector<loop::Overwrite>>> found;  // unit, pairs
    std::vector<std::pair<int, std::vector<int>>> edges;
    bool fits = true;
    for (const BufferAliases::Writer& writer : writers) {
      const int64_t begin = tensor.offset + writer.offset;
      std::vector<int> before;
      std::vector<loop::Overwrite> pairs;
      fits = collect(writer, {tensor.block(), begin, begin + writer.value->type.size_bytes()}, before, pairs) &&
             order_.try_add(before, writer.unit);
      if (!fits) break;
      edges.emplace_back(writer.unit, std::move(before));
      found.emplace_back(writer.unit, std::move(pairs));
    }
    if (const auto step = padding_steps_.find(base); fits && step != padding_steps_.end()) {
      const StateRange range{tensor.block(), tensor.offset, tensor.offset + tensor.size_bytes()};
      std::vector<int> before;
      for (const StateRead& read : reads_) {
        if (read.range.overlaps(range)) before.push_back(read.step);
      }
      fits = order_.try_add(before, step->second);
      if (fits) edges.emplace_back(step->second, std::move(before));
    }
    if (!fits) {
      for (const auto& [unit, before] : edges) order_.remove(before, unit);
      return false;
    }
    for (auto& [unit, pairs] : found) {
      auto& all = writes_.overwrites[static_cast<size_t>(unit)];
      all.insert(all.end(), pairs.begin(), pairs.end());
    }
    writes_.in_place[base] = &tensor;
    return true;
  }

  StateWrites writes_;

 private:
  /// Who must read before the writer writes, and which of its own inputs it overwrites; false when its own reads forbid it.
  bool collect(const BufferAliases::Writer& writer, const StateRange& range, std::vector<int>& before,
               std::vector<loop::Overwrite>& pairs) const {
    const group::Unit& unit = groups_.units[static_cast<size_t>(writer.unit)];
    const schedule::ScheduledUnit& scheduled = *scheduled_[static_cast<size_t>(writer.unit)];
    const std::vector<loop::Param>& params = scheduled.form.unit->params;
    size_t output = unit.inputs.size();
    for (size_t i = 0; i < unit.outputs.size(); ++i) output += unit.outputs[i] == writer.value ? i : 0;
    const std::string& result = params.at(output).buffer->name;
    for (const StateRead& read : reads_) {
      if (!read.range.overlaps(range)) continue;
      if (read.step != writer.unit) {
        before.push_back(read.step);
        continue;
      }
      const std::string& old = params.at(static_cast<size_t>(read.input)).buffer->name;
      if (!(read.range == range) || !loop::can_overwrite(scheduled.kernels, old, result)) return false;
      pairs.emplace_back(old, result);
    }
    return true;
  }

  const group::Groups& groups_;
  const BufferAliases& aliases_;
  const std::vector<const schedule::ScheduledUnit*>& scheduled_;
  const std::vector<StateRead>& reads_;
  const std::unordered_map<const Value*, int>& padding_steps_;
  Order& order_;
};

void check_disjoint(const Graph& graph, const StateWeights& weights) {
  std::vector<std::pair<StateRange, const Weight*>> written;
  for (const StateUpdate& update : graph.state_updates) {
    const StateTensor* tensor = weights.find(update.weight);
    if (!tensor) internal_error("`" + graph.name + "` updates `" + update.weight->name + "`, which the state does not have");
    written.push_back({{tensor->block(), tensor->offset, tensor->offset + tensor->size_bytes()}, update.weight});
  }
  std::sort(written.begin(), written.end(),
            [](const auto& a, const auto& b) { return std::pair(a.first.block, a.first.begin) < std::pair(b.first.block, b.first.begin); });
  for (size_t i = 1; i < written.size(); ++i) {
    if (written[i].first.overlaps(written[i - 1].first))
      internal_error("`" + graph.name + "` updates `" + written[i - 1].second->name + "` and `" + written[i].second->name +
                     "`, which overlap");
  }
}

}  // namespace

StateWrites choose_state_writes(const Graph& graph, const group::Groups& groups, const BufferAliases& aliases,
                                const std::vector<const schedule::ScheduledUnit*>& scheduled, const StateWeights& weights,
                                const std::vector<StateRead>& reads, const std::unordered_set<const Value*>& taken,
                                const std::unordered_map<const Value*, int>& padding_steps, Order& order) {
  Chooser chooser(groups, aliases, scheduled, reads, padding_steps, order);
  if (!weights.any()) return std::move(chooser.writes_);
  check_disjoint(graph, weights);
  for (const StateUpdate& update : graph.state_updates) {
    if (update.value->type.count() == 0) continue;
    const BufferAliases::Storage storage = aliases.of(update.value);
    const StateTensor& tensor = *weights.find(update.weight);
    if (storage.base->kind == Value::Kind::weight && weights.find(storage.base) == &tensor) continue;  // as it was
    const bool whole = storage.offset == 0 && storage.base->type.size_bytes() == tensor.size_bytes();
    const bool is_free = !taken.count(storage.base) && !chooser.writes_.in_place.count(storage.base);
    if (whole && is_free && chooser.try_in_place(storage.base, tensor)) continue;
    chooser.writes_.copied.push_back(&update);
  }
  return std::move(chooser.writes_);
}

}  // namespace tcc::plan
