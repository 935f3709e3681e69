// Kernels compiled to x86-64 and loaded into the test, by way of the system's C compiler as linker.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tcc/loop/loop.h"
#include "tcc/support/tensor.h"

namespace tcc::codegen {

/// Kernels of one target, in one library.
class HostKernels {
 public:
  explicit HostKernels(std::vector<loop::Kernel> kernels, int optimization = 2);
  ~HostKernels();
  HostKernels(const HostKernels&) = delete;
  HostKernels& operator=(const HostKernels&) = delete;
  /// One tensor a parameter, in order; written ones are filled. Items [begin, end) of the kernel. It gets copies that are aligned as their elements are,
  /// between guard pages. `bad_indices`, unless null: what the kernel's checks of indices report.
  void run(size_t which, std::vector<Tensor>& params, int64_t begin, int64_t end, std::vector<int64_t>* bad_indices = nullptr) const;
  const loop::Kernel& kernel(size_t which) const { return kernels_[which]; }

 private:
  std::vector<loop::Kernel> kernels_;
  void* library_ = nullptr;
};

/// One of them.
class HostKernel {
 public:
  explicit HostKernel(const std::string& kernel_text, int optimization = 2)
      : HostKernel(loop::parse_kernel(kernel_text, "test"), optimization) {}
  explicit HostKernel(loop::Kernel kernel, int optimization = 2) : kernels_({std::move(kernel)}, optimization) {}
  void run(std::vector<Tensor>& params) const { run(params, 0, kernel().grid); }
  void run(std::vector<Tensor>& params, int64_t begin, int64_t end, std::vector<int64_t>* bad_indices = nullptr) const {
    kernels_.run(0, params, begin, end, bad_indices);
  }
  const loop::Kernel& kernel() const { return kernels_.kernel(0); }

 private:
  HostKernels kernels_;
};

/// Fresh tensors for the parameters of a kernel: inputs random (floats in [-2, 2), integers in [-5, 5]), outputs poisoned.
std::vector<Tensor> random_params(const loop::Kernel& kernel, uint64_t seed);

}  // namespace tcc::codegen
