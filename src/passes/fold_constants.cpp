// fold-constants: evaluates nodes whose operands are constants.
//   in:   a resolved or prims graph        out: the same values bit for bit, fewer nodes, other weights
//     %w: f32[3, 2] = transpose(@fc.weight) {permutation=[1, 0]}
//     %y: f32[8, 2] = matmul(%x, %w)
//   becomes
//     %y: f32[8, 2] = matmul(%x, @w)
// A result is stored when it is small, or not larger than the constants that go with it: weights and folded values that nothing else reads. So a
// chain folds into one weight, a cast of a tied embedding stays a cast. Results whose elements are all the same become `full`.
// Leaves alone: weights of 4 and 8 bits that would grow, before composites are decomposed, and afterwards where products of matrices alone use them. Those read
// them as they are (multiply_quantized.cpp), and a library holds them so. Convolutions read weights in the dtype in which they multiply.
// Leaves alone: `full` and `iota`, which cost nothing where they are read, and broadcasts that grow, and views of them, which are views; what reads them may fold.
// With `keep_parameters`, float weights of the model are no constants: a training step changes them.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "passes/check_indices.h"
#include "passes/known_values.h"
#include "tcc/graph/location.h"
#include "tcc/graph/rule_error.h"
#include "tcc/graph/uses.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/evaluate.h"

namespace tcc {
namespace {

constexpr int64_t kSmallBytes = 1 << 20;

class Folder {
 public:
  Folder(Graph& graph, bool keep_parameters, Diagnostics* diagnostics)
      : graph_(graph),
        keep_parameters_(keep_parameters),
        diagnostics_(diagnostics),
        users_(users_of(graph.body)),
        uses_(count_uses(graph)),
        known_(graph, kept_) {
    for (const Node* node : graph.body.nodes) has_composites_ = has_composites_ || info(node->op).kind == OpKind::composite;
  }

  void run() {
    const std::vector<Node*> nodes = std::move(graph_.body.nodes);
    for (Node* node : nodes) {
      if (!fold(*node)) keep(*node);
    }
    for (Value*& output : graph_.body.results) output = known_.present(output);
    for (StateUpdate& update : graph_.state_updates) update.value = known_.present(update.value);
    graph_.body.nodes = std::move(kept_);
  }

 private:
  bool is_constant(const Value* value) const {
    if (value->kind == Value::Kind::weight) {
      const Weight& weight = *value->weight;
      return !weight.is_state && (!keep_parameters_ || !weight.from_model || !is_float(value->type.dtype));
    }
    return known_.find(value) != nullptr;
  }

  /// Bytes that are no longer needed once a reader of the value is folded.
  int64_t released_bytes(const Value* value) const {
    const bool stored = value->kind == Value::Kind::weight || known_.is_absent(value);
    const bool last_reader = static_cast<size_t>(value->id) < uses_.size() && uses_[static_cast<size_t>(value->id)] == 1;
    return stored && last_reader ? value->type.size_bytes() : 0;
  }

  void keep(Node& node) {
    for (Value*& operand : node.operands) {
      if (operand != nullptr) operand = known_.present(operand);
    }
    present_in_regions(node);
    kept_.push_back(&node);
  }

  void present_in_regions(Node& node) {
    for (const auto& region : node.regions) {
      for (Node* inner : region->nodes) {
        for (Value*& operand : inner->operands) {
          if (operand != nullptr) operand = known_.present(operand);
        }
        present_in_regions(*inner);
      }
      for (Value*& result : region->results) result = known_.present(result);
    }
  }

  bool indices_fit(const Node& node) {
    if (diagnostics_ == nullptr) return true;
    try {
      check_indices(node, [&](const Value* value) { return known_.find(value); });
      return true;
    } catch (const RuleError& error) { report(*diagnostics_, graph_, node, error); }
    return false;
  }

  /// Whether elements of 4 or 8 bits get more; a few don't matter.
  bool widens(const Node& node) const {
    if (node.op != Op::cast_ && node.op != Op::dequantize_linear_) return false;
    constexpr int64_t kFew = 4096;
    const Type& from = node.operand(0)->type;
    return size_bits(from.dtype) <= 8 && from.dtype != DType::boolean && from.count() > kFew && size_bits(node.result()->type.dtype) > 8 &&
           (has_composites_ || feeds_products_alone(node.result(), 0));
  }

  /// Whether all uses of what is made of the value, element by element, are factors of products of matrices.
  bool feeds_products_alone(const Value* value, int depth) const {
    constexpr int kMostSteps = 16;  // a dequantisation is a few
    const auto users = users_.find(value);
    return depth < kMostSteps && users != users_.end() &&
           std::all_of(
               users->second.begin(), users->second.end(),
               [&](const Node* user) {
                 switch (user->op) {
                   case Op::dot_general_: return true;
                   case Op::cast_:
                   case Op::sub_:
                   case Op::mul_:
                   case Op::reshape_:
                   case Op::slice_:
                   case Op::transpose_:
                   case Op::broadcast_in_dim_: return feeds_products_alone(user->result(), depth + 1);
                   default: return false;
                 }
               });
  }

  /// A scale for each block of neighbours is a broadcast whose axes are joined, and may be cut off: views of what costs nothing.
  bool is_view_of_spread(const Node& node) const {
    const bool is_view = node.op == Op::reshape_ || node.op == Op::slice_ || node.op == Op::transpose_;
    return is_view && spread_.contains(node.operand(0));
  }

  /// Whether the node leaves the graph.
  bool fold(Node& node) {
    if (!node.regions.empty() || info(node.op).kind == OpKind::dynamic || widens(node) || !indices_fit(node)) return false;
    int64_t released = 0, result_bytes = 0, operand_bytes = 0;
    for (const Value* operand : node.operands) {
      if (operand == nullptr) continue;
      if (!is_constant(operand)) return false;
      released += released_bytes(operand);
      operand_bytes += operand->type.size_bytes();
    }
    for (const Value* result : node.results) result_bytes += result->type.size_bytes();
    if (result_bytes > kSmallBytes && result_bytes > released) return false;
    std::vector<Tensor> operands;
    for (const Value* operand : node.operands) operands.push_back(operand == nullptr ? Tensor() : *known_.find(operand));
    std::optional<std::vector<Tensor>> evaluated;
    try {
      evaluated = evaluate_cheap_node(node, operands);
    } catch (const RuleError&) {}  // decompose meets the same fault and reports it
    if (!evaluated) return false;
    std::vector<Tensor>& results = *evaluated;
    const bool spreads = node.op == Op::broadcast_in_dim_ ? result_bytes > operand_bytes : is_view_of_spread(node);
    const bool stays = info(node.op).lowering == Lowering::create || spreads;
    if (spreads) spread_.insert(node.result());
    for (size_t i = 0; i < results.size(); ++i) known_.set(node.results[i], std::move(results[i]), !stays);
    return !stays;
  }

  Graph& graph_;
  bool keep_parameters_;
  Diagnostics* diagnostics_;
  bool has_composites_ = false;
  const Users users_;
  std::unordered_set<const Value*> spread_;  ///< broadcasts that stay, and views of them
  std::vector<int> uses_;
  std::vector<Node*> kept_;
  KnownValues known_;
};

}  // namespace

void fold_constants(Graph& graph, bool keep_parameters, Diagnostics* diagnostics) {
  Folder(graph, keep_parameters, diagnostics).run();
  graph.remove_unused_weights();
}

}  // namespace tcc
