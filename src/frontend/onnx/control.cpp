// Branches and loops, in a graph that has neither.
//
//   If     a condition that is known takes its branch. One that depends on data chooses between the results of both, which are of equal types
//   Loop   one copy of the body for each step. A trip count is known, or the condition is at each step. Where the condition depends on data and the trip
//          count is known, the steps behind the end are computed and thrown away
//
// What is thrown away may be infinite or NaN, and its gradients too: it sees the values around it through a gate, behind which there is no gradient.
#include <array>

#include "frontend/base/control_flow.h"
#include "frontend/base/faults.h"
#include "frontend/onnx/arithmetic.h"
#include "frontend/onnx/handlers.h"

namespace tcc::onnx {
namespace {

Value* as_predicate(NodeContext& node, Value* condition) {
  if (condition->type.dtype != DType::boolean)
    node.refuse("type-error", "the condition is " + to_string(condition->type) + ", a bool was expected");
  const Type type = node.type_of(condition);
  if (type.is_static() && type.count() != 1)
    node.refuse("type-error", "the condition has " + std::to_string(type.count()) + " elements, 1 was expected");
  if (condition->type.ranked && condition->type.rank() == 0) return condition;
  return Arithmetic(node).reshape(condition, node.ints({}, "scalar"));
}

/// Of a condition; nothing when it depends on data.
std::optional<bool> known_bool(NodeContext& node, const Value* condition) {
  const auto value = node.value_of(condition);
  if (!value) return std::nullopt;
  if (value->count() != 1) node.refuse("type-error", "the condition has " + std::to_string(value->count()) + " elements, 1 was expected");
  return value->as_int64(0) != 0;
}

// ---- If

void set_results(NodeContext& node, const std::vector<Value*>& values) {
  if (static_cast<int>(values.size()) < node.num_outputs()) {
    node.refuse("malformed-file",
                "the branch has " + std::to_string(values.size()) + " outputs, the node has " + std::to_string(node.num_outputs()));
  }
  for (int i = 0; i < node.num_outputs(); ++i) node.set(i, values[static_cast<size_t>(i)]);
}

void import_if(NodeContext& node) {
  Value* condition = node.in(0);
  const auto& then_branch = node.graph("then_branch");
  const auto& else_branch = node.graph("else_branch");
  if (const auto known = known_bool(node, condition)) return set_results(node, node.inline_subgraph(*known ? then_branch : else_branch));
  const std::string what = "the condition of this If depends on " + inputs_behind(condition);
  Value* predicate = as_predicate(node, condition);
  const size_t first_new = node.num_nodes();
  std::vector<Value*> of_then, of_else;
  bool is_poisoned = false;  // then the other branch is looked at all the same: its faults are reported, too
  try {
    of_then = node.inline_subgraph(then_branch, {.operands = {}, .step = std::nullopt, .predicate = predicate, .taken = true});
  } catch (const Poisoned&) { is_poisoned = true; }
  of_else = node.inline_subgraph(else_branch, {.operands = {}, .step = std::nullopt, .predicate = predicate, .taken = false});
  if (is_poisoned) throw Poisoned();
  node.check_can_be_thrown_away(first_new, what);
  if (of_then.size() != of_else.size())
    node.refuse("malformed-file",
                "the branches have " + std::to_string(of_then.size()) + " and " + std::to_string(of_else.size()) + " outputs");
  std::vector<Value*> results;
  for (size_t i = 0; i < of_then.size(); ++i) results.push_back(node.chosen(predicate, of_then[i], of_else[i], what));
  set_results(node, results);
}

// ---- Loop

class Loop {
 public:
  explicit Loop(NodeContext& node) : node_(node), body_(node.graph("body")) {
    for (int i = 2; i < node.num_inputs(); ++i) states_.push_back(node.tensor_or_sequence(i));
    const int num_scanned = body_.output_size() - 1 - static_cast<int>(states_.size());
    if (num_scanned < 0)
      node.refuse("malformed-file", "the body has " + std::to_string(body_.output_size()) + " outputs, at least " +
                                        std::to_string(1 + states_.size()) + " were expected");
    scanned_.resize(static_cast<size_t>(num_scanned));
    read_trip_count();
  }

  void run() {
    if (node_.has(1)) set_condition(node_.in(1));
    for (int64_t i = 0; !is_over(i); ++i) run_step(i);
    const int num_states = static_cast<int>(states_.size());
    for (int i = 0; i < num_states; ++i) node_.set(i, states_[static_cast<size_t>(i)]);
    const bool ran = !scanned_.empty() && !scanned_[0].empty();
    if (!scanned_.empty() && !ran) find_scanned_types();
    for (size_t i = 0; i < scanned_.size(); ++i) {
      const int result = num_states + static_cast<int>(i);
      if (node_.wants(result)) node_.set(result, ran ? Arithmetic(node_).stacked(scanned_[i], 0) : nothing(i));
    }
  }

 private:
  void read_trip_count() {
    if (!node_.has(0)) return;
    if (const auto count = node_.constant(0)) {
      if (count->count() != 1)
        node_.refuse("type-error", "the trip count has " + std::to_string(count->count()) + " elements, 1 was expected");
      trip_count_ = std::max<int64_t>(count->as_int64(0), 0);
      return;
    }
    // It doesn't matter where no step is made.
    if (node_.has(1) && known_bool(node_, node_.in(1)) == false) return;
    node_.refuse("unsupported-control-flow", "the trip count of this Loop depends on " + inputs_behind(node_.in(0)));
  }

  bool is_over(int64_t i) {
    if (trip_count_ && i >= *trip_count_) return true;
    if (condition_ == nullptr) return false;
    const auto known = known_bool(node_, condition_);
    if (known) {
      if (*known) condition_ = nullptr;
      return !*known;
    }
    what_ = "the condition of this Loop depends on " + inputs_behind(condition_);
    if (!trip_count_ || *trip_count_ > kMaxUnrolledNodes)
      node_.refuse("unsupported-control-flow",
                   what_ + (trip_count_ ? ", and a trip count of " + std::to_string(*trip_count_) + " is no bound that can be unrolled"
                                        : ", and no trip count bounds its steps"));
    for (size_t k = 0; k < scanned_.size(); ++k) {
      if (node_.wants(static_cast<int>(states_.size() + k)))
        node_.refuse("unsupported-control-flow",
                     what_ + ", so the length of its result " + std::to_string(states_.size() + k) + " depends on it, too");
    }
    Value* predicate = as_predicate(node_, condition_);
    running_ = running_ == nullptr ? predicate : node_.emit(Op::and_, {running_, predicate});
    condition_ = nullptr;
    return false;
  }

  void set_condition(Value* condition) { condition_ = condition; }

  std::vector<Value*> operands_of_step(int64_t i) {
    std::vector<Value*> operands{scalar_as_declared(node_.build().full_int(DType::i64, {}, i), 0),
                                 scalar_as_declared(node_.build().full_int(DType::boolean, {}, 1), 1)};
    operands.insert(operands.end(), states_.begin(), states_.end());
    return operands;
  }

  /// A body may declare the counter and the condition as tensors of one element.
  Value* scalar_as_declared(Value* value, int input) {
    if (input >= body_.input_size() || body_.input(input).type().tensor_type().shape().dim_size() != 1) return value;
    return node_.build().reshape(value, {1});
  }

  void run_step(int64_t i) {
    const size_t first_new = node_.num_nodes();
    const std::vector<Value*> made =
        node_.inline_subgraph(body_, {.operands = operands_of_step(i), .step = i, .predicate = running_, .taken = true});
    if (running_ != nullptr) node_.check_can_be_thrown_away(first_new, what_);
    for (size_t k = 0; k < states_.size(); ++k)
      states_[k] = running_ == nullptr ? made[1 + k] : node_.chosen(running_, made[1 + k], states_[k], what_);
    for (size_t k = 0; k < scanned_.size(); ++k) scanned_[k].push_back(made[1 + states_.size() + k]);
    set_condition(made[0]);
  }

  /// Of what steps would make, were there one: the nodes for it are used by nothing.
  void find_scanned_types() {
    const std::vector<Value*> made =
        node_.inline_subgraph(body_, {.operands = operands_of_step(0), .step = 0, .predicate = nullptr, .taken = true});
    for (size_t k = 0; k < scanned_.size(); ++k) scanned_types_.push_back(node_.type_of(made[1 + states_.size() + k]));
  }

  Value* nothing(size_t i) {
    const Type& type = scanned_types_[i];
    if (!type.is_static()) node_.refuse("unknown-value", "the shape of what this Loop collects is not known, and it has no steps");
    Shape shape = type.shape();
    shape.insert(shape.begin(), 0);
    return node_.build().full(type.dtype, shape, 0);
  }

  NodeContext& node_;
  const pb::GraphProto& body_;
  std::optional<int64_t> trip_count_;
  std::vector<Value*> states_;
  std::vector<std::vector<Value*>> scanned_;  // by result, then step
  std::vector<Type> scanned_types_;           // where there are no steps
  Value* condition_ = nullptr;                // whether there is another step; null: there is
  Value* running_ = nullptr;                  // whether the end is not reached yet; null: it isn't
  std::string what_;                          // of a condition that depends on data, for messages
};

void import_loop(NodeContext& node) { Loop(node).run(); }

constexpr auto kHandlers = std::to_array<Handler>({
    {"", "If", import_if},
    {"", "Loop", import_loop},
});

}  // namespace

std::span<const Handler> control_handlers() { return kHandlers; }

}  // namespace tcc::onnx
