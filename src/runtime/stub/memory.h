// Host memory of an instance: from the caller's allocator callbacks or from libc, all freed together when the instance goes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tcc/runtime/runtime.h"

namespace tcc::stub {

class Memory {
 public:
  void use(const tcc_create_options& options);

  /// Zero-filled, 64-byte aligned; null when there is no memory.
  void* allocate(size_t bytes);
  template <class T> T* allocate_array(size_t count) { return static_cast<T*>(allocate((count ? count : 1) * sizeof(T))); }
  /// For workspaces: not zeroed, page-aligned, in huge pages where the system has them.
  void* allocate_large(size_t bytes);
  /// Gives one block back before all others. Null is allowed.
  void release(void* memory);
  void free_all();

 private:
  struct Block {
    Block* next;
    void* memory;
    size_t bytes;
  };
  void* allocate_block(size_t bytes, size_t alignment);
  void free_block(Block* block);

  Block* blocks_ = nullptr;
  void* (*allocate_)(void*, size_t, size_t) = nullptr;
  void (*deallocate_)(void*, void*, size_t) = nullptr;
  void* user_ = nullptr;
};

}  // namespace tcc::stub
