// Single tensors as files: the same messages as inside a model, one per file.
#include "tcc/frontend/tensor_file.h"

#include "frontend/onnx/tensors.h"
#include "tcc/graph/rule_error.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"

namespace tcc {
namespace {

int onnx_type_of(DType dtype) {
  for (int type = 1; type <= onnx::pb::TensorProto::INT4; ++type) {
    if (onnx::dtype_of(type) == dtype) return type;
  }
  internal_error("a dtype without a number in ONNX");
}

}  // namespace

Tensor read_tensor_proto(const std::string& path) {
  const auto file = MappedFile::open(path);
  auto proto = std::make_shared<onnx::pb::TensorProto>();
  const auto bytes = file->bytes();
  if (bytes.size() > INT32_MAX || !proto->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || proto->data_type() == 0) {
    throw Error(ExitCode::usage, "malformed-file", path, "the bytes are not a tensor: a serialized ONNX TensorProto was expected");
  }
  if (proto->data_location() == onnx::pb::TensorProto::EXTERNAL) {
    throw Error(ExitCode::usage, "external-data", path, "the bytes of the tensor are in another file, they were expected in this one");
  }
  try {
    return onnx::tensor_of(*proto, {nullptr, proto});
  } catch (const RuleError& error) { throw Error(ExitCode::usage, error.kind, path, error.message); }
}

void write_tensor_proto(const std::string& path, const Tensor& tensor, const std::string& name) {
  onnx::pb::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(onnx_type_of(tensor.dtype()));
  for (const int64_t extent : tensor.shape()) proto.add_dims(extent);
  proto.set_raw_data(tensor.bytes(), static_cast<size_t>(tensor.size_bytes()));
  write_file_atomically(path, std::string_view(proto.SerializeAsString()));
}

}  // namespace tcc
