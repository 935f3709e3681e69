#include "runtime/stub/message.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

namespace tcc::stub {
namespace {

constexpr size_t kMessageBytes = 2048;

// Made when the library is loaded, so that no lock is needed later.
pthread_key_t message_key;
bool has_key = false;

__attribute__((constructor)) void make_key() { has_key = pthread_key_create(&message_key, free) == 0; }
__attribute__((destructor)) void delete_key() {
  if (has_key) pthread_key_delete(message_key);
}

char* thread_buffer() {
  if (!has_key) return nullptr;
  char* buffer = static_cast<char*>(pthread_getspecific(message_key));
  if (!buffer) {
    buffer = static_cast<char*>(calloc(1, kMessageBytes));
    if (buffer && pthread_setspecific(message_key, buffer) != 0) {
      free(buffer);
      buffer = nullptr;
    }
  }
  return buffer;
}

}  // namespace

int fail(tcc_status status, const char* format, ...) {
  char* buffer = thread_buffer();
  if (buffer) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer, kMessageBytes, format, arguments);
    va_end(arguments);
  }
  return status;
}

const char* last_message() {
  const char* buffer = has_key ? static_cast<const char*>(pthread_getspecific(message_key)) : nullptr;
  return buffer ? buffer : "no failure in this thread";
}

ShapeText::ShapeText(const int64_t* extents, int64_t rank) {
  size_t at = 0;
  text[at++] = '[';
  for (int64_t i = 0; i < rank; i++) {
    if (at + 28 > sizeof text) {
      at += static_cast<size_t>(snprintf(text + at, sizeof text - at, ", ..."));
      break;
    }
    at += static_cast<size_t>(snprintf(text + at, sizeof text - at, i ? ", %lld" : "%lld", static_cast<long long>(extents[i])));
  }
  text[at++] = ']';
  text[at] = '\0';
}

}  // namespace tcc::stub
