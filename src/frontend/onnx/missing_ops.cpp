#include "frontend/onnx/missing_ops.h"

#include <algorithm>

#include "frontend/onnx/unsupported.h"

namespace tcc::onnx {

namespace {

constexpr size_t kMaxNamed = 3;

/// "`a`, `b`, `c` and 9 more"
std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMaxNamed; ++i) text += (i == 0 ? "`" : ", `") + names[i] + "`";
  return names.size() > kMaxNamed ? text + " and " + std::to_string(names.size() - kMaxNamed) + " more" : text;
}

}  // namespace

void MissingOps::add(const std::string& domain, const std::string& op, const std::string& opset, const std::string& where,
                     const std::string& node) {
  const std::string text = "op `" + op + "` of domain `" + (domain.empty() ? "ai.onnx" : domain) + "`, opset " + opset;
  auto found = std::find_if(ops_.begin(), ops_.end(), [&](const Op& other) { return other.text == text; });
  if (found == ops_.end()) found = ops_.insert(ops_.end(), {text, kind_of_unknown(domain, op), remedy_for(domain, op), {}, {}});
  found->places.push_back(where);
  found->nodes.push_back(node);
}

void MissingOps::report(Diagnostics& diagnostics, bool every_node) {
  for (const Op& op : ops_) {
    if (every_node) {
      for (const std::string& place : op.places) {
        diagnostics.not_supported(op.kind, place, op.text);
        if (&place == &op.places.front()) diagnostics.help(place, op.remedy);
      }
      continue;
    }
    const std::string nodes = op.nodes.size() > 1 ? ", " + std::to_string(op.nodes.size()) + " nodes: " + list_of(op.nodes) : "";
    diagnostics.not_supported(op.kind, op.places.front(), op.text + nodes);
    diagnostics.help(op.places.front(), op.remedy);
  }
  ops_.clear();
}

}  // namespace tcc::onnx
