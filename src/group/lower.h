// The lowerings that lower() chooses from, by the kind of unit. Each fills the puller with the nests of the unit.
#pragma once

#include "group/pull.h"

namespace tcc::group {

/// map, rows, contract, window: one nest over the domain, and one for each output that has no place in it.
void lower_nests(const Unit& unit, Puller& puller);
/// scan: rows, in each a scan with what is computed from the running state.
void lower_scan(const Unit& unit, Puller& puller);
/// scatter: a nest that copies the data, then one that scatters the updates.
void lower_scatter(const Unit& unit, Puller& puller);
/// sort: topk by counting, for every element, those that come before it.
void lower_topk(const Unit& unit, Puller& puller);

/// A nest of its own over the shape of a value.
void store_whole(const Value* value, Puller& puller);
/// Variables over a shape, made for the top of a nest; `at` gets an index per axis.
std::vector<loop::VarRef> nest_vars(Puller& puller, const Shape& shape, Indices* at);

}  // namespace tcc::group
