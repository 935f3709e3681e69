// Interpolation to another size.
#include <array>
#include <cmath>

#include "frontend/fx/handlers.h"

namespace tcc::fx {

namespace {

/// Sizes and, per axis, the factor that coordinates are computed with: the given one, else the quotient of the sizes.
struct Target {
  Shape sizes;
  std::vector<double> scales;
};

Target finish(Target target, const Shape& input) {
  for (size_t axis = 0; axis < input.size(); ++axis) {
    if (target.scales[axis] == 0) target.scales[axis] = static_cast<double>(target.sizes[axis]) / static_cast<double>(input[axis]);
  }
  return target;
}

/// upsample_*.vec: a size per spatial axis, or a factor.
Target target_of_vec(Call& call, const Shape& input) {
  Target target{{input[0], input[1]}, {1, 1}};
  const size_t spatial = input.size() - 2;
  if (call.has("output_size")) {
    for (const int64_t size : call.per_axis("output_size", spatial)) {
      target.sizes.push_back(size);
      target.scales.push_back(0);
    }
    return finish(std::move(target), input);
  }
  for (size_t axis = 0; axis < spatial; ++axis) {
    const double factor = call.number_at("scale_factors", axis);
    if (!(factor > 0) || !(factor * static_cast<double>(input[axis + 2]) < 1e15))
      Call::refuse("type-error", "a factor is " + std::to_string(factor));
    target.sizes.push_back(static_cast<int64_t>(std::floor(factor * static_cast<double>(input[axis + 2]))));
    target.scales.push_back(factor);
  }
  return finish(std::move(target), input);
}

/// upsample_*.default: sizes, and perhaps the factors that they came from.
Target target_of_sizes(Call& call, const Shape& input) {
  Target target{{input[0], input[1]}, {1, 1}};
  constexpr std::array<const char*, 3> kNames = {"scales_d", "scales_h", "scales_w"};
  const std::vector<int64_t> sizes = call.per_axis("output_size", input.size() - 2);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    target.sizes.push_back(sizes[axis]);
    const char* name = sizes.size() == 1 ? "scales" : kNames[kNames.size() - sizes.size() + axis];
    target.scales.push_back(call.maybe_number(name).value_or(0));
  }
  return finish(std::move(target), input);
}

void resize(Call& call, Value* x, Target target, const char* mode, const char* coordinates, bool align_corners, bool antialias) {
  const Shape input = shape_of(x);
  if (align_corners) {
    coordinates = "align_corners";
    for (double& scale : target.scales) scale = 0;
    target = finish(std::move(target), input);
  }
  call.result(call.emit(Op::resize_, {x},
                        {{"sizes", target.sizes},
                         {"scales", target.scales},
                         {"mode", mode},
                         {"coordinate_transformation_mode", coordinates},
                         {"nearest_mode", "floor"},
                         {"cubic_coeff_a", antialias ? -0.5 : -0.75},
                         {"exclude_outside", antialias},
                         {"extrapolation_value", 0.0},
                         {"roi", std::vector<double>()},
                         {"antialias", antialias}}));
}

enum class Mode { nearest, nearest_exact, linear, cubic };

template <Mode mode, bool is_vec, bool antialias = false> void import_upsample(Call& call) {
  Value* x = call.in(is_vec ? "input" : "self");
  if (x->type.rank() < 3) Call::refuse("type-error", "an image of [batch, channels, ...] was expected, found is " + to_string(x->type));
  Target target = is_vec ? target_of_vec(call, shape_of(x)) : target_of_sizes(call, shape_of(x));
  constexpr bool has_corners = mode == Mode::linear || mode == Mode::cubic;
  const bool align_corners = has_corners && call.flag("align_corners");
  const char* name = mode == Mode::linear ? "linear" : mode == Mode::cubic ? "cubic" : "nearest";
  const char* coordinates = mode == Mode::nearest ? "asymmetric" : mode == Mode::nearest_exact ? "tf_half_pixel_for_nn" : "half_pixel";
  resize(call, x, std::move(target), name, coordinates, align_corners, antialias);
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"upsample_nearest1d.vec(input, output_size, scale_factors)", import_upsample<Mode::nearest, true>},
    {"upsample_nearest2d.vec(input, output_size, scale_factors)", import_upsample<Mode::nearest, true>},
    {"upsample_nearest3d.vec(input, output_size, scale_factors)", import_upsample<Mode::nearest, true>},
    {"_upsample_nearest_exact1d.vec(input, output_size, scale_factors)", import_upsample<Mode::nearest_exact, true>},
    {"_upsample_nearest_exact2d.vec(input, output_size, scale_factors)", import_upsample<Mode::nearest_exact, true>},
    {"upsample_linear1d.vec(input, output_size, align_corners, scale_factors)", import_upsample<Mode::linear, true>},
    {"upsample_bilinear2d.vec(input, output_size, align_corners, scale_factors)", import_upsample<Mode::linear, true>},
    {"upsample_trilinear3d.vec(input, output_size, align_corners, scale_factors)", import_upsample<Mode::linear, true>},
    {"upsample_bicubic2d.vec(input, output_size, align_corners, scale_factors)", import_upsample<Mode::cubic, true>},
    {"_upsample_bilinear2d_aa.vec(input, output_size, align_corners, scale_factors)", import_upsample<Mode::linear, true, true>},
    {"_upsample_bicubic2d_aa.vec(input, output_size, align_corners, scale_factors)", import_upsample<Mode::cubic, true, true>},
    {"upsample_nearest1d.default(self, output_size, scales=None)", import_upsample<Mode::nearest, false>},
    {"upsample_nearest2d.default(self, output_size, scales_h=None, scales_w=None)", import_upsample<Mode::nearest, false>},
    {"upsample_nearest3d.default(self, output_size, scales_d=None, scales_h=None, scales_w=None)", import_upsample<Mode::nearest, false>},
    {"_upsample_nearest_exact1d.default(self, output_size, scales=None)", import_upsample<Mode::nearest_exact, false>},
    {"_upsample_nearest_exact2d.default(self, output_size, scales_h=None, scales_w=None)", import_upsample<Mode::nearest_exact, false>},
    {"upsample_trilinear3d.default(self, output_size, align_corners, scales_d=None, scales_h=None, scales_w=None)",
     import_upsample<Mode::linear, false>},
    {"upsample_linear1d.default(self, output_size, align_corners, scales=None)", import_upsample<Mode::linear, false>},
    {"upsample_bilinear2d.default(self, output_size, align_corners, scales_h=None, scales_w=None)", import_upsample<Mode::linear, false>},
    {"_upsample_bilinear2d_aa.default(self, output_size, align_corners, scales_h=None, scales_w=None)",
     import_upsample<Mode::linear, false, true>},
    {"_upsample_bicubic2d_aa.default(self, output_size, align_corners, scales_h=None, scales_w=None)",
     import_upsample<Mode::cubic, false, true>},
    {"upsample_bicubic2d.default(self, output_size, align_corners, scales_h=None, scales_w=None)", import_upsample<Mode::cubic, false>},
});

}  // namespace

std::span<const Handler> resize_handlers() { return kHandlers; }

}  // namespace tcc::fx
