// Padding arithmetic of convolutions and pools; see window.h. The formulas are those of ONNX's Conv, MaxPool and AveragePool.

#include "rules/window.h"

#include <algorithm>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/limits.h"
#include "tcc/support/integer_math.h"

namespace tcc::rules {

int64_t SpatialAxis::extent() const { return checked_multiply(kernel - 1, dilation, "the extent of a dilated window") + 1; }

std::vector<int64_t> per_axis(const Attrs& attrs, const char* name, size_t count, int64_t fill) {
  const std::vector<int64_t>& values = attrs.get_ints(name);
  if (values.empty()) return std::vector<int64_t>(count, fill);
  if (values.size() != count) {
    throw RuleError{"type-error", "`" + std::string(name) + "` has " + std::to_string(values.size()) + " values, " + std::to_string(count) +
                                      " are needed"};
  }
  return values;
}

std::vector<SpatialAxis> spatial_axes(const Attrs& attrs, const std::vector<int64_t>& input, const std::vector<int64_t>& kernel,
                                      bool ceil_mode) {
  const size_t count = input.size();
  const std::vector<int64_t> strides = per_axis(attrs, "strides", count, 1), dilations = per_axis(attrs, "dilations", count, 1);
  const std::vector<int64_t> pads = per_axis(attrs, "pads", 2 * count, 0);
  const std::string& auto_pad = attrs.get_string("auto_pad");
  constexpr const char* kPadded = "the padded extent";
  std::vector<SpatialAxis> axes;
  for (size_t i = 0; i < count; ++i) {
    SpatialAxis axis{kernel[i], strides[i], dilations[i], input[i], 0, 0, 0, 0};
    if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1) {
      throw RuleError{"type-error", "kernel, stride or dilation of spatial axis " + std::to_string(i) + " is below 1"};
    }
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      axis.output = ceil_div(axis.input, axis.stride);
      const int64_t total = std::max<int64_t>(0, checked_add((axis.output - 1) * axis.stride - axis.input, axis.extent(), kPadded));
      axis.low = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      axis.pad_end = axis.high = total - axis.low;
    } else {
      if (auto_pad == "" || auto_pad == "NOTSET") {
        axis.low = pads[i];
        axis.pad_end = axis.high = pads[count + i];
      } else if (auto_pad != "VALID") {
        throw RuleError{"unsupported-attribute", "`auto_pad` is \"" + auto_pad + "\", known are NOTSET, VALID, SAME_UPPER and SAME_LOWER"};
      }
      const int64_t padded = checked_add(checked_add(axis.input, axis.low, kPadded), axis.high, kPadded);
      const int64_t room = checked_add(padded, -axis.extent(), kPadded);
      if (room < 0 && !ceil_mode) {
        axis.output = 0;
      } else {
        axis.output = checked_add(checked_add(room, ceil_mode ? axis.stride - 1 : 0, kPadded) / axis.stride, 1, kPadded);
        // A last window that would start in the padding at the end is left out.
        if (ceil_mode && (axis.output - 1) * axis.stride >= axis.input + axis.low) --axis.output;
      }
      if (ceil_mode)
        axis.high = std::max(axis.high, checked_add((axis.output - 1) * axis.stride - (axis.input + axis.low), axis.extent(), kPadded));
    }
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace tcc::rules
