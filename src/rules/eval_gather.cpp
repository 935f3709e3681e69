// Evaluators of gather, gather_elements and gather_nd. An index may count from the end; one that is outside even so reads 0.

#include <cstring>

#include "rules/working.h"

namespace tcc {
namespace {

/// The index within [0, extent), or -1 when it is outside.
int64_t wrapped(int64_t index, int64_t extent) {
  if (index < 0) index += extent;
  return index >= 0 && index < extent ? index : -1;
}

}  // namespace

std::vector<Tensor> eval_gather(const EvalInput& input) {
  const Tensor data = rules::unpacked(input.operands[0]);
  const Tensor indices = input.operands[1].cast_to(DType::i64);
  const rules::AxisView view = rules::around_axis(data.shape(), input.node.attrs.get_int("axis"));
  Tensor result(data.dtype(), rules::result_shape(input));
  const int64_t count = indices.count(), bytes = view.inner * size_bytes(data.dtype());
  const int64_t* index = indices.data<int64_t>();
  std::byte* to = result.mutable_bytes();
  rules::for_chunks(view.outer * count, bytes, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t at = wrapped(index[item % count], view.extent);
      if (at >= 0) std::memcpy(to + item * bytes, data.bytes() + (item / count * view.extent + at) * bytes, static_cast<size_t>(bytes));
    }
  });
  return {result.cast_to(input.operands[0].dtype())};
}

std::vector<Tensor> eval_gather_elements(const EvalInput& input) {
  const Tensor data = rules::unpacked(input.operands[0]);
  const Tensor indices = input.operands[1].cast_to(DType::i64);
  const size_t axis = static_cast<size_t>(input.node.attrs.get_int("axis"));
  const std::vector<int64_t> strides = row_major_strides(data.shape());
  const Shape& shape = indices.shape();
  Tensor result(data.dtype(), shape);
  const size_t bytes = static_cast<size_t>(size_bytes(data.dtype()));
  rules::for_chunks(indices.count(), 16, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      int64_t rest = item, offset = 0;
      for (size_t i = shape.size(); i-- > 0;) {
        const int64_t coordinate = rest % shape[i];
        rest /= shape[i];
        if (i != axis) offset += coordinate * strides[i];
      }
      const int64_t at = wrapped(indices.data<int64_t>()[item], data.shape()[axis]);
      if (at < 0) continue;
      std::memcpy(result.mutable_bytes() + item * static_cast<int64_t>(bytes),
                  data.bytes() + (offset + at * strides[axis]) * static_cast<int64_t>(bytes), bytes);
    }
  });
  return {result.cast_to(input.operands[0].dtype())};
}

std::vector<Tensor> eval_gather_nd(const EvalInput& input) {
  const Tensor data = rules::unpacked(input.operands[0]);
  const Tensor indices = input.operands[1].cast_to(DType::i64);
  const size_t batch_dims = static_cast<size_t>(input.node.attrs.get_int("batch_dims"));
  const size_t depth = static_cast<size_t>(indices.shape().back());
  const std::vector<int64_t> strides = row_major_strides(data.shape());
  int64_t batch = 1, slice = size_bytes(data.dtype());
  for (size_t i = 0; i < batch_dims; ++i) batch *= data.shape()[i];
  for (size_t i = batch_dims + depth; i < data.shape().size(); ++i) slice *= data.shape()[i];
  Tensor result(data.dtype(), rules::result_shape(input));
  // Not from the indices' count: with an empty index vector each of them still stands for a whole slice.
  const int64_t tuples = num_elements(std::span(indices.shape()).first(indices.shape().size() - 1));
  const int64_t per_batch = batch == 0 ? 0 : tuples / batch;
  const int64_t batch_stride = batch_dims == 0 ? 0 : strides[batch_dims - 1];
  rules::for_chunks(tuples, slice, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t* tuple = indices.data<int64_t>() + item * static_cast<int64_t>(depth);
      int64_t offset = item / per_batch * batch_stride;
      bool inside = true;
      for (size_t i = 0; i < depth; ++i) {
        const int64_t at = wrapped(tuple[i], data.shape()[batch_dims + i]);
        inside = inside && at >= 0;
        offset += at * strides[batch_dims + i];
      }
      if (inside) {
        std::memcpy(result.mutable_bytes() + item * slice, data.bytes() + offset * size_bytes(data.dtype()), static_cast<size_t>(slice));
      }
    }
  });
  return {result.cast_to(input.operands[0].dtype())};
}

}  // namespace tcc
