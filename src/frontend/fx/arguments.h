// Arguments of program nodes as numbers and as text.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "frontend/fx/call.h"

namespace tcc::fx {

/// The number that the argument itself is; nothing for names and all else.
std::optional<Number> number_in(const Argument& argument);
double to_double(const Number& number);
std::string to_string(const Number& number);  ///< as JSON has it

/// As messages show it: `%x: f32[2]`, `[1, 2]`, `None`. `type_of` gives what stands behind a name.
std::string to_string(const Argument& argument, const std::function<std::string(const std::string& name)>& type_of);

}  // namespace tcc::fx
