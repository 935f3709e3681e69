// The grouping that the search asks for, as the driver hands it over.
#pragma once

#include "tcc/group/group.h"

namespace tcc::residuals {

inline group::Groups form_groups(const Graph& graph) { return group::form_groups(graph); }

}  // namespace tcc::residuals
