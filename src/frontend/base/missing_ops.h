// Ops of a model that tcc does not know, each said once, however many nodes it has.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tcc/support/diagnostics.h"

namespace tcc {

class MissingOps {
 public:
  /// What is said about an op beside its name.
  struct Remark {
    std::string kind;    ///< of the message
    std::string remedy;  ///< text of the help line; empty: none
  };
  /// `op` as the message has it, `where` the node's place for a message, `node` its name. `remark` is asked for once per op.
  void add(const std::string& op, const std::string& where, const std::string& node, const std::function<Remark()>& remark);
  /// Nodes that were added since the last report.
  int num_nodes() const { return num_nodes_; }
  /// Says all of them, in the order of their first nodes, and forgets them.
  void report(Diagnostics& diagnostics, bool every_node);

 private:
  struct Op {
    std::string text;
    Remark remark;
    std::vector<std::string> places, nodes;
  };
  std::vector<Op> ops_;
  std::unordered_map<std::string, size_t> index_;  // by text
  int num_nodes_ = 0;
};

}  // namespace tcc
