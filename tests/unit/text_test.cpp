#include "tcc/support/text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "scratch.h"

namespace tcc {
namespace {

/// The tokens in one line: kind initial and text.
std::string tokens_of(std::string_view text) {
  std::string result;
  for (Lexer lexer(text, "t"); lexer.peek().kind != TokenKind::end;) {
    const Token token = lexer.next();
    result += (result.empty() ? "" : " ") + std::string(1, "eivgbnfsp"[static_cast<int>(token.kind)]) + ":" + token.text;
  }
  return result;
}

std::string syntax_error_of(std::string_view text) {
  return testing::error_of(ExitCode::model, [&] {
    for (Lexer lexer(text, "t.graph"); lexer.peek().kind != TokenKind::end;) lexer.next();
  });
}

TEST(Text, Tokens) {
  EXPECT_EQ(tokens_of("%h: f32[2] = add(%x.1, @fc-1.weight) #0 // RUN: %no\n{a=\"b\"}"),
            "v:h p:: i:f32 p:[ n:2 p:] p:= i:add p:( v:x.1 p:, g:fc-1.weight p:) b:0 p:{ i:a p:= s:b p:}");
  EXPECT_EQ(tokens_of("0..4 %a..%b -> a->b n<=4 +: x<f32>>y"),
            "n:0 p:.. n:4 v:a p:.. v:b p:-> i:a p:-> i:b i:n p:<= n:4 p:+: i:x p:< i:f32 p:> p:> i:y");
  EXPECT_EQ(tokens_of("%i-1 %i - 1 %i -1 %k + 1 16-byte 3x4 229_440 a.b. _"),
            "v:i-1 v:i p:- n:1 v:i n:-1 v:k p:+ n:1 n:16 p:- i:byte n:3 i:x4 n:229440 i:a.b p:. i:_");
  EXPECT_EQ(tokens_of("1.5 -2e-3 1e5 0x1F 4e 1.x"), "f:1.5 f:-2e-3 f:1e5 n:0x1F n:4 i:e n:1 p:. i:x");
  EXPECT_EQ(tokens_of("%\"a b/c:0\" @\"x\\\"y\\\\\\n\\t\\r\\x01\" %\"\""), "v:a b/c:0 g:x\"y\\\n\t\r\x01 v:");
  EXPECT_EQ(tokens_of(""), "");
  EXPECT_EQ(tokens_of("// only"), "");
  EXPECT_EQ(tokens_of("a % b @ c"), "i:a p:% i:b p:@ i:c");
}

TEST(Text, TokensCarryTheirPlace) {
  Lexer lexer("a\n  %\xc3\xa9", "t");  // a letter outside ASCII needs quotes
  EXPECT_EQ(lexer.next().line, 1);
  EXPECT_EQ(lexer.peek().line, 2);
  EXPECT_EQ(lexer.peek().column, 3);
  Lexer quoted("\"\xc3\xa9\" b", "t");
  quoted.next();
  EXPECT_EQ(quoted.peek().column, 5);  // characters, not bytes
}

TEST(Text, Errors) {
  EXPECT_EQ(syntax_error_of("a\n  b \"open\nc"),
            "t.graph:2:5: error: found the end of the line inside a quoted text, expected `\"` [syntax]\n    b \"open\n      ^");
  EXPECT_EQ(syntax_error_of("\tx `"), "t.graph:1:4: error: found ```, which starts no token [syntax]\n  \tx `\n  \t  ^");
  EXPECT_NE(syntax_error_of("\"\\q\"").find("unknown escape"), std::string::npos);
  EXPECT_NE(syntax_error_of("\"\\x1\"").find("hexadecimal"), std::string::npos);
  EXPECT_NE(syntax_error_of("%\"a").find("inside a quoted text"), std::string::npos);
  EXPECT_NE(syntax_error_of("a \xc3\xa9").find("t.graph:1:3: error: found byte 0xc3"), std::string::npos);
  EXPECT_NE(syntax_error_of("0x12345678123456789").find("at most 16"), std::string::npos);
  EXPECT_NE(syntax_error_of("1e999").find("no f64"), std::string::npos);

  Lexer lexer("add %x", "t.graph");
  EXPECT_EQ(testing::error_of(ExitCode::model, [&] { lexer.expect("("); }),
            "t.graph:1:1: error: found `add`, expected `(` [syntax]\n  add %x\n  ^");
  lexer.next();
  EXPECT_NE(testing::error_of(ExitCode::model, [&] { lexer.expect_integer(); }).find("found `%x`, expected an integer"), std::string::npos);
  lexer.next();
  EXPECT_NE(testing::error_of(ExitCode::model, [&] { lexer.expect_global(); }).find("t.graph:1:7: error: found the end of the text"),
            std::string::npos);
}

TEST(Text, Expectations) {
  Lexer lexer("map %i in 4 , \"s\" @w -inf nan -nan 0x7fc00001 0xfff0000000000001 -0 9223372036854775808 -9223372036854775808", "t");
  EXPECT_TRUE(lexer.at("map"));
  EXPECT_FALSE(lexer.accept("in"));
  EXPECT_EQ(lexer.expect_identifier(), "map");
  EXPECT_FALSE(lexer.at("i"));  // a value is not the word
  EXPECT_EQ(lexer.expect_value(), "i");
  EXPECT_TRUE(lexer.accept("in"));
  EXPECT_EQ(lexer.expect_integer(), 4);
  lexer.expect(",");
  EXPECT_FALSE(lexer.at("s"));
  EXPECT_EQ(lexer.expect_string(), "s");
  EXPECT_EQ(lexer.expect_global(), "w");
  EXPECT_EQ(lexer.expect_number(), -INFINITY);
  EXPECT_FALSE(std::signbit(lexer.expect_number()));
  EXPECT_TRUE(std::signbit(lexer.expect_number()));
  EXPECT_EQ(std::bit_cast<uint32_t>(static_cast<float>(lexer.expect_number())), 0x7fc00001u);
  EXPECT_EQ(std::bit_cast<uint64_t>(lexer.expect_number()), 0xfff0000000000001u);
  EXPECT_TRUE(std::signbit(lexer.expect_number()));
  EXPECT_EQ(lexer.peek().kind, TokenKind::floating);
  EXPECT_EQ(lexer.expect_number(), 0x1p63);
  EXPECT_EQ(lexer.expect_integer(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(lexer.next().kind, TokenKind::end);
  EXPECT_EQ(lexer.next().kind, TokenKind::end);  // and stays there
}

TEST(Text, NamesReadBack) {
  for (const std::string name :
       {"x", "0", "a.b-c_d", "a..b", ".a", "a.", "-1", "a b", "", "\"", "\\", "\n\t\r\x01\x7f", "caf\xc3\xa9", "\xff", "a/b:0"}) {
    EXPECT_EQ(Lexer(print_value_name(name), "t").expect_value(), name);
    EXPECT_EQ(Lexer(print_global_name(name), "t").expect_global(), name);
    EXPECT_EQ(Lexer(print_quoted(name), "t").expect_string(), name);
    EXPECT_EQ(tokens_of(print_value_name(name) + "..").substr(0, 2), "v:");
  }
  EXPECT_EQ(print_value_name("layer.0"), "%layer.0");
  EXPECT_EQ(print_global_name("a b"), "@\"a b\"");
  EXPECT_EQ(print_quoted("a\"\x01"), "\"a\\\"\\x01\"");
}

TEST(Text, FloatsReadBack) {
  EXPECT_EQ(print_float(0.5), "0.5");
  EXPECT_EQ(print_float(1e-5), "1e-05");
  EXPECT_EQ(print_float(-INFINITY), "-inf");
  EXPECT_EQ(print_float(NAN), "nan");
  EXPECT_EQ(print_float(-0.0), "-0");
  EXPECT_EQ(print_float32(0.1f), "0.1");
  EXPECT_EQ(print_float(0.1f), "0.10000000149011612");
  std::mt19937_64 random(1);
  const auto check64 = [](uint64_t bits) {
    const std::string text = print_float(std::bit_cast<double>(bits));
    ASSERT_EQ(std::bit_cast<uint64_t>(Lexer(text, "t").expect_number()), bits) << text;
  };
  const auto check32 = [](uint32_t bits) {
    const std::string text = print_float32(std::bit_cast<float>(bits));
    const float value = static_cast<float>(Lexer(text, "t").expect_number());
    // The narrowing conversion of the processor makes signaling NaNs quiet.
    const uint32_t expected = std::isnan(value) ? bits | 0x400000 : bits;
    ASSERT_EQ(std::bit_cast<uint32_t>(value), expected) << text;
  };
  for (const uint64_t bits : {0ull, 1ull, 0x7fefffffffffffffull, 0x7ff0000000000001ull, 0xfff8000000000000ull, 0x0010000000000000ull})
    check64(bits);
  for (const uint32_t bits : {0u, 1u, 0x7f7fffffu, 0x7f800001u, 0xffc00000u, 0x00800000u, 0x80000001u, 0x15ae43fdu, 0x95ae43fdu})
    check32(bits);
  for (int i = 0; i < 20000; ++i) {
    check64(random());
    check32(static_cast<uint32_t>(random()));
  }
}

}  // namespace
}  // namespace tcc
