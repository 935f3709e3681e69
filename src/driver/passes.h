// The passes on graphs, each once, and how one is run.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "driver/run_stage.h"
#include "tcc/driver/pipeline.h"
#include "tcc/frontend/import.h"
#include "tcc/graph/graph.h"
#include "tcc/passes/passes.h"
#include "tcc/residuals/residuals.h"
#include "tcc/rules/verify.h"
#include "tcc/schedule/schedule.h"

namespace tcc::driver {

/// What choose-residuals goes by.
struct ResidualSearch {
  schedule::Target target;
  residuals::Options options;
  residuals::Planner planner;  ///< what a graph takes when it is compiled for the target
};

/// The graph on its way through the passes.
struct PassState {
  std::string function = "infer";  ///< what it is called in a library for inference
  std::unique_ptr<Graph> graph;
  std::vector<ImportedGuard> guards;
  GraphStage stage = GraphStage::imported;  ///< what the verifier may ask of it
  Bindings bindings;
  const ResidualSearch* search = nullptr;      ///< for choose-residuals
  std::optional<residuals::Result> residuals;  ///< of choose-residuals: what it tried and why it took `graph`
  int first_residual = -1;                     ///< of forward-half: the first output that is a residual; of backward-half: the first input
};

/// What runs one pass alone on a printed graph, behind `tcc`: the first line of a reproducer. `search`: of the state.
std::string pass_arguments(const Options& options, std::string_view name, const ResidualSearch* search = nullptr);
/// Times it, runs it, verifies the result, prints it when --print-after asks for that. Error (usage) for an unknown name.
void run_pass(Session& session, PassState& state, std::string_view name);
/// Error (usage) when --pass or --print-after name a pass that doesn't exist.
void check_pass_names(const Options& options);

}  // namespace tcc::driver
