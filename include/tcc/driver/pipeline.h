// The compiler as a whole: from a model file to a library, stage by stage.
//
//   driver::Options options;
//   options.model = "net.onnx";
//   options.output = "net.so";
//   driver::compile(options);            // throws Error; its code is the process's exit code
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tcc/driver/options.h"
#include "tcc/graph/graph.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

struct PassInfo {
  std::string_view name, description;
};
/// Every pass on graphs, in the order in which it first runs. These names are what --pass and --print-after take.
std::span<const PassInfo> graph_passes();
/// The stages after them, whose results --print-after prints as well.
std::span<const PassInfo> unit_stages();

/// Does what the options ask for: products, and the library when `output` is set. Warnings go to `diagnostics`.
void compile(const Options& options, Diagnostics& diagnostics);

/// compile() of `model` into a library alone; nothing is emitted.
void compile_to_library(const std::string& model, Options options, const std::string& output);

/// Import and graph passes: a verified graph of prims.
std::unique_ptr<Graph> compile_to_prims(const Options& options, Diagnostics& diagnostics);
/// The rest, from prims to a library.
void compile_prims_to_library(std::unique_ptr<Graph> prims, const Options& options, const std::string& output);
/// Everything that may refuse a model, code generation left out: what `tcc check` runs. Faults are thrown together, as far as stages allow.
std::unique_ptr<Graph> check_model(const Options& options, Diagnostics& diagnostics);

}  // namespace tcc::driver
