// Stage 3: a graph becomes its joint graph, which computes gradients too, in the same data structure and by the same ops.
//
//   graph @net(%x: f32[8, 4]) -> (%y: f32[8, 2]) {
//     %h: f32[8, 2] = gemm(%x, @w, none) {alpha=1, beta=1, transpose_a=false, transpose_b=true}    loc("fc")
//     %y: f32[8, 2] = relu(%h)                                                                     loc("act")
//   }
// with the cotangent of %y as an input becomes
//   graph @net(%x: f32[8, 4], %cotangent.y: f32[8, 2]) -> (%y: f32[8, 2], %grad.w: f32[2, 4]) {
//     %h: f32[8, 2] = dot_general(%x, @w) {...}                      loc("fc")
//     %y: f32[8, 2] = relu(%h)                                       loc("act")
//     %0: f32[8, 2] = full() {dtype=f32, shape=[8, 2], value=0.0}    loc("act") grad
//     %1: bool[8, 2] = le(%y, %0)                                    loc("act") grad
//     %2: f32[8, 2] = select(%1, %0, %cotangent.y)                   loc("act") grad
//     %grad.w: f32[2, 4] = dot_general(%2, %x) {...}                 loc("fc") grad
//   }
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/autograd/loss_scale.h"
#include "tcc/graph/graph.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

/// What is differentiated. Formulas and defaults of the built-in losses are torch's; 16-bit logits are widened, the loss is then f32.
struct LossOptions {
  enum class Kind : uint8_t {
    none,           ///< no loss: an input `cotangent.<output>` per float output
    cross_entropy,  ///< of logits; adds the input `target`, i64, of the shape of the logits without the class axis
    nll,            ///< of log-probabilities; the same target
    mse,
    l1,
    huber,   ///< add the input `target` of the output's type, as bce does
    bce,     ///< of probabilities, or of logits with `logits`
    output,  ///< a float output of one element
  };
  Kind kind = Kind::none;
  std::string output;              ///< the output that the loss is of, or is; empty: the first float output (not for Kind::output)
  std::string reduction = "mean";  ///< mean, sum
  int64_t axis = 1;                ///< of the classes; negative counts from the end
  int64_t ignore_index = -100;     ///< targets that do not count
  bool class_weights = false;      ///< adds the input `class_weights`, a float per class, after the target
  double label_smoothing = 0;
  double delta = 1;     ///< of huber
  bool logits = false;  ///< of bce
};
/// "cross_entropy:axis=1,ignore_index=-100", "output:NAME". Error usage "invalid-argument" names what is known.
LossOptions parse_loss(std::string_view text);

struct GradOptions {
  LossOptions loss;
  /// Globs (`*`, `?`, whole names) over float inputs and parameters. Empty: the parameters that train, below.
  std::vector<std::string> wrt;
  /// What trains without `wrt`: the float weights of the model of rank 1 or more on which the loss depends, except the running statistics of
  /// batch norms and `*inv_freq`; with `train` these alone (scalars and the exceptions too, when they match); `freeze` takes away from either.
  std::vector<std::string> train, freeze;
  /// The cotangent of the loss is this instead of 1; a dynamic one is read from the state `optimizer.loss_scale`. For build_training.
  LossScale loss_scale;
  /// Results of nodes, by name, that rules read from an input instead, by name: what a forward pass has computed elsewhere.
  std::map<std::string, std::string> saved;
};

/// Which parameters got a gradient, and which did not, in the order of the graph's weights.
struct GradReport {
  std::vector<std::string> trained, frozen;
};

/// The joint graph of a resolved graph (composites allowed; they are decomposed where their pieces have rules and they have none).
/// Inputs: those of `forward`, then `target` or the cotangents. Outputs: the loss (named `loss`, or as the output that it is) or the outputs of
/// `forward`; then `grad.<name>` for each input, then each weight, that is differentiated. Nodes for gradients have the location of the node
/// they are of, with phase "grad". Dead nodes are gone, equal ones merged, and the time is linear in nodes.
/// Faults: every node without a rule on the way to a parameter (kind "unsupported-gradient", checkpoint included); Error usage for globs
/// that match nothing and losses that do not fit the output. A name in `wrt` on which nothing depends gets zeros and a warning.
/// Without `wrt`, parameters that an export has merged or renamed are warned of ("merged-parameters").
std::unique_ptr<Graph> build_joint(const Graph& forward, const GradOptions& options, Diagnostics& diagnostics,
                                   GradReport* report = nullptr);

/// Whether `pattern` (`*` any text, `?` any character) matches the whole of `name`.
bool glob_matches(std::string_view pattern, std::string_view name);

}  // namespace tcc
