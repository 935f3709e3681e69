// Text that many hold: the name of a node of the model is in every node that it became, in every copy of the graph.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace tcc {

/// A string that is never changed in place. Copies share it.
class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text)
      : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}  // NOLINT: it is text
  SharedText(std::string_view text) : SharedText(std::string(text)) {}                           // NOLINT
  SharedText(const char* text) : SharedText(std::string(text)) {}                                // NOLINT

  const std::string& str() const {
    static const std::string empty;
    return text_ ? *text_ : empty;
  }
  operator const std::string&() const { return str(); }  // NOLINT: wherever a string is read
  bool empty() const { return text_ == nullptr; }
  bool operator==(const SharedText& other) const { return text_ == other.text_ || str() == other.str(); }
  bool operator==(const std::string& other) const { return str() == other; }
  bool operator==(const char* other) const { return str() == other; }
  friend std::ostream& operator<<(std::ostream& out, const SharedText& text) { return out << text.str(); }

 private:
  std::shared_ptr<const std::string> text_;  ///< null: empty
};

}  // namespace tcc
