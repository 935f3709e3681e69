// Runs of a library over and over, for timing, whose model keeps a state: a counter or a place in a cache goes on with each run, and some time it is at
// the end. Such a run begins anew with the first state.
#pragma once

#include "tcc/runtime/library.h"

namespace tcc::cli {

/// What `run()` gives; after an index out of range once more, from the first state. An instance without a state has nothing to begin with.
template <class Run> auto run_or_begin_anew(runtime::Instance& instance, Run run) {
  try {
    return run();
  } catch (const Error& error) {
    if (instance.library().state().empty() || !runtime::is_index_error(error)) throw;
  }
  instance.reset_state();
  return run();
}

}  // namespace tcc::cli
