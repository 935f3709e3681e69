// multiply-quantized: a product of dequantised factors becomes the product of their 8-bit elements, and is scaled behind it.
//   in:   a canonical graph of prims        out: the same values but for rounding, fewer bytes to read and elements for tensor cores
//     %xs: f32[8, 64] = mul(cast(%x), broadcast_in_dim(%s))                                 %x: i8[8, 64], %s: f32[]
//     %ws: f32[64, 32] = mul(cast(@w), broadcast_in_dim(@t))                                @w: i8[64, 32], @t: f32[32]
//     %y: f32[8, 32] = dot_general(%xs, %ws) {lhs_contract=[1], rhs_contract=[0], ...}
//   becomes
//     %p: i32[8, 32] = dot_general(%x, @w.turned) {lhs_contract=[1], rhs_contract=[1], ...}
//     %y: f32[8, 32] = mul(mul(cast(%p), broadcast_in_dim(%s)), broadcast_in_dim(@t))
// Products and sums of integers are exact; those of 8-bit floats are in f32, as before. A zero point z, which must not vary along the sum either, is taken off
// behind the product, exactly, too: sum (x - z) w = sum x w - z sum w, where the last sum is a constant when w is.
// A constant factor is stored anew with the sum innermost, as tensor cores read it.
// Leaves alone: scales and zero points that vary along the sum, factors of which one has more bits, sums that could leave i32, and what is not a dot_general.

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "passes/rewrite.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/evaluate.h"
#include "tcc/rules/rules_common.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

using Axes = std::vector<int64_t>;

bool contains(const Axes& axes, int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

bool is_byte(DType dtype) { return dtype == DType::i8 || dtype == DType::u8 || dtype == DType::f8e4m3fn || dtype == DType::f8e5m2; }

/// The largest magnitude of an element less its zero point.
int64_t largest(DType dtype, bool shifted) { return shifted || dtype == DType::u8 ? 255 : 128; }

/// Whether all elements of an i32 are surely elements of 8 bits.
bool is_small(const Value* value) {
  const Node* node = value->producer;
  while (node != nullptr && (node->op == Op::reshape_ || node->op == Op::transpose_)) node = node->operand(0)->producer;
  if (node == nullptr) return false;
  if (node->op == Op::full_) return splat_of_full(*node).integer >= -128 && splat_of_full(*node).integer <= 255;
  return node->op == Op::cast_ && size_bits(node->operand(0)->type.dtype) <= 8 && is_integer(node->operand(0)->type.dtype);
}

/// A value seen along axes of a larger one: its axes of more than one element, in order, lie along `dims`.
struct Spread {
  Value* value;
  Axes dims;
};

/// An operand of a product: scales * (bytes - zero point), all in the shape of the operand.
struct Factor {
  Value* bytes = nullptr;
  std::vector<const Node*> views;  ///< through which the bytes are seen, the innermost first
  std::optional<Spread> zero_point;
  std::vector<Spread> scales;
};

/// What is the same along some axes: a broadcast, one number. Any other value varies along all.
Spread as_spread(Value* value) {
  if (made_by(value, Op::full_) != nullptr) return {value, {}};
  const Node* view = made_by(value, Op::broadcast_in_dim_);
  Spread spread{view != nullptr ? view->operand(0) : value, {}};
  for (int64_t axis = 0; axis < spread.value->type.rank(); ++axis) {
    if (rules::extent_of(spread.value, axis) == 1) continue;
    spread.dims.push_back(view != nullptr ? view->attrs.get_ints("dims")[static_cast<size_t>(axis)] : axis);
  }
  return spread;
}

/// Through a view; nothing where its axes have no place behind it.
std::optional<Spread> seen_through(const Node& view, Spread spread) {
  for (int64_t& dim : spread.dims) {
    if (view.op == Op::reshape_) return std::nullopt;
    const Axes& axes = view.attrs.get_ints(view.op == Op::transpose_ ? "permutation" : "dims");
    dim = view.op == Op::transpose_ ? std::find(axes.begin(), axes.end(), dim) - axes.begin() : axes[static_cast<size_t>(dim)];
  }
  return spread;
}

/// Values that are looked at for one factor. What an exporter writes takes a few; a chain of products has paths without number.
constexpr int kMostLooks = 64;

/// `looks`: how many values may be looked at; counted down.
std::optional<Factor> factor_of(Value* value, int& looks);

std::optional<Factor> behind_view(const Node& view, int& looks) {
  std::optional<Factor> factor = factor_of(view.operand(0), looks);
  if (!factor) return std::nullopt;
  factor->views.push_back(&view);
  const auto move = [&](Spread& spread) {
    const std::optional<Spread> moved = seen_through(view, spread);
    if (moved) spread = *moved;
    return moved.has_value();
  };
  if (factor->zero_point && !move(*factor->zero_point)) return std::nullopt;
  if (!std::all_of(factor->scales.begin(), factor->scales.end(), move)) return std::nullopt;
  return factor;
}

std::optional<Factor> scaled(const Node& product, int& looks) {
  for (const int side : {0, 1}) {
    std::optional<Factor> factor = factor_of(product.operand(side), looks);
    if (!factor || !is_float(product.result()->type.dtype)) continue;
    factor->scales.push_back(as_spread(product.operand(1 - side)));
    return factor;
  }
  return std::nullopt;
}

/// The value as a factor of 8 bits; casts between wider floats don't matter, as what they round would be more exact without them.
std::optional<Factor> factor_of(Value* value, int& looks) {
  if (looks-- <= 0) return std::nullopt;
  if (is_byte(value->type.dtype)) return Factor{.bytes = value};
  const Node* node = value->producer;
  if (node == nullptr || node->results.size() != 1) return std::nullopt;
  switch (node->op) {
    case Op::cast_: {
      const DType from = node->operand(0)->type.dtype, to = value->type.dtype;
      const bool widens =
          is_byte(from) && (to == DType::f32 || to == DType::f16 || to == DType::bf16 || (to == DType::i32 && !is_float(from)));
      const bool rounds =
          is_float(to) && size_bits(to) >= 16 && (from == DType::i32 || (is_float(from) && size_bits(from) >= 16 && from != DType::f64));
      return widens || rounds ? factor_of(node->operand(0), looks) : std::nullopt;
    }
    case Op::sub_: {
      if (value->type.dtype != DType::i32) return std::nullopt;
      std::optional<Factor> factor = factor_of(node->operand(0), looks);
      if (!factor || factor->zero_point) return std::nullopt;
      factor->zero_point = as_spread(node->operand(1));
      return factor;
    }
    case Op::mul_: return scaled(*node, looks);
    case Op::reshape_:
    case Op::transpose_:
    case Op::broadcast_in_dim_: return behind_view(*node, looks);
    default: return std::nullopt;
  }
}

/// The axes of one side of a product, and where they are in its result.
struct Side {
  Axes batch, contract, free;
  int64_t first_free = 0;  ///< of the result

  int rank() const { return static_cast<int>(batch.size() + contract.size() + free.size()); }
  Axes places() const {
    Axes places(static_cast<size_t>(rank()), -1);
    for (size_t i = 0; i < batch.size(); ++i) places[static_cast<size_t>(batch[i])] = static_cast<int64_t>(i);
    for (size_t i = 0; i < free.size(); ++i) places[static_cast<size_t>(free[i])] = first_free + static_cast<int64_t>(i);
    return places;
  }
};

class Multiplier {
 public:
  Multiplier(Graph& graph, bool keep_parameters) : graph_(graph), rewriter_(graph, keep_parameters) {}

  void run() {
    sweep(graph_.body);
    for (StateUpdate& update : graph_.state_updates) update.value = now(update.value);
  }

 private:
  void sweep(Region& region) {
    const std::vector<Node*> nodes = std::move(region.nodes);
    region.nodes.clear();
    for (Node* node : nodes) {
      for (Value*& operand : node->operands) operand = now(operand);
      for (const auto& inner : node->regions) sweep(*inner);
      if (node->op != Op::dot_general_ || !multiply(*node, region)) region.nodes.push_back(node);
    }
    for (Value*& result : region.results) result = now(result);
  }

  Value* now(Value* value) const {
    const auto found = replaced_.find(value);
    return found == replaced_.end() ? value : found->second;
  }

  static Side side_of(const Node& node, int number, int64_t first_free) {
    Side side{node.attrs.get_ints(number == 0 ? "lhs_batch" : "rhs_batch"),
              node.attrs.get_ints(number == 0 ? "lhs_contract" : "rhs_contract"),
              {},
              first_free};
    for (int64_t axis = 0; axis < node.operand(number)->type.rank(); ++axis) {
      if (!contains(side.batch, axis) && !contains(side.contract, axis)) side.free.push_back(axis);
    }
    return side;
  }

  /// Whether the product is exact, and what scales it is the same along the sum.
  static bool fits(const Node& node, const Factor (&factors)[2], const Side (&sides)[2]) {
    const DType dtype = node.result()->type.dtype;
    const bool integers = !is_float(factors[0].bytes->type.dtype);
    if (integers == is_float(factors[1].bytes->type.dtype)) return false;
    for (const int s : {0, 1}) {
      const auto varies = [&](const Spread& spread) {
        return std::any_of(spread.dims.begin(), spread.dims.end(), [&](int64_t dim) { return contains(sides[s].contract, dim); });
      };
      if ((factors[s].zero_point && varies(*factors[s].zero_point)) ||
          std::any_of(factors[s].scales.begin(), factors[s].scales.end(), varies))
        return false;
    }
    if (!is_float(dtype)) return integers && dtype == DType::i32;
    if (!integers) return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
    for (const Factor& factor : factors) {
      if (factor.zero_point && !is_small(factor.zero_point->value)) return false;
    }
    const auto most = [&](int s) { return largest(factors[s].bytes->type.dtype, factors[s].zero_point.has_value()); };
    return rules::extent_over(node.operand(0), sides[0].contract) <= INT32_MAX / (most(0) * most(1)) && dtype != DType::f64;
  }

  bool multiply(Node& node, Region& region) {
    int looks_a = kMostLooks, looks_b = kMostLooks;
    const std::optional<Factor> a = factor_of(node.operand(0), looks_a), b = factor_of(node.operand(1), looks_b);
    if (!a || !b) return false;
    const Factor factors[] = {*a, *b};
    const Side left = side_of(node, 0, static_cast<int64_t>(node.attrs.get_ints("lhs_batch").size()));
    const Side sides[] = {left, side_of(node, 1, left.first_free + static_cast<int64_t>(left.free.size()))};
    if (!fits(node, factors, sides)) return false;

    Region emitted;
    Builder builder(graph_, emitted, node.loc);
    builder.name_as_parts_of(node.result()->name);
    Attrs attrs = node.attrs;
    std::vector<Value*> bytes;
    for (const int s : {0, 1}) { bytes.push_back(with_sum_inside(builder, seen(builder, factors[s]), sides[s], s, attrs)); }
    if (bytes == node.operands) return false;
    const Shape shape = rules::shape_of(node.result());
    const bool integers = !is_float(factors[0].bytes->type.dtype);
    attrs.set("dtype", integers ? DType::i32 : DType::f32);
    Value* product = builder.emit(Op::dot_general_, {bytes[0], bytes[1]}, std::move(attrs));
    product = without_zero_points(builder, node, *product->producer, factors, sides);
    const DType dtype = node.result()->type.dtype;
    if (is_float(dtype)) product = builder.cast(product, DType::f32);
    for (const int s : {0, 1}) {
      for (const Spread& scale : factors[s].scales) {
        product = builder.mul(product, builder.cast(spread(builder, scale, sides[s], shape), DType::f32));
      }
    }
    product = builder.cast(product, dtype);
    std::swap(product->name, node.result()->name);
    replaced_[node.result()] = product;
    region.nodes.insert(region.nodes.end(), emitted.nodes.begin(), emitted.nodes.end());
    return true;
  }

  static Value* seen(Builder& builder, const Factor& factor) {
    Value* bytes = factor.bytes;
    for (const Node* view : factor.views) bytes = builder.emit(view->op, {bytes}, view->attrs);
    return bytes;
  }

  /// A constant whose summed axes are its last ones, in the order of the product; others as they are.
  Value* with_sum_inside(Builder& builder, Value* bytes, const Side& side, int number, Attrs& attrs) {
    const Tensor* tensor = rewriter_.constant(bytes);
    Axes order;
    for (int64_t axis = 0; axis < bytes->type.rank(); ++axis) {
      if (!contains(side.contract, axis)) order.push_back(axis);
    }
    order.insert(order.end(), side.contract.begin(), side.contract.end());
    if (tensor == nullptr || std::is_sorted(order.begin(), order.end())) return bytes;
    Region scratch;
    Value* turned = Builder(graph_, scratch, builder.loc()).transpose(bytes, order);
    std::optional<std::vector<Tensor>> evaluated = evaluate_cheap_node(*turned->producer, std::vector<Tensor>{*tensor});
    if (!evaluated) return bytes;
    const auto moved = [&](Axes axes) {
      for (int64_t& axis : axes) axis = std::find(order.begin(), order.end(), axis) - order.begin();
      return axes;
    };
    attrs.set(number == 0 ? "lhs_batch" : "rhs_batch", moved(side.batch));
    attrs.set(number == 0 ? "lhs_contract" : "rhs_contract", moved(side.contract));
    return builder.constant(std::move(evaluated->front()), bytes->name + ".turned");
  }

  /// A value along axes of an operand, spread over the result.
  static Value* spread(Builder& builder, const Spread& what, const Side& side, const Shape& shape) {
    if (made_by(what.value, Op::full_) != nullptr) {
      Attrs attrs = what.value->producer->attrs;
      attrs.set("shape", shape);
      return builder.emit(Op::full_, {}, std::move(attrs));
    }
    const Axes places = side.places();
    Axes order(what.dims.size()), dims;
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    const auto place = [&](int64_t i) { return places[static_cast<size_t>(what.dims[static_cast<size_t>(i)])]; };
    std::sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return place(x) < place(y); });
    for (const int64_t i : order) dims.push_back(place(i));
    Shape own;
    for (const int64_t extent : rules::shape_of(what.value)) {
      if (extent != 1) own.push_back(extent);
    }
    return builder.broadcast_in_dim(builder.transpose(builder.reshape(what.value, own), order), shape, dims);
  }

  /// sum (a - y)(b - z) = sum a b - y sum b - z sum a + K y z, in i32, where what leaves its range comes back.
  Value* without_zero_points(Builder& builder, const Node& node, const Node& of_bytes, const Factor (&factors)[2], const Side (&sides)[2]) {
    Value* product = of_bytes.result();
    const Shape shape = rules::shape_of(product);
    Value* points[2] = {};
    for (const int s : {0, 1}) {
      if (!factors[s].zero_point) continue;
      points[s] = spread(builder, *factors[s].zero_point, sides[s], shape);
      const int other = 1 - s;
      Spread sums{sums_of(builder, of_bytes, other), {}};
      for (int64_t axis = 0; axis < sides[other].rank(); ++axis) {
        if (!contains(sides[other].contract, axis) && rules::extent_of(node.operand(other), axis) != 1) sums.dims.push_back(axis);
      }
      product = builder.sub(product, builder.mul(spread(builder, sums, sides[other], shape), points[s]));
    }
    if (points[0] == nullptr || points[1] == nullptr) return product;
    Value* both = builder.mul(builder.mul(points[0], points[1]),
                              builder.full_int(DType::i32, shape, rules::extent_over(node.operand(0), sides[0].contract)));
    return builder.add(product, both);
  }

  /// Of the elements of one side along the sum, in i32: a constant where they are.
  Value* sums_of(Builder& builder, const Node& product, int side) {
    Value* bytes = product.operand(side);
    const Axes axes = product.attrs.get_ints(side == 0 ? "lhs_contract" : "rhs_contract");
    if (const Tensor* tensor = rewriter_.constant(bytes)) {
      Region scratch;
      Builder apart(graph_, scratch, builder.loc());
      std::optional<std::vector<Tensor>> values = std::vector<Tensor>{*tensor};
      Value* sums = apart.reduce(Op::reduce_sum_, apart.cast(bytes, DType::i32), axes);
      for (const Node* node : scratch.nodes) {
        if (values) values = evaluate_cheap_node(*node, *values);
      }
      if (values) return builder.constant(std::move(values->front()), sums->name);
    }
    return builder.reduce(Op::reduce_sum_, builder.cast(bytes, DType::i32), axes);
  }

  Graph& graph_;
  Rewriter rewriter_;  // knows constants
  std::unordered_map<Value*, Value*> replaced_;
};

}  // namespace

void multiply_quantized(Graph& graph, bool keep_parameters) {
  Multiplier(graph, keep_parameters).run();
  eliminate_dead_code(graph);
}

}  // namespace tcc
