#include "driver/passes.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "driver/emit.h"
#include "tcc/autograd/autograd.h"
#include "tcc/autograd/optimizer.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/suggest.h"

namespace tcc::driver {

namespace {

struct Pass {
  PassInfo info;
  void (*run)(Session& session, PassState& state);
  GraphStage stage;  ///< what holds afterwards, at least
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

constexpr auto kPasses = std::to_array<Pass>({
    {{"bind-shapes", "gives inputs the sizes of --shapes and makes those of --bind constants"},
     [](Session&, PassState& state) { bind_shapes(*state.graph, state.bindings); },
     GraphStage::imported},
    {{"resolve", "infers every type; ops whose sizes are operands become prims and composites"},
     [](Session& session, PassState& state) { resolve(*state.graph, session.diagnostics); },
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
     GraphStage::resolved},
    {{"build-joint", "adds the loss and the nodes that compute gradients"},
     [](Session& session, PassState& state) {
       state.graph = build_joint(*state.graph, gradient_options(session.options), session.diagnostics);
     },
     GraphStage::resolved},
    {{"decompose", "composites become prims, implicit broadcasts explicit"},
     [](Session& session, PassState& state) { decompose(*state.graph, session.diagnostics); },
     GraphStage::prims},
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
  throw Error(ExitCode::usage, "unknown-pass", "", flag + ": there is no pass `" + name + "`", suggest(name, "passes", names));
}

/// A pass that is asked for by name may come before the types are known. The stages of a graph that was read as text are not.
void require_types(Session& session, PassState& state, const Pass& pass) {
  const bool needs_types = pass.stage >= GraphStage::resolved && pass.info.name != "resolve";
  if (!needs_types || state.stage >= GraphStage::resolved) return;
  if (!verify(*state.graph, GraphStage::resolved).empty()) {
    throw Error(ExitCode::usage, "invalid-argument", session.options.model,
                "--pass=" + std::string(pass.info.name) + " takes a graph in which all types are known",
                "let --pass=bind-shapes --pass=resolve come first");
  }
  state.stage = GraphStage::resolved;
}

bool wants_print(const Options& options, std::string_view pass, bool changed) {
  return std::any_of(options.print_after.begin(), options.print_after.end(),
                     [&](const std::string& name) { return name == pass || name == "all" || (name == "changed" && changed); });
}

}  // namespace

std::span<const PassInfo> graph_passes() { return kInfos; }

std::string pass_arguments(const Options& options, std::string_view name) {
  std::string text = "--from=graph";
  const auto add = [&](const char* flag, const std::string& value) {
    text += value.empty() ? "" : std::string(" ") + flag + "='" + value + "'";
  };
  if (options.mode != Mode::infer) {
    text += options.mode == Mode::grad ? " --mode=grad" : " --mode=train";
    add("--loss", options.loss);
    add("--optimizer", options.optimizer);
    for (const std::string& glob : options.wrt) add("--wrt", glob);
    for (const std::string& glob : options.train) add("--train", glob);
    for (const std::string& glob : options.freeze) add("--freeze", glob);
    add("--loss-scale", options.loss_scale);
  }
  return text + " --pass=" + std::string(name) + " --emit=graph";
}

void run_pass(Session& session, PassState& state, std::string_view name) {
  const Pass* pass = find_pass(name);
  if (pass == nullptr) unknown_pass("--pass", std::string(name));
  require_types(session, state, *pass);
  session.progress.step(std::string(name));
  // A copy shares the weights, so keeping one for the reproducer costs little.
  const std::unique_ptr<Graph> before = state.graph->clone();
  run_stage(session, name, before.get(), pass_arguments(session.options, name), [&] {
    pass->run(session, state);
    session.diagnostics.checkpoint();
    state.stage = std::max(state.stage, pass->stage);
    if (session.verify) require_well_formed(name, verify(*state.graph, state.stage));
  });
  if (session.options.print_after.empty()) return;
  const bool changed = !equal(*before, *state.graph);
  if (!wants_print(session.options, name, changed)) return;
  session.progress.clear();
  std::fprintf(stderr, "// after %s%s\n%s", std::string(name).c_str(), changed ? "" : " (unchanged)", print(*state.graph).c_str());
}

void check_pass_names(const Options& options) {
  const bool loops = options.from == "loop";  // there the passes are primitives of a schedule
  if (!loops) {
    for (const std::string& name : options.passes) {
      if (find_pass(name) == nullptr) unknown_pass("--pass", name);
    }
  }
  for (const std::string& name : options.print_after) {
    if (name != "all" && name != "changed" && find_pass(name) == nullptr) unknown_pass("--print-after", name);
  }
}

}  // namespace tcc::driver
