// Updates as graph ops: a joint graph becomes a training step.
//
//   graph @net(%x, %target) -> (%loss, %grad.w)
// becomes
//   graph @net(%x, %target, %lr: f32[]) -> (%loss) { ...  return %loss, state(@w = ..., @optimizer.exp_avg.w = ..., @optimizer.step = ...) }
// Everything is a value: reads of @w see what it was on entry, the new values are returned. The state of the optimizer is weights of the model's
// kind, `optimizer.<slot>.<parameter>` and `optimizer.step` (f32), so that no pass takes them for constants; slots have torch's names.
#pragma once

#include <memory>
#include <string_view>

#include "tcc/graph/graph.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

/// Names, defaults and formulas are torch.optim's.
struct OptimizerOptions {
  enum class Kind : uint8_t { sgd, adam, adamw, adagrad };
  Kind kind = Kind::sgd;
  double lr = 1e-3;         ///< what the run-time scalar `lr` is when nothing else is said
  double weight_decay = 0;  ///< adamw: 0.01
  double momentum = 0;      ///< sgd
  bool nesterov = false;    ///< sgd, with a momentum
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;                 ///< adagrad: 1e-10
  double lr_decay = 0;                   ///< adagrad
  double initial_accumulator_value = 0;  ///< adagrad
  double clip_value = 0;                 ///< > 0: each element of a gradient is clamped to +- this, first
  double clip_norm = 0;                  ///< > 0: then all gradients are scaled so that their joint norm is at most this
};
/// "sgd:momentum=0.9,nesterov=true,weight_decay=1e-4". Error usage "invalid-argument" names what is known.
OptimizerOptions parse_optimizer(std::string_view text);

/// The step graph of a joint graph with a loss: its outputs without the gradients of parameters, the input `lr` (f32[]), and a new value for each
/// parameter with an output `grad.<name>` and for the optimizer's state. Parameters in 16 bits are updated in f32, in `optimizer.master.<name>`.
/// With `keep_gradients` the gradients stay outputs (unclipped).
std::unique_ptr<Graph> build_step(const Graph& joint, const OptimizerOptions& options, bool keep_gradients = false);

/// `--batch-norm=train`: batch norms in evaluation form get training form, and their running statistics an update, with the momentum and the
/// unbiased variance of torch. Before build_joint. `momentum` is the share of the new value.
void train_batch_norms(Graph& graph, double momentum = 0.1);

}  // namespace tcc
