// The tables of all op families. A new family: its file, its line here, its line in handlers.cpp.
#pragma once

#include <span>
#include <vector>

#include "frontend/onnx/context.h"

namespace tcc::onnx {

std::span<const Handler> activation_handlers();
std::span<const Handler> attention_handlers();
std::span<const Handler> contraction_handlers();
std::span<const Handler> constant_handlers();
std::span<const Handler> contrib_handlers();
std::span<const Handler> control_handlers();
std::span<const Handler> convolution_handlers();
std::span<const Handler> index_handlers();
std::span<const Handler> loss_handlers();
std::span<const Handler> norm_handlers();
std::span<const Handler> optional_handlers();
std::span<const Handler> pointwise_handlers();
std::span<const Handler> pool_handlers();
std::span<const Handler> quantize_handlers();
std::span<const Handler> quantized_contrib_handlers();
std::span<const Handler> random_handlers();
std::span<const Handler> recurrent_handlers();
std::span<const Handler> reduce_handlers();
std::span<const Handler> resize_handlers();
std::span<const Handler> scan_handlers();
std::span<const Handler> sequence_handlers();
std::span<const Handler> shape_handlers();
std::span<const Handler> stateful_handlers();
std::span<const Handler> structure_handlers();
std::span<const Handler> training_handlers();
std::span<const Handler> window_handlers();

/// All of them, sorted by domain and op.
std::vector<const Handler*> all_handlers();

}  // namespace tcc::onnx
