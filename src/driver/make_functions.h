// What a library computes, as graphs of prims: one function for an inference or its gradients, several for training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/emit.h"
#include "driver/passes.h"
#include "driver/run_stage.h"
#include "tcc/frontend/import.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/state.h"
#include "tcc/link/link.h"

namespace tcc::driver {

struct Function {
  std::string name;
  std::unique_ptr<Graph> prims;
  bool has_backward = false;  ///< what it saves and recomputes is decided for each target
  bool in_halves = false;     ///< becomes two functions, `forward` and `backward`
  std::vector<ImportedGuard> guards;
};

struct Functions {
  std::vector<Function> list;             ///< the first is what run() runs
  size_t main = 0;                        ///< the one that is printed: the step of a training
  StateLayout state;                      ///< what all of them share between calls
  std::vector<link::ScalarDesc> scalars;  ///< inputs of the graphs that are set by name, not handed over
  int accumulate = 1;
};

/// From the imported graphs (of any stage up to prims; several for an inference only) to the functions of the mode. Emits `joint` and stops there, the list empty, when nothing
/// later is asked for.
Functions make_functions(Session& session, std::vector<PassState> imported, ProductWriter& writer, bool stop_at_joint);

/// The first state update that is none of the model's own but a training's; null when there is none.
const StateUpdate* update_of_training(const Graph& graph);

/// The one function that prims are; in the modes grad and train with a backward half.
Functions functions_of(Session& session, std::unique_ptr<Graph> prims);

}  // namespace tcc::driver
