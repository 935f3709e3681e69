// The importer of captured programs as the rest of src/frontend sees it: torch.export's archives (.pt2) and JSON, and tcc.fx JSON.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontend/base/model_file.h"
#include "tcc/frontend/import.h"

namespace tcc::fx {

/// A zip: an archive of torch.export. Weights are mapped where they lie. Others that are zips (torch.save, TorchScript, AOTInductor packages) are
/// told apart and refused with what to do.
std::unique_ptr<Graph> import_archive(const ModelFile& file, const ImportOptions& options, Diagnostics& diagnostics);

/// A bare program of torch.export as JSON: parameters, buffers and constants are inputs under their dotted names.
std::unique_ptr<Graph> import_json(const ModelFile& file, const ImportOptions& options, Diagnostics& diagnostics);

/// tcc.fx JSON (docs/fx_json.md). Weights are mapped where they lie.
std::vector<ImportedFunction> import_fx(const ModelFile& file, const ImportOptions& options, Diagnostics& diagnostics);

}  // namespace tcc::fx
