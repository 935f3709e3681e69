// autocast: a model in mixed precision, as torch.autocast runs it on CUDA.
//   in:   a resolved graph        out: the same graph, whose contractions compute in bf16 or f16 and the rest as the column `precision` of ops.def says
//     %h: f32[8, 64] = gemm(%x, @w, @b) {...}
//     %y: f32[8, 64] = softmax(%h) {axis=1}
//   becomes
//     %x.bf16: bf16[8, 16] = cast(%x) {dtype=bf16};  %w.bf16: ... = cast(@w) {dtype=bf16};  %b.bf16: ... = cast(@b) {dtype=bf16}
//     %h: bf16[8, 64] = gemm(%x.bf16, %w.bf16, %b.bf16) {...}
//     %h.f32: f32[8, 64] = cast(%h) {dtype=f32}
//     %y: f32[8, 64] = softmax(%h.f32) {axis=1}
// Inputs, outputs, weights and state keep their dtypes. A cast of a weight is a node: fold-constants evaluates it for inference, and a training, whose
// parameters stay f32, has it in its step. The pass comes before canonicalize, while ops are those that the model names (a square is a `pow`, not
// yet a product), and before gradients are built, which then have the dtypes of the values that they belong to.
//
// Where an op runs in the widest dtype among its operands
// - a scalar (rank 0, a `full`, a constant of one element) does not count, unless the low precision can't hold it: x * 1e-12 and x - 1e9 run in f32. One
//   that it holds, but not exactly, is not rounded: the op computes in f32 and its result is rounded.
// - a bias does not count: a weight with one axis that is added to a contraction's result, which is how exporters write a linear layer.
// f64, 8-bit floats, integers and bool are never cast.

#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "tcc/graph/splat.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/infer.h"

namespace tcc {
namespace {

bool takes_part(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }
bool takes_part(const Value* value) { return value != nullptr && takes_part(value->type.dtype); }

/// f16 and bf16 are both only in f32.
DType wider(DType a, DType b) { return a == b ? a : DType::f32; }

double rounded(double number, DType dtype) {
  const float value = static_cast<float>(number);
  return dtype == DType::f16 ? f16_to_f32(f32_to_f16(value)) : bf16_to_f32(f32_to_bf16(value));
}

/// Neither overflows nor becomes zero.
bool is_in_range(double number, DType dtype) {
  const double there = rounded(number, dtype);
  return std::isfinite(there) == std::isfinite(number) && (there == 0) == (number == 0);
}

/// Whether the value is the same in the dtype; a NaN is.
bool is_exact(double number, DType dtype) { return std::isnan(number) || rounded(number, dtype) == number; }

bool is_scalar(const Value* value) {
  if (value->type.rank() == 0) return true;
  if (value->kind == Value::Kind::weight) return value->type.count() == 1 && !value->weight->from_model;
  return value->producer != nullptr && value->producer->op == Op::full_;
}

/// What `by_op` stands for.
Precision precision_of(const Node& node) {
  const Precision precision = info(node.op).precision;
  if (precision != Precision::by_op) return precision;
  const std::string& op = node.attrs.get_string("op");
  return op == "mean" || op == "max" || op == "min" ? Precision::keep : Precision::f32;
}

class Autocaster {
 public:
  Autocaster(Graph& graph, DType low, bool keep_parameters)
      : graph_(graph), low_(low), keep_parameters_(keep_parameters), builder_(graph, graph.body, {}) {}

  void run() {
    std::vector<Node*> nodes;
    nodes.swap(graph_.body.nodes);
    for (Node* node : nodes) place(*node);
    builder_.set_loc({});
    for (Value*& output : graph_.body.results) output = as_written(output);
    for (StateUpdate& update : graph_.state_updates) update.value = as_written(update.value);
  }

 private:
  void place(Node& node) {
    builder_.set_loc(node.loc);
    if (!node.regions.empty()) return place_as_written(node);
    for (Value*& operand : node.operands) {
      if (operand != nullptr) operand = now(operand);
    }
    switch (precision_of(node)) {
      case Precision::low: return place_in(node, low_);
      case Precision::f32: return place_in(node, DType::f32);
      case Precision::widest: return place_in_widest(node);
      case Precision::written: return place_as_written(node);
      case Precision::keep:
      case Precision::by_op: return append(node);
    }
  }

  void place_in(Node& node, DType dtype) {
    bool any = false;
    for (Value*& operand : node.operands) {
      if (!takes_part(operand)) continue;
      operand = cast(operand, dtype);
      any = true;
    }
    // Of a product: the dtype of the result.
    if (any && node.attrs.has("dtype") && takes_part(node.attrs.get_dtype("dtype"))) node.attrs.set("dtype", dtype);
    append(node);
  }

  void place_in_widest(Node& node) {
    const auto widest = widest_of(node);
    if (!widest) return append(node);
    if (*widest == DType::f32 || info(node.op).lowering != Lowering::pointwise || !rounds_a_scalar(node, *widest))
      return place_in(node, *widest);
    place_in(node, DType::f32);
    for (Value* result : node.results) {
      if (!takes_part(result)) continue;
      Value* narrow = cast(result, *widest);
      written_.emplace(narrow, written_dtype(result));
      std::swap(narrow->name, result->name);  // the model's name stays with what the model's readers see
      graph_.rename(result, narrow->name + ".f32");
      now_.emplace(result, narrow);
    }
  }

  /// Nothing: no operand is cast.
  std::optional<DType> widest_of(const Node& node) const {
    std::optional<DType> widest, of_scalars;
    for (const Value* operand : node.operands) {
      if (!takes_part(operand) || is_bias(node, operand)) continue;
      std::optional<DType>& found = is_scalar(operand) ? of_scalars : widest;
      found = wider(found.value_or(operand->type.dtype), operand->type.dtype);
    }
    if (!widest || *widest == DType::f32) return widest ? widest : of_scalars;
    for (const Value* operand : node.operands) {
      if (!takes_part(operand) || !is_scalar(operand)) continue;
      if (const auto number = number_of(operand); number && !is_in_range(*number, *widest)) return DType::f32;
    }
    return widest;
  }

  bool rounds_a_scalar(const Node& node, DType dtype) const {
    for (const Value* operand : node.operands) {
      if (!takes_part(operand) || operand->type.dtype == dtype || !is_scalar(operand)) continue;
      const auto number = number_of(operand);
      if (!number || !is_exact(*number, dtype)) return true;
    }
    return false;
  }

  /// The value of all elements, where training can't change it.
  std::optional<double> number_of(const Value* value) const {
    if (value->producer != nullptr && value->producer->op == Op::full_) return splat_of_full(*value->producer).as_double();
    if (value->kind != Value::Kind::weight || value->type.count() != 1 || value->weight->is_state) return std::nullopt;
    if (keep_parameters_ && value->weight->from_model) return std::nullopt;
    return value->weight->tensor.as_double(0);
  }

  bool is_bias(const Node& node, const Value* operand) const {
    if (node.op != Op::add_ || operand->kind != Value::Kind::weight || operand->type.rank() != 1) return false;
    const Value* other = node.operand(node.operand(0) == operand ? 1 : 0);
    return other->producer != nullptr && info(other->producer->op).precision == Precision::low && other->type.dtype == low_ &&
           other->type.dims.back() == operand->type.dims.back();
  }

  void place_as_written(Node& node) {
    for (Value*& operand : node.operands) {
      if (operand != nullptr) operand = as_written(operand);
    }
    for (const auto& inner : node.regions) restore_captured(*inner);
    append(node);
  }

  void restore_captured(Region& region) {
    for (Node* node : region.nodes) {
      for (Value*& operand : node->operands) {
        if (operand != nullptr) operand = as_written(operand);
      }
      for (const auto& inner : node->regions) restore_captured(*inner);
    }
    for (Value*& result : region.results) result = as_written(result);
  }

  /// The node with the operands that it has now.
  void append(Node& node) {
    std::vector<Type> types = infer_node_types(node);
    for (size_t i = 0; i < types.size(); ++i) {
      Value* result = node.results[i];
      if (types[i].dtype != result->type.dtype) written_.emplace(result, result->type.dtype);
      result->type = std::move(types[i]);
    }
    graph_.body.nodes.push_back(&node);
  }

  Value* now(Value* value) const {
    const auto found = now_.find(value);
    return found == now_.end() ? value : found->second;
  }
  DType written_dtype(const Value* value) const {
    const auto found = written_.find(value);
    return found == written_.end() ? value->type.dtype : found->second;
  }
  Value* as_written(Value* value) {
    value = now(value);
    return cast(value, written_dtype(value));
  }

  /// One cast of a value for all that read it.
  Value* cast(Value* value, DType dtype) {
    if (value->type.dtype == dtype) return value;
    Value*& found = casts_[{value->id, dtype}];
    if (found == nullptr) {
      builder_.set_name_hint(value->name + "." + std::string(name_of(dtype)));
      found = builder_.cast(value, dtype);
    }
    return found;
  }

  Graph& graph_;
  DType low_;
  bool keep_parameters_;
  Builder builder_;
  std::unordered_map<const Value*, DType> written_;  // of values whose dtype is another now: the model's
  std::unordered_map<const Value*, Value*> now_;     // of results that are rounded: rounded
  std::map<std::pair<int, DType>, Value*> casts_;
};

}  // namespace

void autocast(Graph& graph, DType low, bool keep_parameters) { Autocaster(graph, low, keep_parameters).run(); }

}  // namespace tcc
