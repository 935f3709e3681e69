#include "tcc/support/printable.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace tcc {

namespace {

struct Character {
  uint32_t code = 0;
  size_t num_bytes = 0;  ///< 0: the bytes are not UTF-8
};

/// The first character of a text that is not empty, as RFC 3629 has it: the shortest form, no surrogates, up to U+10FFFF.
Character first_of(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t num_bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < num_bytes) return {};
  uint32_t code = lead & (0x7fU >> num_bytes);
  for (size_t i = 1; i < num_bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[num_bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, num_bytes};
}

/// Characters that show nothing themselves but change where or how others appear (Unicode: Cc, Zl, Zp, and those of Cf and the blanks that
/// hide or reorder).
bool is_hidden(uint32_t code) {
  constexpr std::array<std::pair<uint32_t, uint32_t>, 10> kRanges = {{{0x00, 0x1f},
                                                                      {0x7f, 0x9f},
                                                                      {0xad, 0xad},
                                                                      {0x61c, 0x61c},
                                                                      {0x200b, 0x200f},
                                                                      {0x2028, 0x202e},
                                                                      {0x2060, 0x206f},
                                                                      {0xfeff, 0xfeff},
                                                                      {0xfff9, 0xfffb},
                                                                      {0xe0000, 0xe007f}}};
  return std::any_of(kRanges.begin(), kRanges.end(), [&](const auto& range) { return code >= range.first && code <= range.second; });
}

std::string escape(uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  char text[16];
  std::snprintf(text, sizeof text, code < 0x80 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", code);
  return text;
}

std::string escaped(std::string_view text, bool lines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_of(text);
    const size_t num_bytes = std::max<size_t>(character.num_bytes, 1);
    const bool kept = lines && (character.code == '\n' || character.code == '\t');
    if (character.num_bytes == 0) {
      char byte[8];
      std::snprintf(byte, sizeof byte, "\\x%02x", static_cast<uint8_t>(text[0]));
      result += byte;
    } else if (is_hidden(character.code) && !kept) {
      result += escape(character.code);
    } else {
      result += text.substr(0, num_bytes);
    }
    text.remove_prefix(num_bytes);
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, false); }

std::string printable_lines(std::string_view text) { return escaped(text, true); }

std::string valid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Character character = first_of(text);
    const size_t num_bytes = std::max<size_t>(character.num_bytes, 1);
    if (character.num_bytes == 0) result += "\xef\xbf\xbd";
    else result += text.substr(0, num_bytes);
    text.remove_prefix(num_bytes);
  }
  return result;
}

}  // namespace tcc
