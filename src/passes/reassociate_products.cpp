// reassociate-products: what is multiplied into a product's factors, or summed up of its results, is done where there is less of it.
//   in:   a canonical graph of prims        out: the same values but for rounding, less to compute and to store
//
// Scales: one number that a factor is multiplied by is multiplied by behind the sum, in the precision of the sum. Attention scales queries, keys, or both.
//     %qs = mul(%q, full 0.5);  %s: bf16 = dot_general(%qs, %k)       ->       %s = cast(mul(dot_general(%q, %k) {dtype=f32}, full 0.5))
// A factor that something else reads scaled stays: it would be stored twice.
//
// Sums: the gradient of attention's weights is summed along rows of columns, times the weights. What the weights make of the values is there already:
//     %o = dot_general(%p, %v)                                             sum_j p[i, j] * (sum_d x[i, d] * v[j, d])
//     %y = dot_general(%x, %v);  %r = reduce_sum(mul(%p, %y))         =    sum_d x[i, d] * (sum_j p[i, j] * v[j, d])
//   becomes
//     %r = reduce_sum(mul(%x, %o))
// so that neither %p nor %y is read for it, and kernels that use %r may have parts of them at hand. Casts between floats, scales and masks (`select` with zero) around
// %p and %y don't matter, where all together are those between %p and %o.

#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "passes/products.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/rules_common.h"
#include "tcc/rules/softmax.h"

namespace tcc {
namespace {

/// A float and the number that it is multiplied by.
struct Scaled {
  Value* value;
  double scale;
};

std::optional<Scaled> as_scaled(Rewriter& rewriter, const Value* value) {
  const Node* node = made_by(value, Op::mul_);
  if (node == nullptr || !is_float(value->type.dtype)) return std::nullopt;
  for (const int side : {0, 1}) {
    const std::optional<Splat> splat = rewriter.splat(node->operand(side));
    if (splat && std::isfinite(splat->floating) && splat->floating != 0) return Scaled{node->operand(1 - side), splat->floating};
  }
  return std::nullopt;
}

// ------------------------------------------------------------------------------------------------------------- scales

class ScaleMover : public ProductReplacer {
 public:
  ScaleMover(Graph& graph, bool keep_parameters)
      : ProductReplacer(graph, keep_parameters), uses_(count_uses(graph)), users_(users_of(graph.body)) {}
  bool has_moved() const { return has_moved_; }

 private:
  /// Beyond, a sum of what is not scaled yet might leave f32 where the one of what is does not.
  static constexpr double kLargest = 1024;

  /// A factor seen through views of what is scaled.
  struct Factor {
    Value* value;
    std::vector<const Node*> views;  ///< the outermost first
    double scale = 1;
  };

  Factor factor_of(Value* operand) {
    Factor factor{operand, {}};
    Value* below = operand;
    std::vector<const Node*> views;
    while (below->producer != nullptr && is_bijective(*below->producer)) {
      views.push_back(below->producer);
      below = below->producer->operand(0);
    }
    while (true) {
      const std::optional<Scaled> scaled = as_scaled(rewriter_, below);
      if (!scaled || rewriter_.constant(scaled->value) != nullptr || !only_products_read(below)) return factor;
      const double scale = factor.scale * scaled->scale;
      if (std::fabs(scale) > kLargest || std::fabs(scale) < 1 / kLargest) return factor;
      factor = {scaled->value, views, scale};
      below = scaled->value;
    }
  }

  /// Also through views, and further scales.
  bool only_products_read(const Value* value) const {
    const auto found = users_.find(value);
    if (found == users_.end() || found->second.size() != static_cast<size_t>(uses_[static_cast<size_t>(value->id)])) return false;
    return std::all_of(found->second.begin(), found->second.end(), [&](const Node* user) {
      return user->op == Op::dot_general_ || ((is_bijective(*user) || user->op == Op::mul_) && only_products_read(user->result()));
    });
  }

  Value* multiply(const Node& node, Builder& builder) override {
    const Factor factors[2] = {factor_of(node.operand(0)), factor_of(node.operand(1))};
    const double scale = factors[0].scale * factors[1].scale;
    if (scale == 1 || !is_float(node.result()->type.dtype)) return nullptr;
    has_moved_ = true;
    std::vector<Value*> operands;
    for (const Factor& factor : factors) {
      Value* operand = factor.value;
      for (size_t i = factor.views.size(); i-- > 0;) {
        Attrs attrs = factor.views[i]->attrs;
        operand = builder.emit(factor.views[i]->op, {operand}, std::move(attrs));
      }
      operands.push_back(operand);
    }
    const DType dtype = node.result()->type.dtype;
    Attrs attrs = node.attrs;
    if (dtype == DType::f16 || dtype == DType::bf16) attrs.set("dtype", DType::f32);
    Value* product = builder.emit(Op::dot_general_, std::move(operands), std::move(attrs));
    return builder.cast(builder.mul(product, builder.full(product->type.dtype, rules::shape_of(product), scale)), dtype);
  }

  const std::vector<int> uses_;
  const Users users_;
  bool has_moved_ = false;
};

// --------------------------------------------------------------------------------------------------------------- sums

/// A value without casts between floats, scales and masks.
struct Core {
  enum class Zero : uint8_t { where, where_not, where_nan };  ///< NaN: of the core itself
  Value* value;
  double scale = 1;
  std::set<std::pair<Zero, const Value*>> masks;
};

class SumMover {
 public:
  SumMover(Graph& graph, bool keep_parameters) : graph_(graph), rewriter_(graph, keep_parameters) {}

  bool run() {
    std::unordered_map<Value*, Value*> replaced;
    std::vector<Node*> nodes;
    for (Node* node : graph_.body.nodes) {
      if (node->op == Op::dot_general_) {
        for (const int side : {0, 1}) products_[core_of(node->operand(side)).value].push_back({node, side});
      }
      if (node->op == Op::transpose_) turned_[node->operand(0)].push_back(node);
      if (Value* sum = moved_sum(*node, nodes)) replaced[node->result()] = sum;
      else nodes.push_back(node);
    }
    graph_.body.nodes = std::move(nodes);
    replace_values(graph_, replaced);
    return !replaced.empty();
  }

 private:
  struct Use {
    const Node* product;
    int side;
  };

  bool is_zero(const Value* value) { return rewriter_.is_splat(value, 0); }

  Core core_of(Value* value) {
    Core core{value, 1, {}};
    while (core.value->producer != nullptr) {
      const Node& node = *core.value->producer;
      if (node.op == Op::cast_ && is_float(node.result()->type.dtype) && is_float(node.operand(0)->type.dtype)) {
        core.value = node.operand(0);
      } else if (const std::optional<Scaled> scaled = as_scaled(rewriter_, core.value)) {
        core.scale *= scaled->scale;
        core.value = scaled->value;
      } else if (node.op == Op::select_ && (is_zero(node.operand(1)) || is_zero(node.operand(2)))) {
        const bool where = is_zero(node.operand(1));
        const Node* nan = made_by(node.operand(0), Op::isnan_);
        if (where && nan != nullptr) core.masks.insert({Core::Zero::where_nan, core_of(nan->operand(0)).value});
        else core.masks.insert({where ? Core::Zero::where : Core::Zero::where_not, node.operand(0)});
        core.value = node.operand(where ? 2 : 1);
      } else {
        break;
      }
    }
    return core;
  }

  /// What stands for the sum of a product's results times something; its nodes are appended.
  Value* moved_sum(const Node& sum, std::vector<Node*>& nodes) {
    const Node* mul = sum.op == Op::reduce_sum_ ? made_by(sum.operand(0), Op::mul_) : nullptr;
    if (mul == nullptr || !is_float(sum.result()->type.dtype)) return nullptr;
    for (const int side : {0, 1}) {
      const Core weights = core_of(mul->operand(side)), results = core_of(mul->operand(1 - side));
      const Node* product = made_by(results.value, Op::dot_general_);
      if (product == nullptr) continue;
      for (const Use& use : products_[weights.value]) {
        if (Value* moved = moved_sum(sum, weights, results, *product, use, nodes)) return moved;
      }
    }
    return nullptr;
  }

  Value* moved_sum(const Node& sum, const Core& weights, const Core& results, const Node& product, const Use& use,
                   std::vector<Node*>& nodes) {
    const Core used = core_of(use.product->operand(use.side));
    auto masks = weights.masks;
    masks.insert(results.masks.begin(), results.masks.end());
    // Where rows of a softmax that are NaN count as zero, their sums do.
    Value* inverse = nullptr;
    const std::pair nan{Core::Zero::where_nan, static_cast<const Value*>(weights.value)};
    if (masks.contains(nan)) {
      Axes axes = sum.attrs.get_ints("axes");
      std::sort(axes.begin(), axes.end());
      const std::optional<Softmax> softmax = as_softmax(weights.value, alike_);
      if (softmax && softmax->axes == axes) inverse = softmax->inverse;
      if (inverse != nullptr && !used.masks.contains(nan)) masks.erase(nan);
    }
    if (used.masks != masks) return nullptr;
    for (const int other : {0, 1}) {
      const std::optional<Match> match = match_axes(sum, product, other, *use.product, use.side);
      if (!match) continue;
      Region emitted;
      Builder builder(graph_, emitted, sum.loc);
      builder.name_as_parts_of(sum.result()->name);
      const DType dtype = sum.result()->type.dtype;
      Value* x = product.operand(1 - other);
      Value *o = use.product->result(), *moved = nullptr;
      if (Value* turned = turned_to(o, match->order)) {
        moved = builder.reduce(Op::reduce_sum_, builder.mul(builder.cast(x, dtype), builder.cast(turned, dtype)), match->summed_of_x);
        moved = builder.transpose(moved, match->kept);
      } else {
        x = builder.cast(builder.transpose(x, match->order), dtype);
        moved = builder.reduce(Op::reduce_sum_, builder.mul(x, builder.cast(o, dtype)), match->summed);
      }
      const double scale = weights.scale * results.scale / used.scale;
      if (scale != 1) moved = builder.binary(Op::mul_, moved, scale);
      if (inverse != nullptr)
        moved = builder.select(builder.unary(Op::isnan_, inverse), builder.full(dtype, rules::shape_of(moved), 0), moved);
      std::swap(moved->name, sum.result()->name);
      nodes.insert(nodes.end(), emitted.nodes.begin(), emitted.nodes.end());
      return moved;
    }
    return nullptr;
  }

  struct Match {
    Axes order;                ///< axes of x, in the order of those of o
    Axes summed, summed_of_x;  ///< of o, of x
    Axes kept;                 ///< axes that x has left, in the order of y
  };

  /// A transposition that there is already: of a value whose axes are to be those of another, of which `order` has the axes in the order of the value's.
  Value* turned_to(const Value* value, const Axes& order) const {
    const auto found = turned_.find(value);
    if (found == turned_.end()) return nullptr;
    for (const Node* node : found->second) {
      const Axes& permutation = node->attrs.get_ints("permutation");
      bool fits = true;
      for (size_t i = 0; i < order.size(); ++i) fits = fits && order[static_cast<size_t>(permutation[i])] == static_cast<int64_t>(i);
      if (fits) return node->result();
    }
    return nullptr;
  }

  /// Whether, with v as side `other` of `product` (y = x v) and p as side `of_weights` of `use` (o = p v), the sum over y's axes of v is the one over o's.
  static std::optional<Match> match_axes(const Node& sum, const Node& product, int other, const Node& use, int of_weights) {
    if (use.operand(1 - of_weights) != product.operand(other)) return std::nullopt;
    const auto sides = [](const Node& node) {
      const Side left = side_of(node, 0, static_cast<int64_t>(node.attrs.get_ints("lhs_batch").size()));
      return std::pair(left, side_of(node, 1, left.first_free + static_cast<int64_t>(left.free.size())));
    };
    const auto [y0, y1] = sides(product);
    const Side &v = other == 0 ? y0 : y1, &x = other == 0 ? y1 : y0;
    const auto [o0, o1] = sides(use);
    const Side &p = of_weights == 0 ? o0 : o1, &u = of_weights == 0 ? o1 : o0;  // u: the axes of v in o
    Axes summed = sum.attrs.get_ints("axes"), of_v;
    for (size_t i = 0; i < v.free.size(); ++i) of_v.push_back(v.first_free + static_cast<int64_t>(i));
    std::sort(summed.begin(), summed.end());
    if (summed != of_v || u.batch.size() != v.batch.size() || u.contract.size() != v.free.size() || u.free.size() != v.contract.size())
      return std::nullopt;
    // Axes of y are those of p. Each of v's has to be in the same part of o, beside the same one of p.
    for (size_t i = 0; i < v.batch.size(); ++i) {
      const auto place = std::find(u.batch.begin(), u.batch.end(), v.batch[i]) - u.batch.begin();
      if (place == std::ssize(u.batch) || p.batch[static_cast<size_t>(place)] != static_cast<int64_t>(i)) return std::nullopt;
    }
    for (size_t i = 0; i < v.free.size(); ++i) {
      const auto place = std::find(u.contract.begin(), u.contract.end(), v.free[i]) - u.contract.begin();
      if (place == std::ssize(u.contract) || p.contract[static_cast<size_t>(place)] != of_v[i]) return std::nullopt;
    }
    Match match;
    match.order.resize(static_cast<size_t>(x.rank()));
    const Axes of_u = u.places();
    for (size_t i = 0; i < v.contract.size(); ++i) {
      if (!contains(u.free, v.contract[i])) return std::nullopt;
      const int64_t axis = of_u[static_cast<size_t>(v.contract[i])];
      match.order[static_cast<size_t>(axis)] = x.contract[i];
      match.summed.push_back(axis);
    }
    const Axes of_p = p.places();
    Axes kept;  // of o
    const auto keep = [&](int64_t axis_of_y, int64_t axis_of_x) {
      const int64_t axis = of_p[static_cast<size_t>(axis_of_y)];
      match.order[static_cast<size_t>(axis)] = axis_of_x;
      kept.push_back(axis);
    };
    for (size_t i = 0; i < x.batch.size(); ++i) keep(static_cast<int64_t>(i), x.batch[i]);
    for (size_t i = 0; i < x.free.size(); ++i) keep(x.first_free + static_cast<int64_t>(i), x.free[i]);
    const auto elements = [](const Value* value, const Axes& axes) { return rules::extent_over(value, axes); };
    const bool is_less = elements(product.operand(other), v.contract) < elements(product.operand(other), v.free);
    std::sort(match.summed.begin(), match.summed.end());
    match.summed_of_x = x.contract;
    std::sort(match.summed_of_x.begin(), match.summed_of_x.end());
    for (const Axes* axes : {&x.batch, &x.free}) {
      for (const int64_t axis : *axes) {
        match.kept.push_back(axis - std::count_if(x.contract.begin(), x.contract.end(), [&](int64_t summed) { return summed < axis; }));
      }
    }
    // What is left has the axes of y in the same order.
    return is_less && std::is_sorted(kept.begin(), kept.end()) ? std::optional(match) : std::nullopt;
  }

  Graph& graph_;
  Rewriter rewriter_;  // knows constants
  std::unordered_map<const Value*, std::vector<Use>> products_;
  std::unordered_map<const Value*, std::vector<const Node*>> turned_;
  Alike alike_;
};

}  // namespace

void reassociate_products(Graph& graph, bool keep_parameters) {
  bool changed = SumMover(graph, keep_parameters).run();
  ScaleMover scales(graph, keep_parameters);
  scales.run();
  changed = changed || scales.has_moved();
  if (changed) eliminate_dead_code(graph);
}

}  // namespace tcc
