// The cut between what the backward pass finds and what it computes again.
#pragma once

#include <vector>

#include "residuals/analyze.h"

namespace tcc::residuals {

/// Which values the backward pass reads from memory (by value id); what else it needs of the forward pass it computes again from these, inputs and weights.
using Saved = std::vector<char>;

/// Saving a value costs RecomputeCosts::save + priced_bytes * price; computing a node again costs RecomputeCosts::recompute, once; the sum is the smallest there is. Nodes with
/// `keep` (by position; may be empty) are never computed again. Of equal cuts, the one nearest the backward pass.
Saved cut(const RecomputeCosts& costs, Picoseconds price_per_kib, const std::vector<char>& keep = {});

/// The cost of a set that was chosen in any way, by the same model; what is saved but not needed is not counted. -1: it needs a node of `keep` computed again.
Picoseconds cost_of(const RecomputeCosts& costs, const Saved& saved, Picoseconds price_per_kib, const std::vector<char>& keep = {});

}  // namespace tcc::residuals
