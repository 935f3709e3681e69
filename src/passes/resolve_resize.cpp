// The resolve rule of resize: from scales or sizes, for some axes or all, to the extents of the result and a scale for each axis.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "passes/resolve.h"
#include "tcc/graph/rule_error.h"
#include "tcc/rules/infer.h"
#include "tcc/rules/limits.h"

namespace tcc {
namespace {

/// An operand that is there and not empty: exporters write empty tensors for absent ones.
bool given(const Node& node, int operand) { return node.operand(operand) != nullptr && node.operand(operand)->type.count() > 0; }

}  // namespace

std::optional<std::vector<Value*>> resolve_dynamic_resize(ResolveContext& context, const Node& node) {
  Value* x = node.operand(0);
  const Shape shape = x->type.shape();
  const size_t rank = shape.size();
  std::vector<int64_t> axes = node.attrs.get_ints("axes");
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  axes = normalize_axes(axes, static_cast<int64_t>(rank), "axes", x->type);
  const auto check_length = [&](size_t found, size_t expected, const char* name) {
    if (found != expected)
      type_error("`" + std::string(name) + "` has " + std::to_string(found) + " entries, expected " + std::to_string(expected));
  };

  // The region of interest: begins of all axes, then ends. Only cropping reads it.
  const bool crops = node.attrs.get_string("coordinate_transformation_mode") == "tf_crop_and_resize";
  std::vector<double> roi(2 * rank, 0.0);
  std::fill(roi.begin() + static_cast<int64_t>(rank), roi.end(), 1.0);
  if (crops && given(node, 1)) {
    const auto region = context.floats(node, 1, "roi");
    if (!region) return std::nullopt;
    check_length(region->size(), 2 * axes.size(), "roi");
    for (size_t i = 0; i < axes.size(); ++i) {
      roi[static_cast<size_t>(axes[i])] = (*region)[i];
      roi[rank + static_cast<size_t>(axes[i])] = (*region)[axes.size() + i];
    }
  }

  std::vector<int64_t> sizes = shape;
  std::vector<double> scales(rank, 1.0);
  if (given(node, 2)) {
    const auto factors = context.floats(node, 2, "scales");
    if (!factors) return std::nullopt;
    check_length(factors->size(), axes.size(), "scales");
    for (size_t i = 0; i < axes.size(); ++i) {
      const size_t axis = static_cast<size_t>(axes[i]);
      if (!((*factors)[i] > 0)) type_error("`scales` holds " + std::to_string((*factors)[i]) + ", expected positive numbers");
      scales[axis] = (*factors)[i];
      // In f32, as the scales are: 10 * 0.7 is 7 there, and just below it in f64.
      const float extent = static_cast<float>(shape[axis]) * static_cast<float>(crops ? roi[rank + axis] - roi[axis] : 1.0);
      sizes[axis] = checked_extent(std::floor(extent * static_cast<float>(scales[axis])), "the resized extent");
    }
  } else if (given(node, 3)) {
    const auto wanted = context.ints(node, 3, "sizes");
    if (!wanted) return std::nullopt;
    check_length(wanted->size(), axes.size(), "sizes");
    const std::string& policy = node.attrs.get_string("keep_aspect_ratio_policy");
    double common = policy == "not_larger" ? INFINITY : 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      const size_t axis = static_cast<size_t>(axes[i]);
      const double scale = static_cast<double>((*wanted)[i]) / static_cast<double>(shape[axis]);
      sizes[axis] = (*wanted)[i];
      scales[axis] = scale;
      common = policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
    }
    if (policy == "not_larger" || policy == "not_smaller") {
      for (const int64_t axis : axes) {
        sizes[static_cast<size_t>(axis)] =
            checked_extent(std::floor(common * static_cast<double>(shape[static_cast<size_t>(axis)]) + 0.5), "the resized extent");
        scales[static_cast<size_t>(axis)] = common;
      }
    } else if (policy != "stretch" && !policy.empty()) {
      throw RuleError{"unsupported-attribute",
                      "`keep_aspect_ratio_policy` is \"" + policy + "\", expected stretch, not_larger or not_smaller"};
    }
  } else {
    type_error("`dynamic_resize` has neither scales nor sizes");
  }

  Attrs attrs{{"sizes", sizes}, {"scales", scales}, {"roi", crops ? roi : std::vector<double>()}};
  for (const char* name :
       {"mode", "coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value", "antialias"}) {
    attrs.set(name, *node.attrs.find(name));
  }
  return {{context.builder().emit(Op::resize_, {x}, std::move(attrs))}};
}

}  // namespace tcc
