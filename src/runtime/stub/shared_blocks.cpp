#include "runtime/stub/shared_blocks.h"

#include <pthread.h>
#include <stdlib.h>

#include <new>

#include "runtime/stub/message.h"

namespace tcc::stub {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
SharedBlock* blocks = nullptr;

struct Lock {
  Lock() { pthread_mutex_lock(&mutex); }
  ~Lock() { pthread_mutex_unlock(&mutex); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
};

void free_block(SharedBlock* block) {
  block->memory.free_all();
  free(block);
}

}  // namespace

int share_block(const char* weights, uint64_t bytes, const BlockMaker& maker, SharedBlock** result) {
  const Lock lock;
  for (SharedBlock* block = blocks; block; block = block->next) {
    if (block->weights != weights) continue;
    block->num_users++;
    *result = block;
    return TCC_OK;
  }
  void* memory = malloc(sizeof(SharedBlock));
  if (!memory) return fail(TCC_OUT_OF_MEMORY, "no memory for an instance");
  SharedBlock* block = new (memory) SharedBlock{blocks, weights, nullptr, 1, {}};
  block->data = static_cast<char*>(block->memory.allocate_large(bytes));
  int status = TCC_OK;
  if (!block->data) {
    status = fail(TCC_OUT_OF_MEMORY, "no memory for what is made of the weights: %llu bytes", static_cast<unsigned long long>(bytes));
  } else {
    status = maker.make(maker.user, block->data);
  }
  if (status != TCC_OK) {
    free_block(block);
    return status;
  }
  *result = blocks = block;
  return TCC_OK;
}

void give_back(SharedBlock* block) {
  const Lock lock;
  if (--block->num_users > 0) return;
  SharedBlock** at = &blocks;
  while (*at != block) at = &(*at)->next;
  *at = block->next;
  free_block(block);
}

}  // namespace tcc::stub
