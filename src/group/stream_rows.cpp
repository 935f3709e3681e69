// Joins what makes rows by a product of matrices, normalises them, and uses them up in another product, where the rows then need not be stored: attention.
//
//   unit 5 contract {%s = dot_general(%q, %k)} -> (%s)                     unit 5 stream {%s, %m, %e, %l, %p, %o} anchor %o (%q, %k, %v) -> (%o)
//   unit 6 rows {%m, %e, %l, %p} (%s) -> (%p)                        ->
//   unit 7 contract {%o = dot_general(%p, %v)} (%p, %v) -> (%o)
//
// Three units, of which nothing else reads the first two's results, but for what the second stores of each row: the backward pass computes the weights again from
// maxima and sums. A mask that is made of positions alone is made where it is read, in each unit again. Whether a kernel can do it the target says, of the loops that come out: where it can't, each
// score would be computed again for each use.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "group/join_units.h"
#include "tcc/group/group.h"

namespace tcc::group {

namespace {

class RowStreamer : UnitJoiner {
 public:
  RowStreamer(Groups& groups, const GroupOptions& options) : UnitJoiner(groups, options) {}

  bool run() {
    for (size_t last = 0; last < groups_.units.size(); ++last) {
      const Unit& unit = groups_.units[last];
      if (!is_product(unit)) continue;
      for (const Value* weights : unit.inputs) {
        const std::optional<size_t> rows = sole_writer(weights, last);
        if (!rows || groups_.units[*rows].kind != UnitKind::rows) continue;
        if (join(*rows, weights, last)) break;
      }
    }
    return finish();
  }

 private:
  /// The unit that stores the value, where unit `reader` alone reads it, and nothing else that is not one for a row.
  std::optional<size_t> sole_writer(const Value* value, size_t reader) const {
    const Value* stored = storage_.of(value);
    const std::optional<size_t> writer = is_whole(value) ? writer_of(stored) : std::nullopt;
    if (!writer || readers_of(stored) != std::unordered_set<size_t>{reader}) return std::nullopt;
    const auto is_other = [&](const Value* output) { return output != stored && !is_of_rows(output, stored, reader); };
    return std::ranges::any_of(groups_.units[*writer].outputs, is_other) ? std::nullopt : writer;
  }

  /// Whether the value is one for each row of another, and read by later units than that.
  bool is_of_rows(const Value* value, const Value* rows, size_t unit) const {
    if (rows->type.rank() == 0 || value->type.count() * rows->type.shape().back() != rows->type.count()) return false;
    return std::ranges::all_of(readers_of(storage_.of(value)), [&](size_t reader) { return reader > unit; });
  }

  /// Whether the units that make the rows, normalise them and use them became one.
  bool join(size_t rows, const Value* weights, size_t last) {
    for (const Value* scores : groups_.units[rows].inputs) {
      const std::optional<size_t> first = sole_writer(scores, rows);
      if (!first || !is_product(groups_.units[*first]) || groups_.units[*first].outputs.size() != 1) continue;
      const std::unordered_set<const Value*> inside{storage_.of(scores), storage_.of(weights)};
      Union joined = union_of(UnitKind::stream, {*first, rows, last}, inside);
      std::ranges::copy_if(groups_.units[rows].outputs, std::back_inserter(joined.unit.outputs),
                           [&](const Value* value) { return !inside.contains(value); });
      if (!ns_of(joined.unit)) continue;
      replace(last, std::move(joined), {*first, rows}, inside);
      return true;
    }
    return false;
  }
};

}  // namespace

bool stream_rows(Groups& groups, const GroupOptions& options) { return RowStreamer(groups, options).run(); }

}  // namespace tcc::group
