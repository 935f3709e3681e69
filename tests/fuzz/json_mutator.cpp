#include "fuzz/json_mutator.h"

namespace tcc::attack {

namespace {

using Json = nlohmann::json;

/// A place somewhere in the tree.
Json& place_in(Random& random, Json& json) {
  Json* place = &json;
  while (place->is_structured() && !place->empty() && !random.chance(9)) {
    auto child = place->begin();
    std::advance(child, static_cast<ptrdiff_t>(random.below(place->size())));
    place = &*child;
  }
  return *place;
}

Json nested(Random& random) {
  Json json = random.chance(2) ? Json::array() : Json::object();
  for (size_t i = 0, depth = 1 + random.below(random.chance(3) ? 3000 : 30); i < depth; ++i) {
    Json outer;
    if (random.chance(2)) outer.push_back(std::move(json));
    else outer[random.chance(2) ? "meta" : "v"] = std::move(json);
    json = std::move(outer);
  }
  return json;
}

std::string expression(Random& random) {
  static const std::vector<std::string> parts = {
      "s0", "s33", "s50", "1",  "0",  "-1", "9223372036854775807", "(", ")", "+", "-", "*", "//", "%", "min(", "max(", ",",
      "'",  "and", "not", "<=", "==", "n"};
  std::string text;
  for (size_t i = 0, count = 1 + random.below(random.chance(20) ? 5000 : 8); i < count; ++i)
    text += random.pick(parts) + (random.chance(2) ? " " : "");
  return text;
}

int64_t number(Random& random) {
  if (random.chance(2)) return static_cast<int64_t>(random.below(20)) - 8;
  const int64_t power = static_cast<int64_t>(uint64_t{1} << random.below(64));
  return random.chance(2) ? power : static_cast<int64_t>(static_cast<uint64_t>(power) - 1);
}

void change(Random& random, Json& json) {
  Json& place = place_in(random, json);
  switch (random.below(10)) {
    case 0: place = nullptr; break;
    case 1: place = number(random); break;
    case 2: place = expression(random); break;
    case 3: place = Json(place_in(random, json)); break;
    case 4: place = nested(random); break;
    case 5: place = random.chance(2) ? Json(1e308) : Json(random.chance(2)); break;
    case 6:  // removed
      if (place.is_array() && !place.empty()) place.erase(place.begin() + static_cast<ptrdiff_t>(random.below(place.size())));
      else if (place.is_object() && !place.empty())
        place.erase(std::next(place.begin(), static_cast<ptrdiff_t>(random.below(place.size()))));
      break;
    case 7:  // again
      if (place.is_array() && !place.empty()) place.push_back(Json(place[random.below(place.size())]));
      else if (place.is_object()) place["more"] = Json(place_in(random, json));
      break;
    case 8:  // swapped
      if (place.is_array() && place.size() > 1) std::swap(place[random.below(place.size())], place[random.below(place.size())]);
      else place = Json(place_in(random, json));
      break;
    default:  // another key
      if (place.is_object() && !place.empty()) {
        const auto entry = std::next(place.begin(), static_cast<ptrdiff_t>(random.below(place.size())));
        const Json value = entry.value();
        place.erase(entry);
        place[expression(random)] = value;
      }
  }
}

}  // namespace

Json mutate_json(Random& random, Json json) {
  for (size_t i = 0, count = 1 + random.below(3); i < count; ++i) change(random, json);
  return json;
}

}  // namespace tcc::attack
