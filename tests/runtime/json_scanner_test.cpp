// The scanner of state files: what is JSON, what is not, and nothing past the end.
#include "runtime/stub/json_scanner.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

namespace tcc::stub {
namespace {

// In memory that ends where the text ends, so that a sanitizer sees every step too far.
struct Exact {
  explicit Exact(const std::string& text) : bytes(new char[text.size()]), scanner(bytes.get(), text.size()) {
    std::copy(text.begin(), text.end(), bytes.get());
  }
  std::unique_ptr<char[]> bytes;
  JsonScanner scanner;
};

std::optional<std::string> string_of(const std::string& text, size_t capacity = 100) {
  Exact exact(text);
  std::string out(capacity, '\0');
  size_t size;
  if (!exact.scanner.string(out.data(), capacity, &size)) return std::nullopt;
  EXPECT_TRUE(exact.scanner.at_end());
  return out.substr(0, size);
}

std::optional<uint64_t> integer_of(const std::string& text) {
  Exact exact(text);
  uint64_t value;
  if (!exact.scanner.integer(&value)) return std::nullopt;
  return value;
}

TEST(JsonScanner, Strings) {
  EXPECT_EQ(string_of(R"("")"), "");
  EXPECT_EQ(string_of(R"( "a.b/c" )"), "a.b/c");
  EXPECT_EQ(string_of(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(string_of(R"("\u0041\u00e9\u20ac\ud83d\ude00")"), "A\u00e9\u20ac\U0001F600");
  EXPECT_EQ(string_of("\"\u00e9\""), "\u00e9");
  EXPECT_EQ(string_of(R"("\u0000")"), std::string(1, '\0'));
  for (const char* bad : {"", "\"", "\"a", "a", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\ud83d\"", "\"\\ud83d\\u0041\"",
                          "\"\\ude00\"", "\"\\ud83d\\", "\"\\ud83d\\ud", "\"\n\""})
    EXPECT_EQ(string_of(bad), std::nullopt) << bad;
  EXPECT_EQ(string_of("\"abc\"", 3), "abc");
  EXPECT_EQ(string_of("\"abcd\"", 3), std::nullopt);
  EXPECT_EQ(string_of(R"("ab\u20ac")", 4), std::nullopt);
}

TEST(JsonScanner, Integers) {
  EXPECT_EQ(integer_of("0"), 0u);
  EXPECT_EQ(integer_of(" 18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", "-1", "01", "1.0", "1e3", "18446744073709551616", "99999999999999999999999", "a", "+1"})
    EXPECT_EQ(integer_of(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace tcc::stub
