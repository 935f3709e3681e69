// What `tcc run` and `tcc bench` share: the library, its device and its inputs.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "tcc/driver/array_files.h"
#include "tcc/runtime/library.h"

namespace tcc::cli {

struct LoadedLibrary {
  std::shared_ptr<const runtime::Library> library;
  std::unique_ptr<runtime::Instance> instance;
};

struct LibraryFlags {
  std::string path, device = "auto", weights;
  int threads = 0, ordinal = 0;
  bool no_cuda_graph = false, check = false;
  driver::InputOptions input;

  void add_to(CLI::App& app);
  LoadedLibrary load() const;
  driver::InputTensors inputs(const runtime::Library& library, int function = 0) const;
};

/// What was drawn: name, dtype, shape, seed, and low and high unless it is normal.
nlohmann::ordered_json to_json(const std::vector<driver::Drawn>& drawn);

}  // namespace tcc::cli
