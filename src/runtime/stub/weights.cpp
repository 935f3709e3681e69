#include "runtime/stub/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/stub/message.h"
#include "tcc/runtime/checksum.h"

namespace tcc::stub {

using namespace tcc::program;

namespace {

// What a message calls the place of the weights.
struct Source {
  char text[300];
  explicit Source(const tcc_create_options& options) {
    if (options.weights_path) snprintf(text, sizeof text, "weights file `%.250s`", options.weights_path);
    else snprintf(text, sizeof text, "weights_data");
  }
};

int map_file(tcc_instance* instance, const char* path, const char** data, uint64_t* size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer is not waited for
  if (fd < 0) return fail(TCC_FILE_ERROR, "weights file `%s` cannot be opened: error %d: %s", path, errno, strerror(errno));
  const off_t end = lseek(fd, 0, SEEK_END);
  *size = end > 0 ? static_cast<uint64_t>(end) : 0;
  void* mapping = *size > 0 ? mmap(nullptr, *size, PROT_READ, MAP_PRIVATE, fd, 0) : nullptr;
  const int error = errno;
  close(fd);
  if (mapping == MAP_FAILED) return fail(TCC_FILE_ERROR, "weights file `%s` cannot be mapped: error %d: %s", path, error, strerror(error));
  instance->weights_mapping = mapping;
  instance->weights_mapping_bytes = *size;
  *data = static_cast<const char*>(mapping);
  return TCC_OK;
}

}  // namespace

int map_weights(tcc_instance* instance, const tcc_create_options& options) {
  const Header& header = instance->view.header();
  const char* path = options.weights_path;
  if (header.weights_embedded) {
    if (path) return fail(TCC_INVALID_ARGUMENT, "weights_path is `%s`, but this library has its weights inside", path);
    if (options.weights_data) return fail(TCC_INVALID_ARGUMENT, "weights_data is set, but this library has its weights inside");
    instance->weights = tcc_payload.weights;
    return TCC_OK;
  }
  if (path && options.weights_data) return fail(TCC_INVALID_ARGUMENT, "weights_path and weights_data are both set, expected one of them");
  if (!path && !options.weights_data)
    return fail(TCC_INVALID_ARGUMENT, "weights_path is NULL, but this library was compiled with its weights in a file of their own");
  if (!path && reinterpret_cast<uintptr_t>(options.weights_data) % kWeightAlignment != 0) {
    return fail(TCC_INVALID_ARGUMENT, "weights_data is at address 0x%llx, expected a multiple of %llu",
                static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(options.weights_data)),
                static_cast<unsigned long long>(kWeightAlignment));
  }
  const char* data = static_cast<const char*>(options.weights_data);
  uint64_t size = options.weights_data_bytes;
  if (path) {
    if (int status = map_file(instance, path, &data, &size)) return status;
  }
  const Source source(options);
  const uint64_t expected = kWeightsFileHeaderBytes + header.weights_bytes;
  if (size != expected) {
    return fail(TCC_FILE_ERROR, "%s has %llu bytes, expected %llu: it is not the one that was written with this library", source.text,
                static_cast<unsigned long long>(size), static_cast<unsigned long long>(expected));
  }
  const WeightsFileHeader* file = reinterpret_cast<const WeightsFileHeader*>(data);
  if (memcmp(file->magic, kWeightsMagic, sizeof kWeightsMagic) != 0 || file->version != kVersion ||
      file->weights_bytes != header.weights_bytes || file->weights_hash != header.weights_hash) {
    return fail(TCC_FILE_ERROR, "%s is not the one that was written with this library", source.text);
  }
  instance->weights = data + kWeightsFileHeaderBytes;
  return TCC_OK;
}

int check_weights(const tcc_instance* instance, const tcc_create_options& options) {
  const ProgramView& view = instance->view;
  // As lay_out_weights() made it: a weight whose place is the end of what came before has bytes of its own.
  uint64_t hash = 0, end = 0;
  for (const program::Tensor& weight : view.weights()) {
    if (weight.size_bytes == 0 || weight.offset != end) continue;
    hash = add_weight(hash, checksum(instance->weights + weight.offset, weight.size_bytes), weight.offset);
    end = (weight.offset + weight.size_bytes + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
  }
  if (hash == view.header().weights_hash) return TCC_OK;
  if (!view.header().weights_embedded)
    return fail(TCC_FILE_ERROR, "%s is damaged: it was changed after it was written with this library", Source(options).text);
  return fail(TCC_DAMAGED_LIBRARY, "the weights inside this library are damaged: compile the model again");
}

void unmap_weights(tcc_instance* instance) {
  if (instance->weights_mapping) munmap(instance->weights_mapping, instance->weights_mapping_bytes);
}

int pack_weights(tcc_instance* instance, Rows<FunctionCode> codes, PackedWeights* packed) {
  const ProgramView& view = instance->view;
  const Rows<program::Tensor> weights = view.weights();
  bool* used = packed->stored = instance->memory.allocate_array<bool>(weights.count);
  packed->offsets = instance->memory.allocate_array<uint64_t>(weights.count);
  uint32_t* distinct = instance->memory.allocate_array<uint32_t>(weights.count);  // first weight at each offset; offsets ascend
  uint32_t* same_as = instance->memory.allocate_array<uint32_t>(weights.count);
  if (!used || !packed->offsets || !distinct || !same_as) return fail(TCC_OUT_OF_MEMORY, "no memory for %u weights", weights.count);
  for (const FunctionCode& code : codes) {
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
  return TCC_OK;
}

}  // namespace tcc::stub
