// Changes fields of a protobuf message without knowing its schema: lengths stay right, so that what is wrong is the meaning.
#pragma once

#include <string>
#include <vector>

#include "fuzz/random.h"

namespace tcc::attack {

/// `others`: messages that parts are taken from.
std::string mutate_protobuf(Random& random, const std::string& message, const std::vector<std::string>& others);

}  // namespace tcc::attack
