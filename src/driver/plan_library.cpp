// Each function for each target: what is saved and recomputed, units of work, a plan.
#include <algorithm>
#include <set>

#include "driver/build.h"
#include "driver/stages.h"
#include "link/weights_layout.h"
#include "tcc/loop/loop.h"
#include "tcc/residuals/residuals.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

std::string reproducer_arguments(const TargetChoice& choice) { return "--from=prims --target=" + choice.name + " --emit=plan"; }

/// What an instance allocates whatever function it runs: the state, and the weights that are no state, equal ones once.
int64_t fixed_bytes(const Functions& functions) {
  constexpr int64_t kAlignment = 256;
  std::vector<Tensor> weights;
  for (const Function& function : functions.list) {
    for (const auto& weight : function.prims->weights()) {
      if (functions.state.find(weight->name) == nullptr) weights.push_back(weight->tensor);
    }
  }
  const link::WeightsLayout layout = link::lay_out_weights(weights);
  std::set<uint64_t> counted;  // offsets: equal weights have one
  auto bytes =
      static_cast<int64_t>(program::state_block_bytes(static_cast<uint64_t>(functions.state.state_bytes), functions.scalars.size()));
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].size_bytes() == 0 || !counted.insert(layout.offsets[i]).second) continue;
    bytes += (weights[i].size_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  return bytes;
}

bool uses_gradients(const Graph& graph, const StateLayout& state) {
  const auto is_gradient = [&](const Weight& weight) {
    const StateTensor* tensor = state.find(weight.name);
    return tensor != nullptr && tensor->role == StateRole::gradient;
  };
  return std::any_of(graph.weights().begin(), graph.weights().end(), [&](const auto& weight) { return is_gradient(*weight); }) ||
         std::any_of(graph.state_updates.begin(), graph.state_updates.end(),
                     [&](const StateUpdate& update) { return is_gradient(*update.weight); });
}

/// Plans the functions for one target.
class TargetPlanner {
 public:
  /// `groups`: of the functions without a backward half, which are the same for all targets. `fixed_bytes`: see above; only the others need it.
  TargetPlanner(Session& session, const Functions& functions, const std::vector<group::Groups>& groups, const TargetChoice& choice,
                Emitter& emitter, int64_t fixed_bytes)
      : session_(session), functions_(functions), groups_(groups), choice_(choice), emitter_(emitter), fixed_bytes_(fixed_bytes) {
    if (!functions.state.tensors.empty()) options_.state = &functions.state;
    for (const link::ScalarDesc& scalar : functions.scalars) options_.scalars.push_back(scalar.name);
  }

  /// Appends the plan of a function, or those of its halves.
  void plan(size_t number) {
    const Function& function = functions_.list[number];
    const bool main = number == functions_.main;
    if (!function.has_backward) {
      add(function.name, groups_[number], options_, main);
      interfaces.back().guards = function.guards;
      return;
    }
    residuals::Result chosen = choose(function);
    if (main) {
      emitter_.write("remat", choice_.name, residuals::print(chosen, function.prims->name));
      if (emitter_.wants("forward", choice_) || emitter_.wants("backward", choice_)) {
        const residuals::Halves halves = residuals::split_halves(*chosen.graph);
        if (emitter_.wants("forward", choice_)) emitter_.write_graph("forward", choice_.name, *halves.forward);
        if (emitter_.wants("backward", choice_)) emitter_.write_graph("backward", choice_.name, *halves.backward);
      }
    }
    if (!function.in_halves) {
      add(function.name, std::move(chosen.graph), options_, main);
      return;
    }
    residuals::Halves halves = residuals::split_halves(*chosen.graph);
    plan::PlanOptions forward = options_, backward = options_;
    forward.first_packed_output = halves.first_residual_output;
    backward.first_packed_input = halves.first_residual_input - num_scalars(*halves.backward, halves.first_residual_input);
    add("forward", std::move(halves.forward), forward, false);
    add("backward", std::move(halves.backward), backward, false);
  }

  std::vector<plan::Plan> plans;
  std::vector<schedule::ScheduledUnits> scheduled;  ///< of each plan
  std::vector<FunctionInterface> interfaces;   ///< of each plan
  std::vector<std::unique_ptr<Graph>> graphs;  ///< those that this target made

 private:
  void add(const std::string& name, std::unique_ptr<Graph> graph, const plan::PlanOptions& options, bool main) {
    graphs.push_back(std::move(graph));
    add(name, form_groups(session_, *graphs.back()), options, main);
  }

  void add(const std::string& name, const group::Groups& groups, const plan::PlanOptions& options, bool main) {
    const Graph& graph = *groups.graph;
    if (main && emitter_.wants("groups", choice_)) emitter_.write("groups", choice_.name, group::print(groups));
    const group::LoweredUnits lowered = lower_units(session_, groups);
    scheduled.push_back(schedule_units(session_, groups, lowered, choice_, cache_));
    plans.push_back(make_plan(session_, groups, lowered, scheduled.back(), choice_, options));
    // Halves have names of their own.
    const bool is_named = name == "infer" || graph.name == name || graph.name.ends_with("." + name);
    plans.back().name = is_named ? graph.name : graph.name + "." + name;
    interfaces.push_back({name, &graph});
  }

  /// Of the first `count` inputs.
  int num_scalars(const Graph& graph, int count) const {
    return static_cast<int>(std::count_if(graph.body.args.begin(), graph.body.args.begin() + count, [&](const Value* value) {
      return std::find(options_.scalars.begin(), options_.scalars.end(), value->name) != options_.scalars.end();
    }));
  }

  residuals::Result choose(const Function& function) {
    const Options& given = session_.options;
    residuals::Options options;
    options.mode = given.remat == Remat::none   ? residuals::Mode::none
                   : given.remat == Remat::full ? residuals::Mode::full
                                                : residuals::Mode::automatic;
    options.fixed_bytes = fixed_bytes_ + (uses_gradients(*function.prims, functions_.state) ? functions_.state.gradient_bytes : 0);
    options.budget_bytes = given.memory_budget;
    if (function.in_halves && given.memory_budget > 0) {
      // The budget is on a whole step. Who calls its parts holds the saved tensor as well as what lives in between: the least that can be.
      options.budget_bytes = 0;
      options.mode = residuals::Mode::full;
    }
    const auto planner = [&](const Graph& graph) -> residuals::Planned {
      const group::Groups groups = group::form_groups(graph);
      const group::LoweredUnits lowered = group::lower_units(groups);
      const schedule::ScheduledUnits units = schedule::schedule_units(lowered.forms, choice_.target, &cache_);
      const plan::Estimate estimate = plan::estimate(plan::make_plan(groups, lowered, units, options_));
      return {estimate.arena_bytes, estimate.cost_ns};
    };
    residuals::Result chosen;
    std::string arguments = reproducer_arguments(choice_) + " --mode=grad";
    if (given.remat != Remat::automatic) arguments += given.remat == Remat::none ? " --remat=none" : " --remat=full";
    if (given.memory_budget > 0) arguments += " --mem-budget=" + std::to_string(given.memory_budget);
    run_stage(session_, "choose-residuals", functions_.list.size() == 1 ? function.prims.get() : nullptr, arguments,
              [&] { chosen = residuals::choose_residuals(*function.prims, choice_.target, options, planner); });
    return chosen;
  }

  Session& session_;
  const Functions& functions_;
  const std::vector<group::Groups>& groups_;
  const TargetChoice& choice_;
  Emitter& emitter_;
  int64_t fixed_bytes_;
  schedule::ScheduleCache cache_;
  plan::PlanOptions options_;
};

}  // namespace

Library plan_library(Session& session, Functions functions, const std::vector<TargetChoice>& choices, Emitter& emitter) {
  Library library;
  const bool has_backward =
      std::any_of(functions.list.begin(), functions.list.end(), [](const Function& function) { return function.has_backward; });
  const int64_t fixed = has_backward ? fixed_bytes(functions) : 0;
  std::vector<group::Groups> groups(functions.list.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    if (!functions.list[i].has_backward) groups[i] = form_groups(session, *functions.list[i].prims);
  }
  for (const TargetChoice& choice : choices) {
    session.progress.step("planning for " + choice.name);
    TargetPlanner planner(session, functions, groups, choice, emitter, fixed);
    for (size_t i = 0; i < functions.list.size(); ++i) planner.plan(i);
    TargetBuild& build = library.builds.emplace_back();
    build.choice = choice;
    build.plans = std::move(planner.plans);
    build.scheduled = std::move(planner.scheduled);
    std::vector<plan::Plan*> plans;
    for (plan::Plan& plan : build.plans) plans.push_back(&plan);
    plan::merge_kernels(plans);
    // What functions take and give is the same for all targets.
    if (library.interface.functions.empty()) library.interface.functions = planner.interfaces;
    for (std::unique_ptr<Graph>& graph : planner.graphs) library.graphs.push_back(std::move(graph));
  }
  library.interface.model_name = functions.list.front().prims->name;
  library.interface.scalars = functions.scalars;
  library.interface.accumulate = functions.accumulate;
  for (Function& function : functions.list) library.graphs.push_back(std::move(function.prims));
  if (!functions.state.tensors.empty()) {
    library.state = std::make_unique<StateLayout>(std::move(functions.state));
    library.interface.state = library.state.get();
  }
  return library;
}

}  // namespace tcc::driver
