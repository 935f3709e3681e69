// Names of a model, of files and of arrays are anybody's bytes; what tcc says of them goes to terminals and logs.
#pragma once

#include <string>
#include <string_view>

namespace tcc {

/// The text with all that would move a cursor, start a line or turn the order of letters written as escapes: control characters as \n, \r, \t,
/// \x1b; bytes that are not UTF-8 as \xff; line separators, marks of writing direction and other invisible ones as \u202e. So what stands in
/// a message can't pass for another one. All else is kept, letters of every language among it.
std::string printable(std::string_view text);

/// The same for a text of several lines: newlines and tabs are kept.
std::string printable_lines(std::string_view text);

/// The text with bytes that are not UTF-8 replaced by U+FFFD, for formats that demand UTF-8.
std::string valid_utf8(std::string_view text);

}  // namespace tcc
