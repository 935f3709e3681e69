// Schedules as text: `split(i, 4) bind(i_0, parallel) tile(s, i_1, j_1, space=registers)`.
#include <algorithm>

#include "tcc/schedule/schedule.h"
#include "tcc/support/text.h"

namespace tcc::schedule {

std::string print(const Schedule& schedule) {
  std::string text;
  for (const Primitive& primitive : schedule) {
    if (!text.empty()) text += ' ';
    text += primitive.name + '(';
    for (size_t i = 0; i < primitive.arguments.size(); i++) {
      const Argument& argument = primitive.arguments[i];
      if (i > 0) text += ", ";
      if (!argument.key.empty()) text += argument.key + '=';
      const auto* word = std::get_if<std::string>(&argument.value);
      text += word ? *word : std::to_string(std::get<int64_t>(argument.value));
    }
    text += ')';
  }
  return text;
}

std::string explain(const Schedule& schedule) {
  std::string text;
  for (const Primitive& primitive : schedule) {
    for (size_t at = 0; at < primitive.why.size();) {
      const size_t end = std::min(primitive.why.find('\n', at), primitive.why.size());
      text += "// " + primitive.why.substr(at, end - at) + "\n";
      at = end + 1;
    }
  }
  return text;
}

namespace {

std::variant<std::string, int64_t> parse_value(Lexer& lexer) {
  if (lexer.peek().kind == TokenKind::integer) return lexer.expect_integer();
  return lexer.expect_identifier();
}

}  // namespace

Schedule parse_schedule(std::string_view text, const std::string& file) {
  Lexer lexer(text, file);
  Schedule schedule;
  while (lexer.peek().kind != TokenKind::end) {
    Primitive primitive;
    primitive.name = lexer.expect_identifier();
    lexer.expect("(");
    while (!lexer.accept(")")) {
      if (!primitive.arguments.empty()) lexer.expect(",");
      Argument argument;
      argument.value = parse_value(lexer);
      if (lexer.accept("=")) {
        const auto* key = std::get_if<std::string>(&argument.value);
        if (!key) lexer.fail("an argument's key is a word, not a number");
        argument.key = *key;
        argument.value = parse_value(lexer);
      }
      primitive.arguments.push_back(std::move(argument));
    }
    schedule.push_back(std::move(primitive));
  }
  return schedule;
}

}  // namespace tcc::schedule
