// Evaluator of conv_general: im2col, then one matrix product per image and group.
//
// The columns are made for a block of output positions at a time, which is also what the threads share out: [C / groups * kernel, block], element
// (c, k; p) being the input that kernel position k meets at output position p, or 0 in the padding and in the gaps of a dilated input.
// Works for any number of spatial axes; the last one is the inner loop.

#include <cstring>

#include "rules/gemm.h"
#include "rules/working.h"

#include "tcc/support/integer_math.h"

namespace tcc {
namespace {

struct Geometry {
  std::vector<int64_t> input, output, kernel;  // spatial extents
  std::vector<int64_t> strides, low, lhs_dilation, rhs_dilation;
  int64_t input_size, output_size, kernel_size;
};

/// The input index that an index of the dilated, padded input stands for; -1 for padding and gaps.
int64_t source_index(const Geometry& g, size_t axis, int64_t output, int64_t kernel) {
  const int64_t at = output * g.strides[axis] - g.low[axis] + kernel * g.rhs_dilation[axis];
  if (at < 0 || at % g.lhs_dilation[axis] != 0) return -1;
  const int64_t index = at / g.lhs_dilation[axis];
  return index < g.input[axis] ? index : -1;
}

/// One row of columns: what kernel position `kernel_at` meets at output positions [first, first + size) of one channel.
template <class T> void fill_row(const Geometry& g, const T* channel, int64_t kernel_at, int64_t first, int64_t size, T* to) {
  const size_t rank = g.input.size();
  std::vector<int64_t> kernel(rank), at(rank);
  for (size_t i = rank; i-- > 0;) {
    kernel[i] = kernel_at % g.kernel[i];
    kernel_at /= g.kernel[i];
  }
  const int64_t last_axis = static_cast<int64_t>(rank) - 1;
  for (int64_t done = 0; done < size;) {
    // A run along the last axis, from the position that `first + done` stands for.
    int64_t rest = first + done;
    const int64_t run_start = rest % g.output[rank - 1];
    const int64_t run = std::min(g.output[rank - 1] - run_start, size - done);
    rest /= g.output[rank - 1];
    int64_t offset = 0;
    bool inside = true;
    int64_t stride = g.input[rank - 1];
    for (int64_t i = last_axis - 1; i >= 0; --i) {
      const size_t axis = static_cast<size_t>(i);
      const int64_t index = source_index(g, axis, rest % g.output[axis], kernel[axis]);
      rest /= g.output[axis];
      inside = inside && index >= 0;
      offset += index * stride;
      stride *= g.input[axis];
    }
    T* out = to + done;
    if (!inside) {
      std::fill_n(out, run, T(0));
    } else if (g.lhs_dilation[rank - 1] == 1) {
      const int64_t step = g.strides[rank - 1];
      const int64_t start = run_start * step - g.low[rank - 1] + kernel[rank - 1] * g.rhs_dilation[rank - 1];
      const int64_t extent = g.input[rank - 1];
      const T* row = channel + offset;
      for (int64_t i = 0; i < run; ++i) {
        const int64_t index = start + i * step;
        out[i] = index >= 0 && index < extent ? row[index] : T(0);
      }
    } else {
      for (int64_t i = 0; i < run; ++i) {
        const int64_t index = source_index(g, rank - 1, run_start + i, kernel[rank - 1]);
        out[i] = index >= 0 ? channel[offset + index] : T(0);
      }
    }
    done += run;
  }
}

}  // namespace

std::vector<Tensor> eval_conv_general(const EvalInput& input) {
  const Attrs& attrs = input.node.attrs;
  const DType dtype = rules::working_dtype(rules::held_dtype(input), input.f64);
  // Without spatial axes: a product of channels; an axis of extent 1 makes it the general case.
  auto spatial = [](const Shape& shape) {
    return shape.size() > 2 ? std::vector<int64_t>(shape.begin() + 2, shape.end()) : std::vector<int64_t>{1};
  };
  auto ints = [&](std::string_view name, int64_t fill) {
    return attrs.get_ints(name).empty() ? std::vector<int64_t>{fill} : attrs.get_ints(name);
  };
  const Tensor x = input.operands[0].cast_to(dtype);
  const Tensor w = input.operands[1].cast_to(dtype);
  const Shape shape = rules::result_shape(input);
  Geometry g{spatial(x.shape()),
             spatial(shape),
             spatial(w.shape()),
             ints("strides", 1),
             ints("low", 0),
             ints("lhs_dilation", 1),
             ints("rhs_dilation", 1),
             1,
             1,
             1};
  g.input_size = num_elements(g.input);
  g.output_size = num_elements(g.output);
  g.kernel_size = num_elements(g.kernel);
  const int64_t groups = attrs.get_int("groups");
  const int64_t channels = w.shape()[1], outputs = shape[1] / groups, images = shape[0];
  const int64_t depth = channels * g.kernel_size;

  Tensor result(dtype, shape);
  // A block of columns stays in the second-level cache.
  const int64_t block = std::clamp<int64_t>(65536 / std::max<int64_t>(depth, 1) / 8 * 8, 64, rules::kGemmColumns);
  const int64_t blocks = ceil_div(g.output_size, block);
  rules::visit_working(dtype, [&](auto zero) {
    using T = std::conditional_t<std::is_same_v<decltype(zero), int64_t>, uint64_t, decltype(zero)>;
    T* to = result.mutable_data<T>();
    rules::for_chunks(images * groups * blocks, std::min(block, g.output_size) * depth * outputs / 8 + 1, [&](int64_t begin, int64_t end) {
      std::vector<T> columns(static_cast<size_t>(depth * block));
      for (int64_t item = begin; item < end; ++item) {
        const int64_t first = item % blocks * block, group = item / blocks % groups, image = item / blocks / groups;
        const int64_t size = std::min(block, g.output_size - first);
        for (int64_t row = 0; row < depth; ++row) {
          const int64_t channel = (image * groups + group) * channels + row / g.kernel_size;
          fill_row(g, x.data<T>() + channel * g.input_size, row % g.kernel_size, first, size, columns.data() + row * size);
        }
        rules::gemm<T>(outputs, size, depth, w.data<T>() + group * outputs * depth, depth, columns.data(), size,
                       to + (image * groups + group) * outputs * g.output_size + first, g.output_size);
      }
    });
  });
  return rules::finish(input, result);
}

}  // namespace tcc
