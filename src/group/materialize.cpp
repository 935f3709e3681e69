// Decides what is in memory once the clusters are known.
//
// A value is materialised when another cluster reads it, when it is an output of the graph, or when it is a piece that a concat finds in place. A reader looks
// back through its views until something materialised:
//
//   %t = transpose(%x);  %y = dot_general(%t, %w)                      the unit of %y reads %x, the transpose is an index map in it
//   %h: [32, 64] -> %r: [4, 8, 64] = reshape(%h);  %z = exp(%r)        alias %r = %h: the unit of %z reads %r
//   %t = transpose(%h);  %r = reshape(%t);  %y = dot_general(%r, %w)   the index map of %r would divide: %t is stored, by the unit of %h where it has a place
//                                                                      there, by a unit of its own otherwise; alias %r = %t
//
// Views that a unit looks through are among its nodes, so a view can be in several units.

#include "group/materialize.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <unordered_set>

#include "group/merge.h"
#include "tcc/support/diagnostics.h"

namespace tcc::group {
namespace {

using loop::Index;
using loop::VarRef;

constexpr size_t kMaxLabelNames = 4;
/// More zeros than that are a unit's work.
constexpr int64_t kMaxGapBytes = 1024;

class Materializer {
 public:
  explicit Materializer(const Clusters& clusters) : clusters_(clusters) {}

  Groups run() {
    groups_.graph = &clusters_.graph();
    copied_slices_ = copied_slices(clusters_.graph());
    find_pieces();
    cut_operands();
    place_pieces();
    for (Value* output : clusters_.graph().body.results) materialize(output);
    for (const StateUpdate& update : clusters_.graph().state_updates) materialize(update.value);
    std::vector<int> order;
    for (int i = 0; i < clusters_.size(); ++i) {
      if (!clusters_[i].nodes.empty()) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](int a, int b) { return clusters_[a].order < clusters_[b].order; });
    for (int cluster : order) build(cluster);
    // What a view's own unit reads may be a view again: the list grows.
    for (size_t i = 0; i < own_views_.size(); ++i) build_view(own_views_[i]);
    finish_outputs();
    sort_units();
    return std::move(groups_);
  }

 private:
  // ------------------------------------------------------------------------------------------ what is materialised

  bool is_view_value(const Value* value) const { return value->producer && is_view(*value->producer); }
  bool is_created(const Value* value) const { return value->producer && is_create(*value->producer); }

  /// Makes sure that the value is in memory: a reshape is an alias, another view is stored by who has it or by a unit of its own.
  void materialize(Value* value) {
    if (!value->producer || !materialized_.insert(value).second) return;
    Node& node = *value->producer;
    if (clusters_.is_core(node)) {
      needed_.insert(value);
      return;
    }
    if (node.op == Op::reshape_ && !is_created(node.operand(0))) {
      materialize(node.operand(0));
      groups_.aliases.push_back({value, node.operand(0), 0});
      return;
    }
    const bool is_piece = possible_pieces_.count(value) != 0;  // it has a place of its own
    if (const auto slice = copied_slices_.find(value); !is_piece && slice != copied_slices_.end() && !is_created(node.operand(0))) {
      materialize(node.operand(0));
      groups_.aliases.push_back({value, node.operand(0), slice->second});
      return;
    }
    if (Value* same = is_piece ? nullptr : equal_view(value)) {
      groups_.aliases.push_back({value, same, 0});
      return;
    }
    if (!store_beside_producer(value)) own_views_.push_back(value);
  }

  /// A view of the same values that is in memory by then: views are copied to be read again. Null where there is none, and where what it is a view of is a copy.
  Value* equal_view(Value* value) {
    auto& views = views_[clusters_.result_number(value->producer)];
    for (Value* view : views) {
      if (clusters_.sources(view) == clusters_.sources(value) && clusters_.position(view->producer) < clusters_.position(value->producer))
        return view;
    }
    views.push_back(value);
    return nullptr;
  }

  /// A transposed result that its producer's unit can store instead of the result: the value has a place in its domain.
  bool store_beside_producer(Value* value) {
    Value* base = value;
    while (is_view_value(base) && is_bijective_view(*base->producer)) base = base->producer->operand(0);
    if (!base->producer || !clusters_.is_core(*base->producer)) return false;
    const int cluster = clusters_.cluster_of(base->producer);
    const Cluster& c = clusters_[cluster];
    if (c.fixed || c.kind == UnitKind::scatter || c.kind == UnitKind::sort || c.kind == UnitKind::scan || c.kind == UnitKind::map)
      return false;
    const Placement placement = place(c.kind, with_views(clusters_, c.nodes), c.anchor, main_value(c.nodes));
    const Indices* at = placement.find(base);
    if (!at || !placement.covers_domain(*at)) return false;
    stored_views_[cluster].push_back(value);
    return true;
  }

  /// What is stored for a piece of a concat, and the zeros behind it.
  struct Piece {
    Value* value;
    int64_t gap_bytes = 0;
  };

  /// What may become a piece of a concat that is written in place: the pieces, and what they pad.
  void find_pieces() {
    for (int i = 0; i < clusters_.size(); ++i) {
      if (!clusters_[i].fixed) continue;
      for (Value* operand : clusters_[i].nodes[0]->operands) {
        const Value* piece = without_reshapes(operand);
        possible_pieces_.insert(piece);
        if (piece->producer && piece->producer->op == Op::pad_) possible_pieces_.insert(without_reshapes(piece->producer->operand(0)));
      }
    }
  }

  /// Materialises the pieces that are written in place: before units are built, for those of their views that they store.
  void place_pieces() {
    std::unordered_set<const Value*> placed;  // has a place that is no piece, or is one already
    for (Value* output : clusters_.graph().body.results) placed.insert(without_reshapes(output));
    for (const StateUpdate& update : clusters_.graph().state_updates) placed.insert(without_reshapes(update.value));
    for (int i = 0; i < clusters_.size(); ++i) {
      if (!clusters_[i].fixed) continue;
      for (Value* operand : clusters_[i].nodes[0]->operands) placed.insert(without_reshapes(operand));
    }
    for (int i = 0; i < clusters_.size(); ++i) {
      if (!clusters_[i].fixed) continue;
      std::vector<Piece>& pieces = pieces_[clusters_[i].nodes[0]];
      for (Value* operand : clusters_[i].nodes[0]->operands) {
        pieces.push_back(without_padding(without_reshapes(operand), placed));
        materialize(pieces.back().value);
      }
    }
  }

  /// A piece that pads another value with zeros at its end is that value and a padding, where the value has no other place: no copy that adds zeros.
  Piece without_padding(Value* piece, std::unordered_set<const Value*>& placed) const {
    const Node& pad = *piece->producer;
    if (pad.op != Op::pad_ || piece->type.rank() != 1 || materialized_.count(piece)) return {piece};
    if (pad.attrs.get_ints("low")[0] != 0 || pad.attrs.get_ints("interior")[0] != 0 || !is_zero(pad.operand(1))) return {piece};
    Value* value = without_reshapes(pad.operand(0));
    const int64_t gap_bytes = piece->type.size_bytes() - value->type.size_bytes();
    const bool is_stored = value->producer && !is_created(value) && value->producer->op != Op::concat_ && value->type.count() > 0;
    if (!is_stored || gap_bytes < 0 || gap_bytes > kMaxGapBytes || !placed.insert(value).second) return {piece};
    return {value, gap_bytes};
  }

  static Value* without_reshapes(Value* value) {
    while (value->producer && value->producer->op == Op::reshape_) value = value->producer->operand(0);
    return value;
  }
  static bool is_zero(const Value* value) {
    if (!value->producer || value->producer->op != Op::full_) return false;
    const double constant = value->producer->attrs.get_float("value");
    return constant == 0 && !std::signbit(constant);
  }

  /// Materialises the views that contractions and windows can't look through, and what contractions would compute again for each of their terms.
  void cut_operands() {
    for (Node* node : clusters_.core()) {
      const Lowering lowering = info(node->op).lowering;
      if (lowering != Lowering::contract && lowering != Lowering::window) continue;
      for (size_t i = 0; i < node->operands.size(); ++i) {
        Value* operand = node->operands[i];
        if (lowering == Lowering::contract && operand->producer && is_arithmetic_on_narrow(*operand->producer)) materialize(operand);
        if (is_view_value(operand)) cut(operand, batch_axes(*node, i));
        // A cast that the unit took in stands between.
        const bool has_cast = operand->producer && operand->producer->op == Op::cast_ &&
                              clusters_.cluster_of(operand->producer) == clusters_.cluster_of(node);
        if (has_cast && is_view_value(operand->producer->operand(0))) cut(operand->producer->operand(0), batch_axes(*node, i));
      }
    }
  }

  /// Axes of the operand that no inner loop runs over: an index map may divide there.
  static std::vector<int64_t> batch_axes(const Node& node, size_t operand) {
    if (node.op == Op::dot_general_) return node.attrs.get_ints(operand == 0 ? "lhs_batch" : "rhs_batch");
    return {0};
  }

  /// Follows the index through the views to the memory below; where it stops being affine, the view above is materialised.
  void cut(Value* operand, const std::vector<int64_t>& batch) {
    Indices at;
    std::vector<VarRef> outer;
    const Shape shape = operand->type.shape();
    for (size_t i = 0; i < shape.size(); ++i) {
      const VarRef var = loop::make_var("x", shape[i]);
      at.emplace_back(var);
      if (std::find(batch.begin(), batch.end(), static_cast<int64_t>(i)) != batch.end()) outer.push_back(var);
    }
    Value* value = operand;
    while (is_view_value(value)) {
      if (only_reshapes_below(value)) return;  // an alias
      const Node& view = *value->producer;
      if (view.op == Op::pad_) {
        materialize(value);
        return;
      }
      at = pull_back(view, at);
      if (!affine_inside(at, outer)) {
        materialize(value);
        return;
      }
      value = view.operand(0);
    }
  }

  bool affine_inside(const Indices& at, const std::vector<VarRef>& outer) const {
    for (const Index& index : at) {
      for (const loop::Term& term : index.terms()) {
        if (!term.atom.operand) continue;
        std::vector<VarRef> vars;
        collect_vars(*term.atom.operand, vars);
        for (const VarRef& var : vars) {
          if (std::find(outer.begin(), outer.end(), var) == outer.end()) return false;
        }
      }
    }
    return true;
  }

  /// Whether the value is materialised memory seen through reshapes alone.
  bool only_reshapes_below(const Value* value) const {
    while (value->producer && value->producer->op == Op::reshape_) {
      value = value->producer->operand(0);
      if (materialized_.count(value)) return true;
    }
    return !value->producer || clusters_.is_core(*value->producer);
  }

  // ------------------------------------------------------------------------------------------------------- units

  /// What a unit reads when it reads `value`: views and creates join its nodes down to something in memory. `own`: the cluster being built, -1 for none.
  void read(Value* value, int own, Unit& unit, std::unordered_set<const Node*>& nodes) {
    if (!value->producer) return add_input(unit, value);
    Node* producer = value->producer;
    if (clusters_.is_core(*producer)) {
      if (own >= 0 && clusters_.cluster_of(producer) == own) return;
      materialize(value);
      return add_input(unit, value);
    }
    if (is_create(*producer)) {
      nodes.insert(producer);
      return;
    }
    const bool stored_by_own = own >= 0 && reaches_cluster(value, own);
    if (!stored_by_own && (materialized_.count(value) || (producer->op == Op::reshape_ && only_reshapes_below(value)))) {
      materialize(value);
      return add_input(unit, value);
    }
    if (!nodes.insert(producer).second) return;
    for (Value* operand : producer->operands) read(operand, own, unit, nodes);
  }

  bool reaches_cluster(const Value* value, int cluster) const {
    const auto& sources = clusters_.sources(value);
    return std::any_of(sources.begin(), sources.end(),
                       [&](const Value* source) { return clusters_.cluster_of(source->producer) == cluster; });
  }

  static void add_input(Unit& unit, Value* value) {
    if (std::find(unit.inputs.begin(), unit.inputs.end(), value) == unit.inputs.end()) unit.inputs.push_back(value);
  }

  void set_nodes(Unit& unit, const std::unordered_set<const Node*>& nodes) {
    for (const Node* node : nodes) unit.nodes.push_back(const_cast<Node*>(node));
    std::sort(unit.nodes.begin(), unit.nodes.end(),
              [&](const Node* a, const Node* b) { return clusters_.position(a) < clusters_.position(b); });
  }

  void build(int cluster) {
    const Cluster& c = clusters_[cluster];
    if (c.fixed) return build_concat(*c.nodes[0]);
    Unit unit;
    unit.kind = c.kind;
    unit.anchor = c.anchor;
    std::unordered_set<const Node*> nodes(c.nodes.begin(), c.nodes.end());
    for (Node* node : c.nodes) {
      for (Value* operand : node->operands) read(operand, cluster, unit, nodes);
    }
    for (Value* view : stored_views_[cluster]) read_stored_view(view, cluster, unit, nodes);
    set_nodes(unit, nodes);
    read_shared_factors_twice(unit);
    unit_of_cluster_[cluster] = groups_.units.size();
    groups_.units.push_back(std::move(unit));
  }

  /// What both factors of a product of matrices read becomes an input of each: they are tiled, staged and packed as buffers of their own.
  static void read_shared_factors_twice(Unit& unit) {
    if (unit.anchor == nullptr || unit.anchor->op != Op::dot_general_) return;
    const std::set<const Value*> inputs(unit.inputs.begin(), unit.inputs.end());
    std::vector<Value*> read[2];
    for (const int side : {0, 1}) {
      const auto& attrs = unit.anchor->attrs;
      const size_t shared = attrs.get_ints("lhs_batch").size() + attrs.get_ints("lhs_contract").size();
      if (unit.anchor->operand(side)->type.dims.size() == shared) return;
      std::vector<Value*> values{unit.anchor->operand(side)};
      for (size_t i = 0; i < values.size(); ++i) {
        if (inputs.count(values[i])) read[side].push_back(values[i]);
        else if (const Node* made = values[i]->producer) values.insert(values.end(), made->operands.begin(), made->operands.end());
      }
    }
    std::set<const Value*> done;
    for (Value* value : read[1]) {
      const bool both = std::find(read[0].begin(), read[0].end(), value) != read[0].end();
      if (both && done.insert(value).second) unit.inputs.push_back(value);
    }
  }

  /// The views between a result of the cluster and the view of it that the cluster stores.
  void read_stored_view(Value* view, int cluster, Unit& unit, std::unordered_set<const Node*>& nodes) {
    while (is_view_value(view)) {
      nodes.insert(view->producer);
      view = view->producer->operand(0);
    }
    check(clusters_.cluster_of(view->producer) == cluster && !unit.nodes.size(), "a stored view belongs to another unit");
  }

  void build_concat(Node& node) {
    int64_t offset = 0;
    for (const Piece& piece : pieces_.at(&node)) {
      groups_.aliases.push_back({piece.value, node.result(), offset});
      offset += piece.value->type.size_bytes();
      if (piece.gap_bytes > 0) groups_.paddings.push_back({node.result(), offset, piece.gap_bytes});
      offset += piece.gap_bytes;
    }
    materialized_.insert(node.result());
  }

  /// A unit that stores one view (or created value): a copy.
  void build_view(Value* value) {
    Unit unit;
    unit.kind = UnitKind::map;
    std::unordered_set<const Node*> nodes{value->producer};
    for (Value* operand : value->producer->operands) read(operand, -1, unit, nodes);
    unit.outputs = {value};
    set_nodes(unit, nodes);
    groups_.units.push_back(std::move(unit));
  }

  /// Outputs of the units of clusters, now that all readers are known.
  void finish_outputs() {
    for (const auto& [cluster, index] : unit_of_cluster_) {
      Unit& unit = groups_.units[index];
      for (const Node* node : clusters_[cluster].nodes) {
        for (Value* result : node->results) {
          // A node of several results stores them all.
          if (needed_.count(result) || node->results.size() > 1) unit.outputs.push_back(result);
        }
      }
      for (Value* view : stored_views_[cluster]) unit.outputs.push_back(view);
    }
    // Nothing reads the results of a dead node.
    std::erase_if(groups_.units, [](const Unit& unit) { return unit.outputs.empty(); });
  }

  /// Topological order of the units, the earliest node first among those that could come next.
  void sort_units() {
    std::unordered_map<const Value*, size_t> writer;
    for (size_t i = 0; i < groups_.units.size(); ++i) {
      for (const Value* output : groups_.units[i].outputs) writer[output] = i;
    }
    std::unordered_map<const Value*, std::vector<const Value*>> below;  // alias -> base, base -> its pieces
    for (const Alias& alias : groups_.aliases) {
      if (writer.count(alias.value)) below[alias.base].push_back(alias.value);
      else below[alias.value].push_back(alias.base);
    }
    std::vector<std::set<size_t>> readers(groups_.units.size());
    std::vector<size_t> waits(groups_.units.size());
    for (size_t i = 0; i < groups_.units.size(); ++i) {
      std::set<size_t> writers;
      std::function<void(const Value*)> add = [&](const Value* value) {
        if (const auto it = writer.find(value); it != writer.end()) writers.insert(it->second);
        if (const auto it = below.find(value); it != below.end()) {
          for (const Value* next : it->second) add(next);
        }
      };
      for (const Value* input : groups_.units[i].inputs) add(input);
      writers.erase(i);
      for (size_t from : writers) readers[from].insert(i);
      waits[i] = writers.size();
    }
    auto key = [&](size_t i) { return std::pair(clusters_.position(groups_.units[i].nodes.back()), i); };
    std::priority_queue<std::pair<int, size_t>, std::vector<std::pair<int, size_t>>, std::greater<>> ready;
    for (size_t i = 0; i < waits.size(); ++i) {
      if (waits[i] == 0) ready.push(key(i));
    }
    std::vector<Unit> sorted;
    while (!ready.empty()) {
      const size_t at = ready.top().second;
      ready.pop();
      for (size_t reader : readers[at]) {
        if (--waits[reader] == 0) ready.push(key(reader));
      }
      sorted.push_back(std::move(groups_.units[at]));
    }
    check(sorted.size() == groups_.units.size(), "the units depend on each other in a cycle");
    groups_.units = std::move(sorted);
    for (size_t i = 0; i < groups_.units.size(); ++i) {
      groups_.units[i].id = static_cast<int>(i);
      groups_.units[i].label = label_of(groups_.units[i]);
    }
  }

  const Clusters& clusters_;
  Groups groups_;
  std::unordered_set<const Value*> materialized_;
  std::unordered_set<const Value*> needed_;          ///< core results that their units store
  std::map<int, std::vector<Value*>> stored_views_;  ///< cluster -> views of its results that it stores
  std::map<int, size_t> unit_of_cluster_;
  std::vector<Value*> own_views_;
  std::map<int, std::vector<Value*>> views_;                 ///< that are stored, by result number
  std::unordered_map<const Value*, int64_t> copied_slices_;  ///< aliases, with the bytes at which they begin
  std::unordered_set<const Value*> possible_pieces_;
  std::unordered_map<const Node*, std::vector<Piece>> pieces_;  ///< of concats that are written in place
};

}  // namespace

std::string label_of(const Unit& unit) {
  std::vector<std::string> names;
  bool more = false;
  auto add = [&](const Node* node) {
    const std::string& name = node->loc.node.empty() ? node->result()->name : node->loc.node.str();
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    if (names.size() < kMaxLabelNames) names.push_back(name);
    else more = true;
  };
  for (const Node* node : unit.nodes) {
    if (!may_repeat(*node)) add(node);
  }
  if (names.empty()) add(unit.nodes.back());
  // Neighbours of one module say its name once: encoder.layer.0/linear + relu.
  std::string label, module;
  for (const std::string& name : names) {
    const size_t end = name.rfind('/') + 1;  // 0, or 1 of "/Relu": no module
    const bool same = end > 1 && name.substr(0, end) == module;
    label += (label.empty() ? "" : " + ") + (same ? name.substr(end) : name);
    module = name.substr(0, end);
  }
  return more ? label + " + ..." : label;
}

Groups materialize(const Clusters& clusters) { return Materializer(clusters).run(); }

}  // namespace tcc::group
