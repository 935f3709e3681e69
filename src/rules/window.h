// Padding arithmetic of convolutions and pools.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"

namespace tcc::rules {

/// One spatial axis, resolved: window position i starts at input index i * stride - low and there are `output` of them. `high` is what must be
/// padded at the end so that the last window fits; it may be larger than the attribute says (ceil mode).
struct SpatialAxis {
  int64_t kernel, stride, dilation, input;
  int64_t low, high, output;
  int64_t pad_end;         ///< the padding at the end that the attributes ask for, without what ceil mode adds
  int64_t extent() const;  ///< (kernel - 1) * dilation + 1
};

/// Reads strides, dilations, pads (each empty or one (two) per axis) and auto_pad. `input`, `kernel`: the spatial extents.
std::vector<SpatialAxis> spatial_axes(const Attrs& attrs, const std::vector<int64_t>& input, const std::vector<int64_t>& kernel,
                                      bool ceil_mode);
/// An attribute with one value per axis; `fill` everywhere when it is empty.
std::vector<int64_t> per_axis(const Attrs& attrs, const char* name, size_t count, int64_t fill);

}  // namespace tcc::rules
