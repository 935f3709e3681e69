// A kernel text compiled to x86-64 and loaded into the test, by way of the system's C compiler as linker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tcc/loop/loop.h"
#include "tcc/support/tensor.h"

namespace tcc::codegen {

class HostKernel {
 public:
  explicit HostKernel(const std::string& kernel_text, int optimization = 2);
  explicit HostKernel(loop::Kernel kernel, int optimization = 2);
  ~HostKernel();
  HostKernel(const HostKernel&) = delete;
  HostKernel& operator=(const HostKernel&) = delete;
  /// One tensor a parameter, in order; written ones are filled. Items [begin, end); all of them by default. The kernel gets copies that are aligned as
  /// their elements are, between guard pages.
  void run(std::vector<Tensor>& params) const { run(params, 0, kernel_.grid); }
  /// `bad_indices`, unless null: what the kernel's checks of indices report.
  void run(std::vector<Tensor>& params, int64_t begin, int64_t end, std::vector<int64_t>* bad_indices = nullptr) const;
  const loop::Kernel& kernel() const { return kernel_; }

 private:
  loop::Kernel kernel_;
  void* library_ = nullptr;
  void (*function_)(void* const*, int64_t, int64_t) = nullptr;
};

/// Fresh tensors for the parameters of a kernel: inputs random (floats in [-2, 2), integers in [-5, 5]), outputs poisoned.
std::vector<Tensor> random_params(const loop::Kernel& kernel, uint64_t seed);

}  // namespace tcc::codegen
