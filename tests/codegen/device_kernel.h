// PTX on a CUDA device, by way of the driver, for tests of kernels alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tcc/loop/loop.h"
#include "tcc/support/tensor.h"

namespace tcc::codegen {

class DeviceKernels {
 public:
  static bool available();  ///< a driver and a device
  explicit DeviceKernels(const std::string& ptx);
  ~DeviceKernels();
  DeviceKernels(const DeviceKernels&) = delete;
  DeviceKernels& operator=(const DeviceKernels&) = delete;
  /// One tensor a parameter, in order; written ones are filled. The kernel checks no indices.
  void run(const std::string& name, const loop::Kernel& kernel, std::vector<Tensor>& params) const;

 private:
  void* module_ = nullptr;
};

/// One kernel as PTX for its target.
void run_on_device(const loop::Kernel& kernel, std::vector<Tensor>& params);

}  // namespace tcc::codegen
