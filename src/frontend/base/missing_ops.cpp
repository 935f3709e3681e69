#include "frontend/base/missing_ops.h"

namespace tcc {

namespace {

constexpr size_t kMaxNamed = 3;

/// "`a`, `b`, `c` and 9 more"
std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMaxNamed; ++i) text += (i == 0 ? "`" : ", `") + names[i] + "`";
  return names.size() > kMaxNamed ? text + " and " + std::to_string(names.size() - kMaxNamed) + " more" : text;
}

}  // namespace

void MissingOps::add(const std::string& op, const std::string& where, const std::string& node, const std::function<Remark()>& remark) {
  const auto [found, is_new] = index_.emplace(op, ops_.size());
  if (is_new) ops_.push_back({op, remark(), {}, {}});
  ops_[found->second].places.push_back(where);
  ops_[found->second].nodes.push_back(node);
  ++num_nodes_;
}

void MissingOps::report(Diagnostics& diagnostics, bool every_node) {
  for (const Op& op : ops_) {
    const auto& [kind, remedy] = op.remark;
    const size_t num_messages = every_node ? op.places.size() : 1;
    const std::string nodes = num_messages < op.nodes.size() ? ", " + std::to_string(op.nodes.size()) + " nodes: " + list_of(op.nodes) : "";
    for (size_t i = 0; i < num_messages; ++i) {
      diagnostics.not_supported(kind, op.places[i], op.text + nodes);
      if (i == 0 && !remedy.empty()) diagnostics.help(op.places[i], remedy);
    }
  }
  ops_.clear();
  index_.clear();
  num_nodes_ = 0;
}

}  // namespace tcc
