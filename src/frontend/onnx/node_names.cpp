#include "frontend/onnx/node_names.h"

#include <vector>

namespace tcc::onnx {

namespace {

// A list of Python, as text: the modules from the model itself ('') to the innermost, then the node that was captured:
//   ['', 'encoder', 'encoder.layer.0', 'linear_3']
constexpr std::string_view kScopes = "pkg.torch.onnx.name_scopes";

/// The elements of such a list that have no quotes or backslashes inside, as the names of modules and nodes have none; nothing for any other text.
std::vector<std::string> read_list(std::string_view text) {
  std::vector<std::string> elements;
  if (!text.starts_with('[') || !text.ends_with(']') || text.find('\\') != std::string_view::npos) return {};
  for (size_t at = 1; at + 1 < text.size();) {
    const char quote = text[at];
    const size_t end = quote == '\'' || quote == '"' ? text.find(quote, at + 1) : std::string_view::npos;
    if (end == std::string_view::npos) return {};
    elements.emplace_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
    if (text.substr(at).starts_with(", ")) at += 2;
    else if (at + 1 != text.size()) return {};
  }
  return elements;
}

/// The innermost module around the node, "" when unknown.
std::string module_of(const pb::NodeProto& node) {
  for (const auto& property : node.metadata_props()) {
    if (property.key() != kScopes) continue;
    const std::vector<std::string> scopes = read_list(property.value());
    return scopes.size() < 2 ? "" : scopes[scopes.size() - 2];
  }
  return "";
}

std::string own_name(const pb::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const std::string& output : node.output()) {
    if (!output.empty()) return node.op_type() + "(" + output + ")";
  }
  return node.op_type();
}

}  // namespace

std::string name_of_node(const pb::NodeProto& node) {
  const std::string module = module_of(node);
  return module.empty() ? own_name(node) : module + "/" + own_name(node);
}

}  // namespace tcc::onnx
