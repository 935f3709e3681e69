#include "frontend/onnx/external_data.h"

#include <charconv>

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"

namespace tcc::onnx {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw RuleError{"external-data", message}; }

int64_t number(const std::string& key, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    refuse("external data: `" + key + "` is `" + text + "`, a decimal number was expected");
  }
  return value;
}

struct Place {
  std::string location;
  int64_t offset = 0, length = -1;  // bytes; -1: not said
};

Place place_of(const pb::TensorProto& proto) {
  Place place;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") place.location = entry.value();
    if (entry.key() == "offset") place.offset = number("offset", entry.value());
    if (entry.key() == "length") place.length = number("length", entry.value());
  }
  if (place.location.empty()) refuse("external data: `location` is missing");
  return place;
}

}  // namespace

FilePart external_bytes(const pb::TensorProto& proto, BesideFiles& files, int64_t expected) {
  const Place place = place_of(proto);
  try {
    files.open(place.location);
    if (place.length >= 0 && place.length != expected) {
      throw RuleError{"malformed-file",
                      "`length` is " + std::to_string(place.length) + ", its type and shape need " + std::to_string(expected) + " bytes"};
    }
    return files.read(place.location, place.offset, expected);
  } catch (const RuleError& error) { throw RuleError{error.kind, "external data: " + error.message}; }
}

}  // namespace tcc::onnx
