// What `tcc inspect` says of a file, as JSON; the text is printed from that.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tcc/driver/options.h"

namespace tcc::cli {

using Report = nlohmann::ordered_json;

Report inspect_model(const driver::Options& options);
Report inspect_text(const driver::Options& options);
Report inspect_library(std::string_view bytes, const std::string& path);
Report inspect_tensors(const std::string& path);

/// A line per key; tensors and other objects one a line, indented. Keys that end in `_bytes` are sizes. `lists` shows weights and state in full.
std::string report_text(const Report& report, bool lists);

}  // namespace tcc::cli
