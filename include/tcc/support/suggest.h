// What somebody meant who wrote a word that doesn't exist: a flag, a verb, a pass, a primitive, an op, an input.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc {

/// The candidate that differs least from `word`: by insertions, deletions, replacements and swaps of neighbours, upper and lower case being
/// the same, `-` and `_` too. Empty when none is near (up to a third of the word's letters may differ) or when the word is one of them.
/// The first of several that are equally near.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "did you mean `split`?", or "" when none is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// The usual help line for a word that is none of a list: "did you mean `split`? primitives are `bind`, `split`, `tile`". `what` is the plural
/// that the list is introduced with. A long list is cut where a nearest word is known.
std::string suggest(std::string_view word, std::string_view what, std::span<const std::string> candidates);

}  // namespace tcc
