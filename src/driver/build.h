// From the functions' prims to a library: groups, then for each target a plan per function and the code of all kernels, then the linker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/emit.h"
#include "driver/functions.h"
#include "driver/program.h"
#include "driver/session.h"
#include "tcc/graph/graph.h"
#include "tcc/group/group.h"

namespace tcc::driver {

/// All functions planned for all targets.
struct Library {
  LibraryInterface interface;
  std::vector<TargetBuild> builds;
  std::vector<std::unique_ptr<Graph>> graphs;  ///< those that the interface and the plans point into
  /// For a reproducer of a fault in the code of its kernels: prims, where they are one function that can be compiled alone.
  const Graph* reproducer() const { return interface.functions.size() == 1 ? graphs.front().get() : nullptr; }
  std::unique_ptr<StateLayout> state;  ///< at an address that stays, for the interface
};

/// Chooses what each function saves and recomputes, groups, plans; the verifiers run when the session asks. Emits `groups`, `remat`, `forward`,
/// `backward` of the main function, and the plans with their kernels.
Library plan_library(Session& session, Functions functions, const std::vector<TargetChoice>& choices, Emitter& emitter);

/// Everything that plans print, and the code of all their kernels together. `prims` is for a reproducer; null when there is no graph.
void emit_target(Session& session, const Graph* prims, const TargetBuild& build, Emitter& emitter);
/// The library that one graph makes: a function `infer`.
LibraryInterface interface_of(const Graph& graph);
/// The header and the manifest.
void emit_interface(const LibraryInterface& interface, std::vector<TargetBuild>& builds, const Options& options, Emitter& emitter);

/// Generates all code and links it; `prims` as above. The library, and its weights file with --weights=file, are staged among `outputs`.
void build_library(Session& session, const Graph* prims, const LibraryInterface& interface, std::vector<TargetBuild>& builds,
                   OutputFiles& outputs, const std::string& output);
/// Where --weights=file puts the weights of that library.
std::string weights_path_of(const std::string& output);

}  // namespace tcc::driver
