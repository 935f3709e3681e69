// Mutated model files: compiled, checked, verified, with gradients, for both targets; what compiles runs.

#include "fuzz/case.h"
#include "fuzz/protobuf_mutator.h"
#include "fuzz/seeds.h"

namespace tcc::attack {

void attack_model(Case& target, Random& random, const Seeds& seeds) {
  const std::string& model = random.pick(seeds.models);
  target.write("m.onnx", random.chance(3) ? mutate_bytes(random, model) : mutate_protobuf(random, model, seeds.models));
  const std::string effort = "-O" + std::to_string(random.below(4));
  switch (random.below(6)) {
    case 0: target.tcc({"check", "m.onnx"}, {0, 1, 2, 5}); return;
    case 1: target.tcc({"m.onnx", "--target=cuda", "--emit=ptx=m.ptx", effort, "-q"}, {0, 1, 2, 5}, {"m.ptx"}); return;
    case 2: target.tcc({"m.onnx", "--mode=grad", "--wrt=*", "--target=cpu", "-j", "1", "-q", "-o", "m.so"}, {0, 1, 2, 5}, {"m.so"}); return;
    case 3:
      // What is promised of verify is that nothing wrong passes, and nothing right fails.
      if (target.tcc({"m.onnx", "--target=cpu", "-j", "1", "-q", "-o", "m.so"}, {0, 1, 2, 5}, {"m.so"}).exit_code == 0)
        target.tcc({"verify", "m.onnx", "--target=cpu"}, {0, 1, 2, 5}, {}, true);
      return;
    default: break;
  }
  if (target.tcc({"m.onnx", "--target=cpu", "-j", "1", "-q", effort, "-o", "m.so"}, {0, 1, 2, 5}, {"m.so"}).exit_code == 0)
    target.tcc({"run", "m.so", "--random", "--device=cpu", "--threads=1"}, {0, 2, 5}, {}, true);
}

}  // namespace tcc::attack
