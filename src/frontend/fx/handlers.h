// The tables of all operator families. A new family: its file, its line here, its line in handlers.cpp.
#pragma once

#include <span>

#include "frontend/fx/call.h"
#include "frontend/fx/promote.h"

namespace tcc::fx {

/// `base` with base[start:end:step] along `axis` replaced by `part`. 0 <= start <= end <= extent.
Value* put_slice(Builder& b, Value* base, Value* part, int64_t axis, int64_t start, int64_t end, int64_t step);

/// A loss of each element by the argument `reduction`: as it is, its mean or its sum (loss.cpp).
Value* reduced_loss(Call& call, Value* loss);

std::span<const Handler> activation_handlers();
std::span<const Handler> attention_handlers();
std::span<const Handler> backward_handlers();
std::span<const Handler> batch_norm_handlers();
std::span<const Handler> composed_handlers();
std::span<const Handler> contraction_handlers();
std::span<const Handler> creation_handlers();
std::span<const Handler> function_handlers();
std::span<const Handler> image_handlers();
std::span<const Handler> index_handlers();
std::span<const Handler> loss_handlers();
std::span<const Handler> norm_handlers();
std::span<const Handler> pointwise_handlers();
std::span<const Handler> pool_handlers();
std::span<const Handler> prims_handlers();
std::span<const Handler> reduce_handlers();
std::span<const Handler> resize_handlers();
std::span<const Handler> rnn_handlers();
std::span<const Handler> structure_handlers();
std::span<const Handler> view_handlers();

}  // namespace tcc::fx
