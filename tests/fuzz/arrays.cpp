// Mutated arrays, archives and state files for a library that is good, and libraries with flipped bits.

#include "fuzz/case.h"
#include "fuzz/protobuf_mutator.h"
#include "fuzz/seeds.h"

namespace tcc::attack {

void attack_array(Case& target, Random& random, const Seeds& seeds) {
  switch (random.below(4)) {
    case 0: target.write("x.npy", mutate_bytes(random, seeds.npy)); break;
    case 1: target.write("x.npz", mutate_bytes(random, seeds.npz)); break;
    case 2:
      target.write("x.pb", random.chance(2) ? mutate_bytes(random, seeds.tensor_file)
                                            : mutate_protobuf(random, seeds.tensor_file, {seeds.tensor_file}));
      break;
    default:
      target.write("t.so", seeds.training_library);
      target.write("s.safetensors", mutate_bytes(random, seeds.state));
      target.tcc({"run", "t.so", "--random", "--steps=1", "--device=cpu", "--load-state=s.safetensors", "--save-state=after.safetensors"},
                 {0, 2, 5}, {"after.safetensors"});
      return;
  }
  target.write("m.so", seeds.library);
  const char* name = target.has("x.npy") ? "x.npy" : target.has("x.npz") ? "x.npz" : "x.pb";
  target.tcc({"run", "m.so", "--device=cpu", "--input", name}, {0, 2, 5});
}

void attack_library(Case& target, Random& random, const Seeds& seeds) {
  std::string bytes = seeds.library;
  const size_t at = random.below(bytes.size());
  if (random.below(8) == 0) bytes.resize(at);
  else bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
  target.write("m.so", bytes);
  const Outcome outcome = target.tcc({"run", "m.so", "--check", "--random", "--device=cpu", "--threads=1"}, {0, 5});
  // Zeros between two weights are all that may differ.
  if (outcome.exit_code == 0 && outcome.output != seeds.library_output) target.fail("a damaged library is accepted, with another result");
}

}  // namespace tcc::attack
