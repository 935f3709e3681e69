// The table of contents. Import stands in front of this (import_model.cpp), code and linking behind (link_library.cpp); which functions a library has,
// and what differs between them, is in make_functions.cpp and plan_functions.cpp.
//
//   graph      bind-shapes, resolve                     constants for sizes, every type known
//              autocast                                 with --precision: which ops compute in 16 bits
//              canonicalize ... eliminate-dead-code     as simple as it gets
//              build-joint                              with gradients: --mode=grad, train
//   prims      decompose, multiply-quantized, and simple again
//              join-products                            projections of one input as one product
//              reassociate-products                     scales and sums where there is less of them
//              recognize-sequences                      positions are computed, not loaded
//              split-wide-nodes                         in sizes that kernels are made for
//              choose-residuals                         for each target: what the backward half computes again (plan_functions.cpp)
//   groups     form-groups                              which prims are computed together
//   loops      lower-units                              first form: what is computed
//   kernels    schedule-units                           for each target: where it runs
//   plan       make-plan                                launches over buffers
//
// Whatever rewrites a graph is a pass of passes.cpp. Each line below is timed, and what it makes is verified when the session asks, and printed for
// --print-after.

#include "driver/stages.h"

#include "driver/stage_results.h"

namespace tcc::driver {

namespace {

void simplify(Session& session, PassState& state) {
  run_pass(session, state, "canonicalize");
  run_pass(session, state, "fold-constants");
  run_pass(session, state, "eliminate-common-subexpressions");
  run_pass(session, state, "eliminate-dead-code");
}

/// A stage on what is no graph any more. `target`: empty where it makes the same for all.
template <class Make> auto run(Session& session, const std::string& name, const std::string& target, const StageInput& input, Make make) {
  decltype(make()) result;
  run_stage(session, name, input, [&] {
    result = make();
    if (session.verify) require_well_formed(name, faults_of(result));
  });
  if (prints_after(session.options, name, false)) print_after(session, name + (target.empty() ? "" : " for " + target), text_of(result));
  return result;
}

}  // namespace

void to_resolved(Session& session, PassState& state) {
  run_pass(session, state, "bind-shapes");
  // From here on every type is static.
  run_pass(session, state, "resolve");
  // While ops are those that the model names: canonicalize makes others of them.
  if (session.options.precision) run_pass(session, state, "autocast");
  // Before decompose: one composite node is cheaper to fold or drop than what it becomes.
  simplify(session, state);
}

void to_joint(Session& session, PassState& state) {
  if (session.options.train_batch_norms) run_pass(session, state, "train-batch-norms");
  run_pass(session, state, "build-joint");
}

void to_prims(Session& session, PassState& state) {
  run_pass(session, state, "decompose");
  // Before weights are folded, dequantised ones among them.
  run_pass(session, state, "canonicalize");
  run_pass(session, state, "multiply-quantized");
  // From here on prims only. Folding again catches what composites were made of: transposed weights, scales of batch norms, masks.
  simplify(session, state);
  // Once weights are constants that products read as they are.
  run_pass(session, state, "join-products");
  // Behind join-products, which scales columns of constants for nothing.
  run_pass(session, state, "reassociate-products");
}

void to_groupable(Session& session, PassState& state, bool has_flat_gradients) {
  run_pass(session, state, "recognize-sequences");
  // All gradients as one flat tensor: each has a place of its own there.
  if (has_flat_gradients) run_pass(session, state, "copy-concat-pieces");
  run_pass(session, state, "split-wide-nodes");
}

group::GroupOptions group_options(const schedule::Target& target) {
  group::GroupOptions options;
  if (schedule::has_streams(target)) options.stream_ns = [target](const loop::Unit& unit) { return schedule::stream_ns(unit, target); };
  if (schedule::prefers_channels_last(DType::bf16, target))
    options.channels_last = [target](DType dtype) { return schedule::prefers_channels_last(dtype, target); };
  return options;
}

LoweredGraph to_loops(Session& session, const Graph& prims, const group::GroupOptions& options, group::LoweringCache& cache,
                      const Constants& constants) {
  LoweredGraph lowered;
  const auto input = [&](const char* product) {
    std::string arguments = "--from=prims --target=cpu --emit=";
    return StageInput{.arguments = arguments.append(product), .graph = &prims};
  };
  lowered.groups = run(session, "form-groups", "", input("groups"), [&] { return group::form_groups(prims, options); });
  if (constants.state != nullptr) group::mark_constants(lowered.groups, constants.state, constants.alone);
  lowered.units = run(session, "lower-units", "", input("loop"), [&] { return group::lower_units(lowered.groups, &cache); });
  return lowered;
}

schedule::ScheduledUnits to_kernels(Session& session, const std::vector<loop::FirstForm>& forms, const TargetChoice& choice,
                                    schedule::ScheduleCache& cache) {
  const StageInput input{
      .arguments = "--from=loop --target=" + choice.name + " --emit=kernel", .form = "loop", .text = [&] { return print_forms(forms); }};
  return run(session, "schedule-units", choice.name, input, [&] { return schedule::schedule_units(forms, choice.target, &cache); });
}

plan::Plan to_plan(Session& session, const LoweredGraph& lowered, const schedule::ScheduledUnits& scheduled, const TargetChoice& choice,
                   const plan::PlanOptions& options) {
  const StageInput input{.arguments = "--from=prims --target=" + choice.name + " --emit=plan", .graph = lowered.groups.graph};
  return run(session, "make-plan", choice.name, input, [&] { return plan::make_plan(lowered.groups, lowered.units, scheduled, options); });
}

std::shared_ptr<const LoweredGraph> Trials::lower(const Graph& prims, const group::GroupOptions& options, group::LoweringCache& cache) {
  const auto lower = [&](group::Groups groups) {
    group::LoweredUnits units = group::lower_units(groups, &cache);
    return std::make_shared<const LoweredGraph>(LoweredGraph{std::move(groups), std::move(units)});
  };
  const std::shared_ptr<const LoweredGraph> common = common_.find_or_make(&prims, [&] { return lower(group::form_groups(prims)); });
  if (options.is_common()) return common;
  return own_.find_or_make(&prims, [&] {
    group::Groups groups = common->groups;
    return group::suit_target(groups, options) ? lower(std::move(groups)) : common;
  });
}

plan::Estimate try_plan(const Graph& prims, const schedule::Target& target, const group::GroupOptions& group_options,
                        const plan::PlanOptions& plan_options, UnitCaches& caches, Trials& trials) {
  const std::shared_ptr<const LoweredGraph> lowered = trials.lower(prims, group_options, caches.lowered);
  const schedule::ScheduledUnits scheduled = schedule::schedule_units(lowered->units.forms, target, &caches.scheduled);
  return plan::estimate_plan(lowered->groups, lowered->units, scheduled, plan_options);
}

}  // namespace tcc::driver
