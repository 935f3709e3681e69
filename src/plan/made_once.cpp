#include "plan/made_once.h"

#include <algorithm>
#include <unordered_map>

#include "tcc/support/tensor.h"

namespace tcc::plan {

namespace {

/// Bytes that a kernel writes, to those that it reads.
double growth_of(const loop::Kernel& kernel) {
  double read = 0, written = 0;
  for (const loop::Param& param : kernel.params)
    (param.written ? written : read) += static_cast<double>(storage_bytes(param.buffer->dtype, param.buffer->count()));
  return written / std::max(read, 1.0);
}

/// A library takes what a kernel makes of its weights in their place where that is hardly more: padding.
constexpr double kMostGrowthInLibrary = 1.5;

/// What is much larger than what it is made of, such as weights of 4 bits in 16, would fill the memory of a GPU that the narrow ones were to save.
bool pays(const loop::Kernel& kernel, const Target& target) {
  constexpr double kMostGrowth = 1.5;
  return target.is_cpu() || growth_of(kernel) <= kMostGrowth;
}

}  // namespace

MadeOnce made_once(const schedule::ScheduledUnit& scheduled, const Target& target, const std::vector<bool>& owned) {
  MadeOnce made;
  MadeOnce known;  // what the kernels seen so far have to read
  std::unordered_map<std::string, int> writers, readers;
  const std::vector<loop::Param>& params = scheduled.form.unit->params;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].constant)
      known.emplace(params[i].buffer->name, i < owned.size() && owned[i] ? Buffer::Kind::constant : Buffer::Kind::prepared);
    if (params[i].written) writers[params[i].buffer->name] = 2;  // a result of the unit, which is no temporary
  }
  if (known.empty()) return made;
  for (const loop::Kernel& kernel : scheduled.kernels) {
    for (const loop::Param& param : kernel.params) (param.written ? writers : readers)[param.buffer->name]++;
  }
  for (const loop::Kernel& kernel : scheduled.kernels) {
    const bool once =
        loop::num_index_checks(kernel.body) == 0 && std::all_of(kernel.params.begin(), kernel.params.end(), [&](const loop::Param& param) {
          return param.written ? writers[param.buffer->name] == 1 : known.contains(param.buffer->name);
        });
    if (!once || !pays(kernel, target)) continue;
    const bool replaces =
        target.is_cpu() && growth_of(kernel) <= kMostGrowthInLibrary &&
        std::all_of(kernel.params.begin(), kernel.params.end(), [&](const loop::Param& param) {
          const std::string& name = param.buffer->name;
          return param.written || (known.at(name) == Buffer::Kind::constant && (made.contains(name) || readers[name] == 1));
        });
    const Buffer::Kind kind = replaces ? Buffer::Kind::constant : Buffer::Kind::prepared;
    for (const loop::Param& param : kernel.params) {
      if (param.written && known.emplace(param.buffer->name, kind).second) made.emplace(param.buffer->name, kind);
    }
  }
  return made;
}

std::optional<Buffer::Kind> kind_made(const loop::Kernel& kernel, const MadeOnce& made) {
  for (const loop::Param& param : kernel.params) {
    if (!param.written) continue;
    if (const auto found = made.find(param.buffer->name); found != made.end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace tcc::plan
