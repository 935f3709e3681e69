// Reads JSON text that may come from anywhere, piece by piece: strings, whole numbers, punctuation. No recursion, no allocation, and nothing
// is read past the end.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tcc::stub {

class JsonScanner {
 public:
  JsonScanner(const char* text, size_t bytes) : begin_(text), at_(text), end_(text + bytes) {}

  /// Takes the character, spaces before it skipped. False, and nothing taken but spaces, when another one is there.
  bool take(char c);
  /// A string, its escapes resolved, into `out`, which has room for `capacity` bytes; *size is what it takes. A NUL is not added.
  bool string(char* out, size_t capacity, size_t* size);
  /// 0 ... 2^64 - 1, written as digits alone.
  bool integer(uint64_t* value);
  /// Only spaces are left.
  bool at_end();

  /// Where the scanner stands, in bytes from the start: after a failure, what it could not take.
  size_t position() const { return static_cast<size_t>(at_ - begin_); }

 private:
  void skip_spaces();
  bool escape(uint32_t* code_point);
  bool hex4(uint32_t* value);
  const char* begin_;
  const char* at_;
  const char* end_;
};

}  // namespace tcc::stub
