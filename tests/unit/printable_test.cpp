#include "tcc/support/printable.h"

#include <gtest/gtest.h>

#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

TEST(Printable, Escapes) {
  EXPECT_EQ(printable("encoder.layer/0:q \\ 名 é 😀"), "encoder.layer/0:q \\ 名 é 😀");
  EXPECT_EQ(printable("a\nb\rc\td\x1b[2J\x7f"), "a\\nb\\rc\\td\\x1b[2J\\x7f");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(printable("a\u202eb\u2066c\u200bd\u2028e\ufeff\u0085"), "a\\u202eb\\u2066c\\u200bd\\u2028e\\ufeff\\u0085");
  EXPECT_EQ(printable("\U000e0041"), "\\U000e0041");
  EXPECT_EQ(printable("\xff\xc3(\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xe5\x90"),
            "\\xff\\xc3(\\xc0\\xaf\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80\\xe5\\x90");
  EXPECT_EQ(printable_lines("a\n\tb\r"), "a\n\tb\\r");
  EXPECT_EQ(valid_utf8("é\xff"), "é\ufffd");
}

// Whatever a model's names are, a message is one line and its snippet indented lines.
TEST(Printable, NoNameForgesAMessage) {
  uint64_t state = 1;
  for (int round = 0; round < 2000; ++round) {
    std::string name;
    for (int i = 0; i < 40; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const auto byte = static_cast<uint8_t>(state >> 56);
      name += round % 2 == 0 ? static_cast<char>(byte) : "\n\r\x1b\x9b[m:ab"[byte % 10];
    }
    const std::string text = to_string({Diagnostic::Severity::error, "type-error", "net.onnx:" + name, "`" + name + "` differs", name});
    size_t line = 0;
    for (size_t begin = 0; begin < text.size(); ++line) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      EXPECT_TRUE(line == 0 ? text.starts_with("net.onnx:") : text.substr(begin, 2) == "  ") << text;
      begin = end + 1;
    }
    for (const char c : text) EXPECT_TRUE(static_cast<uint8_t>(c) >= 0x20 || c == '\n' || c == '\t') << text;
    EXPECT_EQ(valid_utf8(text), text);
  }
}

}  // namespace
}  // namespace tcc
