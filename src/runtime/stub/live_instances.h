// Every instance between its create and its destroy, so that a second destroy is told, and dlclose ends the threads of those that are left.
#pragma once

#include "runtime/stub/instance.h"

namespace tcc::stub {

void add_live(tcc_instance* instance);
/// False when it is not among them: nothing of it was read.
bool remove_live(const tcc_instance* instance);

}  // namespace tcc::stub
