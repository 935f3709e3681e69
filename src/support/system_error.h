// The system's words for an error number, in the lower case of our messages.
#pragma once

#include <cctype>
#include <cstring>
#include <string>

namespace tcc {

inline std::string describe_error(int error) {
  std::string text = std::strerror(error);
  // Not an abbreviation such as "RPC: ...".
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1]))) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

}  // namespace tcc
