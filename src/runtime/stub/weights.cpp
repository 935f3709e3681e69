#include "runtime/stub/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/stub/message.h"

namespace tcc::stub {

using namespace tcc::program;

int map_weights(tcc_instance* instance, const char* path) {
  const Header& header = instance->view.header();
  if (header.weights_embedded) {
    if (path) return fail(TCC_INVALID_ARGUMENT, "weights_path is `%s`, but this library has its weights inside", path);
    instance->weights = tcc_payload.weights;
    return TCC_OK;
  }
  if (!path)
    return fail(TCC_INVALID_ARGUMENT, "weights_path is NULL, but this library was compiled with its weights in a file of their own");
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(TCC_FILE_ERROR, "weights file `%s` cannot be opened: error %d: %s", path, errno, strerror(errno));
  const uint64_t size = static_cast<uint64_t>(lseek(fd, 0, SEEK_END));
  const uint64_t expected = kWeightsFileHeaderBytes + header.weights_bytes;
  if (size != expected) {
    close(fd);
    return fail(TCC_FILE_ERROR, "weights file `%s` has %lld bytes, expected %llu: it is not the one that was written with this library",
                path, static_cast<long long>(size), static_cast<unsigned long long>(expected));
  }
  void* mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  if (mapping == MAP_FAILED) return fail(TCC_FILE_ERROR, "weights file `%s` cannot be mapped: error %d: %s", path, error, strerror(error));
  instance->weights_mapping = mapping;
  instance->weights_mapping_bytes = size;
  const WeightsFileHeader* file = static_cast<const WeightsFileHeader*>(mapping);
  if (memcmp(file->magic, kWeightsMagic, sizeof kWeightsMagic) != 0 || file->version != kVersion ||
      file->weights_hash != header.weights_hash) {
    return fail(TCC_FILE_ERROR, "weights file `%s` is not the one that was written with this library", path);
  }
  instance->weights = static_cast<const char*>(mapping) + kWeightsFileHeaderBytes;
  return TCC_OK;
}

void unmap_weights(tcc_instance* instance) {
  if (instance->weights_mapping) munmap(instance->weights_mapping, instance->weights_mapping_bytes);
}

int pack_weights(tcc_instance* instance, PackedWeights* packed) {
  const ProgramView& view = instance->view;
  const Rows<program::Tensor> weights = view.weights();
  bool* used = packed->stored = instance->memory.allocate_array<bool>(weights.count);
  packed->offsets = instance->memory.allocate_array<uint64_t>(weights.count);
  uint32_t* distinct = instance->memory.allocate_array<uint32_t>(weights.count);  // first weight at each offset; offsets ascend
  uint32_t* same_as = instance->memory.allocate_array<uint32_t>(weights.count);
  if (!used || !packed->offsets || !distinct || !same_as) return fail(TCC_OUT_OF_MEMORY, "no memory for %u weights", weights.count);
  for (const FunctionCode& code : view.rows<FunctionCode>(instance->target->functions)) {
    for (const Buffer& buffer : view.rows<Buffer>(code.buffers)) {
      if (buffer.kind == BufferKind::weight) used[buffer.index] = true;
    }
  }
  // Equal weights share bytes: the later one has the offset of an earlier one, found by bisection.
  uint32_t num_distinct = 0;
  for (uint32_t w = 0; w < weights.count; w++) {
    same_as[w] = w;
    if (weights[w].size_bytes == 0) continue;  // has the offset of what follows it
    uint32_t low = 0, high = num_distinct;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (weights[distinct[middle]].offset < weights[w].offset) low = middle + 1;
      else high = middle;
    }
    if (low < num_distinct && weights[distinct[low]].offset == weights[w].offset) {
      same_as[w] = distinct[low];
      if (used[w]) used[distinct[low]] = true;
    } else {
      distinct[num_distinct++] = w;
    }
  }
  for (uint32_t d = 0; d < num_distinct; d++) {
    const uint32_t w = distinct[d];
    if (!used[w]) continue;
    packed->offsets[w] = packed->size_bytes;
    packed->size_bytes += (weights[w].size_bytes + 255) / 256 * 256;
  }
  for (uint32_t w = 0; w < weights.count; w++) {
    if (same_as[w] != w || weights[w].size_bytes == 0) used[w] = false;
    packed->offsets[w] = packed->offsets[same_as[w]];
  }
  instance->device_weights_bytes = packed->size_bytes;
  return TCC_OK;
}

}  // namespace tcc::stub
