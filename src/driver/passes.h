// The passes on graphs, each once, and how one is run.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "driver/session.h"
#include "tcc/driver/pipeline.h"
#include "tcc/frontend/import.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/passes.h"

namespace tcc::driver {

/// The graph on its way through the passes.
struct PassState {
  std::string function = "infer";  ///< what it is called in a library for inference
  std::unique_ptr<Graph> graph;
  std::vector<ImportedGuard> guards;
  GraphStage stage = GraphStage::imported;  ///< what the verifier may ask of it
  Bindings bindings;
};

/// What runs one pass alone on a printed graph, behind `tcc`: the first line of a reproducer.
std::string pass_arguments(const Options& options, std::string_view name);
/// Times it, runs it, verifies the result, prints it when --print-after asks for that. Error (usage) for an unknown name.
void run_pass(Session& session, PassState& state, std::string_view name);
/// Error (usage) when --pass or --print-after name a pass that doesn't exist.
void check_pass_names(const Options& options);

}  // namespace tcc::driver
