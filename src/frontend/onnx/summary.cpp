#include "frontend/onnx/summary.h"

#include <algorithm>

#include "frontend/onnx/functions.h"
#include "frontend/onnx/handlers.h"
#include "frontend/onnx/parse.h"
#include "frontend/onnx/tensors.h"

namespace tcc::onnx {

namespace {

std::string type_text(const pb::TypeProto& type) {
  if (type.has_sequence_type()) return "sequence";
  if (type.has_map_type()) return "map";
  if (type.has_optional_type()) return "optional";
  if (!type.has_tensor_type()) return "without a type";
  std::string text = onnx_type_name(type.tensor_type().elem_type());
  if (!type.tensor_type().has_shape()) return text + "[*]";
  std::string sizes;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    sizes += sizes.empty() ? "" : ", ";
    if (dim.has_dim_value()) sizes += std::to_string(dim.dim_value());
    else sizes += dim.dim_param().empty() ? "?" : dim.dim_param();
  }
  return text + "[" + sizes + "]";
}

class Summarizer {
 public:
  explicit Summarizer(const pb::ModelProto& model) : model_(model) {}

  ModelSummary run() {
    summary_.graph = model_.graph().name();
    summary_.producer = model_.producer_name() + (model_.producer_version().empty() ? "" : " " + model_.producer_version());
    summary_.ir_version = model_.ir_version();
    for (const auto& opset : model_.opset_import()) summary_.opsets.emplace_back(domain_text(opset.domain()), opset.version());
    summary_.num_functions = model_.functions_size();
    for (const auto& function : model_.functions()) {
      own_.insert(domain_text(function.domain()) + "::" + function.name());
      count_ops(function.node());
    }
    for (const auto& tensor : model_.graph().initializer()) add_weight(tensor);
    for (const auto& tensor : model_.graph().sparse_initializer()) add_weight(tensor.values());
    for (const auto& input : model_.graph().input()) {
      if (!weights_.contains(input.name())) summary_.inputs.push_back({input.name(), type_text(input.type())});
    }
    for (const auto& output : model_.graph().output()) summary_.outputs.push_back({output.name(), type_text(output.type())});
    count_ops(model_.graph().node());
    std::stable_sort(summary_.ops.begin(), summary_.ops.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
    return std::move(summary_);
  }

 private:
  void count_ops(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes) {
    for (const auto& node : nodes) {
      ++summary_.num_nodes;
      const std::string domain = domain_of(node.domain());
      const std::string name = domain.empty() ? node.op_type() : domain + "::" + node.op_type();
      auto op = std::find_if(summary_.ops.begin(), summary_.ops.end(), [&](const auto& other) { return other.name == name; });
      if (op == summary_.ops.end()) {
        const bool known = find_handler(domain, node.op_type()) != nullptr || own_.contains(domain_text(domain) + "::" + node.op_type());
        op = summary_.ops.insert(summary_.ops.end(), {name, 0, known});
      }
      ++op->count;
    }
  }

  void add_weight(const pb::TensorProto& tensor) {
    weights_.insert(tensor.name());
    ++summary_.num_weights;
    const auto dtype = dtype_of(tensor.data_type());
    int64_t elements = 1;
    for (const int64_t extent : tensor.dims()) {
      if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements)) elements = 0;  // refused when it is imported
    }
    int64_t bytes = 0;
    if (elements < (int64_t{1} << 58)) {
      if (dtype) bytes = storage_bytes(*dtype, elements);
      else if (const NarrowType* narrow = narrow_type(tensor.data_type())) bytes = packed_bytes(*narrow, elements);
    }
    summary_.weight_elements += elements;
    summary_.weight_bytes += bytes;
    summary_.bytes_by_dtype[onnx_type_name(tensor.data_type())] += bytes;
    if (tensor.data_location() != pb::TensorProto::EXTERNAL) return;
    summary_.external_bytes += bytes;
    for (const auto& entry : tensor.external_data()) {
      auto& files = summary_.external_files;
      if (entry.key() == "location" && std::find(files.begin(), files.end(), entry.value()) == files.end()) files.push_back(entry.value());
    }
  }

  const pb::ModelProto& model_;
  ModelSummary summary_;
  std::set<std::string> weights_, own_;
};

}  // namespace

ModelSummary summarize(const ModelFile& file) { return Summarizer(*parse_model(file)).run(); }

}  // namespace tcc::onnx
