// The order of a compilation between import and code: which passes and stages there are, one after the other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/passes.h"
#include "driver/run_stage.h"
#include "driver/targets.h"
#include "tcc/group/lower_units.h"
#include "tcc/plan/plan.h"
#include "tcc/schedule/schedule_units.h"
#include "tcc/support/memo.h"

namespace tcc::driver {

/// Imported -> all types known, as simple as it gets.
void to_resolved(Session& session, PassState& state);
/// Resolved -> with the loss and its gradients.
void to_joint(Session& session, PassState& state);
/// Resolved -> prims.
void to_prims(Session& session, PassState& state);
/// Prims -> the same in sizes that kernels are made for. `has_flat_gradients`: a training may concatenate all gradients, to update parameters as one.
void to_groupable(Session& session, PassState& state, bool has_flat_gradients);

/// The units of a graph.
struct LoweredGraph {
  group::Groups groups;
  group::LoweredUnits units;
};
/// Units that have gone through these stages already: the functions of a library, and the plans that are tried with more or less saved, differ in few.
struct UnitCaches {
  group::LoweringCache lowered;
  schedule::ScheduleCache scheduled;
};
/// Weights of which kernels may make something once: those that are not in `state` (null: none). `alone`: the library has one function for one target, and what
/// is made of a weight may take its place.
struct Constants {
  const StateLayout* state = nullptr;
  bool alone = false;
};
/// What the target has kernels for. Without any of that, units are the same for all targets.
group::GroupOptions group_options(const schedule::Target& target);
/// Prims -> groups -> first forms.
LoweredGraph to_loops(Session& session, const Graph& prims, const group::GroupOptions& options, group::LoweringCache& cache,
                      const Constants& constants = {});
/// First forms -> kernels of one target.
schedule::ScheduledUnits to_kernels(Session& session, const std::vector<loop::FirstForm>& forms, const TargetChoice& choice,
                                    schedule::ScheduleCache& cache);
/// Kernels -> launches over buffers.
plan::Plan to_plan(Session& session, const LoweredGraph& lowered, const schedule::ScheduledUnits& scheduled, const TargetChoice& choice,
                   const plan::PlanOptions& options);

/// Graphs that are tried, with their units. Of searches for several targets, which try mostly the same.
class Trials {
 public:
  residuals::TriedGraphs graphs;

  /// The units of one of `graphs`. They are the same for all targets where none of them becomes a stream and no value has another layout. Called from several
  /// threads, with the options of no two targets that differ in more than being common.
  std::shared_ptr<const LoweredGraph> lower(const Graph& prims, const group::GroupOptions& options, group::LoweringCache& cache);

 private:
  Memo<const Graph*, LoweredGraph> common_;  ///< of common options
  Memo<const Graph*, LoweredGraph> own_;     ///< of others
};

/// What a graph of the trials would take, of the same stages. Neither verified nor printed.
plan::Estimate try_plan(const Graph& prims, const schedule::Target& target, const group::GroupOptions& group_options,
                        const plan::PlanOptions& plan_options, UnitCaches& caches, Trials& trials);

}  // namespace tcc::driver
