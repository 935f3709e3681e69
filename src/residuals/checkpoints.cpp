// A min-cut alone does not know when a value lives. Where everything is worth computing again, it goes back to the inputs, and the last layer's backward pass
// would begin with a second forward pass, all of which lives until its gradients: nothing is gained. What helps is to save all that lives at a few places:
// then each piece between two places is computed again by itself, just before its backward pass (Chen et al., "Training deep nets with sublinear memory
// cost", section 4).
//
//   bytes that live      --x1----[ q k v p ... ]----x2----[ q k v p ... ]----x3--        one value at x1, x2, x3, many between
//   pieces = 2                                       ^
//
// Places are where the fewest bytes live among those that divide the needed bytes evenly, give or take half a piece: between the layers of a transformer.
// Values that are a few pointwise steps from inputs and weights (masks, positions) do not count: they are never worth a checkpoint.

#include "residuals/checkpoints.h"

#include <algorithm>
#include <cmath>

namespace tcc::residuals {
namespace {

constexpr int kMaxPieces = 64;

size_t at(const Value* value) { return static_cast<size_t>(value->id); }

class Placer {
 public:
  explicit Placer(const RecomputeCosts& costs) : costs_(costs) {
    const std::vector<Node*>& nodes = costs.graph->body.nodes;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (costs.partition.of_node[i] == Half::forward && costs.needed_by_backward[i] && !is_free(*nodes[i])) steps_.push_back(i);
    }
    find_bases();
    find_lifetimes();
    needed_.resize(steps_.size() + 1);
    live_.resize(steps_.size() + 1);
    for (size_t t = 0; t < steps_.size(); ++t) {
      needed_[t + 1] = needed_[t];
      for (const Value* result : nodes[steps_[t]]->results) {
        if (read_later_[at(result)]) needed_[t + 1] += static_cast<double>(costs.bytes[at(result)]);
        // It lives behind the steps t, ..., last - 1.
        const size_t last = last_reader_[at(result)];
        if (near_inputs_[at(result)] || last <= t) continue;
        live_[t] += costs.bytes[at(result)];
        live_[last] -= costs.bytes[at(result)];
      }
    }
    for (size_t t = 1; t < live_.size(); ++t) live_[t] += live_[t - 1];
  }

  Checkpoints place(int pieces) const {
    const std::vector<Node*>& nodes = costs_.graph->body.nodes;
    Checkpoints result;
    result.keep.resize(nodes.size());
    std::vector<size_t> places;  // behind these steps
    const double piece = needed_.back() / pieces;
    size_t t = 0;
    for (int k = 1; k < pieces; ++k) {
      size_t best = SIZE_MAX;
      for (; t + 1 < steps_.size() && needed_[t + 1] < (k + 0.5) * piece; ++t) {
        if (needed_[t + 1] < (k - 0.5) * piece) continue;
        const auto distance = [&](size_t step) { return std::abs(needed_[step + 1] - k * piece); };
        if (best == SIZE_MAX || live_[t] < live_[best] || (live_[t] == live_[best] && distance(t) < distance(best))) best = t;
      }
      if (best != SIZE_MAX) places.push_back(best);
    }
    for (size_t step = 0; step < steps_.size(); ++step) {
      for (const Value* value : nodes[steps_[step]]->results) {
        const auto place = std::lower_bound(places.begin(), places.end(), step);
        if (near_inputs_[at(value)] || place == places.end() || *place >= last_reader_[at(value)]) continue;
        if (!result.keep[steps_[step]]) result.estimated_bytes += costs_.bytes[at(value)];
        result.keep[steps_[step]] = 1;
      }
    }
    if (!places.empty()) result.last = steps_[places.back()];
    double largest = 0, before = 0;
    places.push_back(steps_.empty() ? 0 : steps_.size() - 1);
    for (const size_t place : places) {
      const double behind = steps_.empty() ? 0 : needed_[place + 1];
      largest = std::max(largest, behind - before);
      before = behind;
    }
    result.places = static_cast<int>(places.size()) - 1;
    result.estimated_bytes += static_cast<int64_t>(largest);
    return result;
  }

  int num_steps() const { return static_cast<int>(steps_.size()); }

 private:
  void find_bases() {
    base_.resize(costs_.save.size());
    for (const Node* node : costs_.graph->body.nodes) {
      const bool view = is_free(*node) && !node->operands.empty();
      for (const Value* result : node->results) base_[at(result)] = view ? base(node->operand(0)) : result;
    }
  }
  const Value* base(const Value* value) const { return value->producer ? base_[at(value)] : value; }

  void find_lifetimes() {
    const size_t num_values = costs_.save.size();
    last_reader_.resize(num_values);
    read_later_.resize(num_values);
    near_inputs_.resize(num_values);
    std::vector<size_t> step_of(costs_.graph->body.nodes.size(), SIZE_MAX);
    for (size_t t = 0; t < steps_.size(); ++t) step_of[steps_[t]] = t;
    for (size_t i = 0; i < step_of.size(); ++i) {
      const Node& node = *costs_.graph->body.nodes[i];
      const Lowering lowering = info(node.op).lowering;
      bool near = is_free(node) || lowering == Lowering::pointwise || lowering == Lowering::indexed || lowering == Lowering::concat;
      for (const Value* operand : node.operands) {
        const Value* from = base(operand);
        if (!from->producer) continue;
        near = near && near_inputs_[at(from)];
        if (step_of[i] != SIZE_MAX) last_reader_[at(from)] = std::max(last_reader_[at(from)], step_of[i]);
        else if (costs_.partition.of_node[i] != Half::forward && !is_free(node)) read_later_[at(from)] = 1;
      }
      for (const Value* result : node.results) near_inputs_[at(result)] = near;
    }
  }

  const RecomputeCosts& costs_;
  std::vector<size_t> steps_;  ///< positions of the forward nodes that the backward pass depends on, without free ones
  std::vector<const Value*> base_;
  std::vector<size_t> last_reader_;             ///< the last step that reads it, through views
  std::vector<char> read_later_, near_inputs_;  ///< by the backward pass; pointwise from inputs and weights
  std::vector<double> needed_;                  ///< bytes that the backward pass reads of the steps before t
  std::vector<int64_t> live_;                   ///< bytes that live behind step t
};

}  // namespace

Checkpoints place_checkpoints(const RecomputeCosts& costs, int pieces) { return Placer(costs).place(pieces); }

int best_number_of_pieces(const RecomputeCosts& costs) {
  const Placer placer(costs);
  int best = 1;
  int64_t best_bytes = placer.place(1).estimated_bytes;
  for (int pieces = 2; pieces <= std::min(kMaxPieces, placer.num_steps()); ++pieces) {
    const int64_t bytes = placer.place(pieces).estimated_bytes;
    if (bytes >= best_bytes) continue;
    best = pieces;
    best_bytes = bytes;
  }
  return best;
}

}  // namespace tcc::residuals
