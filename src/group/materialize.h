// From clusters to units: which values are in memory, which units read and write them, and what is an alias.
#pragma once

#include "group/clusters.h"

namespace tcc::group {

Groups materialize(const Clusters& clusters);
/// The names of the model's nodes that the unit computes.
std::string label_of(const Unit& unit);

}  // namespace tcc::group
