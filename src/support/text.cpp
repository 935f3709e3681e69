// The lexer of the textual IRs and the printing that matches it: whatever is printed here is read back as the same token.

#include "tcc/support/text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

// Longest first: the first that matches is taken. There is no `>>`: `tile<list<f32>>` closes two brackets.
constexpr std::string_view kLongPunctuation[] = {"...", "->", "=>", "..", "+:", "<=", ">=", "==", "!=", "&&", "||"};
constexpr std::string_view kShortPunctuation = "()[]{}<>=,;:.+-*/%@#!?&|^~'$";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_letter(c) || is_digit(c); }
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char at(std::string_view text, size_t i) { return i < text.size() ? text[i] : '\0'; }

/// Length of the name at the start of `text`: letters, digits and `_`, and inside it single `.` and `-`. 0 when there is none.
size_t name_length(std::string_view text) {
  size_t i = 0;
  while (is_word(at(text, i)) || (i > 0 && (at(text, i) == '.' || at(text, i) == '-') && is_word(at(text, i + 1)))) ++i;
  return i;
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::end: return "the end of the text";
    case TokenKind::value: return "`" + print_value_name(token.text) + "`";
    case TokenKind::global: return "`" + print_global_name(token.text) + "`";
    case TokenKind::body: return "`#" + token.text + "`";
    case TokenKind::string: return "`" + print_quoted(token.text) + "`";
    default: return "`" + token.text + "`";
  }
}

/// The widening of f32 to f64 by the processor makes a signaling NaN quiet; here every NaN keeps its payload.
double widen(float value) {
  if (!std::isnan(value)) return value;
  const uint64_t bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<double>((bits >> 31 << 63) | 0x7ff0000000000000ull | ((bits & 0x7fffff) << 29));
}

std::string hex(uint64_t bits, int digits) {
  std::string text = "0x";
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) text += "0123456789abcdef"[(bits >> shift) & 0xf];
  return text;
}

std::string print_name(char sigil, std::string_view name) {
  std::string text(1, sigil);
  if (!name.empty() && name_length(name) == name.size()) return text.append(name);
  return text + print_quoted(name);
}

template <class Float> std::string print_shortest(Float value) {
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, result.ptr);
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string file) : text_(text), file_(std::move(file)) { advance(); }

Token Lexer::next() {
  Token token = std::move(token_);
  // A copy of the end stays, so that reading on gives the end again.
  token_ = Token();
  token_.line = token.line;
  token_.column = token.column;
  if (token.kind != TokenKind::end) advance();
  return token;
}

bool Lexer::at(std::string_view punctuation_or_word) const {
  return (token_.kind == TokenKind::punctuation || token_.kind == TokenKind::identifier) && token_.text == punctuation_or_word;
}

bool Lexer::accept(std::string_view punctuation_or_word) {
  if (!at(punctuation_or_word)) return false;
  next();
  return true;
}

void Lexer::expect(std::string_view punctuation_or_word) {
  if (!accept(punctuation_or_word)) fail("found " + describe(token_) + ", expected `" + std::string(punctuation_or_word) + "`");
}

std::string Lexer::expect_identifier() {
  if (token_.kind != TokenKind::identifier) fail("found " + describe(token_) + ", expected a word");
  return next().text;
}

std::string Lexer::expect_value() {
  if (token_.kind != TokenKind::value) fail("found " + describe(token_) + ", expected a value such as `%x`");
  return next().text;
}

std::string Lexer::expect_global() {
  if (token_.kind != TokenKind::global) fail("found " + describe(token_) + ", expected a name such as `@x`");
  return next().text;
}

std::string Lexer::expect_string() {
  if (token_.kind != TokenKind::string) fail("found " + describe(token_) + ", expected a quoted text");
  return next().text;
}

int64_t Lexer::expect_integer() {
  if (token_.kind != TokenKind::integer) fail("found " + describe(token_) + ", expected an integer");
  return next().integer;
}

double Lexer::expect_number() {
  const bool negative = token_.kind == TokenKind::punctuation && token_.text == "-";
  if (negative) {
    // `-inf` and `-nan`; the sign of a number of digits belongs to its token.
    const Token sign = next();
    if (!at("inf") && !at("nan")) fail("found " + describe(token_) + " after `-`, expected a number");
  }
  if (at("inf") || at("nan")) {
    const double magnitude = next().text == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    return std::copysign(magnitude, negative ? -1.0 : 1.0);
  }
  if (token_.kind != TokenKind::integer && token_.kind != TokenKind::floating) {
    fail("found " + describe(token_) + ", expected a number");
  }
  if (token_.text.starts_with("0x")) {
    const uint64_t bits = static_cast<uint64_t>(token_.integer);
    if (token_.text.size() == 10) {
      next();
      return widen(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    }
    if (token_.text.size() == 18) {
      next();
      return std::bit_cast<double>(bits);
    }
    fail("found `" + token_.text + "`, expected the bits of a float: 8 digits for f32, 16 for f64");
  }
  return next().floating;
}

void Lexer::fail(const std::string& message) const { fail_at(token_, message); }

void Lexer::fail_at(const Token& token, const std::string& message) const {
  // The line itself, and a caret under the token. Tabs stay tabs in the caret line, so that it stands where it should.
  size_t begin = 0;
  for (int line = 1; line < token.line && begin < text_.size(); ++line) {
    const size_t end = text_.find('\n', begin);
    begin = end == std::string_view::npos ? text_.size() : end + 1;
  }
  std::string_view line = text_.substr(begin);
  line = line.substr(0, line.find('\n'));
  std::string snippet(line);
  snippet += '\n';
  int column = 1;
  for (char c : line) {
    if ((c & 0xc0) == 0x80) continue;
    if (column++ >= token.column) break;
    snippet += c == '\t' ? '\t' : ' ';
  }
  snippet += '^';
  std::vector<Diagnostic> diagnostics;
  diagnostics.push_back({Diagnostic::Severity::error, "syntax",
                         file_ + ":" + std::to_string(token.line) + ":" + std::to_string(token.column), message,
                         line.empty() ? std::string() : snippet});
  throw Error(ExitCode::model, std::move(diagnostics));
}

namespace {

/// Reads the token at the start of a text. Each reader takes the bytes of its kind and returns how many they are; 0 where another kind stands there.
class TokenReader {
 public:
  /// Faults go through `lexer`, which knows where `token` is.
  TokenReader(const Lexer& lexer, std::string_view rest, Token& token) : lexer_(lexer), rest_(rest), token_(token) {}

  size_t read() {
    size_t length = 0;
    for (const auto reader :
         {&TokenReader::name, &TokenReader::text, &TokenReader::word, &TokenReader::number, &TokenReader::punctuation}) {
      if (length == 0) length = (this->*reader)();
    }
    return length;
  }

 private:
  /// %name, @name, #name. Where no name follows, % and @ are punctuation (`a % b`).
  size_t name() {
    const char c = rest_[0];
    if (c != '%' && c != '@' && c != '#') return 0;
    const TokenKind kind = c == '%' ? TokenKind::value : c == '@' ? TokenKind::global : TokenKind::body;
    const size_t length = name_length(rest_.substr(1));
    if (at(rest_, 1) != '"' && length == 0) return 0;
    token_.kind = kind;
    if (at(rest_, 1) == '"') return quoted(1);
    token_.text = rest_.substr(1, length);
    return length + 1;
  }

  size_t text() {
    if (rest_[0] != '"') return 0;
    token_.kind = TokenKind::string;
    return quoted(0);
  }

  size_t word() {
    if (!is_letter(rest_[0])) return 0;
    const size_t length = name_length(rest_);
    token_.kind = TokenKind::identifier;
    token_.text = rest_.substr(0, length);
    return length;
  }

  /// `_` may stand between digits; `0..4` is a range, not a fraction.
  size_t number() {
    const size_t sign = rest_[0] == '-' && is_digit(at(rest_, 1)) ? 1 : 0;
    if (!is_digit(at(rest_, sign))) return 0;
    if (sign == 0 && rest_.starts_with("0x") && hex_digit(at(rest_, 2)) >= 0) return bits();
    size_t i = sign;
    if (sign != 0) token_.text = "-";
    token_.kind = TokenKind::integer;
    i = digits(i);
    if (at(rest_, i) == '.' && is_digit(at(rest_, i + 1))) {
      token_.kind = TokenKind::floating;
      token_.text += '.';
      i = digits(i + 1);
    }
    const size_t exponent_sign = at(rest_, i + 1) == '+' || at(rest_, i + 1) == '-' ? 1 : 0;
    if ((at(rest_, i) == 'e' || at(rest_, i) == 'E') && is_digit(at(rest_, i + 1 + exponent_sign))) {
      token_.kind = TokenKind::floating;
      token_.text += rest_.substr(i, 1 + exponent_sign);
      i = digits(i + 1 + exponent_sign);
    }
    const char* begin = token_.text.data();
    const char* end = begin + token_.text.size();
    const auto result = std::from_chars(begin, end, token_.floating);
    if (result.ec == std::errc::result_out_of_range) lexer_.fail("found `" + token_.text + "`, which no f64 can hold");
    if (token_.kind == TokenKind::integer && std::from_chars(begin, end, token_.integer).ec != std::errc()) {
      token_.kind = TokenKind::floating;  // too large for i64, still a number
      token_.integer = 0;
    }
    return i;
  }

  size_t punctuation() {
    token_.kind = TokenKind::punctuation;
    for (std::string_view candidate : kLongPunctuation) {
      if (!rest_.starts_with(candidate)) continue;
      token_.text = candidate;
      return candidate.size();
    }
    const char c = rest_[0];
    if (kShortPunctuation.find(c) != std::string_view::npos) {
      token_.text = std::string(1, c);
      return 1;
    }
    const bool printable = static_cast<unsigned char>(c) > ' ' && static_cast<unsigned char>(c) < 0x7f;
    lexer_.fail(printable
                    ? "found `" + std::string(1, c) + "`, which starts no token"
                    : "found byte " + hex(static_cast<unsigned char>(c), 2) + ", which starts no token; other characters need quotes");
  }

  /// A quoted text that starts at offset `begin`; returns its end.
  size_t quoted(size_t begin) {
    size_t i = begin + 1;
    while (true) {
      const char character = at(rest_, i);
      if (i >= rest_.size() || character == '\n') lexer_.fail("found the end of the line inside a quoted text, expected `\"`");
      if (character == '"') return i + 1;
      if (character != '\\') {
        token_.text += character;
        ++i;
        continue;
      }
      switch (at(rest_, i + 1)) {
        case '"': token_.text += '"'; break;
        case '\\': token_.text += '\\'; break;
        case 'n': token_.text += '\n'; break;
        case 't': token_.text += '\t'; break;
        case 'r': token_.text += '\r'; break;
        case 'x': {
          const int high = hex_digit(at(rest_, i + 2));
          const int low = hex_digit(at(rest_, i + 3));
          if (high < 0 || low < 0) lexer_.fail("found `\\x` without two hexadecimal digits in a quoted text");
          token_.text += static_cast<char>(high * 16 + low);
          i += 2;
          break;
        }
        default: lexer_.fail("found an unknown escape in a quoted text, expected one of `\\\"` `\\\\` `\\n` `\\t` `\\r` `\\x00`");
      }
      i += 2;
    }
  }

  /// 0x...: the bits of a float.
  size_t bits() {
    size_t i = 2;
    uint64_t value = 0;
    for (; hex_digit(at(rest_, i)) >= 0; ++i) value = value << 4 | static_cast<uint64_t>(hex_digit(rest_[i]));
    token_.text = rest_.substr(0, i);
    if (i > 18) lexer_.fail("found `" + token_.text + "`, expected at most 16 hexadecimal digits");
    token_.kind = TokenKind::integer;
    token_.integer = static_cast<int64_t>(value);
    token_.floating = static_cast<double>(value);
    return i;
  }

  /// Adds the digits from offset `i` on to the token; returns their end.
  size_t digits(size_t i) {
    while (is_digit(at(rest_, i)) || (at(rest_, i) == '_' && is_digit(at(rest_, i + 1)))) {
      if (rest_[i] != '_') token_.text += rest_[i];
      ++i;
    }
    return i;
  }

  const Lexer& lexer_;
  std::string_view rest_;
  Token& token_;
};

}  // namespace

void Lexer::advance() {
  // Columns count characters, not the bytes of UTF-8.
  const auto step = [&](size_t bytes) {
    for (; bytes > 0; --bytes) {
      const char c = text_[position_++];
      if (c == '\n') {
        ++line_;
        column_ = 1;
      } else if ((c & 0xc0) != 0x80) {
        ++column_;
      }
    }
  };
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      step(1);
    } else if (text_.substr(position_).starts_with("//")) {
      const size_t end = text_.find('\n', position_);
      step((end == std::string_view::npos ? text_.size() : end) - position_);
    } else {
      break;
    }
  }
  token_ = Token();
  token_.line = line_;
  token_.column = column_;
  if (position_ < text_.size()) step(TokenReader(*this, text_.substr(position_), token_).read());
}

std::string print_float(double value) {
  if (std::isnan(value)) {
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    if ((bits & 0x7fffffffffffffffull) == 0x7ff8000000000000ull) return std::signbit(value) ? "-nan" : "nan";
    return hex(bits, 16);
  }
  return print_shortest(value);
}

std::string print_float32(float value) {
  if (std::isnan(value)) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffu) == 0x7fc00000u) return std::signbit(value) ? "-nan" : "nan";
    return hex(bits, 8);
  }
  // Readers go through f64. For one f32, 0x15ae43fd, that is seen: its shortest text lies so near the middle between it and the next that
  // the nearest f64 is that middle.
  std::string text = print_shortest(value);
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  return static_cast<float>(read) == value ? text : print_shortest(static_cast<double>(value));
}

std::string print_value_name(std::string_view name) { return print_name('%', name); }
std::string print_global_name(std::string_view name) { return print_name('@', name); }

std::string print_quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    switch (c) {
      case '"': result += "\\\""; break;
      case '\\': result += "\\\\"; break;
      case '\n': result += "\\n"; break;
      case '\t': result += "\\t"; break;
      case '\r': result += "\\r"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          result += "\\x" + hex(static_cast<unsigned char>(c), 2).substr(2);
        } else {
          result += c;
        }
    }
  }
  return result + '"';
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

}  // namespace tcc
