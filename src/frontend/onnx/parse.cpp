// Parses with raised limits, then checks that what came out is a model at all: protobuf accepts many byte strings that mean nothing, as
// unknown fields are skipped silently.
#include "frontend/onnx/parse.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstring>
#include <limits>

namespace tcc::onnx {
namespace {

[[noreturn]] void malformed(const ModelFile& file, const std::string& message) {
  throw Error(ExitCode::model, "malformed-file", file.name, message, "pass an .onnx file; if it was downloaded, check that it is complete");
}

}  // namespace

std::shared_ptr<const pb::ModelProto> parse_model(const ModelFile& file) {
  if (file.bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw Error(
        ExitCode::model, "malformed-file", file.name,
        "the file has " + std::to_string(file.bytes.size()) + " bytes, an ONNX file has less than 2 GiB: protobuf holds no more",
        "save the weights as external data, in files beside it: onnx.save(model, path, save_as_external_data=True), or torch.onnx.export "
        "with external_data=True");
  }
  auto model = std::make_shared<pb::ModelProto>();
  google::protobuf::io::ArrayInputStream bytes(file.bytes.data(), static_cast<int>(file.bytes.size()));
  google::protobuf::io::CodedInputStream stream(&bytes);
  stream.SetTotalBytesLimit(std::numeric_limits<int>::max());
  stream.SetRecursionLimit(1000);  // nested subgraphs
  if (!model->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    malformed(file, "the bytes are not an ONNX model: the protobuf message is truncated or malformed");
  }
  if (!model->has_graph()) malformed(file, "the bytes are not an ONNX model: there is no graph in it");
  return model;
}

}  // namespace tcc::onnx
