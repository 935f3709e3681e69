// Checks the tensors of a run against its function before anything happens.
#pragma once

#include "runtime/stub/program_view.h"

namespace tcc::stub {

struct TensorRules {
  bool cuda;  ///< the instance runs on a CUDA device: tensors may lie there or on the host
  int32_t device_ordinal;
  const char* const* state;  ///< per block: its address or null
  uint64_t alignment;        ///< that kernels rely on, for tensors they read or write in place; 0: the element's size
};

/// Dtype, rank, every extent, strides, device, address. The message names the tensor, what came and what is expected.
int check_tensors(const ProgramView& view, uint32_t function, const TensorRules& rules, const tcc_tensor* inputs, uint32_t num_inputs,
                  const tcc_tensor* outputs, uint32_t num_outputs);

}  // namespace tcc::stub
