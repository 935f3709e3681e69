// A kernel on the host, compared with the interpreter of loops.
#include <cmath>

#include "host_kernel.h"
#include "tools/stages.h"

namespace tcc::stages {

std::string kernel(const Arguments& arguments) {
  const codegen::HostKernel kernel(loop::parse_kernel(arguments.text, arguments.file));
  const std::string text = loop::print(kernel.kernel(), "k");
  require_none(loop::verify_kernel(kernel.kernel()), text);
  const double tolerance = std::stod(arguments.flag("tolerance", "1e-5"));
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    std::vector<Tensor> expected = codegen::random_params(kernel.kernel(), seed), found = codegen::random_params(kernel.kernel(), seed);
    loop::interpret(kernel.kernel(), expected);
    // In two pieces, as the pool would.
    const int64_t grid = kernel.kernel().grid, middle = grid / 2;
    if (grid > 1) kernel.run(found, 0, middle);
    kernel.run(found, grid > 1 ? middle : 0, grid);
    for (size_t p = 0; p < found.size(); ++p) {
      for (int64_t i = 0; i < found[p].count(); ++i) {
        const double value = found[p].as_double(i), wanted = expected[p].as_double(i);
        if ((std::isnan(value) && std::isnan(wanted)) || value == wanted) continue;
        if (std::fabs(value - wanted) <= tolerance * (1 + std::fabs(wanted))) continue;
        throw Fault("%" + kernel.kernel().params[p].buffer->name + " [" + std::to_string(i) + "] is " + std::to_string(value) +
                    ", interpreted " + std::to_string(wanted) + "\n" + text);
      }
    }
  }
  return text;
}

}  // namespace tcc::stages
