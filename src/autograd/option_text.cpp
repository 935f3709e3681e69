// "name:key=value,key=value" as --loss and --optimizer have it.

#include "autograd/option_text.h"

#include <charconv>

#include "tcc/support/diagnostics.h"

namespace tcc::autograd {

OptionText::OptionText(std::string_view flag, std::string_view text) : flag_(flag), text_(text) {
  const size_t colon = text.find(':');
  name_ = text.substr(0, colon);
  if (colon != std::string_view::npos) rest_ = text.substr(colon + 1);
}

std::vector<OptionText::Item> OptionText::items() const {
  std::vector<Item> result;
  std::string_view rest = rest_;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const size_t equals = item.find('=');
    result.push_back({item.substr(0, equals), equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1)});
  }
  return result;
}

void OptionText::refuse(const std::string& message) const {
  throw Error(ExitCode::usage, "invalid-argument", "", "--" + std::string(flag_) + "=" + std::string(text_) + ": " + message);
}

double OptionText::number(std::string_view value) const {
  double result = 0;
  const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (fault != std::errc() || end != value.data() + value.size()) refuse("`" + std::string(value) + "` is not a number");
  return result;
}

int64_t OptionText::integer(std::string_view value) const {
  int64_t result = 0;
  const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (fault != std::errc() || end != value.data() + value.size()) refuse("`" + std::string(value) + "` is not an integer");
  return result;
}

bool OptionText::truth(std::string_view value) const {
  if (value != "true" && value != "false") refuse("`" + std::string(value) + "` is neither true nor false");
  return value == "true";
}

}  // namespace tcc::autograd
