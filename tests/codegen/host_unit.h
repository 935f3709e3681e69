// A unit of loops as the driver would compile it for the host: scheduled, cut into kernels, compiled, loaded.
#pragma once

#include <memory>
#include <vector>

#include "host_kernel.h"
#include "tcc/schedule/schedule.h"

namespace tcc::codegen {

class HostUnit {
 public:
  explicit HostUnit(const loop::Unit& unit, const schedule::Target& target = schedule::Target::cpu_v3()) : unit_(unit) {
    const loop::Unit scheduled = schedule::apply(unit, schedule::choose(unit, target), target);
    for (const loop::Kernel& kernel : schedule::split_kernels(scheduled, target, &temporaries_))
      kernels_.push_back(std::make_unique<HostKernel>(kernel));
  }
  /// One tensor a parameter, in order; written ones are filled. Kernel by kernel.
  void run(std::vector<Tensor>& params) const {
    std::vector<std::pair<int, Tensor>> all;
    for (size_t i = 0; i < params.size(); ++i) all.emplace_back(unit_.params[i].buffer->id, params[i]);
    for (const loop::BufferRef& buffer : temporaries_) all.emplace_back(buffer->id, Tensor(buffer->dtype, buffer->extents));
    for (const auto& kernel : kernels_) {
      std::vector<Tensor> arguments;
      for (const loop::Param& param : kernel->kernel().params) {
        for (const auto& [id, tensor] : all) {
          if (id == param.buffer->id) arguments.push_back(tensor);
        }
      }
      kernel->run(arguments);  // tensors share their bytes
    }
  }
  size_t num_kernels() const { return kernels_.size(); }
  const HostKernel& kernel(size_t i) const { return *kernels_[i]; }

 private:
  loop::Unit unit_;
  std::vector<loop::BufferRef> temporaries_;
  std::vector<std::unique_ptr<HostKernel>> kernels_;
};

}  // namespace tcc::codegen
