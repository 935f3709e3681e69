// Kernels that write a result over what they read: the old and the new value are one parameter, read and written.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tcc/loop/loop.h"

namespace tcc::loop {

/// Parameters of a unit by name: what is read, and the result that takes over its bytes.
using Overwrite = std::pair<std::string, std::string>;

/// Whether the kernels of a unit stay right when the parameter `old` lies where `result` does.
bool can_overwrite(const std::vector<Kernel>& kernels, const std::string& old, const std::string& result);
/// The kernels with `old` read through `result` in the kernel that writes it first; each pair must be allowed by can_overwrite. A kernel without a body has
/// nothing left to do (self_stores.h).
std::vector<Kernel> overwrite(std::vector<Kernel> kernels, const std::vector<Overwrite>& pairs);
/// Which of the kernel's parameters it loads from (or copies, or multiplies), in their order.
std::vector<bool> loaded_parameters(const Kernel& kernel);

}  // namespace tcc::loop
