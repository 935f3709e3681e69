// JSON objects read strictly: what is asked for must be there, and nothing else may be.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tcc::fx {

/// Throws Error (exit code model): malformed-file at `place`.
[[noreturn]] void malformed(const std::string& place, const std::string& message);
/// Throws Error (exit code model): not supported yet.
[[noreturn]] void unsupported(const std::string& kind, const std::string& place, const std::string& message);

/// Parses JSON; a key that stands twice in an object is an error as well. `where` names the file.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where);

/// The fields of an object that isn't copied.
class Fields {
 public:
  /// Refuses what is no object and keys that are not among `known`. `place` is where messages say it is: "dump.json:g0/relu".
  Fields(const nlohmann::json& json, std::string place, std::initializer_list<std::string_view> known);

  const std::string& place() const { return place_; }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  const nlohmann::json* find(std::string_view key) const;  ///< nullptr when missing or null
  const nlohmann::json& at(std::string_view key) const;    ///< must be there; may be null
  std::string text(std::string_view key) const;            ///< not empty
  std::string maybe_text(std::string_view key) const;      ///< empty when missing
  int64_t integer(std::string_view key) const;
  std::optional<int64_t> maybe_integer(std::string_view key) const;
  int64_t natural(std::string_view key) const;  ///< 0 or more
  const nlohmann::json& list(std::string_view key) const;
  const nlohmann::json& object(std::string_view key) const;
  [[noreturn]] void fail(const std::string& message) const { malformed(place_, message); }

 private:
  const nlohmann::json& json_;
  std::string place_;
};

/// The number, when it is an integer of 64 bits.
std::optional<int64_t> integer_in(const nlohmann::json& json);

}  // namespace tcc::fx
