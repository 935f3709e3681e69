// A tcc.fx JSON file (docs/fx_json.md) in memory: the programs of its graphs, and what they share.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/fx/program.h"

namespace tcc::fx {

/// A tensor in a file beside the JSON.
struct FileTensor {
  std::string file;                ///< as written
  int64_t offset = 0, length = 0;  ///< bytes
  DType dtype = DType::f32;
  Shape shape;
  std::vector<int64_t> strides;  ///< in elements
};

/// A graph that becomes a function.
struct FxFunction {
  std::string id;
  std::string role;
  Program program;
};

struct FxFile {
  std::vector<FxFunction> functions;  ///< the entry first, the others in the order of the file
  std::map<std::string, FileTensor> weights;
};

/// Reads a file of version 1. Errors (Error, exit code model), naming the place in the file: malformed-file, unsupported-format for other versions.
FxFile read_fx_file(std::string_view text, const std::string& file);

}  // namespace tcc::fx
