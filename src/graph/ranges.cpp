#include "tcc/graph/ranges.h"

#include <algorithm>
#include <limits>

#include "tcc/graph/splat.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

constexpr int kMostNodes = 48;  // that one question looks at: indices are made by short chains

int64_t limit(__int128 value) {
  return static_cast<int64_t>(std::clamp<__int128>(value, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
}

/// What the dtype alone says; nothing for 64 bits, whose bounds say nothing.
std::optional<IntRange> range_of(DType dtype) {
  if (dtype == DType::boolean) return IntRange{0, 1};
  const int bits = size_bits(dtype);
  if (is_float(dtype) || bits >= 64) return std::nullopt;
  if (!is_signed_integer(dtype)) return IntRange{0, (int64_t{1} << bits) - 1};
  return IntRange{-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

std::optional<IntRange> range_of(const Tensor& tensor) {
  if (tensor.count() == 0 || is_float(tensor.dtype())) return std::nullopt;
  IntRange range{tensor.as_int64(0), tensor.as_int64(0)};
  for (int64_t i = 1; i < tensor.count(); ++i) {
    range.low = std::min(range.low, tensor.as_int64(i));
    range.high = std::max(range.high, tensor.as_int64(i));
  }
  return range;
}

IntRange united(const IntRange& a, const IntRange& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

class KnownRange {
 public:
  std::optional<IntRange> of(const Value* value) {
    const DType dtype = value->type.dtype;
    if (is_float(dtype)) return std::nullopt;
    const auto by_dtype = range_of(dtype);
    auto range = made(value);
    // Integer arithmetic wraps: what may leave the dtype may be anything in it.
    if (range && by_dtype && (range->low < by_dtype->low || range->high > by_dtype->high)) range = by_dtype;
    return range ? range : by_dtype;
  }

 private:
  std::optional<IntRange> made(const Value* value) {
    if (value->kind == Value::Kind::weight) {
      const bool is_known = !value->weight->is_state && value->weight->tensor.count() <= kMostElements;
      return is_known ? range_of(value->weight->tensor) : std::nullopt;
    }
    if (value->producer == nullptr || ++nodes_ > kMostNodes) return std::nullopt;
    return of_node(*value->producer, value->index);
  }

  std::optional<IntRange> of_node(const Node& node, int result) {
    switch (node.op) {
      case Op::full_: {
        const int64_t value = splat_of_full(node).integer;
        return IntRange{value, value};
      }
      case Op::iota_: {
        const auto& shape = node.attrs.get_ints("shape");
        return IntRange{0, std::max<int64_t>(shape[static_cast<size_t>(node.attrs.get_int("axis"))] - 1, 0)};
      }
      case Op::argmax_:
      case Op::argmin_: {
        const int64_t extent = node.operand(0)->type.dims[static_cast<size_t>(node.attrs.get_int("axis"))].bound;
        return extent > 0 ? std::optional(IntRange{0, extent - 1}) : std::nullopt;
      }
      case Op::topk_: {
        const int64_t extent = node.operand(0)->type.dims[static_cast<size_t>(node.attrs.get_int("axis"))].bound;
        return result == 1 && extent > 0 ? std::optional(IntRange{0, extent - 1}) : std::nullopt;
      }
      case Op::check_index_:
      case Op::cast_: return of(node.operand(0));  // of() sees what does not fit; floats are not known
      case Op::broadcast_in_dim_:
      case Op::reshape_:
      case Op::transpose_:
      case Op::slice_:
      case Op::reverse_:
      case Op::reduce_max_:
      case Op::reduce_min_: return node.operand(0)->type.count() > 0 ? of(node.operand(0)) : std::nullopt;
      case Op::pad_:
      case Op::concat_: return over(node, 0);
      case Op::select_: return over(node, 1);
      case Op::gather_:
      case Op::gather_elements_:
      case Op::gather_nd_: {  // an index outside reads 0
        const auto data = of(node.operand(0));
        return data ? std::optional(united(*data, {0, 0})) : std::nullopt;
      }
      case Op::clamp_: return clamped(node);
      case Op::max_:
      case Op::min_: return extreme(node);
      default: return arithmetic(node);
    }
  }

  /// Of all operands from `first` on.
  std::optional<IntRange> over(const Node& node, size_t first) {
    std::optional<IntRange> all;
    for (size_t i = first; i < node.operands.size(); ++i) {
      if (node.operands[i]->type.count() == 0) continue;
      const auto one = of(node.operands[i]);
      if (!one) return std::nullopt;
      all = all ? united(*all, *one) : *one;
    }
    return all;
  }

  /// One bound may come from each operand.
  std::optional<IntRange> extreme(const Node& node) {
    const auto a = of(node.operand(0)), b = of(node.operand(1));
    constexpr IntRange everything{std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
    if (!a && !b) return std::nullopt;
    const IntRange x = a.value_or(everything), y = b.value_or(everything);
    if (node.op == Op::max_) return IntRange{std::max(x.low, y.low), std::max(x.high, y.high)};
    return IntRange{std::min(x.low, y.low), std::min(x.high, y.high)};
  }

  std::optional<IntRange> clamped(const Node& node) {
    const auto low = of(node.operand(1)), high = of(node.operand(2));
    if (!low || !high) return std::nullopt;
    return IntRange{std::min(low->low, high->low), std::max(low->high, high->high)};  // min(max(x, lo), hi)
  }

  std::optional<IntRange> arithmetic(const Node& node) {
    if (node.operands.size() != 2) return std::nullopt;
    if (node.op == Op::mod_) {  // the divisor's sign
      const auto divisor = of(node.operand(1));
      return divisor && divisor->low > 0 ? std::optional(IntRange{0, divisor->high - 1}) : std::nullopt;
    }
    if (node.op != Op::add_ && node.op != Op::sub_ && node.op != Op::mul_ && node.op != Op::rem_ && node.op != Op::div_)
      return std::nullopt;
    const auto a = of(node.operand(0)), b = of(node.operand(1));
    if (!a || !b) return std::nullopt;
    using Wide = __int128;
    Wide low = 0, high = 0;
    if (node.op == Op::add_) {
      low = Wide{a->low} + b->low;
      high = Wide{a->high} + b->high;
    } else if (node.op == Op::sub_) {
      low = Wide{a->low} - b->high;
      high = Wide{a->high} - b->low;
    } else if (node.op == Op::mul_) {
      const Wide products[] = {Wide{a->low} * b->low, Wide{a->low} * b->high, Wide{a->high} * b->low, Wide{a->high} * b->high};
      low = *std::min_element(std::begin(products), std::end(products));
      high = *std::max_element(std::begin(products), std::end(products));
    } else {
      if (a->low < 0 || b->low <= 0) return std::nullopt;
      if (node.op == Op::rem_) return IntRange{0, std::min(a->high, b->high - 1)};
      return IntRange{a->low / b->high, a->high / b->low};
    }
    // Wrapped around, it may be anything.
    if (low != limit(low) || high != limit(high)) return std::nullopt;
    return IntRange{limit(low), limit(high)};
  }

  static constexpr int64_t kMostElements = 1 << 20;
  int nodes_ = 0;
};

/// The one value of all elements, where it is known.
std::optional<int64_t> constant_of(const Value* value) {
  const auto range = known_range(value);
  return range && range->low == range->high ? std::optional(range->low) : std::nullopt;
}

/// Carries what is asked of a value back to the inputs that it is made of.
class Demands {
 public:
  std::unordered_map<const Value*, IntRange> inputs;

  void ask(const Value* value, IntRange range, int depth = 0) {
    if (range.empty() || depth > kMostNodes) return;
    if (value->kind == Value::Kind::input) {
      const auto [at, is_new] = inputs.emplace(value, range);
      if (is_new) return;
      const IntRange both{std::max(at->second.low, range.low), std::min(at->second.high, range.high)};
      if (!both.empty()) at->second = both;  // else the uses exclude each other by a condition that is not seen: the first stays
      return;
    }
    if (value->producer == nullptr) return;
    const Node& node = *value->producer;
    switch (node.op) {
      case Op::cast_:
      case Op::broadcast_in_dim_:
      case Op::reshape_:
      case Op::transpose_:
      case Op::slice_:
      case Op::reverse_:
      case Op::pad_: ask(node.operand(0), range, depth + 1); return;
      case Op::concat_:
        if (node.operands.size() > 8) return;
        for (const Value* piece : node.operands) ask(piece, range, depth + 1);
        return;
      case Op::select_:  // what is chosen otherwise first: `x < 0 ? x + n : x` is about x
        ask(node.operand(2), range, depth + 1);
        ask(node.operand(1), range, depth + 1);
        return;
      case Op::add_:
        if (const auto b = constant_of(node.operand(1))) ask(node.operand(0), shifted(range, *b), depth + 1);
        else if (const auto a = constant_of(node.operand(0))) ask(node.operand(1), shifted(range, *a), depth + 1);
        return;
      case Op::sub_:
        if (const auto b = constant_of(node.operand(1)))
          ask(node.operand(0), {limit(__int128{range.low} + *b), limit(__int128{range.high} + *b)}, depth + 1);
        return;
      default: return;
    }
  }

 private:
  static IntRange shifted(const IntRange& range, int64_t by) { return {limit(__int128{range.low} - by), limit(__int128{range.high} - by)}; }
};

/// What a comparison with positions (an iota) says: a class where it is for equality, else a length.
void ask_of_comparison(const Node& node, Demands& demands) {
  for (const bool swapped : {false, true}) {
    const Value* positions = source_of(node.operand(swapped ? 1 : 0));
    if (positions->producer == nullptr || positions->producer->op != Op::iota_) continue;
    const IntRange range = *known_range(positions);
    const bool equality = node.op == Op::eq_ || node.op == Op::ne_;
    // position < length and position >= length; swapped: length > position and length <= position
    const bool excludes = node.op == (swapped ? Op::gt_ : Op::lt_) || node.op == (swapped ? Op::le_ : Op::ge_);
    const int64_t shift = !equality && excludes ? 1 : 0;
    demands.ask(node.operand(swapped ? 0 : 1), {range.low + shift, range.high + shift});
  }
}

}  // namespace

std::optional<IntRange> known_range(const Value* value) { return KnownRange().of(value); }

const Value* source_of(const Value* index) {
  for (int steps = 0; steps < kMostNodes && index->producer != nullptr; ++steps) {
    const Node& node = *index->producer;
    switch (node.op) {
      case Op::cast_:
      case Op::broadcast_in_dim_:
      case Op::reshape_:
      case Op::transpose_:
      case Op::slice_:
      case Op::reverse_: index = node.operand(0); continue;
      case Op::check_index_: index = node.operand(0); continue;
      case Op::select_: {
        const bool first = constant_of(node.operand(1)).has_value(), second = constant_of(node.operand(2)).has_value();
        if (first == second) return index;
        index = node.operand(first ? 2 : 1);
        continue;
      }
      default: return index;
    }
  }
  return index;
}

std::optional<IndexUse> index_use(const Node& node) {
  const auto axis_extent = [&] { return node.operand(0)->type.shape()[static_cast<size_t>(node.attrs.get_int("axis"))]; };
  switch (node.op) {
    case Op::gather_:
    case Op::gather_elements_:
    case Op::scatter_elements_: return IndexUse{1, {axis_extent()}, true};
    case Op::gather_nd_:
    case Op::scatter_nd_: {
      const Shape shape = node.operand(0)->type.shape();
      const int64_t depth = node.operand(1)->type.shape().back();
      const auto first = shape.begin() + (node.op == Op::gather_nd_ ? node.attrs.get_int("batch_dims") : 0);
      return IndexUse{1, {first, first + depth}, true};
    }
    case Op::check_index_: return IndexUse{1, {node.attrs.get_int("extent")}, false};
    default: return std::nullopt;
  }
}

std::unordered_map<const Value*, IntRange> input_ranges(const Graph& graph) {
  Demands demands;
  for (const Node* node : graph.body.nodes) {
    const auto use = index_use(*node);
    if (!use || use->extents.empty()) continue;
    const int64_t least = *std::min_element(use->extents.begin(), use->extents.end());
    demands.ask(node->operand(use->operand), {0, least - 1});
  }
  // What is only compared says less: it gives a range to inputs that have none.
  Demands compared;
  for (const Node* node : graph.body.nodes) {
    switch (node->op) {
      case Op::eq_:
      case Op::ne_:
      case Op::lt_:
      case Op::le_:
      case Op::gt_:
      case Op::ge_: ask_of_comparison(*node, compared); break;
      default: break;
    }
  }
  demands.inputs.insert(compared.inputs.begin(), compared.inputs.end());
  return demands.inputs;
}

}  // namespace tcc
