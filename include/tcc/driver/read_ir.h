// --from: printed IR back in, where the pipeline then goes on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tcc/driver/options.h"
#include "tcc/graph/graph.h"
#include "tcc/loop/loop.h"
#include "tcc/support/command_files.h"

namespace tcc::driver {

/// The text of a graph with the weights that its `weights "<file>"` names (beside it). Without that line weights keep their types only: such a
/// text can be printed at every stage, but nothing is built or folded from it, see `has_weights`.
struct GraphText {
  std::unique_ptr<Graph> graph;
  bool has_weights = true;
};
/// `files` receives the weights file.
GraphText read_graph(const Options& options, CommandFiles& files);

/// All units of a text as --emit=loop prints them.
std::vector<loop::Unit> read_units(const Options& options);
/// All kernels of a text as --emit=kernel prints them; all for one target. `shown`: the file in messages.
std::vector<loop::Kernel> read_kernels(const std::string& text, const std::string& shown);
std::vector<loop::Kernel> read_kernels(const Options& options);

}  // namespace tcc::driver
