#include "overwrite.h"

#include <cstring>
#include <map>

#include "residuals/nets.h"
#include "tcc/group/lower_units.h"
#include "tcc/loop/overwrite.h"
#include "tcc/schedule/schedule_units.h"

namespace tcc::plan {
namespace {

using TensorsByName = std::map<std::string, Tensor>;

Tensor copy_of(const Tensor& tensor, Shape shape) {
  Tensor copy(tensor.dtype(), std::move(shape));
  std::memcpy(copy.mutable_bytes(), tensor.bytes(), static_cast<size_t>(copy.size_bytes()));
  return copy;
}

/// Runs kernels one after the other on tensors by parameter name; what is missing is made.
void run(const std::vector<loop::Kernel>& kernels, TensorsByName& tensors) {
  for (const loop::Kernel& kernel : kernels) {
    std::vector<Tensor> params;
    for (const loop::Param& param : kernel.params) params.push_back(tensors[param.buffer->name]);
    loop::interpret(kernel, params);
    for (size_t i = 0; i < params.size(); ++i) tensors[kernel.params[i].buffer->name] = params[i];
  }
}

/// One unit on one set of operands.
class Trial {
 public:
  Trial(const schedule::ScheduledUnit& unit, std::mt19937& random) : unit_(unit) {
    for (const loop::Param& param : params()) {
      if (!param.written) inputs_[param.buffer->name] = residuals::random_tensor(Type(param.buffer->dtype, param.buffer->extents), random);
    }
    expected_ = inputs_;
    run(unit.kernels, expected_);
  }

  const std::vector<loop::Param>& params() const { return unit_.form.unit->params; }

  bool may(const loop::Buffer& old, const loop::Buffer& result) const {
    if (old.dtype != result.dtype || old.count() != result.count() || result.count() == 0) return false;
    return loop::can_overwrite(unit_.kernels, old.name, result.name);
  }

  /// What is wrong when `result` takes over the bytes of `old`.
  std::vector<std::string> faults_of(const loop::Buffer& old, const loop::Buffer& result) const {
    const std::vector<loop::Kernel> kernels = loop::overwrite(unit_.kernels, {{old.name, result.name}});
    const std::string text = loop::print(*unit_.form.unit) + loop::print(kernels[0], "k");
    std::vector<std::string> faults;
    for (const loop::Kernel& kernel : kernels) {
      if (kernel.body.empty()) continue;  // is not launched
      for (const std::string& fault : loop::verify_kernel(kernel)) faults.push_back(fault + "\n" + loop::print(kernel, "k"));
    }
    TensorsByName found = inputs_;
    found[result.name] = copy_of(inputs_.at(old.name), result.extents);
    try {
      run(kernels, found);
    } catch (const std::exception& error) { return {std::string(error.what()) + "\n" + text}; }
    for (const loop::Param& param : params()) {
      const std::string& name = param.buffer->name;
      if (!param.written || param.buffer->count() == 0 || found.at(name).same_bytes(expected_.at(name))) continue;
      faults.push_back(old.name + " -> " + result.name + " changes " + name + "\n" + text);
    }
    return faults;
  }

 private:
  const schedule::ScheduledUnit& unit_;
  TensorsByName inputs_, expected_;
};

}  // namespace

Overwrites try_overwrites(const Graph& graph, const Target& target) {
  std::mt19937 random(3);
  const group::Groups groups = group::form_groups(graph);
  const schedule::ScheduledUnits scheduled = schedule::schedule_units(group::lower_units(groups).forms, target);
  Overwrites result;
  for (const auto& unit : scheduled.units) {
    const Trial trial(*unit, random);
    for (const loop::Param& old : trial.params()) {
      for (const loop::Param& written : trial.params()) {
        if (old.written || !written.written || !trial.may(*old.buffer, *written.buffer)) continue;
        result.allowed.push_back(old.buffer->name + " -> " + written.buffer->name);
        const std::vector<std::string> faults = trial.faults_of(*old.buffer, *written.buffer);
        result.faults.insert(result.faults.end(), faults.begin(), faults.end());
      }
    }
  }
  return result;
}

}  // namespace tcc::plan
