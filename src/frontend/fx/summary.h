// What a captured program says of itself, without importing it.
#pragma once

#include "frontend/base/model_file.h"
#include "tcc/frontend/summary.h"

namespace tcc::fx {

/// An archive of torch.export. Errors as import_archive(): what isn't one, or is damaged.
ModelSummary summarize_archive(const ModelFile& file);
/// The program's JSON alone: its parameters, buffers and constants are inputs.
ModelSummary summarize_json(const ModelFile& file);
/// tcc.fx JSON: of several functions `<id>/` stands before the names of inputs and outputs, and operators and nodes are those of all.
ModelSummary summarize_fx(const ModelFile& file);

}  // namespace tcc::fx
