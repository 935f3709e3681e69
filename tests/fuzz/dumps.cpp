// Mutated dumps: captured graphs as tcc.fx JSON, as the dumper writes them (models/fx) and as --emit=fx does.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz/case.h"
#include "fuzz/json_mutator.h"

namespace tcc::attack {
namespace {

namespace fs = std::filesystem;

struct Dump {
  std::string text, sizes;  ///< sizes: of --bind, empty where there are none
  std::string weights_name, weights;
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::vector<Dump>& dumps() {
  static const std::vector<Dump> list = [] {
    std::vector<Dump> result;
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(TCC_SOURCE_DIR "/models/fx")) {
      if (entry.path().extension() == ".json") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      Dump& dump = result.emplace_back();
      dump.text = read(path);
      const fs::path weights = fs::path(path).replace_extension("weights");
      dump.weights_name = weights.filename().string();
      if (fs::exists(weights)) dump.weights = read(weights);
      const nlohmann::json json = nlohmann::json::parse(dump.text);
      const nlohmann::json symbols = json.value("symbols", nlohmann::json::object());
      for (const auto& [name, range] : symbols.items()) {
        if (range.contains("hint")) dump.sizes += (dump.sizes.empty() ? "" : ",") + name + "=" + range["hint"].dump();
      }
    }
    return result;
  }();
  return list;
}

}  // namespace

void attack_dump(Case& target, Random& random, const Seeds&) {
  const Dump& dump = random.pick(dumps());
  target.write(dump.weights_name, dump.weights);
  if (random.chance(4)) {
    target.write("m.json", mutate_bytes(random, dump.text));
  } else {
    target.write("m.json", mutate_json(random, nlohmann::json::parse(dump.text)).dump(random.chance(2) ? 1 : -1));
  }
  const auto with = [&](std::vector<std::string> arguments) {
    if (!dump.sizes.empty()) arguments.insert(arguments.end(), {"--bind", dump.sizes});
    return arguments;
  };
  switch (random.below(5)) {
    case 0: target.tcc(with({"check", "m.json"}), {0, 1, 2, 5}); return;
    case 1: target.tcc(with({"m.json", "-x", "fx", "--target=cuda", "--emit=ptx=m.ptx", "-q"}), {0, 1, 2, 5}, {"m.ptx"}); return;
    case 2:
      if (target.tcc(with({"m.json", "--emit=fx=n.json", "-q"}), {0, 1, 2, 5}, {"n.json", "n.json.weights"}).exit_code == 0)
        target.tcc({"n.json", "--emit=graph=n.graph", "-q"}, {0}, {"n.graph", "n.graph.safetensors"});
      return;
    default: break;
  }
  if (target.tcc(with({"m.json", "--target=cpu", "-j", "1", "-q", "-O0", "-o", "m.so"}), {0, 1, 2, 5}, {"m.so"}).exit_code == 0)
    target.tcc({"run", "m.so", "--random", "--device=cpu", "--threads=1"}, {0, 2, 5}, {}, true);
}

}  // namespace tcc::attack
