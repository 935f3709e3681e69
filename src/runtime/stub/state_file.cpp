#include "runtime/stub/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/stub/message.h"
#include "runtime/stub/safetensors_header.h"
#include "runtime/stub/state.h"

namespace tcc::stub {

using namespace tcc::program;

namespace {

constexpr uint64_t kLongestHeader = 100'000'000;  // what other readers of the format take
constexpr uint64_t kPieceBytes = 4 << 20;
constexpr uint64_t kHeaderAlignment = 64;
constexpr int kMostNames = 100;

// --- writing ------------------------------------------------------------------------------------------------------------------------------

/// JSON text, counted first and then written: no size is guessed.
class Text {
 public:
  explicit Text(char* out) : out_(out) {}
  void add(const char* text, size_t bytes) {
    if (out_) memcpy(out_ + size_, text, bytes);
    size_ += bytes;
  }
  void add(const char* text) { add(text, strlen(text)); }
  void number(uint64_t value) {
    char digits[24];
    add(digits, static_cast<size_t>(snprintf(digits, sizeof digits, "%llu", static_cast<unsigned long long>(value))));
  }
  void quoted(const char* text, size_t bytes) {
    add("\"");
    for (size_t i = 0; i < bytes; i++) {
      const unsigned char c = static_cast<unsigned char>(text[i]);
      if (c == '"' || c == '\\') {
        add("\\");
        add(text + i, 1);
      } else if (c < 0x20) {
        char escape[8];
        add(escape, static_cast<size_t>(snprintf(escape, sizeof escape, "\\u%04x", c)));
      } else {
        add(text + i, 1);
      }
    }
    add("\"");
  }
  size_t size() const { return size_; }

 private:
  char* out_;
  size_t size_ = 0;
};

// Calls body(tensor) for what a file holds, wide elements first: so each is aligned as its elements are.
template <class Body> int for_each_saved(const ProgramView& view, Body body) {
  for (uint32_t width = 8; width > 0; width /= 2) {
    for (const StateTensor& tensor : view.state()) {
      if (tensor.role == StateRole::gradient || tensor.pattern_bytes != width) continue;
      if (int status = body(tensor)) return status;
    }
  }
  return TCC_OK;
}

void write_header_text(const ProgramView& view, Text* text) {
  text->add("{\"__metadata__\":{\"format\":\"tcc\",\"tcc.model\":");
  text->quoted(view.text(view.header().model_name), view.header().model_name.size);
  text->add("}");
  uint64_t at = 0;
  for_each_saved(view, [&](const StateTensor& tensor) {
    text->add(",");
    text->quoted(view.text(tensor.name), tensor.name.size);
    text->add(":{\"dtype\":\"");
    text->add(safetensors_dtype(tensor.dtype));
    text->add("\",\"shape\":[");
    for (uint32_t axis = 0; axis < tensor.shape.count; axis++) {
      if (axis > 0) text->add(",");
      text->number(static_cast<uint64_t>(view.shape(tensor)[axis]));
    }
    text->add("],\"data_offsets\":[");
    text->number(at);
    text->add(",");
    text->number(at += tensor.size_bytes);
    text->add("]}");
    return 0;
  });
  text->add("}");
}

int write_all(int fd, const char* path, const void* data, uint64_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(fd, at, bytes < (uint64_t{1} << 30) ? bytes : uint64_t{1} << 30);
    if (written < 0) {
      if (errno == EINTR) continue;
      return fail(TCC_FILE_ERROR, "state file `%.400s` cannot be written: error %d: %s", path, errno, strerror(errno));
    }
    at += written;
    bytes -= static_cast<uint64_t>(written);
  }
  return TCC_OK;
}

int write_file(tcc_instance* instance, int fd, const char* path, char* header, uint64_t header_bytes, char* piece) {
  const uint64_t length = header_bytes;
  if (int status = write_all(fd, path, &length, sizeof length)) return status;  // little endian, as this machine is
  if (int status = write_all(fd, path, header, header_bytes)) return status;
  const int status = for_each_saved(instance->view, [&](const StateTensor& tensor) {
    for (uint64_t at = 0; at < tensor.size_bytes; at += kPieceBytes) {
      const uint64_t bytes = tensor.size_bytes - at < kPieceBytes ? tensor.size_bytes - at : kPieceBytes;
      if (int read = read_bytes(instance, tensor, at, piece, bytes)) return read;
      if (int written = write_all(fd, path, piece, bytes)) return written;
    }
    return static_cast<int>(TCC_OK);
  });
  if (status != TCC_OK) return status;
  // Before the name changes: a machine that stops right after it must not leave an empty file under it.
  if (fsync(fd) != 0 && errno != EINVAL)
    return fail(TCC_FILE_ERROR, "state file `%.400s` cannot be written: error %d: %s", path, errno, strerror(errno));
  return TCC_OK;
}

// A new file beside `path`. `name` has room for it.
int open_temporary(const char* path, char* name, size_t name_bytes) {
  for (int i = 0; i < kMostNames; i++) {
    snprintf(name, name_bytes, "%s.%d.%d.tmp", path, static_cast<int>(getpid()), i);
    const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

int check_no_device(const char* path) {
  struct stat status;
  // Not stat(): libc has it under that name since 2.33 only.
  if (syscall(SYS_stat, path, &status) != 0 || S_ISREG(status.st_mode)) return TCC_OK;
  return fail(TCC_FILE_ERROR, "state file `%.400s` cannot be written: there is %s of that name", path,
              S_ISDIR(status.st_mode) ? "a folder" : "something that is not a file");
}

// --- reading ------------------------------------------------------------------------------------------------------------------------------

int read_all(int fd, const char* path, void* data, uint64_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(fd, at, bytes < (uint64_t{1} << 30) ? bytes : uint64_t{1} << 30);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(TCC_FILE_ERROR, "state file `%.400s` cannot be read: error %d: %s", path, errno, strerror(errno));
    if (got == 0) return fail(TCC_FILE_ERROR, "state file `%.400s` is cut off", path);
    at += got;
    bytes -= static_cast<uint64_t>(got);
  }
  return TCC_OK;
}

/// What is read from a file before the instance changes.
struct Contents {
  int fd = -1;
  char* json = nullptr;
  FileHeader header;
  char* data = nullptr;  ///< of the tensors that are taken, one after the other
  ~Contents() {
    if (fd >= 0) close(fd);
    free(json);
    free(header.tensors);
    free(data);
  }
};

int read_contents(const ProgramView& view, const char* path, bool parameters_only, Contents* contents) {
  contents->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer is not waited for
  if (contents->fd < 0) return fail(TCC_FILE_ERROR, "state file `%.400s` cannot be opened: error %d: %s", path, errno, strerror(errno));
  const off_t end = lseek(contents->fd, 0, SEEK_END);
  if (end < 0 || lseek(contents->fd, 0, SEEK_SET) != 0)
    return fail(TCC_FILE_ERROR, "state file `%.400s` cannot be read: error %d: %s", path, errno, strerror(errno));
  const uint64_t size = static_cast<uint64_t>(end);
  uint64_t json_bytes = 0;
  if (size < 8)
    return fail(TCC_FILE_ERROR, "state file `%.400s` is not a safetensors file: it has %llu bytes", path,
                static_cast<unsigned long long>(size));
  if (int status = read_all(contents->fd, path, &json_bytes, 8)) return status;
  if (json_bytes > size - 8 || json_bytes > kLongestHeader) {
    return fail(TCC_FILE_ERROR, "state file `%.400s` is not a safetensors file: its header would have %llu bytes, the file has %llu", path,
                static_cast<unsigned long long>(json_bytes), static_cast<unsigned long long>(size));
  }
  contents->json = static_cast<char*>(malloc(json_bytes + 1));
  if (!contents->json) return fail(TCC_OUT_OF_MEMORY, "no memory to read state file `%.400s`", path);
  if (int status = read_all(contents->fd, path, contents->json, json_bytes)) return status;
  FileHeader* header = &contents->header;
  if (int status = read_header(view, path, contents->json, json_bytes, size - 8 - json_bytes, parameters_only, header)) return status;

  uint64_t taken = 0;  // no more than the state has: each tensor once
  for (size_t i = 0; i < header->num_tensors; i++) taken += header->tensors[i].tensor ? header->tensors[i].tensor->size_bytes : 0;
  contents->data = static_cast<char*>(malloc(taken + 1));
  if (!contents->data)
    return fail(TCC_OUT_OF_MEMORY, "no memory to read state file `%.400s`: %llu bytes", path, static_cast<unsigned long long>(taken));
  char* at = contents->data;
  for (size_t i = 0; i < header->num_tensors; i++) {
    const FileTensor& tensor = header->tensors[i];
    if (!tensor.tensor) continue;
    if (lseek(contents->fd, static_cast<off_t>(8 + json_bytes + tensor.begin), SEEK_SET) < 0)
      return fail(TCC_FILE_ERROR, "state file `%.400s` cannot be read: error %d: %s", path, errno, strerror(errno));
    if (int status = read_all(contents->fd, path, at, tensor.end - tensor.begin)) return status;
    at += tensor.end - tensor.begin;
  }
  return TCC_OK;
}

int apply(tcc_instance* instance, const Contents& contents) {
  if (int status = wait_for_state(instance)) return status;
  if (!contents.header.whole) {
    if (int status = reset_optimizer(instance)) return status;
  }
  const char* at = contents.data;
  for (size_t i = 0; i < contents.header.num_tensors; i++) {
    const StateTensor* tensor = contents.header.tensors[i].tensor;
    if (!tensor) continue;
    if (int status = write_tensor(instance, *tensor, at)) return status;
    const StateTensor* master = contents.header.whole ? nullptr : find_master(instance->view, *tensor);
    if (master) {
      if (int status = write_master(instance, *tensor, *master, at)) return status;
    }
    at += tensor->size_bytes;
  }
  if (int status = clear_gradients(instance)) return status;
  return wait_for_state(instance);
}

int check_arguments(const tcc_instance* instance, const char* path) {
  if (!path) return fail(TCC_INVALID_ARGUMENT, "the path of the state file is NULL");
  if (instance->view.state().count == 0)
    return fail(TCC_INVALID_ARGUMENT,
                "the library keeps no state that a file could hold: it was compiled without --mode=train, and its model changes nothing");
  return TCC_OK;
}

}  // namespace

int save_state(tcc_instance* instance, const char* path) {
  if (int status = check_arguments(instance, path)) return status;
  const ProgramView& view = instance->view;
  const int known = for_each_saved(view, [&](const StateTensor& tensor) {
    if (safetensors_dtype(tensor.dtype)) return static_cast<int>(TCC_OK);
    return fail(TCC_FILE_ERROR, "state tensor `%.200s` has a dtype that safetensors files do not have", view.text(tensor.name));
  });
  if (known != TCC_OK) return known;
  if (int status = check_no_device(path)) return status;
  if (int status = wait_for_state(instance)) return status;

  Text count(nullptr);
  write_header_text(view, &count);
  const uint64_t header_bytes = (8 + count.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment - 8;
  const size_t name_bytes = strlen(path) + 64;
  char* header = static_cast<char*>(malloc(header_bytes));
  char* piece = static_cast<char*>(malloc(kPieceBytes));
  char* name = static_cast<char*>(malloc(name_bytes));
  int status = header && piece && name ? TCC_OK : fail(TCC_OUT_OF_MEMORY, "no memory to write state file `%.400s`", path);
  if (status == TCC_OK) {
    memset(header, ' ', header_bytes);
    Text text(header);
    write_header_text(view, &text);
    const int fd = open_temporary(path, name, name_bytes);
    if (fd < 0) {
      status = fail(TCC_FILE_ERROR, "state file `%.400s` cannot be created: error %d: %s", path, errno, strerror(errno));
    } else {
      status = write_file(instance, fd, path, header, header_bytes, piece);
      if (close(fd) != 0 && status == TCC_OK)
        status = fail(TCC_FILE_ERROR, "state file `%.400s` cannot be written: error %d: %s", path, errno, strerror(errno));
      if (status == TCC_OK && rename(name, path) != 0)
        status = fail(TCC_FILE_ERROR, "state file `%.400s` cannot be created: error %d: %s", path, errno, strerror(errno));
      if (status != TCC_OK) unlink(name);
    }
  }
  free(header);
  free(piece);
  free(name);
  return status;
}

int load_state(tcc_instance* instance, const char* path, bool parameters_only) {
  if (int status = check_arguments(instance, path)) return status;
  Contents contents;
  if (int status = read_contents(instance->view, path, parameters_only, &contents)) return status;
  if (int status = apply(instance, contents)) return status;
  if (!contents.header.whole && instance->log) {
    char message[640];
    snprintf(message, sizeof message, "state file `%.400s`%s: the parameters are taken, the optimizer starts anew", path,
             contents.header.has_optimizer ? "" : " has no optimizer state");
    instance->log(instance->log_user, TCC_LOG_INFO, message);
  }
  return TCC_OK;
}

}  // namespace tcc::stub
