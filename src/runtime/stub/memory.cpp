#include "runtime/stub/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace tcc::stub {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void Memory::use(const tcc_create_options& options) {
  allocate_ = options.allocate;
  deallocate_ = options.deallocate;
  user_ = options.allocator_user;
}

// The list of blocks stands apart from the blocks, whose whole size then goes to their user, aligned as asked.
void* Memory::allocate_block(size_t bytes, size_t alignment) {
  Block* block = static_cast<Block*>(malloc(sizeof(Block)));
  if (!block) return nullptr;
  void* memory = nullptr;
  if (allocate_) {
    memory = allocate_(user_, bytes, alignment);
  } else if (posix_memalign(&memory, alignment, bytes) != 0) {
    memory = nullptr;
  }
  if (!memory) {
    free(block);
    return nullptr;
  }
  *block = {blocks_, memory, bytes};
  blocks_ = block;
  return memory;
}

void* Memory::allocate(size_t bytes) {
  void* memory = allocate_block(bytes ? bytes : 1, 64);
  if (memory) memset(memory, 0, bytes);
  return memory;
}

void* Memory::allocate_large(size_t bytes) {
  if (bytes == 0) bytes = 1;
  if (allocate_ || bytes < kHugePage) return allocate_block(bytes, 4096);
  bytes = (bytes + kHugePage - 1) & ~(kHugePage - 1);
  void* memory = allocate_block(bytes, kHugePage);
  if (memory) madvise(memory, bytes, MADV_HUGEPAGE);  // advice: a kernel without huge pages refuses, and nothing is lost
  return memory;
}

void Memory::free_block(Block* block) {
  if (deallocate_) {
    deallocate_(user_, block->memory, block->bytes);
  } else {
    free(block->memory);
  }
  free(block);
}

void Memory::release(void* memory) {
  for (Block** at = &blocks_; *at; at = &(*at)->next) {
    if ((*at)->memory != memory) continue;
    Block* block = *at;
    *at = block->next;
    free_block(block);
    return;
  }
}

void Memory::free_all() {
  while (blocks_) {
    Block* block = blocks_;
    blocks_ = block->next;
    free_block(block);
  }
}

}  // namespace tcc::stub
