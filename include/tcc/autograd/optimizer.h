// Training as graphs: what an optimizer, a loss scale and an accumulation make of a joint graph.
//
//   graph @net(%x, %target) -> (%loss, %grad.w, %grad.b)
// becomes
//   step       (%x, %target, %lr: f32[]) -> (%loss)   { ...  %g = concat(%grad.w, pad(%grad.b));  %p = sub(@parameters.f32, mul(%g, %lr))
//                                                       return %loss, state(@parameters.f32 = %p) }
//   gradients  (%x, %target) -> (%loss)               { ...  return %loss, state(@grad.w = %grad.w, @grad.b = %grad.b) }
//   update     (%lr: f32[]) -> ()                     { %p = sub(@parameters.f32, mul(@gradients.f32, %lr));  return state(@parameters.f32 = %p) }
// Everything is a value: reads see what was on entry, the new values are returned. All parameters of one dtype are updated as one flat tensor, the
// view of their section that StateLayout describes: one elementwise kernel, and one reduction where gradients are clipped by norm. Those that a matmul's
// epilogue can update are updated apart.
#pragma once

#include <memory>
#include <string_view>

#include "tcc/autograd/loss_scale.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/state.h"
#include "tcc/support/diagnostics.h"

namespace tcc {

/// Names, defaults and formulas are torch.optim's.
struct OptimizerOptions {
  enum class Kind : uint8_t { sgd, adam, adamw, adagrad };
  Kind kind = Kind::sgd;
  double lr = 1e-3;         ///< what the run-time scalar `lr` is when nothing else is said
  double weight_decay = 0;  ///< adamw: 0.01
  bool maximize = false;
  double momentum = 0;    ///< sgd
  double dampening = 0;   ///< sgd, with a momentum; the first step has none
  bool nesterov = false;  ///< sgd, with a momentum and no dampening
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;                 ///< adagrad: 1e-10
  double lr_decay = 0;                   ///< adagrad
  double initial_accumulator_value = 0;  ///< adagrad
  double clip_value = 0;                 ///< > 0: each element of a gradient is clamped to +- this, first
  double clip_norm = 0;                  ///< > 0: then all gradients are scaled so that their joint norm is at most this
  int accumulate = 1;                    ///< micro-batches whose gradients are averaged before an update
  LossScale loss_scale;                  ///< must be that of the joint graph
  /// Parameters whose gradient a matmul makes are updated one by one, so that the update is that matmul's epilogue: their gradients are never in memory.
  /// So are large embeddings. Nothing is where all gradients must be known first: clipped by norm, accumulated or scaled.
  bool fuse_updates = true;
};
/// "sgd:momentum=0.9,nesterov=true,weight_decay=1e-4". Error usage "invalid-argument" names what is known.
OptimizerOptions parse_optimizer(std::string_view text);

struct TrainingGraphs {
  StateLayout state;
  std::unique_ptr<Graph> step;        ///< a whole step; with an accumulation the last one of it
  std::unique_ptr<Graph> accumulate;  ///< adds its share to the gradients; null without an accumulation
  std::unique_ptr<Graph> gradients;   ///< the joint graph, its gradients written to the state
  std::unique_ptr<Graph> update;      ///< from the gradients in the state; no inputs but `lr`
};

/// The graphs of a training from a resolved joint graph with a loss.
/// State: every float weight of the model of rank 1 or more that `forward` (the graph that infers) has, and scalars that train: what has an output
/// `grad.<name>` in section `parameters.<dtype>`, statistics of batch norms in `statistics.<dtype>`, the rest in `frozen.<dtype>`; gradients
/// `grad.<name>`; the optimizer's tensors `optimizer.<slot>.<name>` (torch's slots) in `optimizer.<slot>.<dtype>`, `optimizer.step` and the like. Parameters
/// in 16 bits are updated in f32, in `optimizer.master.<name>`, and have f32 slots. With a loss scale the gradients in the state are scaled.
/// Inputs: those of the joint graph; `lr` is the last one of `step` and `update`. Outputs: those of the joint graph but the gradients of parameters.
/// Where the model has an input `seed` (i64[]), a counter `optimizer.draw` is mixed into it: other random numbers in each step and micro-batch, the
/// same ones wherever a step reads them. It advances in `step`, `accumulate` and `update`.
/// Errors: usage "invalid-argument" when no parameter trains, or a name of the model is one of the training's.
TrainingGraphs build_training(const Graph& joint, const Graph& forward, const OptimizerOptions& options);

/// `--batch-norm=train`: batch norms in evaluation form get training form, and their running statistics an update, with the momentum and the
/// unbiased variance of torch. Before build_joint. `momentum` is the share of the new value.
void train_batch_norms(Graph& graph, double momentum = 0.1);

}  // namespace tcc
