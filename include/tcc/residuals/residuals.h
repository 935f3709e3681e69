// What the backward pass finds saved by the forward pass, and what it computes again: a joint graph of prims in, the same graph with copies of forward
// nodes in its backward part out.
//
//   %h = dot_general(%x, @w1);  %y = gelu(%h);  %z = dot_general(%y, @w2)     loc ""            %y and %h live until their gradients
//   %grad.w2 = dot_general(%dz, %y);  %dh = mul(%dy, gelu'(%h))               loc grad
// becomes, where memory is worth more than the arithmetic of gelu,
//   %h = ...;  %y = gelu(%h);  %z = ...                                       loc ""            %h alone lives
//   %y_1 = gelu(%h)                                                           loc grad
//   %grad.w2 = dot_general(%dz, %y_1);  %dh = ...                             loc grad
//
// docs/residuals.md has the cost model and the plans that are tried. Runs after the last pass that merges equal nodes: the copies are equal to the originals.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/support/memo.h"

namespace tcc {
struct Target;
}

namespace tcc::group {
struct Groups;
}

namespace tcc::residuals {

/// none: everything the backward pass reads is saved. full: everything is computed again from inputs and, where that needs less memory, from a few
/// checkpoints; of these plans the one with the smallest peak. automatic: the fastest of the plans tried that fits the budget.
enum class Mode : uint8_t { none, full, automatic };
/// "none", "full", "auto". Error usage "invalid-argument" otherwise.
Mode parse_mode(std::string_view text);
std::string_view name_of(Mode mode);

/// What a plan of a graph needs: the arena it asks for, and its estimated time.
struct Planned {
  int64_t peak_bytes = 0;
  double cost_ns = 0;
  int64_t floor_bytes = 0;  ///< of the peak, what is left without all that the forward pass keeps for the backward pass
};

/// The graphs that searches of one joint graph try for several targets: mostly the same ones. They stay where they are, so that planners may remember
/// what they made of them.
using TriedGraphs = Memo<std::vector<char>, Graph>;  // by what is saved

/// What the search asks of the stages behind it.
struct Planner {
  std::function<group::Groups(const Graph& graph)> group;  ///< of the forward half: what of it is in memory anyway
  std::function<Planned(const Graph& graph)> plan;
  TriedGraphs* shared = nullptr;  ///< with searches of equal joint graphs; null: with none
};

struct Options {
  Mode mode = Mode::automatic;
  int64_t budget_bytes = 0;  ///< on fixed_bytes + the planned peak; 0: none. Holds in every mode
  int64_t fixed_bytes = 0;   ///< what is there besides the arena: weights, state
};

/// A value of the forward pass that the backward pass needs, itself or to compute another one.
struct Candidate {
  std::string value;  ///< its name in the graph
  std::string type;
  std::string op;
  std::string node;  ///< the model's own name of the node
  int64_t size_bytes = 0;
  double save_ns = 0;       ///< writing it where nothing else does, reading it back
  double recompute_ns = 0;  ///< what computing it in the backward pass adds, from its operands
  bool saved = false;
};

/// One plan that was tried.
struct TriedPlan {
  std::string name;     ///< "none", "price 4", "checkpoints 12", "full"
  double price = 0;     ///< of a byte, in times of reading it
  int checkpoints = 0;  ///< places in the forward pass where all that lives is saved
  int num_saved = 0;    ///< values
  int num_copies = 0;   ///< nodes that the backward pass computes again, each copy counted
  int64_t saved_bytes = 0;
  int64_t peak_bytes = 0;  ///< fixed_bytes + the planned peak
  double cost_ns = 0;
  bool on_front = false;  ///< no other plan is at least as good in both
};

struct Result {
  std::unique_ptr<Graph> graph;
  std::vector<TriedPlan> tried;
  size_t taken = 0;
  std::string reason;                 ///< why that one
  std::vector<Candidate> candidates;  ///< of the plan taken, in the order of the forward pass
  Options options;
};

/// Chooses for a verified joint or step graph of prims (nodes with loc.phase "grad" or "update" are its backward part). Values stay the same bit for bit.
/// `planner.plan` is called once for each distinct graph, from several threads at a time. Deterministic.
/// Errors: model "memory-budget", naming the smallest budget that works among the plans tried.
Result choose_residuals(const Graph& joint, const Target& target, const Options& options, const Planner& planner);

/// The text of --emit=remat: the plans tried, which plan was taken and why, then each candidate.
std::string print(const Result& result, const std::string& graph_name);

/// A joint graph as two functions.
struct PartitionedGraphs {
  /// The inputs (without cotangents), the outputs that are not gradients, then the residuals as outputs `saved.<value>`.
  std::unique_ptr<Graph> forward;
  /// All inputs of the joint graph in their order, then the residuals under the same names; the gradients or state updates.
  std::unique_ptr<Graph> backward;
  int first_residual_output = 0;  ///< index among forward's outputs
  int first_residual_input = 0;   ///< index among backward's inputs
};
/// Cuts where choose_residuals said. Residuals are in the order in which the forward pass makes them, each once; inputs and weights are none, except
/// weights that the forward half itself updates and the backward half reads.
PartitionedGraphs split_partition(const Graph& joint);

}  // namespace tcc::residuals
