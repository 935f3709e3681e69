// What .npz needs of .npy.
#pragma once

#include <string>

#include "tcc/support/tensor.h"

namespace tcc {

/// Everything of a .npy file before the elements. Throws when .npy lacks the dtype; `where` names the file.
std::string npy_header(const Tensor& tensor, const std::string& where);

}  // namespace tcc
