// Attributes that pooling ops of both domains share.
#pragma once

#include "frontend/onnx/context.h"

namespace tcc::onnx {

/// kernel, strides, pads, dilations, ceil_mode, auto_pad. Versions of ONNX differ in whether they have dilations and ceil_mode.
Attrs window_attributes(NodeContext& node, bool has_dilations, bool has_ceil_mode);

}  // namespace tcc::onnx
