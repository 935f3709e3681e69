// Stores of what is there already. A result that takes the place of an operand begins as a copy of it where only a part changes (a scatter): the copy then
// is of each element to itself.
//
//   map %i in 64 { %v: f32 = load %r0[%i];  store %v, %r0[%i] }      nothing
//   map %i in 2 { scatter assign ..., %r0[load %a1[%i]] }            stays
#pragma once

#include "tcc/loop/loop.h"

namespace tcc::loop {

/// Drops stores to the buffer of the same element of it, loaded in the same block with no write in between, and what only they needed.
void drop_self_stores(Kernel& kernel, const BufferRef& buffer);

}  // namespace tcc::loop
