// Attributes that all windowed ops share.
#pragma once

#include <string>

#include "frontend/onnx/context.h"

namespace tcc::onnx {

std::string auto_pad_of(NodeContext& node);
/// strides, dilations, pads, groups, auto_pad, kernel, as `conv` has them.
Attrs convolution_attributes(NodeContext& node);

}  // namespace tcc::onnx
