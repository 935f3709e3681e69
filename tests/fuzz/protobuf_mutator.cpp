#include "fuzz/protobuf_mutator.h"

#include <cstddef>
#include <optional>

namespace tcc::attack {
namespace {

constexpr int kMaxDepth = 12;

struct Field {
  uint32_t number = 0;
  uint32_t wire = 0;  ///< 0: varint, 1: 8 bytes, 2: bytes or a message, 5: 4 bytes
  uint64_t value = 0;
  std::string bytes;
  std::vector<Field> children;  ///< where the bytes read as a message
};

bool read_varint(const std::string& text, size_t& at, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && at < text.size(); shift += 7) {
    const auto byte = static_cast<uint8_t>(text[at++]);
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

std::optional<std::vector<Field>> parse(const std::string& text, int depth) {
  std::vector<Field> fields;
  for (size_t at = 0; at < text.size();) {
    Field field;
    uint64_t key;
    if (!read_varint(text, at, key) || key >> 3 == 0 || key >> 3 > 1000) return std::nullopt;
    field.number = static_cast<uint32_t>(key >> 3);
    field.wire = key & 7;
    if (field.wire == 0) {
      if (!read_varint(text, at, field.value)) return std::nullopt;
    } else {
      uint64_t length = field.wire == 1 ? 8 : 4;
      if (field.wire == 2 && !read_varint(text, at, length)) return std::nullopt;
      if (field.wire != 1 && field.wire != 2 && field.wire != 5) return std::nullopt;
      if (length > text.size() - at) return std::nullopt;
      field.bytes = text.substr(at, length);
      at += length;
      // A short string may read as a message; then it is changed as one, which does no harm.
      if (field.wire == 2 && length > 1 && depth < kMaxDepth) field.children = parse(field.bytes, depth + 1).value_or(std::vector<Field>());
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

void append_varint(std::string& text, uint64_t value) {
  for (; value > 127; value >>= 7) text += static_cast<char>(128 | (value & 127));
  text += static_cast<char>(value);
}

std::string serialize(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) {
    append_varint(text, static_cast<uint64_t>(field.number) << 3 | field.wire);
    if (field.wire == 0) {
      append_varint(text, field.value);
      continue;
    }
    const std::string bytes = field.children.empty() ? field.bytes : serialize(field.children);
    if (field.wire == 2) append_varint(text, bytes.size());
    text += bytes;
  }
  return text;
}

/// Every list of fields in the message, the deep ones too.
void collect(std::vector<Field>& fields, std::vector<std::vector<Field>*>& lists) {
  if (fields.empty()) return;
  lists.push_back(&fields);
  for (Field& field : fields) collect(field.children, lists);
}

void change_value(Random& random, Field& field, const std::vector<std::vector<Field>*>& donors) {
  if (field.wire == 0) {
    field.value = random.chance(3) ? field.value ^ (uint64_t{1} << random.below(64)) : static_cast<uint64_t>(random.hostile_number());
    return;
  }
  if (field.wire != 2 || random.chance(3)) {
    field.bytes = mutate_bytes(random, field.children.empty() ? field.bytes : serialize(field.children));
    field.children.clear();
    return;
  }
  // The bytes of another field, of the same number where one is found: a name for a name, a shape for a shape.
  for (int i = 0; i < 30; ++i) {
    const Field& other = random.pick(*random.pick(donors));
    if (other.wire == 2 && (other.number == field.number || i > 20)) {
      field.bytes = other.bytes;
      field.children = other.children;
      return;
    }
  }
}

}  // namespace

std::string mutate_protobuf(Random& random, const std::string& message, const std::vector<std::string>& others) {
  std::optional<std::vector<Field>> fields = parse(message, 0), donor = parse(random.pick(others), 0);
  if (!fields || !donor) return mutate_bytes(random, message);
  std::vector<std::vector<Field>*> donors;
  collect(*donor, donors);
  const size_t times = 1 + random.below(3);
  for (size_t i = 0; i < times; ++i) {
    std::vector<std::vector<Field>*> lists;
    collect(*fields, lists);
    if (lists.empty()) break;
    std::vector<Field>& list = *random.pick(lists);
    const size_t at = random.below(list.size());
    std::vector<std::vector<Field>*> both = lists;
    both.insert(both.end(), donors.begin(), donors.end());
    switch (random.below(8)) {
      case 0: list.erase(list.begin() + static_cast<ptrdiff_t>(at)); break;
      case 1: {
        const Field copy = list[at];
        list.insert(list.begin() + static_cast<ptrdiff_t>(random.below(list.size() + 1)), random.chance(4) ? 100 : 1, copy);
        break;
      }
      case 2: std::swap(list[at], list[random.below(list.size())]); break;
      case 3: list[at].number = static_cast<uint32_t>(1 + random.below(30)); break;
      case 4: {
        const Field copy = random.pick(*random.pick(donors));
        list.push_back(copy);
        break;
      }
      default: change_value(random, list[at], both); break;
    }
  }
  return serialize(*fields);
}

}  // namespace tcc::attack
