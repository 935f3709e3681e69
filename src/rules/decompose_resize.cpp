// resize as one step per axis, interpolation being separable.
//
// Every result position of an axis reads a few source positions ("taps") with constant weights:
//   nearest   one tap, weight 1: a broadcast for a whole upscale, a slice for a whole downscale, otherwise a gather by constant indices
//   linear    two, cubic four: as many gathers times constant weights, all of which fuse into one pass over the result
//   antialias wider windows when shrinking: a product with a constant matrix
// Taps outside the input read its edge, or have no weight with exclude_outside (the others then share it). Coordinates are computed in f64.

#include <cmath>

#include "tcc/graph/rule_error.h"
#include "tcc/rules/limits.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace {

using Results = std::vector<Value*>;

struct Tap {
  int64_t source;
  double weight;
};

struct AxisResize {
  int64_t input, output;
  double scale;
  double roi_start, roi_end;
  std::string coordinates;
};

/// The coordinate in the input that result position i stands for, before it is bounded.
double unbounded_coordinate(const AxisResize& axis, int64_t i) {
  const double x = static_cast<double>(i), last = static_cast<double>(axis.input - 1);
  const double resized = axis.scale * static_cast<double>(axis.input);  // not whole when the scale was given
  const std::string& mode = axis.coordinates;
  if (mode == "asymmetric") return x / axis.scale;
  if (mode == "align_corners") return resized == 1 ? 0 : x * last / (resized - 1);
  if (mode == "tf_crop_and_resize") {
    const double span = (axis.roi_end - axis.roi_start) * last;
    return axis.roi_start * last + (resized == 1 ? span / 2 : x * span / (resized - 1));
  }
  const double half_pixel = (x + 0.5) / axis.scale - 0.5;
  if (mode == "half_pixel") return half_pixel;
  if (mode == "pytorch_half_pixel") return resized == 1 ? -0.5 : half_pixel;
  if (mode == "half_pixel_symmetric") {
    return half_pixel + static_cast<double>(axis.input) / 2 * (1 - static_cast<double>(axis.output) / resized);
  }
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  throw RuleError{"unsupported-attribute",
                  "`coordinate_transformation_mode` is \"" + mode +
                      "\", known are half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, "
                      "tf_crop_and_resize and tf_half_pixel_for_nn"};
}

/// The same where a region of interest is far outside or not a number: what is read there is the edge all the same.
double source_coordinate(const AxisResize& axis, int64_t i) {
  constexpr double kFar = int64_t{1} << 48;
  const double coordinate = unbounded_coordinate(axis, i);
  return std::isnan(coordinate) ? 0 : std::clamp(coordinate, -kFar, kFar);
}

int64_t nearest(double coordinate, const std::string& mode) {
  const double below = std::floor(coordinate), fraction = coordinate - below;
  bool up;
  if (mode == "round_prefer_floor") up = fraction > 0.5;
  else if (mode == "round_prefer_ceil") up = fraction >= 0.5;
  else if (mode == "floor") up = false;
  else if (mode == "ceil") up = fraction > 0;
  else
    throw RuleError{"unsupported-attribute",
                    "`nearest_mode` is \"" + mode + "\", known are round_prefer_floor, round_prefer_ceil, floor and ceil"};
  return static_cast<int64_t>(below) + up;
}

/// Weight of a tap at distance x: the hat function, or Keys' cubic with parameter a.
double kernel(bool cubic, double x, double a) {
  x = std::abs(x);
  if (!cubic) return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

double shrink_of(const AxisResize& axis, const Attrs& attrs) { return attrs.get_bool("antialias") ? std::min(axis.scale, 1.0) : 1.0; }

/// Taps on either side of a coordinate; a float, since a scale may be anything.
double reach_of(const AxisResize& axis, const Attrs& attrs) {
  return std::ceil((attrs.get_string("mode") == "cubic" ? 2 : 1) / shrink_of(axis, attrs));
}

/// A position of an interpolated axis takes memory for its taps and their weights, about as much as eight numbers.
void check_tables(const AxisResize& axis, const Attrs& attrs) {
  const std::string what = "resizing an axis from " + std::to_string(axis.input) + " to " + std::to_string(axis.output);
  const double output = static_cast<double>(axis.output), taps = 2 * reach_of(axis, attrs);
  if (attrs.get_string("mode") == "nearest") return check_table(output, what);
  check_table(8 * output * taps, what);
  if (taps > 4) check_table(output * static_cast<double>(axis.input), what);  // a matrix
}

/// All taps of one result position: the same number for every position of an axis.
std::vector<Tap> taps_of(const AxisResize& axis, double coordinate, const Attrs& attrs) {
  const bool cubic = attrs.get_string("mode") == "cubic";
  const bool exclude_outside = attrs.get_bool("exclude_outside");
  const double a = attrs.get_float("cubic_coeff_a");
  const double shrink = shrink_of(axis, attrs);
  const int64_t reach = static_cast<int64_t>(reach_of(axis, attrs));
  const int64_t below = static_cast<int64_t>(std::floor(coordinate));
  std::vector<Tap> taps;
  double sum = 0;
  for (int64_t at = below - reach + 1; at <= below + reach; ++at) {
    double weight = kernel(cubic, (static_cast<double>(at) - coordinate) * shrink, a);
    if (exclude_outside && (at < 0 || at >= axis.input)) weight = 0;
    sum += weight;
    taps.push_back({std::clamp<int64_t>(at, 0, axis.input - 1), weight});
  }
  if (sum != 0 && (exclude_outside || shrink != 1)) {
    for (Tap& tap : taps) tap.weight /= sum;
  }
  return taps;
}

/// x read at `sources` along the axis.
Value* read_sources(Builder& b, Value* x, int64_t axis, const std::vector<int64_t>& sources) {
  const size_t at = static_cast<size_t>(axis);
  Shape shape = rules::shape_of(x);
  const int64_t input = shape[at], output = static_cast<int64_t>(sources.size());
  bool repeats = output > input && output % input == 0;
  for (int64_t i = 0; repeats && i < output; ++i) repeats = sources[static_cast<size_t>(i)] == i / (output / input);
  if (repeats) {
    Shape split = shape;
    split.insert(split.begin() + axis + 1, output / input);
    shape[at] = output;
    return b.reshape(b.broadcast_in_dim(x, split, rules::other_axes(static_cast<int>(split.size()), {axis + 1})), shape);
  }
  const int64_t step = output > 1 ? sources[1] - sources[0] : 1;
  bool regular = step >= 1;
  for (size_t i = 1; regular && i < sources.size(); ++i) regular = sources[i] - sources[i - 1] == step;
  if (regular) {
    std::vector<int64_t> starts(shape.size(), 0), limits = shape, steps(shape.size(), 1);
    starts[at] = sources[0];
    limits[at] = sources.back() + 1;
    steps[at] = step;
    return b.slice(x, starts, limits, steps);
  }
  return b.emit(Op::gather_, {x, b.constant(Tensor::from_ints(sources), "resize_sources")}, {{"axis", axis}});
}

Value* weighted_gathers(Builder& b, Value* x, int64_t axis, const std::vector<std::vector<Tap>>& positions) {
  Value* sum = nullptr;
  for (size_t t = 0; t < positions[0].size(); ++t) {
    std::vector<int64_t> sources;
    Tensor weights(rules::dtype_of(x), {static_cast<int64_t>(positions.size())});
    bool any = false;
    for (size_t i = 0; i < positions.size(); ++i) {
      sources.push_back(positions[i][t].source);
      weights.set_double(static_cast<int64_t>(i), positions[i][t].weight);
      any = any || positions[i][t].weight != 0;
    }
    if (!any) continue;
    Value* read = read_sources(b, x, axis, sources);
    Value* term = b.mul(read, rules::along(b, b.constant(weights, "resize_weights"), rules::shape_of(read), axis));
    sum = sum == nullptr ? term : b.add(sum, term);
  }
  return sum;
}

Value* weight_matrix(Builder& b, Value* x, int64_t axis, int64_t input, const std::vector<std::vector<Tap>>& positions) {
  const int64_t output = static_cast<int64_t>(positions.size());
  std::vector<double> matrix(static_cast<size_t>(input * output), 0);  // [input, output]
  for (int64_t i = 0; i < output; ++i) {
    for (const Tap& tap : positions[static_cast<size_t>(i)]) matrix[static_cast<size_t>(tap.source * output + i)] += tap.weight;
  }
  Tensor weights(rules::dtype_of(x), {input, output});
  for (int64_t i = 0; i < input * output; ++i) weights.set_double(i, matrix[static_cast<size_t>(i)]);
  Value* product = b.emit(Op::dot_general_, {x, b.constant(weights, "resize_weights")},
                          {{"lhs_batch", std::vector<int64_t>{}},
                           {"rhs_batch", std::vector<int64_t>{}},
                           {"lhs_contract", std::vector<int64_t>{axis}},
                           {"rhs_contract", std::vector<int64_t>{0}},
                           {"dtype", rules::dtype_of(x)}});
  // The new axis came last; it goes back to its place.
  std::vector<int64_t> permutation;
  const int64_t rank = x->type.rank();
  for (int64_t i = 0; i < rank; ++i) permutation.push_back(i < axis ? i : i == axis ? rank - 1 : i - 1);
  return b.transpose(product, permutation);
}

}  // namespace

Results decompose_resize(Builder& b, const Node& node) {
  const Attrs& attrs = node.attrs;
  Value* given = node.operand(0);
  const DType dtype = rules::dtype_of(given);
  const Shape shape = rules::shape_of(given);
  const std::vector<int64_t>& sizes = attrs.get_ints("sizes");
  const std::vector<double>& scales = attrs.get_floats("scales");
  const std::vector<double>& roi = attrs.get_floats("roi");
  const std::string& mode = attrs.get_string("mode");
  const bool crops = attrs.get_string("coordinate_transformation_mode") == "tf_crop_and_resize";
  const size_t rank = shape.size();
  if (mode != "nearest" && mode != "linear" && mode != "cubic") {
    throw RuleError{"unsupported-attribute", "`mode` is \"" + mode + "\", known are nearest, linear and cubic"};
  }
  if (crops && roi.size() != 2 * rank) {
    throw RuleError{"type-error",
                    "`roi` has " + std::to_string(roi.size()) + " values, tf_crop_and_resize needs " + std::to_string(2 * rank)};
  }
  Value* x = mode == "nearest" ? given : is_float(dtype) ? rules::widen(b, given) : b.cast(given, DType::f32);
  for (size_t i = 0; i < rank; ++i) {
    AxisResize axis{shape[i], sizes[i], 1, 0, 1, attrs.get_string("coordinate_transformation_mode")};
    if (axis.output == 0) continue;
    if (axis.input == 0)
      throw RuleError{"type-error",
                      "axis " + std::to_string(i) + " of `" + to_string(given->type) + "` is empty, there is nothing to resize"};
    axis.scale = scales.empty() ? static_cast<double>(axis.output) / static_cast<double>(axis.input) : scales[i];
    if (crops) {
      axis.roi_start = roi[i];
      axis.roi_end = roi[rank + i];
    }
    if (axis.input == axis.output && axis.scale == 1 && axis.roi_start == 0 && axis.roi_end == 1) continue;

    check_tables(axis, attrs);
    std::vector<int64_t> sources;
    std::vector<std::vector<Tap>> positions;
    std::vector<bool> outside;
    for (int64_t at = 0; at < axis.output; ++at) {
      const double coordinate = source_coordinate(axis, at);
      outside.push_back(crops && (coordinate < 0 || coordinate > static_cast<double>(axis.input - 1)));
      if (mode == "nearest")
        sources.push_back(std::clamp<int64_t>(nearest(coordinate, attrs.get_string("nearest_mode")), 0, axis.input - 1));
      else positions.push_back(taps_of(axis, coordinate, attrs));
    }
    const int64_t number = static_cast<int64_t>(i);
    if (mode == "nearest") x = read_sources(b, x, number, sources);
    else if (positions[0].size() <= 4) x = weighted_gathers(b, x, number, positions);
    else x = weight_matrix(b, x, number, axis.input, positions);

    if (std::find(outside.begin(), outside.end(), true) != outside.end()) {
      Tensor mask(DType::boolean, {axis.output});
      for (int64_t at = 0; at < axis.output; ++at) mask.set_int64(at, outside[static_cast<size_t>(at)]);
      Value* where = rules::along(b, b.constant(mask, "resize_outside"), rules::shape_of(x), number);
      x = b.select(where, b.full_like(x, attrs.get_float("extrapolation_value")), x);
    }
  }
  // An empty axis was left alone: there is nothing to compute.
  if (num_elements(sizes) == 0 && rules::shape_of(x) != sizes) x = b.full(rules::dtype_of(x), sizes, 0);
  if (is_float(dtype) || mode == "nearest") return {b.cast(x, dtype)};
  return {b.cast(b.unary(Op::round_even_, x), dtype)};
}

}  // namespace tcc
