// join-products: products of one factor by constants of their own become one product by the constants side by side.
//   in:   a canonical graph of prims        out: the same values bit for bit, fewer products
//     %q: f32[8, 64] = add(dot_general(%x, @wq), broadcast_in_dim(@bq))           @wq: f32[64, 32], @bq: f32[64]
//     %k: f32[8, 16] = dot_general(%x, @wk)                                       @wk: f32[16, 32]
//   becomes
//     %y: f32[8, 80] = add(dot_general(%x, @wq.joined), broadcast_in_dim(@bq.joined))        @wq.joined: f32[80, 32], @bq.joined: f32[80]
//     %q = slice(%y) {starts=[0, 0], limits=[8, 64]};  %k = slice(%y) {starts=[0, 64], limits=[8, 80]}
// The projections of queries, keys and values in attention are such products. Few rows leave most of the machine idle when a product has few columns; many rows
// read %x once instead of once a product, and have one partial wave of tiles instead of several. Whoever reads a slice reads it where it lies.
//
// What is computed behind a product by constants moves along: a bias, a scale, a cast. A part without it is added -0 or multiplied by 1, which changes no bits.
// A scale behind views of a part moves in front of them.
//
// So no byte more goes through memory than before. A product stays by itself where more would:
//   - its constant is read elsewhere too (the library would hold it twice)
//   - the rest of what is computed from it point by point would be done by the kernel of the product, like silu(gate) * up
//   - it is an output of the graph, or views of it are: it is stored there in place
//   - another product lies between it and the others, and the results are larger than the constants: they would take memory for a longer time
// Where weights are no constants (training, weights that are inputs), a copy of them side by side in each run would take more time than is saved.

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "passes/products.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/builder.h"
#include "tcc/rules/evaluate.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace {

/// How many values behind a product are looked at.
constexpr size_t kMostLooks = 64;

bool is_pointwise(const Node& node) { return info(node.op).lowering == Lowering::pointwise; }
bool is_product(const Node& node) { return info(node.op).lowering == Lowering::contract || info(node.op).lowering == Lowering::window; }

/// What a part is added or multiplied by: one number, or a constant with an element for each column.
struct Columns {
  std::optional<Splat> splat;
  const Tensor* tensor = nullptr;
};

/// One of the products, and what of the nodes behind it has been taken in.
struct Part {
  Node* product;
  Value* end;                 ///< what a slice of the joined product is, seen through the views before it
  bool behind_views = false;  ///< whether there are any
  int64_t columns() const { return rules::extent_of(product->result(), product->result()->type.rank() - 1); }
};

/// The next node behind a part.
struct Next {
  Node* node = nullptr;
  bool behind_views = false;
  Columns by;  ///< of add and mul
};

/// A node that the joined product gets behind it.
struct Step {
  Op op;
  Attrs attrs;
  std::vector<Columns> by;  ///< of each part; empty for a cast
};

class Joiner {
 public:
  Joiner(Graph& graph, bool keep_parameters)
      : graph_(graph), rewriter_(graph, keep_parameters), uses_(count_uses(graph)), users_(users_of(graph.body)) {}

  /// Whether there was something to join.
  bool run() {
    std::vector<std::vector<Node*>> sets = siblings();
    for (std::vector<Node*>& set : sets) join(std::move(set));
    if (joined_.empty()) return false;
    std::vector<Node*> nodes;
    for (Node* node : graph_.body.nodes) {
      if (const auto found = joined_.find(node); found != joined_.end())
        nodes.insert(nodes.end(), found->second.begin(), found->second.end());
      nodes.push_back(node);
    }
    graph_.body.nodes = std::move(nodes);
    replace_values(graph_, replaced_);
    return true;
  }

 private:
  // ---------------------------------------------------------------------------------------------------- which

  bool is_candidate(const Node& node) const {
    if (node.op != Op::dot_general_ || !node.attrs.get_ints("lhs_batch").empty()) return false;
    const Value* weight = node.operand(1);
    return rewriter_.constant(weight) != nullptr && weight->type.rank() == 2 && node.attrs.get_ints("rhs_contract").size() == 1 &&
           uses_[static_cast<size_t>(weight->id)] == 1 && rewriter_.constant(node.operand(0)) == nullptr;
  }

  static bool fit(const Node& a, const Node& b) {
    return a.operand(0) == b.operand(0) && a.attrs == b.attrs && a.loc.phase == b.loc.phase &&
           a.operand(1)->type.dtype == b.operand(1)->type.dtype;
  }

  /// Sets of products of one factor, in graph order.
  std::vector<std::vector<Node*>> siblings() const {
    std::vector<std::vector<Node*>> sets;
    std::unordered_map<const Value*, std::vector<size_t>> by_factor;
    std::vector<int64_t> products_before;  // of each set, at its last product
    int64_t products = 0;
    for (Node* node : graph_.body.nodes) {
      if (!is_product(*node)) continue;
      products++;
      if (!is_candidate(*node)) continue;
      std::vector<size_t>& same = by_factor[node->operand(0)];
      const auto takes = [&](size_t set) {
        return fit(*sets[set].front(), *node) && (products_before[set] == products - 1 || is_small(*node));
      };
      const auto found = std::find_if(same.begin(), same.end(), takes);
      if (found == same.end()) {
        same.push_back(sets.size());
        sets.push_back({node});
        products_before.push_back(products);
      } else {
        sets[*found].push_back(node);
        products_before[*found] = products;
      }
    }
    std::erase_if(sets, [](const auto& set) { return set.size() < 2; });
    return sets;
  }

  static bool is_small(const Node& product) { return product.result()->type.size_bytes() <= product.operand(1)->type.size_bytes(); }

  /// Joins those of the products that gain by it.
  void join(std::vector<Node*> products) {
    for (;;) {
      std::vector<Part> parts;
      for (Node* product : products) parts.push_back({product, product->result()});
      std::unordered_map<Value*, Value*> passed;
      const std::vector<Step> steps = steps_behind(parts, passed);
      std::vector<Node*> kept;
      for (const Part& part : parts) {
        if (!loses_epilogue(part.end)) kept.push_back(part.product);
      }
      if (kept.size() < 2) return;
      if (kept.size() == parts.size()) return build(parts, steps, passed);
      products = std::move(kept);
    }
  }

  const std::vector<Node*>& users(const Value* value) const {
    static const std::vector<Node*> none;
    const auto found = users_.find(value);
    return found == users_.end() ? none : found->second;
  }
  /// The one node of the body that reads the value, if nothing else does.
  Node* only_user(const Value* value) const {
    const std::vector<Node*>& all = users(value);
    return all.size() == 1 && uses_[static_cast<size_t>(value->id)] == 1 ? all.front() : nullptr;
  }

  /// Whether the value is stored in place as an output, or all that reads it could be computed by the kernel that makes it. What goes on to a reduction can't:
  /// rows are read again.
  bool loses_epilogue(const Value* start) const {
    std::vector<const Value*> reached{start};
    std::unordered_set<const Value*> seen{start};
    bool only_pointwise = true;
    for (size_t i = 0; i < reached.size(); ++i) {
      const Value* value = reached[i];
      const std::vector<Node*>& readers = users(value);
      const bool of_views_alone = value == start || is_bijective(*value->producer);
      if (of_views_alone && readers.size() != static_cast<size_t>(uses_[static_cast<size_t>(value->id)])) return true;
      if (reached.size() > kMostLooks) break;
      for (const Node* reader : readers) {
        if (info(reader->op).lowering == Lowering::reduce) return false;
        const bool goes_on = is_bijective(*reader) || is_pointwise(*reader);
        if (!goes_on && of_views_alone) only_pointwise = false;
        if (goes_on && seen.insert(reader->result()).second) reached.push_back(reader->result());
      }
    }
    return only_pointwise;
  }

  // -------------------------------------------------------------------------------------------- what is behind

  /// Takes nodes in while the parts have them, or don't mind them. `passed`: results of these nodes, and what they become.
  std::vector<Step> steps_behind(std::vector<Part>& parts, std::unordered_map<Value*, Value*>& passed) {
    std::vector<Step> steps;
    for (;;) {
      std::vector<Next> next;
      for (const Part& part : parts) next.push_back(next_of(part));
      // A cast waits for what others have before theirs.
      auto first = std::find_if(next.begin(), next.end(), [](const Next& n) { return n.node != nullptr && n.node->op != Op::cast_; });
      if (first == next.end()) first = std::find_if(next.begin(), next.end(), [](const Next& n) { return n.node != nullptr; });
      if (first == next.end()) return steps;
      const Op op = first->node->op;
      const Attrs attrs = first->node->attrs;
      const auto has = [&](const Next& n) { return n.node != nullptr && n.node->op == op && n.node->attrs == attrs; };
      if (op == Op::cast_ && !std::all_of(next.begin(), next.end(), has)) return steps;
      Step step{op, attrs, {}};
      for (size_t i = 0; i < parts.size(); ++i) {
        if (op != Op::cast_) step.by.push_back(has(next[i]) ? next[i].by : identity(op, parts[i].end->type.dtype));
        if (!has(next[i])) continue;
        Node& node = *next[i].node;
        Value* read = data_operand(node, parts[i].end);
        passed[node.result()] = read;
        parts[i].end = node.result();
        parts[i].behind_views |= next[i].behind_views;
      }
      steps.push_back(std::move(step));
    }
  }

  static Columns identity(Op op, DType dtype) { return {Splat{dtype, op == Op::add_ ? -0.0 : 1.0, 0}, nullptr}; }

  /// The operand through which the node reads `value`, maybe seen through views.
  static Value* data_operand(const Node& node, const Value* value) {
    for (Value* operand : node.operands) {
      const Value* below = operand;
      while (below != value && below->producer != nullptr && is_bijective(*below->producer)) below = below->producer->operand(0);
      if (below == value) return operand;
    }
    return node.operand(0);
  }

  Next next_of(const Part& part) {
    const Value* value = part.end;
    Node* user = only_user(value);
    bool behind_views = part.behind_views;
    while (user != nullptr && is_bijective(*user)) {
      value = user->result();
      user = only_user(value);
      behind_views = true;
    }
    if (user == nullptr) return {};
    if (user->op == Op::cast_ && !behind_views) return {user, false, {}};
    if ((user->op != Op::add_ && user->op != Op::mul_) || !is_float(value->type.dtype)) return {};
    Value* other = user->operand(0) == value ? user->operand(1) : user->operand(0);
    const std::optional<Columns> by = columns_of(other, part.columns(), behind_views);
    return by ? Next{user, behind_views, *by} : Next{};
  }

  /// A constant that is the same for all rows; `splat_only`: and for all columns.
  std::optional<Columns> columns_of(const Value* value, int64_t columns, bool splat_only) {
    if (const std::optional<Splat> splat = rewriter_.splat(value)) return Columns{splat, nullptr};
    const Node* view = made_by(value, Op::broadcast_in_dim_);
    if (splat_only || view == nullptr) return std::nullopt;
    const Value* below = view->operand(0);
    const Tensor* tensor = rewriter_.constant(below);
    if (tensor == nullptr || tensor->count() != columns || below->type.rank() == 0) return std::nullopt;
    const bool along_last =
        rules::extent_of(below, below->type.rank() - 1) == columns && view->attrs.get_ints("dims").back() == value->type.rank() - 1;
    return along_last ? std::optional(Columns{std::nullopt, tensor}) : std::nullopt;
  }

  // ---------------------------------------------------------------------------------------------- what becomes

  void build(const std::vector<Part>& parts, const std::vector<Step>& steps, const std::unordered_map<Value*, Value*>& passed) {
    const Node& first = *parts.front().product;
    Location loc = first.loc;
    for (size_t i = 1; i < parts.size(); ++i) {
      if (const std::string& name = parts[i].product->loc.node; !name.empty())
        loc.node = loc.node.str() + (loc.node.empty() ? "" : " + ") + name;
    }
    Region emitted;
    Builder builder(graph_, emitted, loc);
    builder.set_name_hint(first.result()->name + ".joined");
    std::vector<Tensor> weights;
    for (const Part& part : parts) weights.push_back(*rewriter_.constant(part.product->operand(1)));
    std::optional<Tensor> weight = side_by_side(weights, 1 - first.attrs.get_ints("rhs_contract")[0]);
    if (!weight) return;
    Value* whole = builder.emit(Op::dot_general_,
                                {first.operand(0), builder.constant(std::move(*weight), first.operand(1)->name + ".joined")}, first.attrs);
    for (const Step& step : steps) {
      builder.set_name_hint(first.result()->name + ".joined");
      if (step.op == Op::cast_) whole = builder.emit(Op::cast_, {whole}, step.attrs);
      else whole = builder.emit(step.op, {whole, all_columns(builder, step, parts, whole)}, step.attrs);
    }
    Shape starts(static_cast<size_t>(whole->type.rank()), 0), limits = rules::shape_of(whole);
    for (const Part& part : parts) {
      limits.back() = starts.back() + part.columns();
      builder.set_name_hint(part.product->result()->name + ".part");
      replaced_[part.product->result()] = builder.slice(whole, starts, limits);
      starts.back() = limits.back();
    }
    replaced_.insert(passed.begin(), passed.end());
    joined_[parts.front().product] = std::move(emitted.nodes);
  }

  /// What the columns of all parts are added or multiplied by, as a value in the shape of the joined product.
  Value* all_columns(Builder& builder, const Step& step, const std::vector<Part>& parts, const Value* whole) {
    const Shape shape = rules::shape_of(whole);
    const DType dtype = whole->type.dtype;
    const auto same = [&](const Columns& by) {
      return by.splat && by.splat->floating == step.by.front().splat->floating &&
             std::signbit(by.splat->floating) == std::signbit(step.by.front().splat->floating);
    };
    if (step.by.front().splat && std::all_of(step.by.begin(), step.by.end(), same))
      return builder.full(dtype, shape, step.by.front().splat->floating);
    Tensor all(dtype, {shape.back()});
    int64_t at = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Columns& by = step.by[i];
      for (int64_t column = 0; column < parts[i].columns(); ++column) {
        all.set_double(at++, by.splat ? by.splat->floating : by.tensor->as_double(column));
      }
    }
    Value* constant = builder.constant(std::move(all), parts.front().product->result()->name + ".joined.columns");
    return builder.broadcast_in_dim(constant, shape, {static_cast<int64_t>(shape.size()) - 1});
  }

  std::optional<Tensor> side_by_side(const std::vector<Tensor>& tensors, int64_t axis) {
    Region scratch;
    Graph apart("constants");
    Builder builder(apart, scratch, {});
    std::vector<Value*> values;
    for (const Tensor& tensor : tensors) values.push_back(builder.constant(tensor));
    std::optional<std::vector<Tensor>> whole = evaluate_cheap_node(*builder.concat(values, axis)->producer, tensors);
    return whole ? std::optional(std::move(whole->front())) : std::nullopt;
  }

  Graph& graph_;
  Rewriter rewriter_;  // knows constants
  std::vector<int> uses_;
  const Users users_;
  std::unordered_map<const Node*, std::vector<Node*>> joined_;  ///< what comes before the first product of a set
  std::unordered_map<Value*, Value*> replaced_;
};

}  // namespace

void join_products(Graph& graph, bool keep_parameters) {
  if (Joiner(graph, keep_parameters).run()) eliminate_dead_code(graph);
}

}  // namespace tcc
