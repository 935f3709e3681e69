// Each function for each target: what is saved and what is computed again, its loops, kernels and plan.
#include "driver/plan_functions.h"

#include <algorithm>
#include <deque>
#include <set>

#include "driver/replace_stages.h"
#include "driver/stages.h"
#include "driver/use_tuning.h"
#include "link/weights_layout.h"
#include "tcc/residuals/residuals.h"
#include "tcc/rules/verify.h"
#include "tcc/support/integer_math.h"

namespace tcc::driver {

namespace {

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
    bytes += align_up(weights[i].size_bytes(), kAlignment);
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

residuals::Options residual_options(const Options& given, bool in_halves) {
  residuals::Options options;
  options.mode = given.remat == Remat::none   ? residuals::Mode::none
                 : given.remat == Remat::full ? residuals::Mode::full
                                              : residuals::Mode::automatic;
  options.budget_bytes = given.memory_budget;
  if (in_halves && given.memory_budget > 0) {
    // The budget is on a whole step. Who calls its parts holds the saved tensor as well as what lives in between: the least that can be.
    options.budget_bytes = 0;
    options.mode = residuals::Mode::full;
  }
  return options;
}

/// Plans the functions for one target.
class TargetPlanner {
 public:
  /// `lowered`: the functions without a backward half, by the group options of the target. `fixed_bytes`: see above; only the others need it. `caches`: of
  /// all targets. All references are kept.
  TargetPlanner(Session& session, const Functions& functions, const std::vector<LoweredGraph>& lowered, const TargetChoice& choice,
                ProductWriter& writer, int64_t fixed_bytes, UnitCaches& caches)
      : session_(session),
        functions_(functions),
        lowered_(lowered),
        choice_(choice),
        emitter_(writer),
        fixed_bytes_(fixed_bytes),
        caches_(caches) {
    if (!functions.state.tensors.empty()) options_.state = &functions.state;
    for (const link::ScalarDesc& scalar : functions.scalars) options_.scalars.push_back(scalar.name);
  }

  /// Lowers a function, or its halves. `trials`: of this function.
  void add(size_t number, Trials& trials) {
    const Function& function = functions_.list[number];
    const bool main = number == functions_.main;
    if (!function.has_backward) {
      add(function.name, lowered_[number], options_, main);
      interfaces.back().guards = function.guards;
      return;
    }
    PassState chosen = choose(function, trials);
    if (main) {
      emitter_.write("remat", choice_.name, residuals::print(*chosen.residuals, function.prims->name));
      for (const char* half : {"forward", "backward"}) {
        if (emitter_.wants(half, choice_)) emitter_.write_graph(half, choice_.name, *half_of(chosen, half).graph);
      }
    }
    if (!function.in_halves) return add(function.name, std::move(chosen.graph), options_, main);
    PassState forward = half_of(chosen, "forward"), backward = half_of(chosen, "backward");
    plan::PlanOptions forward_options = options_, backward_options = options_;
    forward_options.first_packed_output = forward.first_residual;
    backward_options.first_packed_input = backward.first_residual - num_scalars(*backward.graph, backward.first_residual);
    add("forward", std::move(forward.graph), forward_options, false);
    add("backward", std::move(backward.graph), backward_options, false);
  }

  TargetBuild run() {
    session_.progress.step("planning for " + choice_.name);
    TargetBuild build;
    build.choice = choice_;
    build.scheduled.clear();
    for (const Entry& entry : entries_)
      build.scheduled.push_back(to_kernels(session_, entry.lowered->units.forms, choice_, caches_.scheduled));
    use_tuning(session_, build, labels_of_units());
    plan(build);
    if (replace_schedules(session_, build)) plan(build);
    return build;
  }

  std::vector<FunctionInterface> interfaces;   ///< of each plan
  std::vector<std::unique_ptr<Graph>> graphs;  ///< those that this target made

 private:
  /// A function on its way to a plan.
  struct Entry {
    std::string name;
    const LoweredGraph* lowered;
    plan::PlanOptions options;
  };

  void add(const std::string& name, std::unique_ptr<Graph> graph, const plan::PlanOptions& options, bool main) {
    graphs.push_back(std::move(graph));
    own_.push_back(std::make_unique<LoweredGraph>(to_loops(session_, *graphs.back(), group_options(choice_.target), caches_.lowered)));
    add(name, *own_.back(), options, main);
  }

  void add(const std::string& name, const LoweredGraph& lowered, const plan::PlanOptions& options, bool main) {
    if (main && emitter_.wants("groups", choice_)) emitter_.write("groups", choice_.name, group::print(lowered.groups));
    entries_.push_back({name, &lowered, options});
    interfaces.push_back({name, lowered.groups.graph});
  }

  UnitLabels labels_of_units() const {
    UnitLabels labels;
    for (const Entry& entry : entries_) {
      const group::LoweredUnits& units = entry.lowered->units;
      for (size_t i = 0; i < units.form_of_unit.size(); ++i)
        labels.try_emplace(units.forms[static_cast<size_t>(units.form_of_unit[i])].key, entry.lowered->groups.units[i].label);
    }
    return labels;
  }

  void plan(TargetBuild& build) {
    build.plans.clear();
    for (size_t i = 0; i < entries_.size(); ++i) {
      const auto& [name, lowered, options] = entries_[i];
      plan::Plan& plan = build.plans.emplace_back(to_plan(session_, *lowered, build.scheduled[i], choice_, options));
      // Halves have names of their own.
      const std::string graph = plan.name;
      const bool is_named = name == "infer" || graph == name || graph.ends_with("." + name);
      plan.name = is_named ? graph : graph + "." + name;
    }
    std::vector<plan::Plan*> plans;
    for (plan::Plan& plan : build.plans) plans.push_back(&plan);
    plan::merge_kernels(plans);
  }

  /// Of the first `count` inputs.
  int num_scalars(const Graph& graph, int count) const {
    return static_cast<int>(std::count_if(graph.body.args.begin(), graph.body.args.begin() + count, [&](const Value* value) {
      return std::find(options_.scalars.begin(), options_.scalars.end(), value->name) != options_.scalars.end();
    }));
  }

  PassState choose(const Function& function, Trials& trials) {
    ResidualSearch search = residual_search(session_.options, choice_, options_, caches_, trials, function.in_halves);
    search.options.fixed_bytes = fixed_bytes_ + (uses_gradients(*function.prims, functions_.state) ? functions_.state.gradient_bytes : 0);
    PassState state;
    state.graph = function.prims->clone();
    state.stage = GraphStage::prims;
    state.search = &search;
    run_pass(session_, state, "choose-residuals");
    state.search = nullptr;
    return state;
  }

  PassState half_of(const PassState& joint, const std::string& half) {
    PassState state;
    state.graph = joint.graph->clone();
    state.stage = GraphStage::prims;
    run_pass(session_, state, half + "-half");
    return state;
  }

  Session& session_;
  const Functions& functions_;
  const std::vector<LoweredGraph>& lowered_;
  const TargetChoice& choice_;
  ProductWriter& emitter_;
  int64_t fixed_bytes_;
  UnitCaches& caches_;
  plan::PlanOptions options_;
  std::vector<Entry> entries_;
  std::vector<std::unique_ptr<LoweredGraph>> own_;
};

}  // namespace

ResidualSearch residual_search(const Options& options, const TargetChoice& choice, const plan::PlanOptions& plan_options,
                               UnitCaches& caches, Trials& trials, bool in_halves) {
  ResidualSearch search;
  search.target = choice.target;
  search.options = residual_options(options, in_halves);
  const group::GroupOptions groups = group_options(choice.target);
  search.planner.group = [groups](const Graph& graph) { return group::form_groups(graph, groups); };
  search.planner.plan = [&choice, groups, &plan_options, &caches, &trials](const Graph& graph) -> residuals::Planned {
    const plan::Estimate estimate = try_plan(graph, choice.target, groups, plan_options, caches, trials);
    return {.peak_bytes = estimate.arena_bytes, .cost_ns = estimate.cost_ns, .floor_bytes = estimate.floor_bytes};
  };
  search.planner.shared = &trials.graphs;
  return search;
}

Library plan_functions(Session& session, Functions functions, const std::vector<TargetChoice>& choices, ProductWriter& writer) {
  Library library;
  const bool has_backward =
      std::any_of(functions.list.begin(), functions.list.end(), [](const Function& function) { return function.has_backward; });
  const int64_t fixed = has_backward ? fixed_bytes(functions) : 0;
  UnitCaches caches;
  // Another target or function would read the same weights in another layout, and the library would hold both. Where gradients are taken, weights are state, and
  // the memory that is planned for has no room for other layouts of the rest.
  const Constants constants{has_backward ? nullptr : &functions.state, functions.list.size() == 1 && choices.size() == 1};
  const auto lower = [&](const group::GroupOptions& options) {
    std::vector<LoweredGraph> lowered(functions.list.size());
    for (size_t i = 0; i < lowered.size(); ++i) {
      if (!functions.list[i].has_backward) lowered[i] = to_loops(session, *functions.list[i].prims, options, caches.lowered, constants);
    }
    return lowered;
  };
  std::deque<std::vector<LoweredGraph>> all_lowered;
  const std::vector<LoweredGraph>* common = nullptr;  // of targets without groups of their own
  std::deque<TargetPlanner> planners;
  for (const TargetChoice& choice : choices) {
    const group::GroupOptions options = group_options(choice.target);
    if (!options.is_common() || !common) {
      const std::vector<LoweredGraph>& made = all_lowered.emplace_back(lower(options));
      if (options.is_common()) common = &made;
      planners.emplace_back(session, functions, made, choice, writer, fixed, caches);
    } else {
      planners.emplace_back(session, functions, *common, choice, writer, fixed, caches);
    }
  }
  for (size_t i = 0; i < functions.list.size(); ++i) {
    Trials trials;
    for (TargetPlanner& planner : planners) planner.add(i, trials);
  }
  for (TargetPlanner& planner : planners) {
    library.builds.push_back(planner.run());
    // What functions take and give is the same for all targets.
    if (library.interface.functions.empty()) library.interface.functions = planner.interfaces;
    for (std::unique_ptr<Graph>& graph : planner.graphs) library.graphs.push_back(std::move(graph));
  }
  replace_kernels(session, library.builds);
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
