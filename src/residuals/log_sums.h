// One number a row for the softmaxes that the backward half computes again.
#pragma once

#include "tcc/graph/graph.h"

namespace tcc::residuals {

/// Changes a graph whose backward half has phases: log_sums.cpp says how.
void fold_log_sums(Graph& graph);

}  // namespace tcc::residuals
