// What instances on the CPU make of weights, once for all of them in a process: they share the mapped weights, too.
#pragma once

#include "runtime/stub/memory.h"

namespace tcc::stub {

struct SharedBlock {
  SharedBlock* next;
  const char* weights;  ///< what it is made of
  char* data;
  uint32_t num_users;
  Memory memory;  ///< libc's
};

/// Fills the memory of a new block; returns a status.
struct BlockMaker {
  int (*make)(void* user, char* data);
  void* user;
};
/// The block that is made of these weights. The first caller makes it, while others that want it wait. Each gives it back.
int share_block(const char* weights, uint64_t bytes, const BlockMaker& maker, SharedBlock** block);
void give_back(SharedBlock* block);

}  // namespace tcc::stub
