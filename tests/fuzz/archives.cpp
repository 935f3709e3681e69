// Mutated archives of torch.export: the zip around, its entries, and the JSON within.

#include <filesystem>
#include <string>

#include "fuzz/case.h"
#include "fuzz/json_mutator.h"
#include "fuzz/zip_mutator.h"

namespace tcc::attack {
namespace {

/// Small ones, of every shape: parameters, buffers and constants, lists, control flow and a recurrent operator.
const std::vector<std::vector<ZipEntry>>& archives() {
  static const std::vector<std::vector<ZipEntry>> list = [] {
    std::vector<std::vector<ZipEntry>> result;
    for (const char* model : {"mnist_cnn", "cond_branch", "where_instead_of_branch", "gru_classifier", "unet_mini", "bert_tiny"})
      result.push_back(read_zip(std::string(TCC_MODELS_DIR) + "/" + model + "/model.pt2"));
    return result;
  }();
  return list;
}

void mutate_one_json(Random& random, std::vector<ZipEntry>& entries) {
  std::vector<ZipEntry*> texts;
  for (ZipEntry& entry : entries) {
    // The program, more often than the tables of weights.
    if (entry.name.ends_with(".json")) texts.insert(texts.end(), entry.name.find("/models/") != std::string::npos ? 4 : 1, &entry);
  }
  ZipEntry& entry = *random.pick(texts);
  if (random.chance(8)) entry.bytes = mutate_bytes(random, entry.bytes);
  else entry.bytes = mutate_json(random, nlohmann::json::parse(entry.bytes)).dump();
}

std::string mutated_archive(Random& random) {
  std::vector<ZipEntry> entries = random.pick(archives());
  const size_t kind = random.below(8);
  if (kind < 4) mutate_one_json(random, entries);
  else if (kind < 6) mutate_entries(random, entries);
  const std::string archive = write_zip(random, entries, kind == 6 ? 10 * entries.size() : 0);
  if (kind != 7) return archive;
  // Its bytes; half of the time those of the directory at its end.
  const size_t kept = random.chance(2) ? 0 : archive.size() - std::min(archive.size(), 90 * entries.size());
  return archive.substr(0, kept) + mutate_bytes(random, archive.substr(kept));
}

}  // namespace

void attack_archive(Case& target, Random& random, const Seeds&) {
  target.write("m.pt2", mutated_archive(random));
  const std::vector<int> allowed{0, 1, 2, 5};
  switch (random.below(6)) {
    case 0:
    case 1: target.tcc({"check", "m.pt2"}, allowed); return;
    case 2: target.tcc({"m.pt2", "-x", "pt2", "--target=cuda", "--emit=ptx=m.ptx", "-q", "-O0"}, allowed, {"m.ptx"}); return;
    case 3:
      if (target.tcc({"m.pt2", "--emit=fx=n.json", "-q"}, allowed, {"n.json", "n.json.weights"}).exit_code == 0)
        target.tcc({"n.json", "--emit=graph=n.graph", "-q"}, {0}, {"n.graph", "n.graph.safetensors"});
      return;
    default: break;
  }
  if (target.tcc({"m.pt2", "--target=cpu", "-j", "1", "-q", "-O0", "-o", "m.so"}, allowed, {"m.so"}).exit_code == 0)
    target.tcc({"run", "m.so", "--random", "--device=cpu", "--threads=1"}, {0, 2, 5}, {}, true);
}

}  // namespace tcc::attack
