// Images with and without a batch axis: convolutions and pools take both, the graph's ops the former.
#pragma once

#include <vector>

#include "frontend/fx/call.h"

namespace tcc::fx {

struct Image {
  Value* x;    ///< [batch, channels, spatial...]
  bool added;  ///< the batch axis is ours, and goes from the result
};

/// The argument with a batch axis, where it has `spatial` axes and one for channels. RuleError for any other rank.
Image with_batch(Call& call, std::string_view name, size_t spatial);
Value* without_batch(Call& call, Value* y, bool added);

/// The same pads in front and behind: begins, then ends.
std::vector<int64_t> both_sides(const std::vector<int64_t>& padding);

}  // namespace tcc::fx
