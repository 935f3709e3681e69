// Working dtypes and strided copies; see working.h.

#include "rules/working.h"

#include <cstdlib>
#include <cstring>

#include "tcc/support/integer_math.h"

namespace tcc::rules {

DType working_dtype(DType dtype, bool f64) {
  if (is_float(dtype)) return f64 || dtype == DType::f64 ? DType::f64 : DType::f32;
  return is_signed_integer(dtype) ? DType::i64 : DType::u64;
}

Tensor working(const EvalInput& input, int i) {
  const Tensor& operand = input.operands[static_cast<size_t>(i)];
  return operand.cast_to(working_dtype(operand.dtype(), input.f64));
}

DType held_dtype(const EvalInput& input, int i) {
  const DType dtype = input.node.result(i)->type.dtype;
  return input.f64 && is_float(dtype) ? DType::f64 : dtype;
}

Shape result_shape(const EvalInput& input, int i) { return input.node.result(i)->type.shape(); }

std::vector<Tensor> finish(const EvalInput& input, const Tensor& result) { return {result.cast_to(held_dtype(input))}; }

Tensor unpacked(const Tensor& x) {
  if (size_bits(x.dtype()) >= 8) return x;
  return x.cast_to(x.dtype() == DType::i4 ? DType::i8 : DType::u8);
}

AxisView around_axis(std::span<const int64_t> shape, int64_t axis) {
  AxisView view;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (static_cast<int64_t>(i) < axis) view.outer *= shape[i];
    else if (static_cast<int64_t>(i) == axis) view.extent = shape[i];
    else view.inner *= shape[i];
  }
  return view;
}

namespace {

struct Axis {
  int64_t extent, to, from;
};

/// Without unit axes; neighbours that step through both memories alike are one axis.
std::vector<Axis> merged_axes(const Shape& shape, const std::vector<int64_t>& to, const std::vector<int64_t>& from) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    const Axis axis{shape[i], to[i], from[i]};
    if (!axes.empty() && axes.back().to == axis.extent * axis.to && axes.back().from == axis.extent * axis.from) {
      axes.back() = {axes.back().extent * axis.extent, axis.to, axis.from};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

template <class Word> void copy_axes(const std::vector<Axis>& axes, Word* to, const Word* from) {
  if (axes.empty()) {
    *to = *from;
    return;
  }
  // Two inner loops: the last axis, and the one that the source has contiguous when that is another (a transpose, walked in square tiles so
  // that each cache line is read once). The rest is counted by one flat index, which the threads share out.
  const Axis inner = axes.back();
  size_t contiguous = axes.size() - 1;
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    if (std::abs(axes[i].from) == 1 && std::abs(inner.from) != 1 && inner.from != 0) contiguous = i;
  }
  const bool tiled = contiguous + 1 != axes.size();
  const Axis tile_axis = tiled ? axes[contiguous] : Axis{1, 0, 0};
  constexpr int64_t kTile = 32;
  const int64_t tiles = ceil_div(tile_axis.extent, kTile);
  std::vector<Axis> outer;
  int64_t count = 1;
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    if (tiled && i == contiguous) continue;
    outer.push_back(axes[i]);
    count *= axes[i].extent;
  }
  for_chunks(count * tiles, inner.extent * std::min(tile_axis.extent, kTile), [&](int64_t begin, int64_t end) {
    for (int64_t flat = begin; flat < end; ++flat) {
      int64_t rest = flat / tiles, to_offset = 0, from_offset = 0;
      for (size_t i = outer.size(); i-- > 0;) {
        const int64_t index = rest % outer[i].extent;
        rest /= outer[i].extent;
        to_offset += index * outer[i].to;
        from_offset += index * outer[i].from;
      }
      const int64_t first = flat % tiles * kTile;
      const int64_t last = std::min(first + kTile, tile_axis.extent);
      if (!tiled) {
        Word* t = to + to_offset;
        const Word* f = from + from_offset;
        if (inner.to == 1 && inner.from == 1) {
          std::memcpy(t, f, static_cast<size_t>(inner.extent) * sizeof(Word));
        } else {
          for (int64_t j = 0; j < inner.extent; ++j) t[j * inner.to] = f[j * inner.from];
        }
        continue;
      }
      for (int64_t block = 0; block < inner.extent; block += kTile) {
        const int64_t block_end = std::min(block + kTile, inner.extent);
        for (int64_t i = first; i < last; ++i) {
          Word* t = to + to_offset + i * tile_axis.to;
          const Word* f = from + from_offset + i * tile_axis.from;
          for (int64_t j = block; j < block_end; ++j) t[j * inner.to] = f[j * inner.from];
        }
      }
    }
  });
}

}  // namespace

void copy_strided(const Shape& shape, std::byte* destination, const Strided& to, const std::byte* source, const Strided& from,
                  int element_bytes) {
  if (num_elements(shape) == 0) return;
  const std::vector<Axis> axes = merged_axes(shape, to.strides, from.strides);
  auto copy = [&](auto word) {
    using Word = decltype(word);
    copy_axes(axes, reinterpret_cast<Word*>(destination) + to.offset, reinterpret_cast<const Word*>(source) + from.offset);
  };
  switch (element_bytes) {
    case 1: return copy(uint8_t{});
    case 2: return copy(uint16_t{});
    case 4: return copy(uint32_t{});
    case 8: return copy(uint64_t{});
    default: internal_error("an element of a size that no dtype has");
  }
}

Tensor gather_strided(const Tensor& source, const Shape& shape, const Strided& from) {
  if (size_bits(source.dtype()) < 8) return gather_strided(unpacked(source), shape, from).cast_to(source.dtype());
  Tensor result(source.dtype(), shape);
  copy_strided(shape, result.mutable_bytes(), {0, row_major_strides(shape)}, source.bytes(), from, size_bytes(source.dtype()));
  return result;
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const std::vector<int64_t> strides = row_major_strides(x.shape());
  Strided from{0, std::vector<int64_t>(shape.size(), 0)};
  const size_t lead = shape.size() - x.shape().size();
  for (size_t i = 0; i < x.shape().size(); ++i) {
    if (x.shape()[i] != 1) from.strides[lead + i] = strides[i];
  }
  return gather_strided(x, shape, from);
}

Tensor transpose(const Tensor& x, const std::vector<int64_t>& permutation) {
  const std::vector<int64_t> strides = row_major_strides(x.shape());
  Strided from;
  Shape shape;
  bool identity = true;
  for (size_t i = 0; i < permutation.size(); ++i) {
    const size_t axis = static_cast<size_t>(permutation[i]);
    shape.push_back(x.shape()[axis]);
    from.strides.push_back(strides[axis]);
    identity = identity && axis == i;
  }
  return identity ? x : gather_strided(x, shape, from);
}

}  // namespace tcc::rules
