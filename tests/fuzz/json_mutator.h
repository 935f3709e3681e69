// JSON changed at random: still JSON, mostly.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "fuzz/random.h"

namespace tcc::attack {

/// One to three changes: values replaced, moved, repeated and removed, keys renamed, numbers near the ends of their ranges, texts that are expressions
/// of sizes, lists in lists.
nlohmann::json mutate_json(Random& random, nlohmann::json json);

}  // namespace tcc::attack
