#include "frontend/fx/arguments.h"

#include "tcc/support/text.h"

namespace tcc::fx {

namespace {

// A list is shown up to here.
constexpr size_t kMostElements = 16;

struct Printer {
  const std::function<std::string(const std::string&)>& type_of;

  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return std::to_string(value); }
  std::string operator()(const std::string& text) const { return "'" + text + "'"; }
  std::string operator()(DType dtype) const { return std::string(name_of(dtype)); }
  std::string operator()(const UnknownDType& dtype) const { return dtype.name; }
  std::string operator()(const ValueName& value) const { return "%" + value.name + type_of(value.name); }
  std::string operator()(const SizeExpr& expr) const { return fx::to_string(expr); }
  std::string operator()(const Setting& setting) const { return setting.kind; }
  std::string operator()(const GraphRef&) const { return "{...}"; }
  std::string operator()(const std::vector<Argument>& list) const {
    std::string text = "[";
    for (size_t i = 0; i < list.size() && i <= kMostElements; ++i) {
      text += i > 0 ? ", " : "";
      text += i == kMostElements ? "..." : fx::to_string(list[i], type_of);
    }
    return text + "]";
  }
};

}  // namespace

std::optional<Number> number_in(const Argument& argument) {
  if (const auto* value = argument.as<bool>()) return *value;
  if (const auto* value = argument.as<int64_t>()) return *value;
  if (const auto* value = argument.as<double>()) return *value;
  return std::nullopt;
}

double to_double(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

std::string to_string(const Number& number) {
  if (const auto* value = std::get_if<bool>(&number)) return *value ? "true" : "false";
  if (const auto* value = std::get_if<int64_t>(&number)) return std::to_string(*value);
  return print_float(std::get<double>(number));
}

std::string to_string(const Argument& argument, const std::function<std::string(const std::string& name)>& type_of) {
  return std::visit(Printer{type_of}, argument.value);
}

}  // namespace tcc::fx
