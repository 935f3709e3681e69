#include "plan/unit_constants.h"

#include <algorithm>
#include <unordered_map>

namespace tcc::plan {

std::set<std::string> unit_constants(const schedule::ScheduledUnit& unit, const schedule::Target& target) {
  std::set<std::string> known, made;
  if (target.is_cuda()) return made;  // constants run on the host
  std::unordered_map<std::string, int> writers;
  for (const loop::Param& param : unit.form.unit->params) {
    if (param.constant) known.insert(param.buffer->name);
    if (param.written) writers[param.buffer->name] = 2;  // a result of the unit, which is no temporary
  }
  if (known.empty()) return made;
  for (const loop::Kernel& kernel : unit.kernels) {
    for (const loop::Param& param : kernel.params) writers[param.buffer->name] += param.written;
  }
  for (const loop::Kernel& kernel : unit.kernels) {
    const bool constant =
        loop::num_index_checks(kernel.body) == 0 && std::all_of(kernel.params.begin(), kernel.params.end(), [&](const loop::Param& param) {
          return param.written ? writers[param.buffer->name] == 1 : known.contains(param.buffer->name);
        });
    for (const loop::Param& param : kernel.params) {
      if (constant && param.written && known.insert(param.buffer->name).second) made.insert(param.buffer->name);
    }
  }
  return made;
}

bool makes_constant(const loop::Kernel& kernel, const std::set<std::string>& constants) {
  return std::any_of(kernel.params.begin(), kernel.params.end(),
                     [&](const loop::Param& param) { return param.written && constants.contains(param.buffer->name); });
}

}  // namespace tcc::plan
