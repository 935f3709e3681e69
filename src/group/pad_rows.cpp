// Says of which values the rows are padded.
//
//   %s: bf16[384, 197, 197] = dot_general(%q, %k)    unit 0 contract -> (%s)
//   %p = softmax(%s)                                 unit 1 rows (%s) -> (%p)          row padding %s 3
//   %o = dot_general(%p, %v)                         unit 2 contract (%p, %v)          row padding %p 3
//
// The copy engine, copies of several bytes and vectors want rows that begin at multiples of 16 bytes; rows of 197 elements of two bytes don't. What passes
// between units may lie as tcc likes: 200 elements from row to row, of which the last three hold nothing. Maps, rows and products of matrices take that; where
// something else touches a value, it has no padding. A view with the same rows is padded like its base.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tcc/group/group.h"
#include "tcc/support/integer_math.h"

namespace tcc::group {

namespace {

/// What rows begin at multiples of.
constexpr int64_t kRowBytes = 16;
/// Rows of fewer elements would grow too much.
constexpr int64_t kShortestRow = 64;

/// Who has a value in memory: units, by what they are, and other names for it.
struct Holder {
  bool fits = true;        ///< all of them take rows with padding
  bool contracts = false;  ///< one of them is a contraction
};

class RowPadder {
 public:
  explicit RowPadder(Groups& groups) : groups_(groups) {
    for (const Alias& alias : groups.aliases) base_of_[alias.value] = &alias;
  }

  void run() {
    look_at_units();
    for (const Alias& alias : groups_.aliases) {
      const Value* base = storage(alias.value);
      if (alias.byte_offset != 0 || !has_rows_of(*alias.value, *base)) holders_[base].fits = false;
    }
    for (const Value* result : groups_.graph->body.results) holders_[storage(result)].fits = false;
    for (const StateUpdate& update : groups_.graph->state_updates) holders_[storage(update.value)].fits = false;
    for (const Layout& layout : groups_.layouts) holders_[layout.value].fits = false;
    groups_.row_paddings.clear();
    for (const Unit& unit : groups_.units) {
      for (Value* output : unit.outputs) {
        const int64_t padding = padding_of(*output);
        const Holder& holder = holders_[output];
        if (padding > 0 && holder.fits && holder.contracts && !base_of_.contains(output)) groups_.row_paddings.push_back({output, padding});
      }
    }
    tell_units();
  }

  /// Of each input and output of each unit, by what the groups say of values.
  void tell_units() {
    std::unordered_map<const Value*, int64_t> paddings;
    for (const RowPadding& padding : groups_.row_paddings) paddings[padding.value] = padding.elements;
    for (Unit& unit : groups_.units) {
      unit.row_padding.clear();
      for (const auto* values : {&unit.inputs, &unit.outputs}) {
        for (const Value* value : *values) {
          const auto found = paddings.find(storage(value));
          unit.row_padding.push_back(found == paddings.end() ? 0 : found->second);
        }
      }
      if (std::all_of(unit.row_padding.begin(), unit.row_padding.end(), [](int64_t padding) { return padding == 0; }))
        unit.row_padding.clear();
    }
  }

 private:
  const Value* storage(const Value* value) const {
    for (auto at = base_of_.find(value); at != base_of_.end(); at = base_of_.find(value)) value = at->second->base;
    return value;
  }

  static bool has_rows_of(const Value& view, const Value& base) {
    return view.type.rank() > 0 && base.type.rank() > 0 && view.type.count() == base.type.count() &&
           view.type.shape().back() == base.type.shape().back();
  }

  static int64_t padding_of(const Value& value) {
    if (!value.producer || value.type.rank() < 2 || size_bits(value.type.dtype) < 8 || value.type.count() == 0) return 0;
    const int64_t row = value.type.shape().back(), vector = kRowBytes / size_bytes(value.type.dtype);
    return row < kShortestRow || vector < 2 ? 0 : align_up(row, vector) - row;
  }

  void look_at_units() {
    for (const Unit& unit : groups_.units) {
      const bool contracts = unit.kind == UnitKind::contract && unit.anchor->op == Op::dot_general_;
      for (const auto* values : {&unit.inputs, &unit.outputs}) {
        for (const Value* value : *values) {
          Holder& holder = holders_[storage(value)];
          holder.fits = holder.fits && (contracts || unit.kind == UnitKind::rows || unit.kind == UnitKind::map);
        }
      }
      if (contracts) look_at_contraction(unit);
    }
  }

  /// Its factors, and what it stores of each product; not what its epilogue reads beside.
  void look_at_contraction(const Unit& unit) {
    const std::unordered_set<const Value*> inputs(unit.inputs.begin(), unit.inputs.end());
    std::vector<const Value*> factors(unit.anchor->operands.begin(), unit.anchor->operands.end());
    for (size_t i = 0; i < factors.size(); ++i) {
      if (inputs.contains(factors[i])) holders_[storage(factors[i])].contracts = true;
      else if (factors[i]->producer)
        factors.insert(factors.end(), factors[i]->producer->operands.begin(), factors[i]->producer->operands.end());
    }
    for (const Value* output : unit.outputs) {
      if (output->type.count() == unit.anchor->result()->type.count()) holders_[storage(output)].contracts = true;
    }
  }

  Groups& groups_;
  std::unordered_map<const Value*, const Alias*> base_of_;
  std::unordered_map<const Value*, Holder> holders_;
};

}  // namespace

void pad_rows(Groups& groups) { RowPadder(groups).run(); }

void spread_row_paddings(Groups& groups) { RowPadder(groups).tell_units(); }

}  // namespace tcc::group
