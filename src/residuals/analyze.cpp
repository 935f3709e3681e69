// Halves, sizes and times of a joint graph.
//
// Halves. A node is forward when its phase says so or a forward node depends on it. Of the others, early are those that read forward values, inputs and
// weights alone, directly or through early nodes of the same node of the model: what a vjp rule computes before it meets a cotangent. One rule far, so that
// the whole backward pass of a known loss does not count as early.
//
// Times. What is in memory anyway is what a trial grouping of the forward half alone stores; saving that costs the reading. Computing a pointwise value again
// costs its arithmetic, because it fuses into what reads it, unless that is a contraction or the like, which reads memory, or a broadcast: then also a launch,
// a write and a read. Contractions, windows, scans, sorts and scatters cost a launch, their work, their operands, a write and a read; a reduction a launch, and its operand
// once more. Views and created values are free. A node that the forward half does not need is not computed twice: moving it costs nothing.

#include "residuals/analyze.h"

#include <algorithm>
#include <cmath>

#include "residuals/copy_graph.h"
#include "tcc/group/group.h"
#include "tcc/ops/op.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/diagnostics.h"

namespace tcc::residuals {
namespace {

/// Of the bytes that are stored when they are computed again: with so many made behind it, a value counts in full.
constexpr double kFullPrice = 1.0 / 8;
/// What attention does not store: how many of the kernels of its gradients compute it again, each for itself; how often such bytes are written and read where one
/// of them is saved after all: scores and weights by the kernels that the forward half then has, weights by those of the gradients, which can do less at once.
constexpr double kChains = 3, kUnstreamed = 10;

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

size_t at(const Value* value) { return static_cast<size_t>(value->id); }

bool is_anchor(const Node& node) {
  switch (info(node.op).lowering) {
    case Lowering::contract:
    case Lowering::window:
    case Lowering::scan:
    case Lowering::scatter:
    case Lowering::sort: return true;
    default: return false;
  }
}

/// What the views below a value see: the value that is in memory, or is an input, a weight or created.
const Value* base_of(const Value* value) {
  while (value->producer && info(value->producer->op).lowering == Lowering::view) value = value->producer->operand(0);
  return value;
}

/// The same bytes in the same order.
const Value* below_reshapes(const Value* value) {
  while (value->producer && value->producer->op == Op::reshape_) value = value->producer->operand(0);
  return value;
}

class Analyzer {
 public:
  Analyzer(const Graph& graph, const schedule::Target& target, const std::function<group::Groups(const Graph&)>& group)
      : graph_(graph), target_(target), group_(group) {
    const size_t num_nodes = graph.body.nodes.size(), num_values = static_cast<size_t>(graph.num_values());
    costs_.graph = &graph;
    costs_.partition = find_partition(graph);
    for (auto* list : {&costs_.needed_by_forward, &costs_.needed_by_backward}) list->resize(num_nodes);
    costs_.recompute.resize(num_nodes);
    for (auto* list : {&costs_.savable, &costs_.read_by_backward, &costs_.stored_again}) list->resize(num_values);
    costs_.save.resize(num_values);
    costs_.bytes.resize(num_values);
    stored_.resize(num_values);
    streamed_.resize(num_values);
    source_bytes_.resize(num_values);
    output_.resize(num_values);
  }

  RecomputeCosts run() {
    mark_readers();
    mark_needed();
    group_forward();
    mark_stored_again();
    for (size_t i = 0; i < graph_.body.nodes.size(); ++i) {
      if (costs_.partition.of_node[i] != Half::backward) measure(i);
    }
    price_bytes();
    return std::move(costs_);
  }

 private:
  const std::vector<Node*>& nodes() const { return graph_.body.nodes; }

  void mark_readers() {
    auto mark = [&](const Value* value) {
      if (value && costs_.partition.is_made(value) && costs_.partition.of(value) != Half::backward) costs_.read_by_backward[at(value)] = 1;
    };
    for (size_t i = 0; i < nodes().size(); ++i) {
      if (costs_.partition.of_node[i] != Half::backward) continue;
      for (const Value* operand : nodes()[i]->operands) mark(operand);
    }
    for (size_t i = 0; i < graph_.body.results.size(); ++i) {
      const Value* result = graph_.body.results[i];
      if (is_backward_output(graph_, i, costs_.partition)) mark(result);
      else output_[at(below_reshapes(result))] = 1;
    }
    for (const StateUpdate& update : graph_.state_updates) {
      if (is_backward_update(update, costs_.partition)) mark(update.value);
    }
  }

  void mark_needed() {
    std::vector<char> forward(costs_.save.size()), backward = costs_.read_by_backward;
    for (size_t i = 0; i < graph_.body.results.size(); ++i) {
      if (!is_backward_output(graph_, i, costs_.partition)) forward[at(graph_.body.results[i])] = 1;
    }
    for (const StateUpdate& update : graph_.state_updates) {
      if (!is_backward_update(update, costs_.partition)) forward[at(update.value)] = 1;
    }
    for (size_t i = nodes().size(); i-- > 0;) {
      if (costs_.partition.of_node[i] == Half::backward) continue;
      for (const Value* result : nodes()[i]->results) {
        costs_.needed_by_forward[i] |= forward[at(result)];
        costs_.needed_by_backward[i] |= backward[at(result)];
      }
      for (const Value* operand : nodes()[i]->operands) {
        if (costs_.needed_by_forward[i]) forward[at(operand)] = 1;
        if (costs_.needed_by_backward[i]) backward[at(operand)] = 1;
      }
    }
  }

  /// The trial grouping: what the forward half stores for itself.
  void group_forward() {
    GraphCopy copy(graph_, graph_.name);
    std::vector<Value*> copies(costs_.save.size());
    for (const Value* input : graph_.body.args) copies[at(input)] = copy.graph().add_input(input->name, input->type);
    auto map = [&](const Value* value) { return value->kind == Value::Kind::weight ? copy.weight(value) : copies[at(value)]; };
    for (size_t i = 0; i < nodes().size(); ++i) {
      if (!costs_.needed_by_forward[i]) continue;
      std::vector<Value*> operands;
      for (const Value* operand : nodes()[i]->operands) operands.push_back(map(operand));
      const Node* node = copy.append(*nodes()[i], std::move(operands), "");
      for (size_t k = 0; k < node->results.size(); ++k) copies[at(nodes()[i]->results[k])] = node->results[k];
    }
    for (size_t i = 0; i < graph_.body.results.size(); ++i) {
      if (!is_backward_output(graph_, i, costs_.partition)) copy.graph().add_output(map(graph_.body.results[i]), graph_.output_names[i]);
    }
    for (const StateUpdate& update : graph_.state_updates) {
      if (!is_backward_update(update, costs_.partition)) copy.graph().add_output(map(update.value), update.weight->name);
    }
    if (copy.graph().body.nodes.empty()) return;
    const std::unique_ptr<Graph> forward = copy.take();
    const group::Groups groups = group_(*forward);
    std::vector<char> stored(static_cast<size_t>(forward->num_values())), streamed(stored.size());
    for (const group::Unit& unit : groups.units) {
      if (unit.kind == group::UnitKind::stream) mark_scores(unit, streamed);
      for (const Value* output : unit.outputs) stored[at(output)] = 1;
    }
    for (const group::Alias& alias : groups.aliases) {
      stored[at(alias.value)] = 1;
      stored[at(alias.base)] = 1;
    }
    for (size_t i = 0; i < copies.size(); ++i) {
      stored_[i] = copies[i] && stored[at(copies[i])];
      streamed_[i] = copies[i] && streamed[at(copies[i])] && !stored_[i];
    }
  }

  /// What is as large as the scores of a stream; what is one for a row is stored.
  static void mark_scores(const group::Unit& unit, std::vector<char>& streamed) {
    const auto count = [](const Node* node) { return node->result()->type.count(); };
    const int64_t scores = count(*std::ranges::max_element(unit.nodes, {}, count));
    for (const Node* node : unit.nodes) streamed[at(node->result())] |= count(node) == scores;
  }

  /// Values that must be in memory for the backward half: what a contraction or the like reads, through views, and what a view spreads over more elements
  /// (a vector of a value per channel is computed once, not for each pixel).
  void mark_stored_again() {
    for (size_t i = 0; i < nodes().size(); ++i) {
      const Node& node = *nodes()[i];
      for (const Value* operand : node.operands) {
        const bool spreads = node.op == Op::broadcast_in_dim_ && node.result()->type.count() > operand->type.count();
        const bool reads = is_anchor(node) && costs_.partition.of_node[i] == Half::backward;
        if ((spreads || reads) && !streamed_[at(base_of(operand))]) costs_.stored_again[at(base_of(operand))] = 1;
      }
    }
  }

  // --------------------------------------------------------------------------------------------------------- times

  double bytes_ns(const Value* value) const { return static_cast<double>(value->type.size_bytes()) / target_.bytes_per_ns; }
  double launch_ns() const { return target_.launch_ns; }
  double arithmetic_ns(double operations) const { return operations / (target_.flops_per_ns / (target_.is_cuda() ? 2 : 4)); }

  double contraction_ns(const Node& node) const {
    const Shape a = node.operand(0)->type.shape(), b = node.operand(1)->type.shape();
    double depth = 1;
    if (node.op == Op::dot_general_) {
      for (const int64_t axis : node.attrs.get_ints("lhs_contract")) depth *= static_cast<double>(a[static_cast<size_t>(axis)]);
    } else {
      for (size_t i = 1; i < b.size(); ++i) depth *= static_cast<double>(b[i]);
    }
    const bool tensor_cores = target_.is_cuda() && size_bits(node.operand(0)->type.dtype) <= 16;
    return 2 * depth * static_cast<double>(node.result()->type.count()) / (target_.flops_per_ns * (tensor_cores ? 8 : 0.5));
  }

  double work_ns(const Node& node) const {
    const double count = static_cast<double>(node.result()->type.count());
    const double read = static_cast<double>(node.operands.empty() ? 0 : node.operand(0)->type.count());
    switch (info(node.op).lowering) {
      case Lowering::pointwise: return arithmetic_ns(count * arithmetic_cost(node.op));
      case Lowering::indexed: return arithmetic_ns(count * 4);
      case Lowering::concat: return arithmetic_ns(count);
      case Lowering::reduce:
      case Lowering::scan: return arithmetic_ns(read);
      case Lowering::contract: return contraction_ns(node);
      case Lowering::window: {
        double window = 1;
        for (const int64_t extent : node.attrs.get_ints("window")) window *= static_cast<double>(extent);
        return arithmetic_ns(count * window);
      }
      case Lowering::scatter: return arithmetic_ns(4 * static_cast<double>(node.operand(2)->type.count()));
      case Lowering::sort: return arithmetic_ns(read * (1 + std::log2(read + 1)));
      default: return 0;
    }
  }

  double recompute_ns(const Node& node) const {
    if (is_free(node)) return 0;
    if (streamed_[at(node.result())]) return kChains * work_ns(node);
    double operands = 0, always_there = 0;
    for (const Value* operand : node.operands) {
      const Value* base = base_of(operand);
      operands += bytes_ns(base);
      if (!base->producer) always_there += bytes_ns(base);
    }
    double result = 0;
    for (const Value* value : node.results) result += bytes_ns(value);
    if (is_anchor(node)) return launch_ns() + std::max(work_ns(node), operands) + 2 * result;
    if (info(node.op).lowering == Lowering::reduce) return launch_ns() + std::max(work_ns(node), operands);
    double time = work_ns(node) + always_there;
    // Contractions take casts in.
    const bool cast = node.op == Op::cast_ || node.op == Op::bitcast_;
    if (costs_.stored_again[at(node.result())] && !cast) time += launch_ns() + 2 * result;
    return time;
  }

  Half halves_of(size_t i) const { return costs_.partition.of_node[i]; }

  /// Early values are worth saving where they are smaller than what they are of. Others stay where they are: moved, they would only be made too soon.
  bool is_smaller_form(const Value* value) {
    int64_t& largest = source_bytes_[at(value)];
    for (const Value* operand : value->producer->operands) {
      const Value* base = base_of(operand);
      if (!costs_.partition.is_made(base) || is_free(*base->producer)) continue;
      largest = std::max(largest, costs_.partition.of(base) == Half::forward ? base->type.size_bytes() : source_bytes_[at(base)]);
    }
    return value->type.size_bytes() < largest;
  }

  void measure(size_t i) {
    const Node& node = *nodes()[i];
    const bool moves = !costs_.needed_by_forward[i];
    costs_.recompute[i] = moves ? 0 : static_cast<Picoseconds>(std::llround(1000 * recompute_ns(node)));
    for (const Value* value : node.results) {
      const bool output = output_[at(below_reshapes(value))] != 0;
      const bool stored = stored_[at(value)] || output;
      costs_.savable[at(value)] = (node.op == Op::slice_ || !is_free(node)) && (halves_of(i) == Half::forward || is_smaller_form(value));
      costs_.save[at(value)] = static_cast<Picoseconds>(std::llround(1000 * bytes_ns(value) *
                                                                     (stored                 ? 1
                                                                      : streamed_[at(value)] ? kUnstreamed
                                                                                             : 2)));
      costs_.bytes[at(value)] = output ? 0 : value->type.size_bytes();
    }
  }

  /// What is made last is read first: computed again and stored, it would live again at once, and at the same time as all that is saved before it. So its
  /// bytes count in proportion to such bytes that are made behind it, in full from a share of them on.
  void price_bytes() {
    const auto bytes = [&](const Value* value) {
      return static_cast<double>(costs_.stored_again[at(value)] ? costs_.bytes[at(value)] : 0);
    };
    const std::vector<int> ranks = forward_ranks(costs_);
    std::vector<double> before(nodes().size() + 1);  // by rank: up to this node
    double all = 0;
    for (size_t i = 0; i < nodes().size(); ++i) {
      if (costs_.partition.of_node[i] != Half::forward) continue;
      for (const Value* result : nodes()[i]->results) all += bytes(result);
      before[static_cast<size_t>(ranks[i])] = all;
    }
    costs_.priced_bytes = costs_.bytes;
    for (size_t i = 0; i < nodes().size(); ++i) {
      if (costs_.partition.of_node[i] == Half::backward) continue;
      const double behind = all - before[static_cast<size_t>(ranks[i])];
      for (const Value* result : nodes()[i]->results) {
        if (bytes(result) > 0) costs_.priced_bytes[at(result)] = std::llround(bytes(result) * std::min(1.0, behind / (all * kFullPrice)));
      }
    }
  }

  const Graph& graph_;
  const schedule::Target& target_;
  const std::function<group::Groups(const Graph&)>& group_;
  RecomputeCosts costs_;
  std::vector<char> stored_, output_;
  std::vector<char>
      streamed_;  ///< is part of a row that is never in memory, neither in the forward half nor, computed again, in the backward half
  std::vector<int64_t> source_bytes_;  ///< of early values: the largest forward value that they are computed from
};

}  // namespace

bool is_free(const Node& node) {
  const Lowering lowering = info(node.op).lowering;
  return lowering == Lowering::view || lowering == Lowering::create;
}

bool is_cotangent(const Value* value) { return value->kind == Value::Kind::input && starts_with(value->name, "cotangent."); }

bool is_backward_output(const Graph& graph, size_t output, const Partition& partition) {
  const Value* value = graph.body.results[output];
  return starts_with(graph.output_names[output], "grad.") || is_cotangent(value) ||
         (partition.is_made(value) && partition.of(value) != Half::forward);
}

bool is_backward_update(const StateUpdate& update, const Partition& partition) {
  return starts_with(update.weight->name, "grad.") || !partition.is_made(update.value) || partition.of(update.value) != Half::forward;
}

Partition find_partition(const Graph& graph) {
  const std::vector<Node*>& nodes = graph.body.nodes;
  Partition partition;
  partition.of_node.assign(nodes.size(), Half::backward);
  partition.position.assign(static_cast<size_t>(graph.num_values()), -1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const Value* result : nodes[i]->results) partition.position[at(result)] = static_cast<int>(i);
  }
  for (size_t i = nodes.size(); i-- > 0;) {
    if (nodes[i]->loc.phase.empty()) partition.of_node[i] = Half::forward;
    if (partition.of_node[i] != Half::forward) continue;
    for (const Value* operand : nodes[i]->operands) {
      if (partition.is_made(operand)) partition.of_node[static_cast<size_t>(partition.position[at(operand)])] = Half::forward;
    }
  }
  // The one node of the model that the early nodes below each node are of; null: none, free ones alone.
  std::vector<const std::string*> source(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = *nodes[i];
    if (partition.of_node[i] == Half::forward || node.loc.phase != "grad") continue;
    bool early = true;
    const std::string* from = is_free(node) ? nullptr : &node.loc.node.str();
    for (const Value* operand : node.operands) {
      if (is_cotangent(operand)) early = false;
      if (!partition.is_made(operand) || partition.of(operand) == Half::forward) continue;
      const std::string* below = source[static_cast<size_t>(partition.position[at(operand)])];
      if (partition.of(operand) == Half::backward || (below && from && *below != *from)) early = false;
      if (!from) from = below;
    }
    if (!early) continue;
    partition.of_node[i] = Half::early;
    source[i] = from;
  }
  return partition;
}

std::vector<int> forward_ranks(const RecomputeCosts& costs) {
  const std::vector<Node*>& nodes = costs.graph->body.nodes;
  std::vector<int> ranks(nodes.size());
  int next = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (costs.partition.of_node[i] == Half::forward) ranks[i] = next++;
    if (costs.partition.of_node[i] != Half::early) continue;
    for (const Value* operand : nodes[i]->operands) {
      if (costs.partition.is_made(operand))
        ranks[i] = std::max(ranks[i], ranks[static_cast<size_t>(costs.partition.position[at(operand)])]);
    }
  }
  return ranks;
}

RecomputeCosts analyze(const Graph& graph, const schedule::Target& target, const std::function<group::Groups(const Graph&)>& group) {
  return Analyzer(graph, target, group).run();
}

}  // namespace tcc::residuals
