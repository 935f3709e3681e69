#include "frontend/fx/weight_files.h"

#include "frontend/fx/strided.h"
#include "tcc/graph/graph.h"
#include "tcc/support/beside.h"

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

Tensor tensor_in(const FileTensor& tensor, const std::shared_ptr<const MappedFile>& file, const std::string& fqn) {
  const auto size = static_cast<int64_t>(file->bytes().size());
  if (tensor.offset > size || tensor.length > size - tensor.offset) {
    throw RuleError{"malformed-file", "`" + tensor.file + "` has " + std::to_string(size) + " bytes, " + std::to_string(tensor.length) +
                                          " at offset " + std::to_string(tensor.offset) + " were expected"};
  }
  const auto bytes = file->bytes().subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.length));
  if (size_bits(tensor.dtype) >= 8) return read_strided({tensor.dtype, tensor.shape, tensor.strides, 0}, bytes, file, fqn);
  if (tensor.strides != row_major_strides(tensor.shape))
    throw RuleError{"malformed-file", "elements smaller than a byte have strides that are not row-major"};
  return Tensor(tensor.dtype, tensor.shape, bytes.data(), file);
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
  std::shared_ptr<const MappedFile>& file = files_[tensor.file];
  if (file == nullptr) {
    const BesideFile beside = find_beside(tensor.file, folders_);
    if (!beside.fault.empty()) throw RuleError{"external-data", beside.fault};
    file = MappedFile::open(beside.path);
    if (files_read_ != nullptr) files_read_->push_back(beside.path);
  }
  return read_.emplace(fqn, tensor_in(tensor, file, fqn)).first->second;
}

}  // namespace tcc::fx
