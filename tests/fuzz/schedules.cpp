// Mutated schedules: lists of primitives that were chosen for a unit, changed, applied by --pass.

#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdlib>

#include "fuzz/case.h"
#include "fuzz/seeds.h"

namespace tcc::attack {
namespace {

/// A name or number of the primitive, changed.
std::string mutate_primitive(Random& random, const std::string& primitive, const std::vector<std::string>& others) {
  static const std::vector<std::string> binds = {"block",  "warp",   "lane",   "thread",    "parallel",
                                                 "vector", "unroll", "serial", "registers", "shared"};
  std::vector<std::pair<size_t, size_t>> words;
  for (size_t at = 0; at < primitive.size();) {
    size_t end = at;
    while (end < primitive.size() && (std::isalnum(static_cast<unsigned char>(primitive[end])) != 0 || primitive[end] == '_')) ++end;
    if (end > at) words.emplace_back(at, end - at);
    at = end + 1;
  }
  if (words.empty()) return primitive;
  const auto [at, length] = random.pick(words);
  const bool number = std::isdigit(static_cast<unsigned char>(primitive[at])) != 0;
  std::string word;
  if (number) word = std::to_string(random.hostile_number());
  else if (random.chance(3)) word = random.pick(binds);
  else if (random.chance(2)) word = primitive.substr(at, length) + (random.chance(2) ? "_0" : "_1");
  else word = std::string(1, "ijkvz"[random.below(5)]) + (random.chance(2) ? "" : std::to_string(random.below(4)));
  if (at == 0 && random.chance(2)) {
    const std::string& other = random.pick(others);
    word = other.substr(0, other.find('('));
  }
  return primitive.substr(0, at) + word + primitive.substr(at + length);
}

}  // namespace

void attack_schedule(Case& target, Random& random, const Seeds& seeds) {
  const Scheduled& seed = random.pick(seeds.schedules);
  std::vector<std::string> primitives = seed.primitives;
  std::vector<std::string> all = primitives;
  const Scheduled& other = random.pick(seeds.schedules);
  all.insert(all.end(), other.primitives.begin(), other.primitives.end());
  if (all.empty()) all = {"split(i, 4)", "bind(i, parallel)"};
  const size_t times = 1 + random.below(3);
  for (size_t i = 0; i < times; ++i) {
    const size_t at = primitives.empty() ? 0 : random.below(primitives.size());
    switch (primitives.empty() ? 1 : random.below(6)) {
      case 0: primitives.erase(primitives.begin() + static_cast<ptrdiff_t>(at)); break;
      case 1: primitives.insert(primitives.begin() + static_cast<ptrdiff_t>(at), random.pick(all)); break;
      case 2: std::swap(primitives[at], primitives[random.below(primitives.size())]); break;
      default: primitives[at] = mutate_primitive(random, primitives[at], all);
    }
  }
  target.write("u.loop", seed.unit);
  std::vector<std::string> command = {"--from=loop", "u.loop", "--target=" + seed.target, "-j", "1", "-q"};
  for (const std::string& primitive : primitives) command.push_back("--pass=" + primitive);
  if (seed.target == "cuda") {
    command.emplace_back("--emit=ptx=u.ptx");
    target.tcc(command, {0, 1, 2, 5}, {"u.ptx"});
    return;
  }
  command.insert(command.end(), {"-o", "u.so"});
  if (target.tcc(command, {0, 1, 2, 5}, {"u.so"}).exit_code != 0) return;
  // What it computes must not depend on the schedule. Values are random, so that sums may differ by rounding.
  if (target.tcc({"--from=loop", "u.loop", "--target=cpu", "-q", "-o", "plain.so"}, {0}, {"plain.so"}).exit_code != 0) return;
  const Outcome scheduled = target.tcc({"run", "u.so", "--random", "--device=cpu", "--threads=1", "--json"}, {0, 2, 5}, {}, true);
  const Outcome plain = target.tcc({"run", "plain.so", "--random", "--device=cpu", "--threads=1", "--json"}, {0, 2, 5}, {}, true);
  const auto mean_of = [](const Outcome& outcome) {
    const size_t at = outcome.output.find("\"mean\":");
    return at == std::string::npos ? 0.0 : std::strtod(outcome.output.c_str() + at + 7, nullptr);
  };
  const double a = mean_of(scheduled), b = mean_of(plain);
  if (scheduled.exit_code == 0 && plain.exit_code == 0 && std::abs(a - b) > 1e-2 * (1 + std::abs(b)))
    target.fail("the mean of its first result is " + std::to_string(a) + ", without the schedule " + std::to_string(b));
}

}  // namespace tcc::attack
