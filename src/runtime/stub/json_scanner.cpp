#include "runtime/stub/json_scanner.h"

namespace tcc::stub {

void JsonScanner::skip_spaces() {
  while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) at_++;
}

bool JsonScanner::take(char c) {
  skip_spaces();
  if (at_ == end_ || *at_ != c) return false;
  at_++;
  return true;
}

bool JsonScanner::at_end() {
  skip_spaces();
  return at_ == end_;
}

bool JsonScanner::integer(uint64_t* value) {
  skip_spaces();
  if (at_ == end_ || *at_ < '0' || *at_ > '9') return false;
  if (*at_ == '0' && end_ - at_ > 1 && at_[1] >= '0' && at_[1] <= '9') return false;  // JSON has no leading zeros
  uint64_t result = 0;
  const char* p = at_;
  for (; p < end_ && *p >= '0' && *p <= '9'; p++) {
    const uint64_t digit = static_cast<uint64_t>(*p - '0');
    if (result > (UINT64_MAX - digit) / 10) return false;
    result = result * 10 + digit;
  }
  if (p < end_ && (*p == '.' || *p == 'e' || *p == 'E')) return false;
  at_ = p;
  *value = result;
  return true;
}

bool JsonScanner::hex4(uint32_t* value) {
  if (end_ - at_ < 4) return false;
  uint32_t result = 0;
  for (int i = 0; i < 4; i++) {
    const char c = at_[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return false;
    result = result << 4 | static_cast<uint32_t>(digit);
  }
  at_ += 4;
  *value = result;
  return true;
}

// What stands behind a backslash.
bool JsonScanner::escape(uint32_t* code_point) {
  if (at_ == end_) return false;
  switch (*at_++) {
    case '"': *code_point = '"'; return true;
    case '\\': *code_point = '\\'; return true;
    case '/': *code_point = '/'; return true;
    case 'b': *code_point = '\b'; return true;
    case 'f': *code_point = '\f'; return true;
    case 'n': *code_point = '\n'; return true;
    case 'r': *code_point = '\r'; return true;
    case 't': *code_point = '\t'; return true;
    case 'u': break;
    default: at_--; return false;
  }
  if (!hex4(code_point)) return false;
  if (*code_point >= 0xdc00 && *code_point <= 0xdfff) return false;  // the second half of a pair, alone
  if (*code_point < 0xd800 || *code_point > 0xdbff) return true;
  uint32_t low = 0;
  if (end_ - at_ < 2 || at_[0] != '\\' || at_[1] != 'u') return false;
  at_ += 2;
  if (!hex4(&low) || low < 0xdc00 || low > 0xdfff) return false;
  *code_point = 0x10000 + ((*code_point - 0xd800) << 10) + (low - 0xdc00);
  return true;
}

bool JsonScanner::string(char* out, size_t capacity, size_t* size) {
  if (!take('"')) return false;
  size_t n = 0;
  while (at_ < end_ && *at_ != '"') {
    if (static_cast<unsigned char>(*at_) < 0x20) return false;
    uint32_t code = 0;
    if (*at_ != '\\') {
      if (n == capacity) return false;
      out[n++] = *at_++;  // UTF-8 as it is
      continue;
    }
    at_++;
    if (!escape(&code)) return false;
    const size_t needed = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (capacity - n < needed) return false;
    if (needed == 1) {
      out[n++] = static_cast<char>(code);
    } else {
      constexpr unsigned char kFirst[] = {0, 0, 0xc0, 0xe0, 0xf0};
      out[n++] = static_cast<char>(kFirst[needed] | code >> (6 * (needed - 1)));
      for (size_t i = needed - 1; i-- > 0;) out[n++] = static_cast<char>(0x80 | (code >> (6 * i) & 0x3f));
    }
  }
  if (at_ == end_) return false;
  at_++;
  *size = n;
  return true;
}

}  // namespace tcc::stub
