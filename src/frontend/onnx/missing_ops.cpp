#include "frontend/onnx/missing_ops.h"

#include <algorithm>

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

void MissingOps::add(const std::string& op, const std::string& where, const std::string& node) {
  auto found = std::find_if(ops_.begin(), ops_.end(), [&](const Op& other) { return other.text == op; });
  if (found == ops_.end()) found = ops_.insert(ops_.end(), {op, {}, {}});
  found->places.push_back(where);
  found->nodes.push_back(node);
}

void MissingOps::report(Diagnostics& diagnostics, bool every_node) {
  for (const Op& op : ops_) {
    if (every_node) {
      for (const std::string& place : op.places) diagnostics.not_supported("unsupported-op", place, op.text);
      continue;
    }
    const std::string nodes = op.nodes.size() > 1 ? ", " + std::to_string(op.nodes.size()) + " nodes: " + list_of(op.nodes) : "";
    diagnostics.not_supported("unsupported-op", op.places.front(), op.text + nodes);
  }
  ops_.clear();
}

}  // namespace tcc::onnx
