// Which ops of a model are unknown, of a domain that it doesn't import, or of a version that is not read.
#include <set>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/node_names.h"
#include "frontend/onnx/unsupported.h"

namespace tcc::onnx {

namespace {

/// Whether opsets 1 to 5 have the op in the form that opset 6 has: a model of those alone is read, too.
bool is_same_since_opset_1(const std::string& op) {
  static const std::set<std::string, std::less<>> ops = {"And",
                                                         "ArgMax",
                                                         "ArgMin",
                                                         "AveragePool",
                                                         "Constant",
                                                         "Conv",
                                                         "ConvTranspose",
                                                         "DepthToSpace",
                                                         "Equal",
                                                         "Flatten",
                                                         "Gather",
                                                         "GlobalAveragePool",
                                                         "GlobalMaxPool",
                                                         "Greater",
                                                         "Identity",
                                                         "LRN",
                                                         "Less",
                                                         "LogSoftmax",
                                                         "MatMul",
                                                         "MaxPool",
                                                         "Not",
                                                         "Or",
                                                         "Pow",
                                                         "ReduceL1",
                                                         "ReduceL2",
                                                         "ReduceLogSum",
                                                         "ReduceLogSumExp",
                                                         "ReduceMax",
                                                         "ReduceMean",
                                                         "ReduceMin",
                                                         "ReduceProd",
                                                         "ReduceSum",
                                                         "ReduceSumSquare",
                                                         "Shape",
                                                         "Size",
                                                         "Slice",
                                                         "Softmax",
                                                         "Softplus",
                                                         "Softsign",
                                                         "SpaceToDepth",
                                                         "Squeeze",
                                                         "Transpose",
                                                         "Unsqueeze",
                                                         "Xor"};
  return ops.contains(op);
}

}  // namespace

void Importer::check_ops(const Nodes& nodes, const Body& body, std::set<const pb::FunctionProto*>& seen) {
  for (const auto& node : nodes) {
    const std::string domain = domain_of(node.domain());
    if (const pb::FunctionProto* function = functions_.find(node)) {
      if (!seen.insert(function).second) continue;
      Body inner;
      inner.opsets = body.opsets;
      for (const auto& import : function->opset_import()) inner.opsets[domain_of(import.domain())] = import.version();
      inner.prefix = body.prefix + name_of_node(node) + "/";
      check_ops(function->node(), inner, seen);
      continue;
    }
    const auto opset = body.opsets.find(domain);
    if (find_handler(domain, node.op_type()) == nullptr) {
      add_missing_op(node, body);
    } else if (opset == body.opsets.end()) {
      diagnostics_.error("malformed-file", where(body, node),
                         "op `" + node.op_type() + "` is of domain `" + domain_text(domain) + "`, which the model does not import");
    } else if (domain.empty() &&
               ((opset->second < kOldestOpset && !is_same_since_opset_1(node.op_type())) || opset->second > kNewestOpset)) {
      // One message for all: the version is a property of the model.
      diagnostics_.not_supported("unsupported-opset", faults_.file(),
                                 "the model is of opset " + std::to_string(opset->second) + ", " + std::to_string(kOldestOpset) + " to " +
                                     std::to_string(kNewestOpset) + " are read");
      diagnostics_.help(faults_.file(), "export the model with an opset in that range, or convert it with onnx.version_converter");
      return;
    }
    check_ops_of_graphs(node, body, seen);
  }
}

/// The graphs of loops, which run. Of an If only one side does, which may not be known yet.
void Importer::check_ops_of_graphs(const pb::NodeProto& node, const Body& body, std::set<const pb::FunctionProto*>& seen) {
  if (node.op_type() == "If") return;
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    Body inner;
    inner.opsets = body.opsets;
    inner.prefix = body.prefix + name_of_node(node) + "/";
    check_ops(attribute.g().node(), inner, seen);
  }
}

void Importer::add_missing_op(const pb::NodeProto& node, const Body& body) {
  const std::string domain = domain_of(node.domain()), &op = node.op_type();
  const auto opset = body.opsets.find(domain);
  const std::string version = opset == body.opsets.end() ? "none imported" : std::to_string(opset->second);
  const auto remark = [&] { return MissingOps::Remark{kind_of_unknown(domain, op), remedy_for(domain, op)}; };
  missing_ops_.add("op `" + op + "` of domain `" + domain_text(domain) + "`, opset " + version, where(body, node),
                   body.prefix + name_of_node(node), remark);
}

void Importer::report_missing_ops() {
  missing_ops_.report(diagnostics_, options_.report_every_node);
  faults_.checkpoint();
}

}  // namespace tcc::onnx
