#include "frontend/fx/signature.h"

#include <charconv>
#include <limits>

#include "tcc/support/diagnostics.h"
#include "tcc/support/text.h"

namespace tcc::fx {

namespace {

/// The parts between commas that stand in no brackets.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    if (const std::string_view part = trimmed(text.substr(begin, i - begin)); !part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

Argument parse_default(std::string_view text) {
  if (text == "None") return {};
  if (text == "True" || text == "False") return {text == "True"};
  if (text == "inf") return {std::numeric_limits<double>::infinity()};
  if (text.starts_with('\'')) return {std::string(text.substr(1, text.size() - 2))};
  if (text.starts_with('[')) {
    std::vector<Argument> elements;
    for (const std::string_view part : parts_of(text.substr(1, text.size() - 2))) elements.push_back(parse_default(part));
    return {std::move(elements)};
  }
  const char* end = text.data() + text.size();
  int64_t integer = 0;
  if (const auto [rest, error] = std::from_chars(text.data(), end, integer); error == std::errc() && rest == end) return {integer};
  double number = 0;
  if (const auto [rest, error] = std::from_chars(text.data(), end, number); error == std::errc() && rest == end) return {number};
  internal_error("`" + std::string(text) + "` is not a default of a signature");
}

}  // namespace

Signature parse_signature(std::string_view text) {
  const size_t open = text.find('(');
  check(open != std::string_view::npos && text.ends_with(')'), "a signature has no parentheses");
  Signature signature{std::string(text.substr(0, open)), {}};
  for (const std::string_view part : parts_of(text.substr(open + 1, text.size() - open - 2))) {
    const size_t equals = part.find('=');
    Parameter parameter{std::string(part.substr(0, equals)), std::nullopt};
    if (equals != std::string_view::npos) parameter.otherwise = parse_default(part.substr(equals + 1));
    signature.parameters.push_back(std::move(parameter));
  }
  return signature;
}

}  // namespace tcc::fx
