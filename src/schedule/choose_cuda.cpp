// Schedules for CUDA.
#include "schedule/chooser.h"

namespace tcc::schedule {

void choose_cuda_nest(Chooser& chooser, const std::string& first_dim) {
  const std::vector<std::string> dims = chooser.fuse_all(first_dim);
  const std::string last = dims.back();
  chooser.split(last, 256);
  for (size_t i = 0; i + 1 < dims.size(); i++) chooser.bind(dims[i], "block");
  chooser.bind(last + "_0", "block");
  chooser.bind(last + "_1", "thread");
}

}  // namespace tcc::schedule
