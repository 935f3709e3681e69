#include "passes/quantized_factor.h"

#include "tcc/rules/evaluate.h"
#include "tcc/rules/rules_common.h"

namespace tcc {

bool is_byte(DType dtype) { return dtype == DType::i8 || dtype == DType::u8 || dtype == DType::f8e4m3fn || dtype == DType::f8e5m2; }
bool is_narrow(DType dtype) { return is_byte(dtype) || dtype == DType::i4 || dtype == DType::u4; }

namespace {

/// A value for each block of neighbours along one axis: broadcast along an axis behind that one, which a reshape joins with it; the last block may be cut off.
std::optional<Spread> as_blocks(Value* value) {
  if (const Node* cut = made_by(value, Op::slice_)) {
    const auto all = [&](const char* name, int64_t number) {
      const Axes& numbers = cut->attrs.get_ints(name);
      return std::all_of(numbers.begin(), numbers.end(), [&](int64_t n) { return n == number; });
    };
    if (!all("starts", 0) || !all("steps", 1)) return std::nullopt;
    value = cut->operand(0);
  }
  const Node* joined = made_by(value, Op::reshape_);
  const Node* spread = joined != nullptr ? made_by(joined->operand(0), Op::broadcast_in_dim_) : nullptr;
  if (spread == nullptr || spread->result()->type.rank() != value->type.rank() + 1) return std::nullopt;
  const Shape split = rules::shape_of(spread->result()), whole = rules::shape_of(value);
  size_t at = 0;  // the first axis that differs
  while (at < whole.size() && split[at] == whole[at]) ++at;
  if (at == whole.size() || split[at] * split[at + 1] != whole[at]) return std::nullopt;
  for (size_t axis = at + 1; axis < whole.size(); ++axis) {
    if (split[axis + 1] != whole[axis]) return std::nullopt;
  }
  Spread result{spread->operand(0), {}, {}};
  const Axes& dims = spread->attrs.get_ints("dims");
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (rules::extent_of(result.value, static_cast<int64_t>(axis)) == 1) continue;
    const auto dim = static_cast<size_t>(dims[axis]);
    if (dim == at + 1) return std::nullopt;
    result.dims.push_back(static_cast<int64_t>(dim > at ? dim - 1 : dim));
    result.blocks.push_back(dim == at ? split[at + 1] : 1);
  }
  return result;
}

/// What is the same along some axes: a broadcast, one number. Any other value varies along all.
Spread as_spread(Value* value) {
  if (made_by(value, Op::full_) != nullptr) return {value, {}, {}};
  if (std::optional<Spread> blocks = as_blocks(value)) return *blocks;
  const Node* view = made_by(value, Op::broadcast_in_dim_);
  Spread spread{view != nullptr ? view->operand(0) : value, {}, {}};
  for (int64_t axis = 0; axis < spread.value->type.rank(); ++axis) {
    if (rules::extent_of(spread.value, axis) == 1) continue;
    spread.dims.push_back(view != nullptr ? view->attrs.get_ints("dims")[static_cast<size_t>(axis)] : axis);
    spread.blocks.push_back(1);
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

std::optional<Factor> factor_of(Value* value, int& looks) {
  if (looks-- <= 0) return std::nullopt;
  if (is_narrow(value->type.dtype)) return Factor{.bytes = value};
  const Node* node = value->producer;
  if (node == nullptr || node->results.size() != 1) return std::nullopt;
  switch (node->op) {
    case Op::cast_: {
      const DType from = node->operand(0)->type.dtype, to = value->type.dtype;
      const bool widens =
          is_narrow(from) && (to == DType::f32 || to == DType::f16 || to == DType::bf16 || (to == DType::i32 && !is_float(from)));
      const bool rounds =
          is_float(to) && size_bits(to) >= 16 && (from == DType::i32 || (is_float(from) && size_bits(from) >= 16 && from != DType::f64));
      return widens || rounds ? factor_of(node->operand(0), looks) : std::nullopt;
    }
    case Op::sub_: {
      if (value->type.dtype != DType::i32 && !is_float(value->type.dtype)) return std::nullopt;
      std::optional<Factor> factor = factor_of(node->operand(0), looks);
      if (!factor || factor->zero_point || !factor->scales.empty()) return std::nullopt;
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

}  // namespace

std::optional<Factor> factor_of(Value* value) {
  int looks = kMostLooks;
  return factor_of(value, looks);
}

Value* seen_bytes(Builder& builder, const Factor& factor) {
  Value* bytes = factor.bytes;
  for (const Node* view : factor.views) bytes = builder.emit(view->op, {bytes}, view->attrs);
  return bytes;
}

bool varies_along_sum(const Spread& spread, const Side& side) {
  return std::any_of(spread.dims.begin(), spread.dims.end(), [&](int64_t dim) { return contains(side.contract, dim); });
}

Value* spread_over(Builder& builder, const Spread& what, const Axes& places, const Shape& shape) {
  if (made_by(what.value, Op::full_) != nullptr) {
    Attrs attrs = what.value->producer->attrs;
    attrs.set("shape", shape);
    return builder.emit(Op::full_, {}, std::move(attrs));
  }
  Axes order(what.dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  const auto place = [&](int64_t i) { return places[static_cast<size_t>(what.dims[static_cast<size_t>(i)])]; };
  std::sort(order.begin(), order.end(), [&](int64_t x, int64_t y) { return place(x) < place(y); });
  Shape own;
  for (const int64_t extent : rules::shape_of(what.value)) {
    if (extent != 1) own.push_back(extent);
  }
  // An axis of blocks has one behind it for the elements of a block, until they are joined.
  Axes dims;
  Shape split = shape, joined = shape;
  for (const int64_t i : order) {
    const int64_t block = what.blocks[static_cast<size_t>(i)];
    const auto at = static_cast<size_t>(place(i)), added = split.size() - shape.size();
    dims.push_back(static_cast<int64_t>(at + added));
    if (block == 1) continue;
    const int64_t blocks = own[static_cast<size_t>(i)];
    joined[at] = blocks * block;
    split[at + added] = blocks;
    split.insert(split.begin() + static_cast<int64_t>(at + added) + 1, block);
  }
  Value* value = builder.broadcast_in_dim(builder.transpose(builder.reshape(what.value, own), order), split, dims);
  return builder.slice(builder.reshape(value, joined), Axes(shape.size(), 0), shape);
}

Value* with_sum_inside(Builder& builder, Rewriter& rewriter, Graph& graph, Value* bytes, const Side& side, int number, Attrs& attrs) {
  const Tensor* tensor = rewriter.constant(bytes);
  Axes order;
  for (int64_t axis = 0; axis < bytes->type.rank(); ++axis) {
    if (!contains(side.contract, axis)) order.push_back(axis);
  }
  order.insert(order.end(), side.contract.begin(), side.contract.end());
  if (tensor == nullptr || std::is_sorted(order.begin(), order.end())) return bytes;
  Region scratch;
  Value* turned = Builder(graph, scratch, builder.loc()).transpose(bytes, order);
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

}  // namespace tcc
