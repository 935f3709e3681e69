// The optimal string alignment distance (Damerau-Levenshtein without moves between swapped letters), as compilers use it for misspelt names.
#include "tcc/support/suggest.h"

#include <algorithm>

namespace tcc {

namespace {

// A list of more candidates than these is shown in part when it is clear what was meant.
constexpr size_t kLongList = 12;
// Words longer than this are compared no further: no name that people type is.
constexpr size_t kLongestWord = 200;

char folded(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == '_' ? '-' : c; }

size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = folded(a[i - 1]) == folded(b[j - 1]);
      row[j] = std::min({row[j - 1] + 1, last[j] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) && folded(a[i - 2]) == folded(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  if (word.empty() || word.size() > kLongestWord) return "";
  const std::string* best = nullptr;
  size_t least = (word.size() + 2) / 3 + 1;
  for (const std::string& candidate : candidates) {
    if (candidate == word) return "";
    if (candidate.size() > kLongestWord) continue;
    const size_t differs = distance(word, candidate);
    // A word of which nothing is left is not the same word misspelt.
    if (differs >= least || differs >= std::max(word.size(), candidate.size())) continue;
    best = &candidate;
    least = differs;
  }
  return best == nullptr ? "" : *best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string found = nearest(word, candidates);
  return found.empty() ? "" : "did you mean `" + found + "`?";
}

std::string suggest(std::string_view word, std::string_view what, std::span<const std::string> candidates) {
  const std::string meant = did_you_mean(word, candidates);
  if (candidates.empty() || (!meant.empty() && candidates.size() > kLongList)) return meant;
  std::string list;
  for (const std::string& candidate : candidates) list += (list.empty() ? "`" : ", `") + candidate + "`";
  return (meant.empty() ? "" : meant + " ") + std::string(what) + " are " + list;
}

}  // namespace tcc
