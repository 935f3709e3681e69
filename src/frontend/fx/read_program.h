// torch.export's program JSON becomes a Program.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "frontend/fx/program.h"

namespace tcc::fx {

/// The dtype of torch's serialized number or name; nothing for one that tcc has no element type for, whose name then is in *name.
std::optional<DType> read_dtype(const nlohmann::json& json, std::string* name);

/// Sizes and dtype of a tensor: {"dtype": 7, "sizes": [{"as_int": 8}, ...], ...}.
TensorMeta read_tensor_meta(const nlohmann::json& json);

/// Reads a program of schema 8 (torch 2.8 and later; 5 to 7 as far as they are alike).
/// Errors (Error, exit code model): malformed-file, naming the place in the JSON; unsupported-format for other schemas.
Program read_program(std::string_view text, const std::string& file);

/// Parses JSON; `where` names the file, and the entry of an archive. Error "malformed-file" with the line and column.
nlohmann::json parse_json(std::string_view text, const std::string& where, const nlohmann::json::parser_callback_t& watch = nullptr);

}  // namespace tcc::fx
