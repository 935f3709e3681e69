// Kernels of the scheduled form that are legal by construction, as text: random nests of every bind, reduces over parts of blocks and warps, scans, shared
// memory between barriers, masked stores, scatters, several dtypes.
#pragma once

#include <cstdint>
#include <string>

namespace tcc::codegen {

std::string random_cuda_kernel(uint64_t seed);
std::string random_cpu_kernel(uint64_t seed);

/// The kernel with one word or number of its body changed, so that it may be legal no more. Parses in most cases.
std::string mutated(const std::string& kernel_text, uint64_t seed);

}  // namespace tcc::codegen
