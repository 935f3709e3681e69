// The importer of captured programs as the rest of src/frontend sees it: torch.export's archives (.pt2) and JSON, and tcc.fx JSON.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tcc/frontend/import.h"

namespace tcc::fx {

/// A file in memory. `owner` keeps the bytes as long as weights point into them.
struct ProgramFile {
  std::string name;                  ///< as messages name it
  std::vector<std::string> folders;  ///< where the files that it names are looked for, in this order
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// A zip: an archive of torch.export. Weights are mapped where they lie. Others that are zips (torch.save, TorchScript, AOTInductor packages) are
/// told apart and refused with what to do.
std::unique_ptr<Graph> import_archive(const ProgramFile& file, const ImportOptions& options, Diagnostics& diagnostics);

/// A bare program of torch.export as JSON: parameters, buffers and constants are inputs under their dotted names.
std::unique_ptr<Graph> import_json(const ProgramFile& file, const ImportOptions& options, Diagnostics& diagnostics);

/// tcc.fx JSON (docs/fx_json.md). Weights are mapped where they lie.
std::unique_ptr<Graph> import_fx(const ProgramFile& file, const ImportOptions& options, Diagnostics& diagnostics);

}  // namespace tcc::fx
