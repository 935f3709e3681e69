// A graph as tcc.fx JSON (docs/fx_json.md), which import_model() reads back to the same graph.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc {

struct FxJson {
  std::string text;
  /// What the file of weights holds, one piece after the other: bytes of the graph's weights, and padding.
  std::vector<std::span<const std::byte>> weights;
};

/// `weights_file` is the name of that file as the text has it; empty: there is none, and weights become inputs.
/// Errors: not supported (exit code model) for a graph that the format has no words for: regions, a size with two bounds; malformed-name
/// for names that are not UTF-8.
FxJson print_fx_json(const Graph& graph, const std::string& weights_file);

}  // namespace tcc
