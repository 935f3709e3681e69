// Checks groups: each value in memory has one place, is there before it is read, and the units are what their kinds say.

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "group/clusters.h"
#include "group/index_maps.h"
#include "tcc/support/text.h"

namespace tcc::group {
namespace {

class Verifier {
 public:
  explicit Verifier(const Groups& groups) : groups_(groups) {}

  std::vector<std::string> run() {
    const Graph& graph = *groups_.graph;
    for (const Unit& unit : groups_.units) {
      for (const Value* output : unit.outputs) {
        if (!writers_.emplace(output, &unit).second) fault("two units write", output);
      }
    }
    for (const Alias& alias : groups_.aliases) check_alias(alias);
    for (const Padding& padding : groups_.paddings) {
      if (padding.byte_offset < 0 || padding.byte_offset + padding.size_bytes > padding.base->type.size_bytes())
        fault("a padding reaches outside of its base:", padding.base);
      gap_bytes_[padding.base] += padding.size_bytes;
    }
    for (const Unit& unit : groups_.units) check_unit(unit);
    check_row_paddings();
    check_layouts();
    for (const Value* output : graph.body.results) check_present(output, "the graph returns", nullptr);
    for (const StateUpdate& update : graph.state_updates) check_present(update.value, "the state takes", nullptr);
    return std::move(faults_);
  }

 private:
  void fault(const std::string& message, const Value* value = nullptr) {
    faults_.push_back(value ? message + " `" + print_value_name(value->name) + "`" : message);
  }

  void check_alias(const Alias& alias) {
    if (!aliased_.emplace(alias.value, &alias).second) fault("two aliases of", alias.value);
    const int64_t end = alias.byte_offset + alias.value->type.size_bytes();
    if (alias.byte_offset < 0 || end > alias.base->type.size_bytes()) fault("an alias reaches outside of its base:", alias.value);
    if (writers_.count(alias.value)) pieces_[alias.base].push_back(alias.value);
    else if (alias.value->type.size_bytes() != alias.base->type.size_bytes()) parts_.insert(alias.value);
  }

  /// Padded are values of tcc's own that one unit writes, under names that have the same rows, and every unit knows of it.
  void check_row_paddings() {
    std::unordered_map<const Value*, int64_t> paddings;
    for (const RowPadding& padding : groups_.row_paddings) {
      if (padding.elements <= 0 || padding.value->type.rank() == 0) fault("there is no room in the row padding of", padding.value);
      if (!writers_.count(padding.value) || aliased_.count(padding.value))
        fault("padded rows of what no unit stores on its own:", padding.value);
      if (!paddings.emplace(padding.value, padding.elements).second) fault("two row paddings of", padding.value);
    }
    const auto padding_of = [&](const Value* value) {
      while (aliased_.count(value)) value = aliased_.at(value)->base;
      const auto found = paddings.find(value);
      return found == paddings.end() ? 0 : found->second;
    };
    for (const Alias& alias : groups_.aliases) {
      const Shape view = alias.value->type.shape(), base = alias.base->type.shape();
      const bool same_rows = alias.byte_offset == 0 && num_elements(view) == num_elements(base) && !view.empty() && !base.empty() &&
                             view.back() == base.back();
      if (padding_of(alias.base) > 0 && !same_rows) fault("an alias has other rows than its padded base:", alias.value);
    }
    for (const Value* output : groups_.graph->body.results) {
      if (padding_of(output) > 0) fault("the graph returns padded rows:", output);
    }
    for (const StateUpdate& update : groups_.graph->state_updates) {
      if (padding_of(update.value) > 0) fault("the state takes padded rows:", update.value);
    }
    for (const Unit& unit : groups_.units) {
      size_t number = 0;
      for (const auto* values : {&unit.inputs, &unit.outputs}) {
        for (const Value* value : *values) {
          const int64_t known = unit.row_padding.empty() ? 0 : unit.row_padding.at(number);
          if (known != padding_of(value)) fault("unit " + std::to_string(unit.id) + " does not know of the row padding of", value);
          ++number;
        }
      }
    }
  }

  /// Another order have values of tcc's own that one unit writes, under no other name, and every unit knows of it.
  void check_layouts() {
    std::unordered_set<const Value*> layouts;
    for (const Layout& layout : groups_.layouts) {
      if (!is_order(layout)) fault("there is no such order of the axes of", layout.value);
      if (!writers_.count(layout.value) || aliased_.count(layout.value))
        fault("another layout of what no unit stores on its own:", layout.value);
      if (!layouts.insert(layout.value).second) fault("two layouts of", layout.value);
    }
    const std::unordered_map<const Value*, std::vector<int64_t>> orders = orders_of(groups_);
    for (const Alias& alias : groups_.aliases) {
      const auto base = orders.find(alias.base);
      if (base != orders.end() && order_of_alias(alias, base->second).empty()) fault("a value of another layout has an alias:", alias.base);
    }
    for (const RowPadding& padding : groups_.row_paddings) {
      if (layouts.count(padding.value)) fault("padded rows in another layout:", padding.value);
    }
    for (const Value* output : groups_.graph->body.results) {
      if (layouts.count(output)) fault("the graph returns another layout of", output);
    }
    for (const StateUpdate& update : groups_.graph->state_updates) {
      if (layouts.count(update.value)) fault("the state takes another layout of", update.value);
    }
    for (const Unit& unit : groups_.units) {
      size_t number = 0;
      for (const auto* values : {&unit.inputs, &unit.outputs}) {
        for (const Value* value : *values) {
          const auto found = orders.find(value);
          const std::vector<int64_t> known = unit.order.empty() ? std::vector<int64_t>() : unit.order.at(number);
          if (known != (found == orders.end() ? std::vector<int64_t>() : found->second))
            fault("unit " + std::to_string(unit.id) + " does not know of the layout of", value);
          ++number;
        }
      }
    }
  }

  /// Whether the value is in memory before `unit` (null: at the end).
  bool present(const Value* value) {
    if (!value->producer) return true;
    if (done_.count(value)) return true;
    if (writers_.count(value)) return false;  // by a later unit
    if (const auto it = pieces_.find(value); it != pieces_.end()) {
      int64_t bytes = gap_bytes_.count(value) ? gap_bytes_.at(value) : 0;
      for (const Value* piece : it->second) {
        if (!present(piece)) return false;
        bytes += piece->type.size_bytes();
      }
      return bytes == value->type.size_bytes();
    }
    const auto it = aliased_.find(value);
    return it != aliased_.end() && present(it->second->base);
  }
  void check_present(const Value* value, const std::string& who, const Unit*) {
    if (!present(value)) fault(who + " a value that is not in memory there:", value);
  }

  /// Chains compute again what others do, too.
  static bool is_of_chain(const Unit& unit, const Node& node) {
    return unit.kind == UnitKind::chain && std::ranges::none_of(node.results, [&](const Value* result) {
             return std::ranges::find(unit.outputs, result) != unit.outputs.end();
           });
  }

  void check_unit(const Unit& unit) {
    const std::string where = "unit " + std::to_string(unit.id) + " \"" + unit.label + "\"";
    if (unit.outputs.empty()) fault(where + " writes nothing");
    const std::unordered_set<const Value*> inputs(unit.inputs.begin(), unit.inputs.end());
    for (const Value* input : unit.inputs) check_present(input, where + " reads", &unit);
    std::unordered_set<const Value*> known(inputs), of_memory;  // of_memory: computed from inputs
    int anchors = 0, reductions = 0;
    for (const Node* node : unit.nodes) {
      for (const Value* operand : node->operands) {
        if (parts_.count(operand)) fault(where + " reads a part of a value, which may be anywhere in memory:", operand);
        if (!known.count(operand)) fault(where + " neither reads nor computes", operand);
      }
      for (const Value* result : node->results) {
        if (inputs.count(result)) fault(where + " reads and computes", result);
        known.insert(result);
      }
      const bool reads = std::any_of(node->operands.begin(), node->operands.end(),
                                     [&](const Value* operand) { return inputs.count(operand) || of_memory.count(operand); });
      if (reads) of_memory.insert(node->results.begin(), node->results.end());
      const bool is_made_again = may_repeat(*node) || (unit.kind == UnitKind::stream && !reads) || is_of_chain(unit, *node);
      if (!is_made_again && !owners_.emplace(node, &unit).second) fault("two units compute", node->result());
      const Lowering lowering = info(node->op).lowering;
      anchors += lowering == Lowering::scan || lowering == Lowering::window || lowering == Lowering::contract ||
                 lowering == Lowering::scatter || lowering == Lowering::sort;
      reductions += is_reduce(*node);
    }
    for (const Value* output : unit.outputs) {
      if (!known.count(output) || inputs.count(output)) fault(where + " does not compute its output", output);
      done_.insert(output);
    }
    const bool anchored = unit.kind != UnitKind::map && unit.kind != UnitKind::rows;
    if (anchored != (unit.anchor != nullptr)) fault(where + (anchored ? " has no anchor" : " has an anchor"));
    if (unit.anchor && std::find(unit.nodes.begin(), unit.nodes.end(), unit.anchor) == unit.nodes.end())
      fault(where + " does not have its anchor among its nodes");
    const bool streams = unit.kind == UnitKind::stream;
    const bool chains = unit.kind == UnitKind::chain;
    if (chains ? anchors < 2 : anchors != (streams ? 2 : anchored ? 1 : 0))
      fault(where + " has " + std::to_string(anchors) + " nodes of anchored kinds");
    if ((reductions > 0) != (streams || unit.kind == UnitKind::rows)) fault(where + " has " + std::to_string(reductions) + " reductions");
  }

  const Groups& groups_;
  std::vector<std::string> faults_;
  std::unordered_map<const Value*, const Unit*> writers_;
  std::unordered_map<const Node*, const Unit*> owners_;
  std::unordered_map<const Value*, const Alias*> aliased_;
  std::unordered_map<const Value*, std::vector<const Value*>> pieces_;
  std::unordered_map<const Value*, int64_t> gap_bytes_;
  std::unordered_set<const Value*> parts_;  ///< aliases of a part of a value, which are copied to outputs
  std::unordered_set<const Value*> done_;
};

}  // namespace

std::vector<std::string> verify(const Groups& groups) { return Verifier(groups).run(); }

}  // namespace tcc::group
