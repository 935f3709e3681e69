#include "driver/passes.h"

#include <algorithm>
#include <array>

#include "tcc/autograd/autograd.h"
#include "tcc/autograd/gradient_op.h"
#include "tcc/autograd/optimizer.h"
#include "tcc/group/group.h"
#include "tcc/rules/verify.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/suggest.h"

namespace tcc::driver {

namespace {

struct Pass {
  PassInfo info;
  void (*run)(Session& session, PassState& state);
  GraphStage gives;                         ///< what holds afterwards, at least
  GraphStage needs = GraphStage::imported;  ///< what must hold before
  bool of_joint = false;                    ///< takes a graph with its gradients
};

/// What trains changes: nothing is folded into it, equal ones stay apart.
bool keeps_parameters(const Options& options) { return options.mode != Mode::infer; }

GradOptions gradient_options(const Options& options) {
  GradOptions gradients;
  if (!options.loss.empty()) gradients.loss = parse_loss(options.loss);
  gradients.wrt = options.wrt;
  gradients.train = options.train;
  gradients.freeze = options.freeze;
  if (!options.loss_scale.empty()) gradients.loss_scale = parse_loss_scale(options.loss_scale);
  return gradients;
}

void take_half(PassState& state, std::unique_ptr<Graph> residuals::PartitionedGraphs::* half,
               int residuals::PartitionedGraphs::* first_residual) {
  residuals::PartitionedGraphs halves = residuals::split_partition(*state.graph);
  state.graph = std::move(halves.*half);
  state.first_residual = halves.*first_residual;
}

constexpr auto kPasses = std::to_array<Pass>({
    {{"bind-shapes", "gives inputs the sizes of --shapes and makes those of --bind constants"},
     [](Session&, PassState& state) { bind_shapes(*state.graph, state.bindings); },
     GraphStage::imported},
    {{"resolve", "infers every type; ops whose sizes are operands become prims and composites"},
     [](Session& session, PassState& state) { resolve(*state.graph, session.diagnostics, expand_gradient); },
     GraphStage::resolved},
    {{"autocast", "mixed precision: contractions in the dtype of --precision, other ops as ops.md says"},
     [](Session& session, PassState& state) {
       const Options& options = session.options;
       if (!options.precision)
         throw Error(ExitCode::usage, "invalid-argument", options.model, "--pass=autocast: which precision?",
                     "add --precision=bf16 or f16");
       autocast(*state.graph, *options.precision, keeps_parameters(options));
     },
     GraphStage::resolved,
     GraphStage::resolved},
    {{"canonicalize", "brings nodes to the form that later passes expect, drops those that do nothing"},
     [](Session& session, PassState& state) { canonicalize(*state.graph, keeps_parameters(session.options)); },
     GraphStage::imported},
    {{"fold-constants", "evaluates nodes that depend on weights alone"},
     [](Session& session, PassState& state) {
       // Afterwards indices are what decompositions made.
       Diagnostics* diagnostics = state.stage < GraphStage::prims ? &session.diagnostics : nullptr;
       fold_constants(*state.graph, keeps_parameters(session.options), diagnostics);
     },
     GraphStage::imported},
    {{"eliminate-common-subexpressions", "equal nodes and equal weights become one"},
     [](Session& session, PassState& state) { eliminate_common_subexpressions(*state.graph, !keeps_parameters(session.options)); },
     GraphStage::imported},
    {{"eliminate-dead-code", "drops nodes and weights that no output needs"},
     [](Session&, PassState& state) { eliminate_dead_code(*state.graph); },
     GraphStage::imported},
    {{"train-batch-norms", "batch norms in evaluation form get training form, their running statistics an update"},
     [](Session&, PassState& state) { train_batch_norms(*state.graph); },
     GraphStage::resolved,
     GraphStage::resolved},
    {{"build-joint", "adds the loss and the nodes that compute gradients"},
     [](Session& session, PassState& state) {
       state.graph = build_joint(*state.graph, gradient_options(session.options), session.diagnostics);
     },
     GraphStage::resolved,
     GraphStage::resolved},
    {{"decompose", "composites become prims, implicit broadcasts explicit"},
     [](Session& session, PassState& state) { decompose(*state.graph, session.diagnostics); },
     GraphStage::prims,
     GraphStage::resolved},
    {{"multiply-quantized", "products of dequantised factors become products of their 8-bit elements, scaled behind the sum"},
     [](Session& session, PassState& state) { multiply_quantized(*state.graph, keeps_parameters(session.options)); },
     GraphStage::prims,
     GraphStage::prims},
    {{"join-products", "products of one factor by several constants become one product, of which each is a slice"},
     [](Session& session, PassState& state) { join_products(*state.graph, keeps_parameters(session.options)); },
     GraphStage::prims,
     GraphStage::prims},
    {{"reassociate-products", "scales of factors are applied behind their products, sums over products taken where they are shorter"},
     [](Session& session, PassState& state) { reassociate_products(*state.graph, keeps_parameters(session.options)); },
     GraphStage::prims,
     GraphStage::prims},
    {{"recognize-sequences", "constants that count along an axis are computed where they are read"},
     [](Session& session, PassState& state) { recognize_sequences(*state.graph, keeps_parameters(session.options)); },
     GraphStage::prims,
     GraphStage::prims},
    {{"copy-concat-pieces", "what many gradients are concatenated from is written in place, each piece into its own"},
     [](Session&, PassState& state) { group::copy_concat_pieces(*state.graph); },
     GraphStage::prims,
     GraphStage::prims},
    {{"split-wide-nodes", "concats and slices of many become several, so that no kernel grows with them"},
     [](Session&, PassState& state) { group::split_wide_nodes(*state.graph); },
     GraphStage::prims,
     GraphStage::prims},
    {{"choose-residuals", "the backward half computes again what isn't worth the memory to save it"},
     [](Session&, PassState& state) {
       check(state.search != nullptr, "choose-residuals runs for a target");
       state.residuals = residuals::choose_residuals(*state.graph, state.search->target, state.search->options, state.search->planner);
       state.graph = std::move(state.residuals->graph);
     },
     GraphStage::prims,
     GraphStage::prims,
     true},
    {{"forward-half", "of a graph with gradients what comes before them; residuals become outputs"},
     [](Session&, PassState& state) {
       take_half(state, &residuals::PartitionedGraphs::forward, &residuals::PartitionedGraphs::first_residual_output);
     },
     GraphStage::prims,
     GraphStage::prims,
     true},
    {{"backward-half", "the rest of it; residuals become inputs"},
     [](Session&, PassState& state) {
       take_half(state, &residuals::PartitionedGraphs::backward, &residuals::PartitionedGraphs::first_residual_input);
     },
     GraphStage::prims,
     GraphStage::prims,
     true},
});

constexpr auto kUnitStages = std::to_array<PassInfo>({
    {"form-groups", "prims become units of work: what is fused"},
    {"lower-units", "units become loops, equal ones once"},
    {"schedule-units", "loops become kernels: where each iteration runs"},
    {"make-plan", "kernels become launches over buffers"},
});

constexpr auto kInfos = [] {
  std::array<PassInfo, kPasses.size()> infos{};
  for (size_t i = 0; i < kPasses.size(); ++i) infos[i] = kPasses[i].info;
  return infos;
}();

const Pass* find_pass(std::string_view name) {
  const auto pass = std::find_if(kPasses.begin(), kPasses.end(), [&](const Pass& p) { return p.info.name == name; });
  return pass == kPasses.end() ? nullptr : &*pass;
}

[[noreturn]] void unknown_pass(const std::string& flag, const std::string& name) {
  std::vector<std::string> names;
  for (const Pass& pass : kPasses) names.emplace_back(pass.info.name);
  if (flag == "--print-after") {
    for (const PassInfo& stage : kUnitStages) names.emplace_back(stage.name);
  }
  throw Error(ExitCode::usage, "unknown-pass", "", flag + ": there is no pass `" + name + "`", suggest(name, "passes", names));
}

/// A pass that is asked for by name may come too early. The stages of a graph that was read as text are not known.
void require_stage(Session& session, PassState& state, const Pass& pass) {
  const auto refuse = [&](const char* what, const char* help) {
    throw Error(ExitCode::usage, "invalid-argument", session.options.model,
                "--pass=" + std::string(pass.info.name) + " takes a graph " + what, help);
  };
  for (const GraphStage stage : {GraphStage::resolved, GraphStage::prims}) {
    if (pass.needs < stage || state.stage >= stage) continue;
    if (!verify(*state.graph, stage).empty()) {
      if (stage == GraphStage::prims) refuse("of prims", "let --pass=decompose come first");
      refuse("in which all types are known", "let --pass=bind-shapes --pass=resolve come first");
    }
    state.stage = stage;
  }
  // A model may have nothing to differentiate by: only a pass that is asked for by name has to find a backward half.
  if (!pass.of_joint || session.options.passes.empty()) return;
  const auto& nodes = state.graph->body.nodes;
  const bool has_backward = std::any_of(nodes.begin(), nodes.end(), [](const Node* node) { return !node->loc.phase.empty(); });
  if (!has_backward) refuse("with its gradients", "let --pass=build-joint come before --pass=decompose");
}

}  // namespace

std::span<const PassInfo> graph_passes() { return kInfos; }
std::span<const PassInfo> unit_stages() { return kUnitStages; }

std::string pass_arguments(const Options& options, std::string_view name, const ResidualSearch* search) {
  const Pass* pass = find_pass(name);
  const std::string form = pass != nullptr && pass->needs == GraphStage::prims ? "prims" : "graph";
  std::string text = "--from=" + form;
  const auto add = [&](const char* flag, const std::string& value) {
    text += value.empty() ? "" : std::string(" ") + flag + "='" + value + "'";
  };
  if (options.precision) add("--precision", std::string(name_of(*options.precision)));
  if (options.mode != Mode::infer) {
    text += options.mode == Mode::grad ? " --mode=grad" : " --mode=train";
    add("--loss", options.loss);
    add("--optimizer", options.optimizer);
    for (const std::string& glob : options.wrt) add("--wrt", glob);
    for (const std::string& glob : options.train) add("--train", glob);
    for (const std::string& glob : options.freeze) add("--freeze", glob);
    add("--loss-scale", options.loss_scale);
  }
  if (search != nullptr) {
    text += search->target.is_cpu() ? " --target=cpu" : " --target=cuda";
    if (options.remat != Remat::automatic) text += options.remat == Remat::none ? " --remat=none" : " --remat=full";
    if (options.memory_budget > 0) text += " --mem-budget=" + std::to_string(options.memory_budget);
  }
  return text + " --pass=" + std::string(name) + " --emit=" + form;
}

void run_pass(Session& session, PassState& state, std::string_view name) {
  const Pass* pass = find_pass(name);
  if (pass == nullptr) unknown_pass("--pass", std::string(name));
  require_stage(session, state, *pass);
  session.progress.step(std::string(name));
  // A copy shares the weights, so keeping one for the reproducer costs little.
  const std::unique_ptr<Graph> before = state.graph->clone();
  run_stage(session, name, {.arguments = pass_arguments(session.options, name, state.search), .graph = before.get()}, [&] {
    pass->run(session, state);
    session.diagnostics.checkpoint();
    state.stage = std::max(state.stage, pass->gives);
    if (session.verify) require_well_formed(name, verify(*state.graph, state.stage));
  });
  if (session.options.print_after.empty()) return;
  const bool changed = !equal(*before, *state.graph);
  if (prints_after(session.options, name, changed))
    print_after(session, std::string(name) + (changed ? "" : " (unchanged)"), print(*state.graph));
}

void check_pass_names(const Options& options) {
  const bool loops = options.from == "loop";  // there the passes are primitives of a schedule
  if (!loops) {
    for (const std::string& name : options.passes) {
      if (find_pass(name) == nullptr) unknown_pass("--pass", name);
    }
  }
  for (const std::string& name : options.print_after) {
    const bool is_stage = std::ranges::any_of(kUnitStages, [&](const PassInfo& stage) { return stage.name == name; });
    if (name != "all" && name != "changed" && !is_stage && find_pass(name) == nullptr) unknown_pass("--print-after", name);
  }
}

}  // namespace tcc::driver
