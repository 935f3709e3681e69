// canonicalize: local rewrites to the form that later stages expect.
//   in:   a resolved or prims graph        out: the same values, fewer and simpler nodes
//     %a: f32[4, 2] = transpose(%x) {permutation=[1, 0]}
//     %b: f32[2, 4] = transpose(%a) {permutation=[1, 0]}
//     %y: f32[2, 4] = mul(%b, @one)
//   becomes
//     return %x
// Values are kept bit for bit, with these exceptions: pow by 2, 3, -1, 0.5 and -0.5 becomes products and roots (as frameworks compute it: the square
// root of -inf is NaN; a cube below f32 is a product in f32), recip of sqrt becomes rsqrt, one rounding less; a reduction over axes of extent 1 may turn -0 into 0 and back.
// x + 0 stays where x may be -0. Nothing that can see a NaN is dropped.
// Constants of one element are read as literals (`full`); with `keep_parameters`, not those that are float weights of the model.
// One sweep in order: rules look at producers only, which are canonical by then, and what a rule emits is made canonical at once. So the time is linear
// and a second run changes nothing.

#include <cmath>
#include <utility>

#include "passes/rewrite.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

constexpr int64_t kMaxSplatElements = 64 * 1024;  // of constants that are searched for one value

const std::vector<RewriteRule>& rules_of(Op op) {
  static const auto table = [] {
    std::vector<std::vector<RewriteRule>> rules(static_cast<size_t>(num_ops()));
    for (const auto& rows : {arithmetic_rewrites(), logic_rewrites(), cast_rewrites(), view_rewrites(), access_rewrites()}) {
      for (const RewriteRow& row : rows) rules[static_cast<size_t>(row.op)].push_back(row.rule);
    }
    return rules;
  }();
  return table[static_cast<size_t>(op)];
}

}  // namespace

void Rewriter::run() {
  sweep(graph_.body);
  for (StateUpdate& update : graph_.state_updates) {
    if (Value* other = replacement_[static_cast<size_t>(update.value->id)]) update.value = other;
  }
}

void Rewriter::sweep(Region& region) {
  const std::vector<Node*> nodes = std::move(region.nodes);
  std::vector<Node*> outer = std::exchange(kept_, {});
  kept_.reserve(nodes.size());
  replacement_.resize(static_cast<size_t>(graph_.num_values()), nullptr);
  const auto replace = [this](Value*& value) {
    if (value == nullptr || static_cast<size_t>(value->id) >= replacement_.size()) return;
    if (Value* other = replacement_[static_cast<size_t>(value->id)]) value = other;
  };
  for (Node* node : nodes) {
    for (Value*& operand : node->operands) replace(operand);
    for (const auto& inner : node->regions) sweep(*inner);
    loc_ = node->loc;
    const int first_new = graph_.num_values();
    Value* result = place(*node);
    if (node->results.empty() || result == node->result()) continue;
    replacement_[static_cast<size_t>(node->result()->id)] = result;
    // The model's own name goes to the value that stands for it.
    if (result->id >= first_new && result->kind == Value::Kind::result) std::swap(result->name, node->result()->name);
  }
  for (Value*& result : region.results) replace(result);
  region.nodes = std::exchange(kept_, std::move(outer));
}

/// Applies the rules; the node stays when none fires.
Value* Rewriter::place(Node& node) {
  if (node.results.size() == 1 && node.regions.empty() && node.result()->type.is_static()) {
    for (const RewriteRule rule : rules_of(node.op)) {
      Value* result = rule(*this, node);
      if (result == nullptr) continue;
      check(result->type == node.result()->type, "a rewrite changes the type of a value");
      return result;
    }
    if (info(node.op).lowering == Lowering::pointwise) use_literals(node);
  }
  kept_.push_back(&node);
  return node.results.empty() ? nullptr : node.result();
}

/// Constant operands of one value become `full`, which later stages print into the code instead of loading it.
void Rewriter::use_literals(Node& node) {
  for (Value*& operand : node.operands) {
    if (operand == nullptr || operand->kind != Value::Kind::weight) continue;
    if (const auto value = splat(operand)) operand = full(operand->type, *value);
  }
}

Value* Rewriter::emit(Op op, std::vector<Value*> operands, Attrs attrs) {
  Region scratch;
  Builder builder(graph_, scratch, loc_);
  return place(*builder.emit_node(op, std::move(operands), std::move(attrs)));
}

Value* Rewriter::full(const Type& type, double value) {
  Splat splat{type.dtype, value, 0};
  if (!is_float(type.dtype)) splat.integer = static_cast<int64_t>(value);
  return full(type, splat);
}

Value* Rewriter::reshape(Value* x, const Shape& shape) {
  return x->type.shape() == shape ? x : emit(Op::reshape_, {x}, {{"shape", shape}});
}

const Tensor* Rewriter::constant(const Value* value) const {
  if (value == nullptr || value->kind != Value::Kind::weight) return nullptr;
  if (value->weight->is_state) return nullptr;
  if (keep_parameters_ && value->weight->from_model && is_float(value->type.dtype)) return nullptr;
  return &value->weight->tensor;
}

std::optional<Splat> Rewriter::splat(const Value* value) {
  if (const Node* node = made_by(value, Op::full_)) return splat_of_full(*node);
  const Tensor* tensor = constant(value);
  if (tensor == nullptr || tensor->count() > kMaxSplatElements) return std::nullopt;
  if (static_cast<size_t>(value->id) >= splats_.size()) splats_.resize(static_cast<size_t>(graph_.num_values()));
  auto& remembered = splats_[static_cast<size_t>(value->id)];
  if (!remembered) remembered = splat_of(*tensor);
  return *remembered;
}

bool Rewriter::is_splat(const Value* value, double number) {
  const auto found = splat(value);
  if (!found) return false;
  if (!is_float(found->dtype)) return static_cast<double>(found->integer) == number;
  return found->floating == number && std::signbit(found->floating) == std::signbit(number);
}

void canonicalize(Graph& graph, bool keep_parameters) {
  Rewriter(graph, keep_parameters).run();
  eliminate_dead_code(graph);
}

}  // namespace tcc
