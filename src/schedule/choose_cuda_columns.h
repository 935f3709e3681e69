// Reductions over an axis that is not the contiguous one: column sums, bias gradients, products of few rows.
#pragma once

#include "schedule/chooser.h"

namespace tcc::schedule {

enum class Columns : uint8_t {
  no,        ///< not such a reduction: nothing was chosen
  whole,     ///< scheduled
  in_parts,  ///< partial results are scheduled; the nest that combines them (by the old name) is still open
};
/// Schedules the nest if neighbouring results read neighbouring elements. `few_only`: only when there are so few results that the sum must be cut.
Columns choose_cuda_columns(Chooser& chooser, const std::string& first_dim, bool few_only);

}  // namespace tcc::schedule
