// One graph of a tcc.fx JSON file.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "frontend/fx/fx_file.h"

namespace tcc::fx {

/// What the reader of a graph knows of its file.
struct FxContext {
  const std::map<std::string, SymbolRange>& symbols;
  std::function<GraphRef(const std::string& id, const std::string& place)> body;  ///< the graph that {"graph": id} names
};

/// What `text` says at `place`, of symbols that the file has.
SizeExpr read_size_text(const FxContext& context, const std::string& text, const std::string& place);
/// A size: an integer of 0 or more, or such a text.
SizeExpr read_size(const FxContext& context, const nlohmann::json& json, const std::string& place);
/// A value as {"f": "inf"}, or JSON's own.
Argument read_argument(const FxContext& context, const nlohmann::json& json, const std::string& place);

/// Fills the function's program. `place` is "dump.json:g0".
void read_graph(const FxContext& context, const nlohmann::json& json, const std::string& place, FxFunction& function);

}  // namespace tcc::fx
