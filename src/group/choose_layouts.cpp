// Says of which values the axes lie in another order in memory.
//
//   %c: bf16[32, 64, 56, 56] = conv_general(%x, @w)   unit 0 contract -> (%r)
//   %r = max(%c, 0)
//   %p = reduce_window(%r)                             unit 1 window (%r) -> (%p)        layout %r [0, 2, 3, 1]
//
// Matrix cores multiply what lies along the sum, and the sum of a convolution is over channels: where these are last, a pixel's channels are a row of a matrix, and
// a window of an image is some boxes of it. Values that units pass to each other may lie as tcc likes, so the images that such a convolution reads or writes
// have their channels last, and with them all that maps, reductions over windows and rows make of them: no element is moved for the sake of an order.
// What the caller sees, state, parts of other values and what anything else touches keep their order. Where a convolution of groups is among those that would share
// a layout, all of them keep theirs: each of its sums has few channels.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "group/index_maps.h"
#include "group/memory.h"
#include "tcc/group/group.h"

namespace tcc::group {

namespace {

/// Rows of a matrix begin at multiples of.
constexpr int64_t kRowBytes = 16;
/// An image of fewer channels is no row of a matrix.
constexpr int64_t kFewestChannels = 16;

/// Values that units share, directly or through others: a disjoint-set forest.
class Families {
 public:
  const Value* root(const Value* value) {
    const Value*& parent = parents_.try_emplace(value, value).first->second;
    if (parent == value) return value;
    const Value* found = root(parent);
    parents_[value] = found;
    return found;
  }
  void join(const Value* a, const Value* b) { parents_[root(a)] = root(b); }

 private:
  std::unordered_map<const Value*, const Value*> parents_;
};

class LayoutChooser {
 public:
  LayoutChooser(Groups& groups, const ChannelsLast& pays) : groups_(groups), pays_(pays) {}

  bool run() {
    find_images();
    for (const Unit& unit : groups_.units) {
      if (unit.kind == UnitKind::contract) look_at_contraction(unit);
      else if (unit.kind == UnitKind::map || unit.kind == UnitKind::window || unit.kind == UnitKind::rows) join(images_of(unit));
      else keep(unit);
    }
    const std::unordered_set<const Value*> wanted = families(wants_), kept = families(keeps_);
    groups_.layouts.clear();
    for (const Unit& unit : groups_.units) {
      for (Value* output : unit.outputs) {
        if (!images_.contains(output)) continue;
        const Value* family = families_.root(output);
        if (wanted.contains(family) && !kept.contains(family)) groups_.layouts.push_back({output, channels_last(output->type.rank())});
      }
    }
    spread_layouts(groups_);
    return !groups_.layouts.empty();
  }

 private:
  static std::vector<int64_t> channels_last(int rank) {
    std::vector<int64_t> order(static_cast<size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    return order;
  }

  /// What units pass to each other and nobody else holds.
  void find_images() {
    for (const Unit& unit : groups_.units) {
      for (const Value* output : unit.outputs) {
        if (output->type.rank() >= 3 && output->type.count() > 0 && size_bits(output->type.dtype) >= 8) images_.insert(output);
      }
    }
    for (const Alias& alias : groups_.aliases) {
      images_.erase(alias.value);
      images_.erase(alias.base);
    }
    for (const Value* result : groups_.graph->body.results) images_.erase(result);
    for (const StateUpdate& update : groups_.graph->state_updates) images_.erase(update.value);
  }

  std::vector<const Value*> images_of(const Unit& unit) const {
    std::vector<const Value*> found;
    for (const auto* values : {&unit.inputs, &unit.outputs}) {
      std::copy_if(values->begin(), values->end(), std::back_inserter(found), [&](const Value* value) { return images_.contains(value); });
    }
    return found;
  }
  void keep(const Unit& unit) {
    for (const Value* value : images_of(unit)) keeps_.push_back(value);
  }
  /// They have one layout.
  void join(const std::vector<const Value*>& values) {
    for (size_t i = 1; i < values.size(); ++i) families_.join(values[0], values[i]);
  }
  std::unordered_set<const Value*> families(const std::vector<const Value*>& values) {
    std::unordered_set<const Value*> roots;
    for (const Value* value : values) roots.insert(families_.root(value));
    return roots;
  }

  void look_at_contraction(const Unit& unit) {
    const Node& anchor = *unit.anchor;
    if (anchor.op != Op::conv_general_ || anchor.attrs.get_int("groups") != 1) return keep(unit);
    // A gradient of weights is a convolution with a window of the size of an image. It takes what it reads in any layout.
    const Shape result = anchor.result()->type.shape(), window = anchor.operand(1)->type.shape();
    if (num_elements(Shape(window.begin() + 2, window.end())) > num_elements(Shape(result.begin() + 2, result.end()))) return;
    // The result, and what the epilogue reads beside it.
    std::vector<const Value*> results = images_of(unit);
    std::erase_if(results, [&](const Value* value) { return value->type.shape() != result; });
    join(results);
    const Value* image = stored(unit, anchor.operand(0));
    if (!image || !images_.contains(image) || results.empty() || !pays_(anchor.operand(0)->type.dtype)) return;
    if (is_row(anchor.operand(0)->type) && is_row(anchor.result()->type)) wants_.insert(wants_.end(), {image, results[0]});
  }
  /// What the unit reads from memory in place of the value, but for its order and its dtype; null: something else.
  static const Value* stored(const Unit& unit, const Value* value) {
    while (std::find(unit.inputs.begin(), unit.inputs.end(), value) == unit.inputs.end()) {
      if (!value->producer || (!is_bijective_view(*value->producer) && value->producer->op != Op::cast_)) return nullptr;
      value = value->producer->operand(0);
    }
    return value;
  }
  static bool is_row(const Type& type) {
    const int64_t channels = type.shape()[1];
    return channels >= kFewestChannels && channels * size_bytes(type.dtype) % kRowBytes == 0;
  }

  Groups& groups_;
  const ChannelsLast& pays_;
  std::unordered_set<const Value*> images_;
  Families families_;
  std::vector<const Value*> wants_, keeps_;
};

}  // namespace

bool choose_layouts(Groups& groups, const ChannelsLast& pays) { return LayoutChooser(groups, pays).run(); }

std::vector<int64_t> order_of_alias(const Alias& alias, const std::vector<int64_t>& order) {
  const Shape shape = alias.value->type.shape(), base = alias.base->type.shape();
  if (alias.byte_offset != 0 || shape.size() < 2 || base.size() < 2 || num_elements(shape) != num_elements(base)) return {};
  const bool same_rows = shape.back() == base.back() && shape[shape.size() - 2] == base[base.size() - 2];
  return same_rows && order == turned_order(base.size()) ? turned_order(shape.size()) : std::vector<int64_t>();
}

std::unordered_map<const Value*, std::vector<int64_t>> orders_of(const Groups& groups) {
  std::unordered_map<const Value*, std::vector<int64_t>> orders;
  for (const Layout& layout : groups.layouts) orders[layout.value] = layout.order;
  for (bool more = !orders.empty(); more;) {  // an alias may be that of an alias
    more = false;
    for (const Alias& alias : groups.aliases) {
      const auto base = orders.find(alias.base);
      if (base == orders.end() || orders.contains(alias.value)) continue;
      orders.emplace(alias.value, order_of_alias(alias, base->second));
      more = true;
    }
  }
  return orders;
}

void spread_layouts(Groups& groups) {
  const std::unordered_map<const Value*, std::vector<int64_t>> orders = orders_of(groups);
  for (Unit& unit : groups.units) {
    unit.order.clear();
    bool any = false;
    for (const auto* values : {&unit.inputs, &unit.outputs}) {
      for (const Value* value : *values) {
        const auto found = orders.find(value);
        any = any || found != orders.end();
        unit.order.push_back(found == orders.end() ? std::vector<int64_t>() : found->second);
      }
    }
    if (!any) unit.order.clear();
  }
}

bool is_order(const Layout& layout) {
  std::vector<int64_t> axes(static_cast<size_t>(layout.value->type.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return std::is_permutation(axes.begin(), axes.end(), layout.order.begin(), layout.order.end());
}

Shape in_memory(const Shape& shape, const std::vector<int64_t>& order) {
  if (order.empty()) return shape;
  Shape result;
  for (const int64_t axis : order) result.push_back(shape[static_cast<size_t>(axis)]);
  return result;
}

}  // namespace tcc::group
