// The lowerings that lower() chooses from, by the kind of unit. Each fills the inliner with the nests of the unit.
#pragma once

#include "group/inliner.h"

namespace tcc::group {

/// map, rows, contract, window: one nest over the domain, and one for each output that has no place in it.
void lower_nests(const Unit& unit, Inliner& inliner);
/// scan: rows, in each a scan with what is computed from the running state.
void lower_scan(const Unit& unit, Inliner& inliner);
/// scatter: a nest that copies the data, then one that scatters the updates.
void lower_scatter(const Unit& unit, Inliner& inliner);
/// sort: topk by counting, for every element, those that come before it.
void lower_topk(const Unit& unit, Inliner& inliner);

/// A nest of its own over the shape of a value.
void store_whole(const Value* value, Inliner& inliner);
/// Variables over a shape, made for the top of a nest; `at` gets an index per axis.
std::vector<loop::VarRef> nest_vars(Inliner& inliner, const Shape& shape, Indices* at);

}  // namespace tcc::group
