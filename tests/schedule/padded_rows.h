// Units whose parameters have padding behind their rows, made from those without.
#pragma once

#include <regex>
#include <string>
#include <vector>

#include "tcc/loop/loop.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::examples {

/// The unit with rows of all parameters that begin at multiples of 16 bytes, and have some padding: 24 bytes or less.
inline std::string with_padded_rows(const std::string& text) {
  const size_t body = text.find('{');
  const std::string head = text.substr(0, body);
  static const std::regex parameter(R"((%\w+: )(\w+)\[([0-9, ]+)\])");
  std::string result;
  size_t done = 0;
  for (std::sregex_iterator at(head.begin(), head.end(), parameter), end; at != end; ++at) {
    const std::smatch& match = *at;
    std::vector<int64_t> extents;
    const std::string list = match[3];
    for (size_t i = 0; i < list.size(); i = list.find(',', i) == std::string::npos ? list.size() : list.find(',', i) + 2)
      extents.push_back(std::stoll(list.substr(i)));
    const DType dtype = *parse_dtype(match[2].str());
    result += head.substr(done, static_cast<size_t>(match.position()) - done) + match.str();
    done = static_cast<size_t>(match.position() + match.length());
    if (extents.size() < 2 || size_bits(dtype) < 8) continue;
    extents.back() = align_up(extents.back() + 1, std::max<int64_t>(16 / size_bytes(dtype), 1));
    std::string strides;
    for (const int64_t stride : row_major_strides(extents)) strides += (strides.empty() ? "" : ", ") + std::to_string(stride);
    result += " strides(" + strides + ")";
  }
  return result + head.substr(done) + text.substr(body);
}

}  // namespace tcc::schedule::examples
