// Signatures of torch's operators: names of arguments and their defaults. Programs leave out what equals its default.
//
//   conv2d.default(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1)
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/fx/program.h"

namespace tcc::fx {

struct Parameter {
  std::string name;
  std::optional<Argument> otherwise;  ///< nothing: it must be given
};

struct Signature {
  std::string op;  ///< "conv2d.default"
  std::vector<Parameter> parameters;
};

/// Parses the text above; defaults are None, True, False, numbers, inf, 'texts' and lists. An internal error for a text that isn't one: the
/// texts are our own tables.
Signature parse_signature(std::string_view text);

}  // namespace tcc::fx
