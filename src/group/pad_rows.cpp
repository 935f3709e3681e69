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

#include "group/memory.h"
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
  explicit RowPadder(Groups& groups) : groups_(groups), storage_(groups) {}

  void run() {
    look_at_units();
    for (const Alias& alias : groups_.aliases) {
      const Value* base = storage_.of(alias.value);
      if (alias.byte_offset != 0 || !has_rows_of(*alias.value, *base)) holders_[base].fits = false;
    }
    for (const Value* result : groups_.graph->body.results) holders_[storage_.of(result)].fits = false;
    for (const StateUpdate& update : groups_.graph->state_updates) holders_[storage_.of(update.value)].fits = false;
    for (const Layout& layout : groups_.layouts) holders_[layout.value].fits = false;
    groups_.row_paddings.clear();
    for (const Unit& unit : groups_.units) {
      for (Value* output : unit.outputs) {
        const int64_t padding = padding_of(*output);
        const Holder& holder = holders_[output];
        if (padding > 0 && holder.fits && holder.contracts && !storage_.is_alias(output)) groups_.row_paddings.push_back({output, padding});
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
          const auto found = paddings.find(storage_.of(value));
          unit.row_padding.push_back(found == paddings.end() ? 0 : found->second);
        }
      }
      if (std::all_of(unit.row_padding.begin(), unit.row_padding.end(), [](int64_t padding) { return padding == 0; }))
        unit.row_padding.clear();
    }
  }

 private:
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
          Holder& holder = holders_[storage_.of(value)];
          holder.fits = holder.fits && (contracts || unit.kind == UnitKind::rows || unit.kind == UnitKind::map);
        }
      }
      if (contracts) look_at_contraction(unit);
    }
  }

  /// Its factors, and what it stores of each product; not what its epilogue reads beside.
  void look_at_contraction(const Unit& unit) {
    for (const Value* factor : factor_inputs(unit)) holders_[storage_.of(factor)].contracts = true;
    for (const Value* output : unit.outputs) {
      if (output->type.count() == unit.anchor->result()->type.count()) holders_[storage_.of(output)].contracts = true;
    }
  }

  Groups& groups_;
  const Storage storage_;
  std::unordered_map<const Value*, Holder> holders_;
};

}  // namespace

void pad_rows(Groups& groups) { RowPadder(groups).run(); }

void spread_row_paddings(Groups& groups) { RowPadder(groups).tell_units(); }

}  // namespace tcc::group
