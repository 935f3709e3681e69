// What passes over products share: the axes of a dot_general, and their replacement by other nodes.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "passes/rewrite.h"
#include "tcc/rules/builder.h"

namespace tcc {

using Axes = std::vector<int64_t>;

inline bool contains(const Axes& axes, int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

/// The axes of one side of a product, and where they are in its result.
struct Side {
  Axes batch, contract, free;
  int64_t first_free = 0;  ///< of the result

  int rank() const { return static_cast<int>(batch.size() + contract.size() + free.size()); }
  Axes places() const;
};

/// Side `number` of a dot_general, whose free axes in the result begin at `first_free`.
Side side_of(const Node& node, int number, int64_t first_free);

/// Whether the node is a view that keeps all elements of its operand.
inline bool is_bijective(const Node& node) { return node.op == Op::reshape_ || node.op == Op::transpose_; }

/// What makes a value, seen through views that keep its elements; null for a parameter.
const Node* before_views(const Value& value);

/// Products are replaced, in every use.
class ProductReplacer {
 public:
  ProductReplacer(Graph& graph, bool keep_parameters) : graph_(graph), rewriter_(graph, keep_parameters) {}
  virtual ~ProductReplacer() = default;
  void run();

 protected:
  /// What stands for the result of a dot_general, whose operands are those that stand now; null where it stays, and then nothing may have been emitted.
  virtual Value* multiply(const Node& node, Builder& builder) = 0;

  Graph& graph_;
  Rewriter rewriter_;  // knows constants

 private:
  void sweep(Region& region);
  bool replace(const Node& node, Region& region);
  Value* now(Value* value) const;

  std::unordered_map<Value*, Value*> replaced_;
};

}  // namespace tcc
