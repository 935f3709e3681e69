// Mutated texts of graphs, prims, loops and kernels.

#include <cctype>
#include <cstddef>

#include "fuzz/case.h"
#include "fuzz/seeds.h"

namespace tcc::attack {
namespace {

std::vector<std::string> tokens_of(const std::string& text) {
  std::vector<std::string> tokens;
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '%' || c == '@';
  };
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (is_word(text[at])) {
      while (end < text.size() && is_word(text[end])) ++end;
    }
    tokens.push_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

bool is_number(const std::string& token) { return std::isdigit(static_cast<unsigned char>(token[0])) != 0; }

/// Brackets and words in each other, thousands deep.
std::string nested(Random& random) {
  static const std::vector<std::string> openings = {"(", "[",      "{",       "add(", "neg(", "region () {\n", "map %i in 2 {\n",
                                                    "-", "index(", "select(", "if "};
  std::string text;
  const std::string& opening = random.pick(openings);
  for (size_t i = 0, count = 1 + random.below(30'000); i < count; ++i) text += opening;
  return text;
}

std::string mutate_text(Random& random, const std::string& text) {
  if (random.chance(6)) return mutate_bytes(random, text);
  std::vector<std::string> tokens = tokens_of(text);
  const size_t times = 1 + random.below(3);
  for (size_t i = 0; i < times && !tokens.empty(); ++i) {
    size_t at = random.below(tokens.size());
    for (int tries = 0; tries < 20 && tokens[at] == " "; ++tries) at = random.below(tokens.size());
    const auto begin = tokens.begin() + static_cast<ptrdiff_t>(at);
    switch (random.below(9)) {
      case 0: tokens.erase(begin); break;
      case 1: tokens.insert(begin, random.pick(tokens)); break;
      case 2: std::swap(tokens[at], tokens[random.below(tokens.size())]); break;
      case 3: tokens[at] = random.pick(tokens); break;
      case 4: {
        // A range again, elsewhere: whole statements among others.
        const size_t length = std::min(tokens.size() - at, 1 + random.below(60));
        const std::vector<std::string> range(begin, begin + static_cast<ptrdiff_t>(length));
        tokens.insert(tokens.begin() + static_cast<ptrdiff_t>(random.below(tokens.size() + 1)), range.begin(), range.end());
        break;
      }
      case 5:
        if (random.chance(10)) tokens.insert(begin, nested(random));
        else tokens.erase(begin, begin + static_cast<ptrdiff_t>(std::min(tokens.size() - at, 1 + random.below(20))));
        break;
      default:
        for (int tries = 0; tries < 200 && !is_number(tokens[at]); ++tries) at = random.below(tokens.size());
        tokens[at] = std::to_string(random.hostile_number());
    }
  }
  std::string result;
  for (const std::string& token : tokens) result += token;
  return result;
}

}  // namespace

void attack_text(Case& target, Random& random, const Seeds& seeds) {
  const Text& seed = random.pick(seeds.texts);
  if (!seed.weights_name.empty()) target.write(seed.weights_name, seed.weights);
  target.write("t.text", mutate_text(random, seed.text));
  std::vector<std::string> command = {"--from=" + seed.form, "t.text", "-j", "1", "-q"};
  const bool cuda = seed.target == "cuda" || (seed.target.empty() && random.chance(2));
  if (seed.form != "kernel") command.push_back(cuda ? "--target=cuda" : "--target=cpu");
  if (random.chance(4)) command.emplace_back("--verify-passes");
  if (cuda) {
    command.emplace_back("--emit=ptx=t.ptx");
    target.tcc(command, {0, 1, 2, 5}, {"t.ptx"});
    return;
  }
  command.insert(command.end(), {"-o", "t.so"});
  if (target.tcc(command, {0, 1, 2, 5}, {"t.so"}).exit_code == 0)
    target.tcc({"run", "t.so", "--random", "--device=cpu", "--threads=1"}, {0, 2, 5}, {}, true);
}

}  // namespace tcc::attack
