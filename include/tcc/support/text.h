// Lexer and small printing helpers that all textual IRs share (docs/ir.md has the grammar).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tcc {

/// Tokens: identifiers, %value, @global, #body, numbers, "strings", punctuation; `//` comments (directives of tests among them) run to
/// the end of the line.
/// - A name is letters, digits, `_`, and inside it single `.` and `-`; one with other characters is quoted after its sigil: %"a b/c:0".
///   So `%i-1` is one name: a minus between operands needs blanks around it.
/// - A number is decimal, `_` allowed between digits, or 0x...; a `-` directly before a digit is its sign. `0..4` is a range: 0, `..`, 4.
/// - Quoted texts know the escapes \" \\ \n \t \r \x00 and end on their line.
/// - Punctuation is single characters and `->` `=>` `..` `...` `+:` `<=` `>=` `==` `!=` `&&` `||`.
enum class TokenKind : uint8_t { end, identifier, value, global, body, integer, floating, string, punctuation };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;     ///< without the sigil, unquoted and unescaped; punctuation: the characters
  int64_t integer = 0;  ///< for integer (one beyond i64 is floating instead)
  double floating = 0;  ///< for floating and integer
  int line = 0, column = 0;
};

class Lexer {
 public:
  /// `text` must outlive the lexer; `file` only names it in errors.
  Lexer(std::string_view text, std::string file);
  const Token& peek() const { return token_; }
  Token next();                                         ///< returns the current token and moves on
  bool at(std::string_view punctuation_or_word) const;  ///< current token is that punctuation or identifier
  bool accept(std::string_view punctuation_or_word);    ///< moves on when it is
  void expect(std::string_view punctuation_or_word);    ///< throws when it is not
  std::string expect_identifier();
  std::string expect_value();   ///< %name -> name
  std::string expect_global();  ///< @name -> name
  std::string expect_string();
  int64_t expect_integer();
  double expect_number();  ///< also inf, -inf, nan, and bits as 0x... for NaN payloads: 8 digits f32, 16 f64
  [[noreturn]] void fail(const std::string& message) const;  ///< Error(model, "syntax", "file:line:column", message), with the line
  /// The same at a token that was taken before.
  [[noreturn]] void fail_at(const Token& token, const std::string& message) const;
  int line() const { return token_.line; }

 private:
  void advance();
  std::string_view text_;
  std::string file_;
  size_t position_ = 0;
  int line_ = 1, column_ = 1;
  Token token_;
};

/// Shortest text that reads back to the same bits: "0.5", "1e-05", "inf", "nan", "1". The second keeps f32 values short. A NaN other than
/// the two of arithmetic is printed by its bits.
std::string print_float(double value);
std::string print_float32(float value);
/// %name or %"quoted", @name or @"quoted", and "quoted" with escapes.
std::string print_value_name(std::string_view name);
std::string print_global_name(std::string_view name);
std::string print_quoted(std::string_view text);

/// Without the blanks, tabs and carriage returns at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace tcc
