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

}  // namespace tcc::stub
