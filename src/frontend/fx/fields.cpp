#include "frontend/fx/fields.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "frontend/fx/read_program.h"
#include "tcc/support/diagnostics.h"

namespace tcc::fx {

using Json = nlohmann::json;

void malformed(const std::string& place, const std::string& message) { throw Error(ExitCode::model, "malformed-file", place, message); }

void unsupported(const std::string& kind, const std::string& place, const std::string& message) {
  Diagnostics diagnostics;
  diagnostics.not_supported(kind, place, message);
  diagnostics.checkpoint(ExitCode::model);
  internal_error("a refusal was not thrown");
}

Json parse_strict_json(std::string_view text, const std::string& where) {
  // The library keeps the last of equal keys, so they are looked for while it reads.
  std::vector<std::set<std::string>> keys;
  std::string twice;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second && twice.empty())
      twice = parsed.get<std::string>();
    return true;
  };
  Json json = parse_json(text, where, watch);
  if (!twice.empty()) malformed(where, "the key `" + twice + "` stands twice in one object");
  return json;
}

Fields::Fields(const Json& json, std::string place, std::initializer_list<std::string_view> known) : json_(json), place_(std::move(place)) {
  if (!json.is_object()) fail("an object was expected, found is " + std::string(json.type_name()));
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string list;
    for (const std::string_view name : known) list += (list.empty() ? "`" : ", `") + std::string(name) + "`";
    fail("the key `" + key + "` is not one of " + list);
  }
}

const Json* Fields::find(std::string_view key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::at(std::string_view key) const {
  const auto found = json_.find(key);
  if (found == json_.end()) fail("`" + std::string(key) + "` is missing");
  return *found;
}

std::string Fields::text(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_string()) fail("`" + std::string(key) + "` is " + std::string(value.type_name()) + ", a text was expected");
  if (value.get_ref<const std::string&>().empty()) fail("`" + std::string(key) + "` is empty");
  return value.get<std::string>();
}

std::string Fields::maybe_text(std::string_view key) const { return has(key) ? text(key) : ""; }

int64_t Fields::integer(std::string_view key) const {
  const Json& value = at(key);
  const auto number = integer_in(value);
  if (!number) fail("`" + std::string(key) + "` is " + std::string(value.type_name()) + ", an integer of 64 bits was expected");
  return *number;
}

std::optional<int64_t> Fields::maybe_integer(std::string_view key) const { return has(key) ? std::optional(integer(key)) : std::nullopt; }

int64_t Fields::natural(std::string_view key) const {
  const int64_t number = integer(key);
  if (number < 0) fail("`" + std::string(key) + "` is " + std::to_string(number) + ", 0 or more was expected");
  return number;
}

const Json& Fields::list(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_array()) fail("`" + std::string(key) + "` is " + std::string(value.type_name()) + ", a list was expected");
  return value;
}

const Json& Fields::object(std::string_view key) const {
  const Json& value = at(key);
  if (!value.is_object()) fail("`" + std::string(key) + "` is " + std::string(value.type_name()) + ", an object was expected");
  return value;
}

std::optional<int64_t> integer_in(const Json& json) {
  if (!json.is_number_integer()) return std::nullopt;
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return json.get<int64_t>();
}

}  // namespace tcc::fx
