// Images sampled at positions that are computed, and images as columns of their patches.
#include <algorithm>
#include <array>

#include "frontend/fx/handlers.h"
#include "frontend/fx/images.h"
#include "frontend/fx/rebuilt.h"

namespace tcc::fx {

namespace {

// ---- grid_sampler_2d: input [N, C, H, W], grid [N, h, w, 2] of (x, y), each from -1 to 1 over the image

enum class Mode { bilinear, nearest, bicubic };
enum class Padding { zeros, border, reflection };

class GridSampler {
 public:
  GridSampler(Call& call, Value* image, Value* grid)
      : b_(call.build()),
        image_(image),
        shape_(shape_of(image)),
        points_{shape_of(grid)[0], shape_of(grid)[1], shape_of(grid)[2]},
        padding_(static_cast<Padding>(call.integer("padding_mode"))),
        align_corners_(call.flag("align_corners")) {}

  /// Axis 0: y, axis 1: x. In elements, before padding.
  Value* position(Value* grid, size_t axis) {
    Shape starts{0, 0, 0, axis == 0 ? 1 : 0}, limits = shape_of(grid);
    limits[3] = starts[3] + 1;
    Value* g = b_.reshape(b_.slice(grid, starts, limits), points_);
    const double size = extent(axis);
    if (align_corners_) return scaled(plus(g, 1), 0.5 * (size - 1));
    return scaled(plus(scaled(plus(g, 1), size), -1), 0.5);
  }

  /// A position as the padding moves it. What lies beyond the border has no slope.
  Value* padded(Value* p, size_t axis) {
    if (padding_ == Padding::zeros) return p;
    if (padding_ == Padding::reflection) p = reflected(p, axis);
    return clipped(p, extent(axis) - 1);
  }

  /// The image at whole positions, [N, C, h * w]; zero outside.
  Value* at(Value* y, Value* x) {
    Value* inside = b_.binary(Op::and_, within(y, extent(0)), within(x, extent(1)));
    Value* flat = b_.add(b_.binary(Op::mul_, index(y, 0), b_.full_int(DType::i64, {}, shape_[3])), index(x, 1));
    const int64_t count = points_[1] * points_[2];
    const Shape one{points_[0], 1, count}, all{points_[0], shape_[1], count};
    flat = b_.broadcast_to(b_.reshape(b_.select(inside, flat, b_.full_int(DType::i64, {}, 0)), one), all);
    Value* rows = b_.reshape(image_, {shape_[0], shape_[1], shape_[2] * shape_[3]});
    Value* values = b_.emit(Op::gather_elements_, {rows, flat}, {{"axis", int64_t{2}}});
    return b_.select(b_.broadcast_to(b_.reshape(inside, one), all), values, b_.full(values->type.dtype, {}, 0));
  }

  /// values * weight, the weight being per point.
  Value* weighted(Value* values, Value* weight) { return b_.mul(values, b_.reshape(weight, {points_[0], 1, points_[1] * points_[2]})); }

  Value* result(Value* values) { return b_.reshape(values, {points_[0], shape_[1], points_[1], points_[2]}); }
  Value* plus(Value* x, double by) { return b_.binary(Op::add_, x, by); }

 private:
  double extent(size_t axis) const { return static_cast<double>(shape_[2 + axis]); }
  Value* scaled(Value* x, double by) { return b_.binary(Op::mul_, x, by); }
  Value* constant(double value) { return b_.full(image_->type.dtype, {}, value); }
  Value* clipped(Value* p, double most) {
    Value *least = constant(0), *last = constant(most);
    // NaN, too, is moved to the border: the index must be one.
    return b_.select(b_.binary(Op::gt_, p, least), b_.select(b_.binary(Op::ge_, p, last), last, p), least);
  }
  Value* within(Value* p, double size) {
    return b_.binary(Op::and_, b_.binary(Op::ge_, p, constant(0)), b_.binary(Op::le_, p, constant(size - 1)));
  }
  Value* index(Value* p, size_t axis) { return b_.cast(clipped(p, extent(axis) - 1), DType::i64); }

  /// Thrown back at the borders as often as needed: at -0.5 and size - 0.5, or at the centres of the outermost elements.
  Value* reflected(Value* p, size_t axis) {
    const double low = align_corners_ ? 0 : -0.5, span = align_corners_ ? extent(axis) - 1 : extent(axis);
    if (span <= 0) return scaled(p, 0);
    Value* distance = b_.unary(Op::abs_, plus(p, -low));
    Value* rest = b_.binary(Op::rem_, distance, constant(span));
    Value* flips = b_.unary(Op::floor_, b_.binary(Op::div_, distance, span));
    Value* is_even = b_.binary(Op::eq_, b_.binary(Op::rem_, flips, constant(2)), constant(0));
    return b_.select(is_even, plus(rest, low), plus(b_.unary(Op::neg_, rest), span + low));
  }

  Builder& b_;
  Value* image_;
  Shape shape_, points_;
  Padding padding_;
  bool align_corners_;
};

/// Weights of the four neighbours of a position, `t` behind the second of them.
std::array<Value*, 4> cubic_weights(Builder& b, Value* t) {
  constexpr double a = -0.75;
  const auto near = [&](Value* x) {  // ((a + 2) x - (a + 3)) x^2 + 1
    return b.binary(Op::add_, b.mul(b.mul(b.binary(Op::add_, b.binary(Op::mul_, x, a + 2), -(a + 3)), x), x), 1.0);
  };
  const auto far = [&](Value* x) {  // ((a x - 5 a) x + 8 a) x - 4 a
    Value* inner = b.binary(Op::add_, b.mul(b.binary(Op::add_, b.binary(Op::mul_, x, a), -5 * a), x), 8 * a);
    return b.binary(Op::add_, b.mul(inner, x), -4 * a);
  };
  Value* rest = b.sub(b.full(t->type.dtype, {}, 1), t);
  return {far(b.binary(Op::add_, t, 1.0)), near(t), near(rest), far(b.binary(Op::add_, rest, 1.0))};
}

Value* sample_bilinear(Builder& b, GridSampler& sampler, Value* y, Value* x) {
  y = sampler.padded(y, 0);
  x = sampler.padded(x, 1);
  Value *y0 = b.unary(Op::floor_, y), *x0 = b.unary(Op::floor_, x);
  Value *y1 = sampler.plus(y0, 1), *x1 = sampler.plus(x0, 1);
  Value *down = b.sub(y, y0), *right = b.sub(x, x0), *up = b.sub(y1, y), *left = b.sub(x1, x);
  Value* top = b.add(sampler.weighted(sampler.at(y0, x0), b.mul(up, left)), sampler.weighted(sampler.at(y0, x1), b.mul(up, right)));
  Value* bottom = b.add(sampler.weighted(sampler.at(y1, x0), b.mul(down, left)), sampler.weighted(sampler.at(y1, x1), b.mul(down, right)));
  return b.add(top, bottom);
}

Value* sample_bicubic(Builder& b, GridSampler& sampler, Value* y, Value* x) {
  Value *y0 = b.unary(Op::floor_, y), *x0 = b.unary(Op::floor_, x);
  const std::array<Value*, 4> rows = cubic_weights(b, b.sub(y, y0)), columns = cubic_weights(b, b.sub(x, x0));
  Value* sum = nullptr;
  for (int i = 0; i < 4; ++i) {
    Value* row = sampler.padded(sampler.plus(y0, i - 1), 0);
    for (int k = 0; k < 4; ++k) {
      Value* value = sampler.at(row, sampler.padded(sampler.plus(x0, k - 1), 1));
      Value* part = sampler.weighted(value, b.mul(rows[static_cast<size_t>(i)], columns[static_cast<size_t>(k)]));
      sum = sum == nullptr ? part : b.add(sum, part);
    }
  }
  return sum;
}

void import_grid_sampler(Call& call) {
  Builder& b = call.build();
  Value *image = call.in("input"), *grid = call.in("grid");
  const int64_t mode = call.integer("interpolation_mode"), padding = call.integer("padding_mode");
  if (image->type.rank() != 4 || grid->type.rank() != 4 || shape_of(grid)[3] != 2 || shape_of(grid)[0] != shape_of(image)[0])
    Call::refuse("type-error", "an image of " + to_string(image->type) + " is sampled by a grid of " + to_string(grid->type));
  if (image->type.count() == 0) Call::refuse("type-error", "an image without elements is sampled");
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
    Call::refuse("malformed-file", "a mode of grid_sampler_2d is not one of its three");
  grid = b.cast(grid, image->type.dtype);
  GridSampler sampler(call, image, grid);
  Value *y = sampler.position(grid, 0), *x = sampler.position(grid, 1);
  Value* values = nullptr;
  switch (static_cast<Mode>(mode)) {
    case Mode::bilinear: values = sample_bilinear(b, sampler, y, x); break;
    case Mode::bicubic: values = sample_bicubic(b, sampler, y, x); break;
    case Mode::nearest: values = sampler.at(b.unary(Op::round_even_, sampler.padded(y, 0)), b.unary(Op::round_even_, sampler.padded(x, 1)));
  }
  call.result(sampler.result(values));
}

void import_grid_sampler_backward(Call& call) {
  Rebuilt forward(call, "grid_sampler_2d.default");
  call.results(forward.gradients({{0, call.in("grad_output")}}, {"input", "grid"}, call.integers("output_mask")));
}

// ---- patches

constexpr int64_t kMostPatchElements = 4096;

/// [N, C, H, W] -> [N, C * kernel, patches]: each element of the kernel is a strided slice.
void import_im2col(Call& call) {
  Builder& b = call.build();
  const Image image = with_batch(call, "self", 2);
  const std::vector<int64_t> kernel = call.per_axis("kernel_size", 2), dilation = call.per_axis("dilation", 2),
                             padding = call.per_axis("padding", 2), stride = call.per_axis("stride", 2);
  const Shape shape = shape_of(image.x);
  std::array<int64_t, 2> count{};
  for (size_t i = 0; i < 2; ++i) {
    if (kernel[i] < 1 || dilation[i] < 1 || stride[i] < 1 || padding[i] < 0)
      Call::refuse("type-error", "a size of the patches is less than 1, or a padding less than 0");
    const int64_t reach = plus(times(kernel[i] - 1, dilation[i]), 1), all = plus(shape[i + 2], times(padding[i], 2));
    if (reach > all) Call::refuse("type-error", "the patches are larger than the image");
    count[i] = (all - reach) / stride[i] + 1;
  }
  check_count(times(kernel[0], kernel[1]), kMostPatchElements, "elements of a patch");
  Value* padded = b.pad(image.x, b.full(image.x->type.dtype, {}, 0), {0, 0, padding[0], padding[1]}, {0, 0, padding[0], padding[1]});
  std::vector<Value*> pieces;
  for (int64_t i = 0; i < kernel[0]; ++i) {
    for (int64_t k = 0; k < kernel[1]; ++k) {
      const int64_t top = i * dilation[0], left = k * dilation[1];
      Value* piece = b.slice(padded, {0, 0, top, left},
                             {shape[0], shape[1], top + (count[0] - 1) * stride[0] + 1, left + (count[1] - 1) * stride[1] + 1},
                             {1, 1, stride[0], stride[1]});
      pieces.push_back(b.reshape(piece, {shape[0], shape[1], 1, count[0] * count[1]}));
    }
  }
  Value* joined = pieces.size() == 1 ? pieces[0] : b.concat(pieces, 2);
  call.result(
      without_batch(call, b.reshape(joined, {shape[0], times(shape[1], times(kernel[0], kernel[1])), count[0] * count[1]}), image.added));
}

/// The sum of the patches where they overlap: what im2col's gradient is.
void import_col2im(Call& call) {
  Value* columns = call.in("self");
  const std::vector<int64_t> size = call.per_axis("output_size", 2), kernel = call.per_axis("kernel_size", 2);
  Shape shape = shape_of(columns);
  const int64_t patch = times(kernel[0], kernel[1]);
  if ((shape.size() != 2 && shape.size() != 3) || patch < 1 || shape[shape.size() - 2] % patch != 0)
    Call::refuse("type-error",
                 "columns of patches of " + std::to_string(patch) + " elements were expected, found is " + to_string(columns->type));
  shape[shape.size() - 2] /= patch;
  shape.pop_back();
  shape.insert(shape.end(), size.begin(), size.end());
  Rebuilt forward(call, "im2col.default");
  forward.set_unread("self", Type(columns->type.dtype, shape));
  call.results(forward.gradients({{0, columns}}, {"self"}));
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"grid_sampler_2d.default(input, grid, interpolation_mode, padding_mode, align_corners)", import_grid_sampler},
    {"grid_sampler.default(input, grid, interpolation_mode, padding_mode, align_corners)", import_grid_sampler},
    {"grid_sampler_2d_backward.default(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask)",
     import_grid_sampler_backward},
    {"im2col.default(self, kernel_size, dilation, padding, stride)", import_im2col},
    {"col2im.default(self, output_size, kernel_size, dilation, padding, stride)", import_col2im},
});

}  // namespace

std::span<const Handler> image_handlers() { return kHandlers; }

}  // namespace tcc::fx
