// One guard of a graph of a tcc.fx JSON file.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "frontend/fx/read_fx_graph.h"

namespace tcc::fx {

/// `sources`: of the graph's inputs, to their names. Errors as of the file.
Guard read_guard(const FxContext& context, const nlohmann::json& json, const Program& program,
                 const std::map<std::string, std::string>& sources, const std::string& place);

}  // namespace tcc::fx
