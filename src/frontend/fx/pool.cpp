// Pooling. Windows of fixed size, and the adaptive kind, whose windows are given by the size of the result.
#include <array>

#include "frontend/fx/handlers.h"
#include "frontend/fx/images.h"

namespace tcc::fx {

namespace {

Attrs window(Call& call, size_t spatial) {
  const std::vector<int64_t> kernel = call.per_axis("kernel_size", spatial);
  const std::vector<int64_t> strides = call.integers("stride").empty() ? kernel : call.per_axis("stride", spatial);
  return {{"kernel", kernel},
          {"strides", strides},
          {"dilations", std::vector<int64_t>(spatial, 1)},
          {"pads", both_sides(call.per_axis("padding", spatial))},
          {"ceil_mode", call.flag("ceil_mode")},
          {"auto_pad", "NOTSET"}};
}

Node* max_pool(Call& call, const Image& image, size_t spatial, int num_results) {
  Attrs attrs = window(call, spatial);
  attrs.set("dilations", call.per_axis("dilation", spatial));
  attrs.set("storage_order", int64_t{0});
  return call.build().emit_node(Op::max_pool_, {image.x}, std::move(attrs), num_results);
}

template <size_t spatial> void import_max_pool(Call& call) {
  const Image image = with_batch(call, "self", spatial);
  call.result(without_batch(call, max_pool(call, image, spatial, 1)->result(), image.added));
}

/// Positions count within one channel here, within the whole tensor in the composite.
template <size_t spatial> void import_max_pool_with_indices(Call& call) {
  const Image image = with_batch(call, "self", spatial);
  const Node* node = max_pool(call, image, spatial, 2);
  const Shape shape = shape_of(image.x);
  const int64_t channel = num_elements(std::span(shape).subspan(2));
  Value* index = call.build().binary(Op::mod_, node->result(1), call.build().full_int(DType::i64, {}, std::max<int64_t>(channel, 1)));
  call.results({without_batch(call, node->result(0), image.added), without_batch(call, index, image.added)});
}

template <size_t spatial> void import_average_pool(Call& call) {
  const Image image = with_batch(call, "self", spatial);
  Attrs attrs = window(call, spatial);
  attrs.set("count_include_pad", call.flag("count_include_pad"));
  if (spatial > 1 && call.has("divisor_override")) Call::refuse("unsupported-attribute", "`divisor_override` is given");
  call.result(without_batch(call, call.emit(Op::average_pool_, {image.x}, std::move(attrs)), image.added));
}

/// Where window i of an adaptive pool begins and ends.
int64_t window_begin(int64_t i, int64_t input, int64_t output) { return i * input / output; }
int64_t window_end(int64_t i, int64_t input, int64_t output) { return ((i + 1) * input + output - 1) / output; }

/// Windows of several sizes: a product with a constant matrix, whose rows hold the weights of a window.
Value* average_axis(Call& call, Value* x, int64_t axis, int64_t output) {
  const int64_t input = x->type.dims[at(axis)].bound;
  check_count(times(output, input), 1 << 26, "weights of an uneven adaptive pool");
  Tensor weights(DType::f32, {output, input});
  for (int64_t i = 0; i < output; ++i) {
    const int64_t begin = window_begin(i, input, output), end = window_end(i, input, output);
    for (int64_t k = begin; k < end; ++k) weights.set_double(i * input + k, 1.0 / static_cast<double>(end - begin));
  }
  Value* matrix = call.build().cast(call.build().constant(weights, "pool_weights"), x->type.dtype);
  const int64_t last = x->type.rank() - 1;
  std::vector<int64_t> turned;
  for (int64_t i = 0; i <= last; ++i) turned.push_back(i);
  std::swap(turned[at(axis)], turned[at(last)]);
  Value* product = call.emit(Op::matmul_, {call.build().transpose(x, turned), call.build().transpose(matrix, {1, 0})});
  return call.build().transpose(product, turned);
}

template <size_t spatial> void import_adaptive_average_pool(Call& call) {
  const Image image = with_batch(call, "self", spatial);
  const Shape input = shape_of(image.x);
  const std::vector<int64_t> output = call.per_axis("output_size", spatial);
  std::vector<int64_t> kernel;
  bool is_even = true, is_global = true;
  for (size_t i = 0; i < spatial; ++i) {
    if (output[i] < 1 || input[i + 2] < 1)
      Call::refuse("type-error", "an adaptive pool of " + to_string(image.x->type) + " without elements");
    is_even = is_even && input[i + 2] % output[i] == 0;
    is_global = is_global && output[i] == 1;
    kernel.push_back(input[i + 2] / output[i]);
  }
  Value* y = image.x;
  if (is_global) {
    y = call.emit(Op::global_average_pool_, {y});
  } else if (is_even) {
    y = call.emit(Op::average_pool_, {y},
                  {{"kernel", kernel},
                   {"strides", kernel},
                   {"dilations", std::vector<int64_t>(spatial, 1)},
                   {"pads", std::vector<int64_t>(2 * spatial, 0)},
                   {"ceil_mode", false},
                   {"auto_pad", "NOTSET"},
                   {"count_include_pad", false}});
  } else {
    for (size_t i = 0; i < spatial; ++i) y = average_axis(call, y, static_cast<int64_t>(i) + 2, output[i]);
  }
  call.result(without_batch(call, y, image.added));
}

/// Positions along an axis of the elements of each window, [output, width]; narrow windows name their last element again.
Tensor window_positions(int64_t input, int64_t output) {
  int64_t width = 0;
  for (int64_t i = 0; i < output; ++i) width = std::max(width, window_end(i, input, output) - window_begin(i, input, output));
  check_count(times(output, width), 1 << 26, "elements of the windows of an adaptive pool");
  Tensor positions(DType::i64, {output, width});
  for (int64_t i = 0; i < output; ++i) {
    for (int64_t k = 0; k < width; ++k)
      positions.set_double(i * width + k,
                           static_cast<double>(std::min(window_begin(i, input, output) + k, window_end(i, input, output) - 1)));
  }
  return positions;
}

/// The largest of each window and its position in the channel. Windows are looked up, side by side in the last axis.
template <size_t spatial> void import_adaptive_max_pool(Call& call) {
  Builder& b = call.build();
  const Image image = with_batch(call, "self", spatial);
  const Shape input = shape_of(image.x);
  const std::vector<int64_t> output = call.per_axis("output_size", spatial);
  Value *windows = image.x, *places = b.full_int(DType::i64, {}, 0);
  Shape result{input[0], input[1]};
  std::vector<int64_t> order{0, 1}, within;
  for (size_t i = 0; i < spatial; ++i) {
    if (output[i] < 1 || input[i + 2] < 1)
      Call::refuse("type-error", "an adaptive pool of " + to_string(image.x->type) + " without elements");
    const Tensor positions = window_positions(input[i + 2], output[i]);
    Value* index = b.constant(positions, "windows");
    windows = call.emit(Op::gather_, {windows, index}, {{"axis", static_cast<int64_t>(2 + 2 * i)}});
    Shape spread(2 * spatial, 1);
    spread[2 * i] = output[i];
    spread[2 * i + 1] = positions.shape()[1];
    places = b.add(b.binary(Op::mul_, places, b.full_int(DType::i64, {}, input[i + 2])), b.reshape(index, spread));
    order.push_back(static_cast<int64_t>(2 + 2 * i));
    within.push_back(static_cast<int64_t>(3 + 2 * i));
    result.push_back(output[i]);
  }
  order.insert(order.end(), within.begin(), within.end());
  const int64_t last = static_cast<int64_t>(2 + spatial);
  Shape apart = result;
  apart.push_back(windows->type.count() / std::max<int64_t>(num_elements(std::span<const int64_t>(result)), 1));
  windows = b.reshape(b.transpose(windows, order), apart);
  std::vector<int64_t> order_of_places;
  for (size_t i = 2; i < order.size(); ++i) order_of_places.push_back(order[i] - 2);
  Shape listed(apart.begin() + 2, apart.end());
  places = b.broadcast_to(b.reshape(b.transpose(places, order_of_places), listed), apart);
  Value* best = call.emit(Op::arg_reduce_, {windows}, {{"op", "max"}, {"axis", last}, {"keepdims", true}, {"last", false}});
  const auto chosen = [&](Value* x) {
    return without_batch(call, b.reshape(call.emit(Op::gather_elements_, {x, best}, {{"axis", last}}), result), image.added);
  };
  call.results({chosen(windows), chosen(places)});
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"max_pool1d.default(self, kernel_size, stride=[], padding=0, dilation=1, ceil_mode=False)", import_max_pool<1>},
    {"max_pool2d.default(self, kernel_size, stride=[], padding=0, dilation=1, ceil_mode=False)", import_max_pool<2>},
    {"max_pool3d.default(self, kernel_size, stride=[], padding=0, dilation=1, ceil_mode=False)", import_max_pool<3>},
    {"max_pool2d_with_indices.default(self, kernel_size, stride=[], padding=0, dilation=1, ceil_mode=False)",
     import_max_pool_with_indices<2>},
    {"max_pool3d_with_indices.default(self, kernel_size, stride=[], padding=0, dilation=1, ceil_mode=False)",
     import_max_pool_with_indices<3>},
    {"avg_pool1d.default(self, kernel_size, stride=[], padding=0, ceil_mode=False, count_include_pad=True)", import_average_pool<1>},
    {"avg_pool2d.default(self, kernel_size, stride=[], padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None)",
     import_average_pool<2>},
    {"avg_pool3d.default(self, kernel_size, stride=[], padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None)",
     import_average_pool<3>},
    {"adaptive_max_pool1d.default(self, output_size)", import_adaptive_max_pool<1>},
    {"adaptive_max_pool2d.default(self, output_size)", import_adaptive_max_pool<2>},
    {"adaptive_max_pool3d.default(self, output_size)", import_adaptive_max_pool<3>},
    {"adaptive_avg_pool1d.default(self, output_size)", import_adaptive_average_pool<1>},
    {"adaptive_avg_pool2d.default(self, output_size)", import_adaptive_average_pool<2>},
    {"_adaptive_avg_pool2d.default(self, output_size)", import_adaptive_average_pool<2>},
    {"adaptive_avg_pool3d.default(self, output_size)", import_adaptive_average_pool<3>},
    {"_adaptive_avg_pool3d.default(self, output_size)", import_adaptive_average_pool<3>},
});

}  // namespace

std::span<const Handler> pool_handlers() { return kHandlers; }

}  // namespace tcc::fx
