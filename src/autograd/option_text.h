// "name:key=value,key=value" as --loss and --optimizer have it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::autograd {

/// Errors: usage, "invalid-argument", beginning with `--flag=text: `.
class OptionText {
 public:
  OptionText(std::string_view flag, std::string_view text);

  std::string_view name() const { return name_; }
  std::string_view rest() const { return rest_; }  ///< all after the first ':'
  struct Item {
    std::string_view key, value;
  };
  std::vector<Item> items() const;

  [[noreturn]] void refuse(const std::string& message) const;
  double number(std::string_view value) const;
  int64_t integer(std::string_view value) const;
  bool truth(std::string_view value) const;

 private:
  std::string_view flag_, text_, name_, rest_;
};

}  // namespace tcc::autograd
