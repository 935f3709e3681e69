#include "frontend/fx/weight_files.h"

#include "frontend/fx/strided.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

namespace {

/// What `length` must be: from the first element to the last. Nothing when that is no number of bytes.
std::optional<int64_t> bytes_of(const FileTensor& tensor) {
  if (num_elements(tensor.shape) == 0) return 0;
  if (size_bits(tensor.dtype) < 8) return storage_bytes(tensor.dtype, num_elements(tensor.shape));
  int64_t last = 0, bytes = 0;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.shape[axis] - 1, tensor.strides[axis], &reach) || __builtin_add_overflow(last, reach, &last))
      return std::nullopt;
  }
  if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, size_bytes(tensor.dtype), &bytes)) return std::nullopt;
  return bytes;
}

Tensor tensor_in(const FileTensor& tensor, const FilePart& part, const std::string& fqn) {
  if (size_bits(tensor.dtype) >= 8) return read_strided({tensor.dtype, tensor.shape, tensor.strides, 0}, part.bytes, part.file, fqn);
  if (tensor.strides != row_major_strides(tensor.shape))
    throw RuleError{"malformed-file", "elements smaller than a byte have strides that are not row-major"};
  return Tensor(tensor.dtype, tensor.shape, part.bytes.data(), part.file);
}

}  // namespace

Tensor WeightFiles::read(const std::string& fqn) {
  if (const auto found = read_.find(fqn); found != read_.end()) return found->second;
  const FileTensor& tensor = tensors_.at(fqn);
  const auto expected = bytes_of(tensor);
  if (!expected || *expected != tensor.length) {
    throw RuleError{"malformed-file", "`length` is " + std::to_string(tensor.length) + ", dtype, shape and strides need " +
                                          (expected ? std::to_string(*expected) + " bytes" : "more bytes than there can be")};
  }
  const FilePart part = files_.read(tensor.file, tensor.offset, tensor.length);
  return read_.emplace(fqn, tensor_in(tensor, part, fqn)).first->second;
}

}  // namespace tcc::fx
