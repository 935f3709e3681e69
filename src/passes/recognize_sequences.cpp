// recognize-sequences: constants that count along one axis, or that have one value up to a diagonal and another behind it, are computed where they are read, not
// loaded.
//   in:   prims        out: the same outputs
//     @positions: i64[1, 1, 1024] = 0, 1, 2, ...
//     %mask: bool[1, 1024, 1024] = le(broadcast_in_dim(@positions), ...)
//   becomes
//     %positions: i64[1, 1, 1024] = iota() {shape=[1, 1, 1024], axis=2}
//     ...
// Exporters make masks of such constants. What is known to count is known to be masked, too: attention skips what a causal mask hides. Last of the passes that
// look at values, because fold-constants makes constants of what can be computed.

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"

namespace tcc {
namespace {

/// Fewer elements are not worth it.
constexpr int64_t kShortest = 16;

struct Sequence {
  int64_t axis, first, step;
};

/// The sequence that the tensor is: first + step * (index along the axis).
std::optional<Sequence> sequence_of(const Tensor& tensor) {
  if ((tensor.dtype() != DType::i32 && tensor.dtype() != DType::i64) || tensor.count() < kShortest) return std::nullopt;
  const Shape& shape = tensor.shape();
  int64_t stride = 1;  // of the axis: elements from one step to the next
  for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) {
    if (shape[axis] < 2) continue;
    const int64_t first = tensor.as_int64(0), step = tensor.as_int64(stride) - first;
    if (step == 0) continue;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (tensor.as_int64(i) != first + step * (i / stride % shape[axis])) return std::nullopt;
    }
    return Sequence{static_cast<int64_t>(axis), first, step};
  }
  return std::nullopt;
}

/// A tensor with two values: `inside` where column <= row + offset, by the last two axes of several elements.
struct Triangle {
  int64_t rows, columns;  ///< axes
  int64_t offset;
  double inside, outside;
};

std::optional<Triangle> triangle_of(const Tensor& tensor) {
  if ((tensor.dtype() != DType::boolean && !is_float(tensor.dtype())) || tensor.count() < kShortest * kShortest) return std::nullopt;
  const Shape& shape = tensor.shape();
  std::vector<int64_t> axes;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] > 1) axes.push_back(static_cast<int64_t>(axis));
  }
  if (axes.size() < 2) return std::nullopt;
  Triangle result{axes[axes.size() - 2], axes.back(), 0, 0, 0};
  const int64_t rows = shape[static_cast<size_t>(result.rows)], columns = shape[static_cast<size_t>(result.columns)];
  const auto at = [&](int64_t row, int64_t column) { return tensor.as_double(row * columns + column); };
  result.inside = at(rows - 1, 0);
  result.outside = at(0, columns - 1);
  if (!(result.inside < result.outside) && !(result.inside > result.outside)) return std::nullopt;
  int64_t steps = 0;  // down the first column, or along the first row
  if (at(0, 0) == result.inside) {
    while (at(0, steps) == result.inside) ++steps;
    result.offset = steps - 1;
  } else {
    while (at(steps, 0) != result.inside) ++steps;
    result.offset = -steps;
  }
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const bool inside = i % columns <= i / columns % rows + result.offset;
    if (tensor.as_double(i) != (inside ? result.inside : result.outside)) return std::nullopt;
  }
  return result;
}

class Recognizer {
 public:
  Recognizer(Graph& graph, bool keep_parameters) : graph_(graph), keep_parameters_(keep_parameters) {}

  void run() {
    replace(graph_.body);
    graph_.body.nodes.insert(graph_.body.nodes.begin(), made_.nodes.begin(), made_.nodes.end());
    if (!made_.nodes.empty()) eliminate_dead_code(graph_);
  }

 private:
  void replace(Region& region) {
    for (Node* node : region.nodes) {
      for (Value*& operand : node->operands) {
        if (Value* sequence = as_sequence(operand, node->loc)) operand = sequence;
      }
      for (const auto& inner : node->regions) replace(*inner);
    }
  }

  Value* as_sequence(Value* value, const Location& loc) {
    if (value == nullptr || value->kind != Value::Kind::weight || value->weight->is_state) return nullptr;
    if (keep_parameters_ && value->weight->from_model) return nullptr;  // others may be given
    const auto [at, is_new] = known_.emplace(value, nullptr);
    if (!is_new) return at->second;
    const Tensor& tensor = value->weight->tensor;
    Builder builder(graph_, made_, loc);
    if (const std::optional<Sequence> sequence = sequence_of(tensor))
      at->second = counted(builder, tensor.dtype(), tensor.shape(), *sequence);
    else if (const std::optional<Triangle> triangle = triangle_of(tensor)) at->second = computed(builder, tensor, *triangle);
    return at->second;
  }

  static Value* counted(Builder& builder, DType dtype, const Shape& shape, const Sequence& sequence) {
    Value* result = builder.iota(dtype, shape, sequence.axis);
    if (sequence.step != 1) result = builder.emit(Op::mul_, {result, builder.full_int(dtype, shape, sequence.step)});
    if (sequence.first != 0) result = builder.emit(Op::add_, {result, builder.full_int(dtype, shape, sequence.first)});
    return result;
  }

  static Value* computed(Builder& builder, const Tensor& tensor, const Triangle& triangle) {
    const Shape& shape = tensor.shape();
    Value* last = counted(builder, DType::i64, shape, {triangle.rows, triangle.offset, 1});
    Value* column = builder.iota(DType::i64, shape, triangle.columns);
    const bool is_bool = tensor.dtype() == DType::boolean;
    if (is_bool && triangle.inside == 0) return builder.emit(Op::gt_, {column, last});
    Value* inside = builder.emit(Op::le_, {column, last});
    if (is_bool) return inside;
    return builder.emit(
        Op::select_, {inside, builder.full(tensor.dtype(), shape, triangle.inside), builder.full(tensor.dtype(), shape, triangle.outside)});
  }

  Graph& graph_;
  const bool keep_parameters_;
  Region made_;
  std::unordered_map<const Value*, Value*> known_;
};

}  // namespace

void recognize_sequences(Graph& graph, bool keep_parameters) { Recognizer(graph, keep_parameters).run(); }

}  // namespace tcc
