// Groups: which prims share a unit of work (fusion), and each unit's first-form loops.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/loop/loop.h"
#include "tcc/support/memo.h"

namespace tcc {
struct StateLayout;
}

namespace tcc::group {

/// What shapes a unit's loops. map: pointwise over its results. rows: pointwise and reductions over the same rows. contract: dot or conv with its
/// epilogue. window, scan, scatter, sort: that op with what fused into it. stream: a product of matrices whose rows are normalised and multiplied with another
/// matrix, the anchor. chain: a dot, the anchor, with others of whose results one of its factors is made, and
/// maybe a second one of the same rows and columns.
enum class UnitKind : uint8_t { map, rows, contract, window, scan, scatter, sort, stream, chain };

/// An input that both factors of a product of matrices read is there twice, the second time for the second factor.
struct Unit {
  int id = 0;
  UnitKind kind = UnitKind::map;
  std::string label;                 ///< the model's own node names, "fc1/Gemm + relu/Relu"
  std::vector<Node*> nodes;          ///< in graph order; views, creates and what chains have may be in several units, all others in one
  std::vector<Value*> inputs;        ///< values it reads that are materialised elsewhere (inputs, weights, results of other units)
  std::vector<Value*> outputs;       ///< values it materialises
  Node* anchor = nullptr;            ///< contract, window, scan, scatter, sort, stream, chain
  std::vector<Value*> maxima;        ///< inputs of a chain that are not less than the rows that they are subtracted from
  std::vector<bool> constant;        ///< of each input, see mark_constants; empty: none is
  std::vector<bool> owned;           ///< ... of each constant: nothing else reads it
  std::vector<int64_t> row_padding;  ///< of each input, then of each output, see pad_rows; empty: none has any
  std::vector<std::vector<int64_t>>
      order;  ///< of each input, then of each output, its axes in memory, outermost first, see choose_layouts; empty: as they are
};

/// An index that is checked where it is read: the operand `index` of `node` has to be in [low, high], negative ones counting from the end.
struct IndexCheck {
  const Node* node = nullptr;
  const Value* index = nullptr;
  int64_t low = 0, high = 0;
};

/// A value that is materialised by being (part of) another: a reshape of it, or a contiguous piece of a concat's result. Costs nothing at run time.
struct Alias {
  Value* value;
  Value* base;
  int64_t byte_offset = 0;
};

/// Zeros in the result of a concat, behind a piece that was padded: in memory no unit's result has them.
struct Padding {
  Value* base;
  int64_t byte_offset = 0, size_bytes = 0;
};

/// Elements behind each row (the last axis) of a value and of its aliases, in memory.
struct RowPadding {
  Value* value;
  int64_t elements = 0;
};

/// A value whose axes lie in memory in another order, outermost first: [0, 2, 3, 1] for images with their channels last. Its aliases lie so, too.
struct Layout {
  Value* value;
  std::vector<int64_t> order;
};
bool is_order(const Layout& layout);                                     ///< whether every axis of the value is there once
Shape in_memory(const Shape& shape, const std::vector<int64_t>& order);  ///< empty: as it is
/// The order of an alias whose base has that order; empty where it would have none: the last two axes may be exchanged, and the same in both.
std::vector<int64_t> order_of_alias(const Alias& alias, const std::vector<int64_t>& order);

struct Groups {
  const Graph* graph = nullptr;
  std::vector<Unit> units;  ///< in an order that respects their dependences
  std::vector<Alias> aliases;
  std::vector<Padding> paddings;         ///< by base, then by offset
  std::vector<RowPadding> row_paddings;  ///< of values that units store and no alias: see pad_rows
  std::vector<Layout> layouts;           ///< ... see choose_layouts
};

/// Makes every piece of a vector concatenated from many (all gradients, to be updated as one) a value that nothing else is: one that is there twice, or is
/// an input, an output or part of another such vector, is copied. Then each is written in place. Last before form_groups: the copies are concats of one.
void copy_concat_pieces(Graph& graph);

/// Makes concats of many operands, and many slices that are outputs, into kernels of bounded size (split_wide_nodes.cpp). Last before form_groups; run
/// twice, it changes nothing more.
void split_wide_nodes(Graph& graph);

/// How long the target's kernel for the first form of a unit of kind stream or chain takes; nothing where it has none.
using StreamTime = std::function<std::optional<double>(const loop::Unit&)>;

/// Whether products of this dtype are made by matrix cores that gain by a layout: convolutions by images with their channels last.
using ChannelsLast = std::function<bool(DType)>;

/// The times of units of these kinds, by their structure.
using StreamTimes = Memo<std::string, std::optional<double>>;

/// What a target has kernels for. Copies share what they know of it: the graphs that are tried for a target differ in few units.
struct GroupOptions {
  bool fuse = true;              ///< false: one unit per prim that is not free (for measurements and tests)
  StreamTime stream_ns{};        ///< empty: never
  ChannelsLast channels_last{};  ///< empty: none does
  std::shared_ptr<StreamTimes> stream_times = std::make_shared<StreamTimes>();  ///< what `stream_ns` said
  /// Whether groups are those of every target.
  bool is_common() const { return !stream_ns && !channels_last; }
};

/// Groups the prims of a verified prims graph.
Groups form_groups(const Graph& graph, const GroupOptions& options = {});
std::string print(const Groups& groups);  ///< after the graph's text; node results name the members
Groups parse_groups(std::string_view text, const std::string& file, const Graph& graph);
bool equal(const Groups& a, const Groups& b, std::string* why = nullptr);
std::vector<std::string> verify(const Groups& groups);  ///< every needed value materialised once, acyclic, kinds hold

/// Makes groups of every target those of one. Returns whether that changed anything.
bool suit_target(Groups& groups, const GroupOptions& options);
/// Makes units of kind stream where the target has a kernel for them, by `stream_ns`. Returns whether it made any.
bool stream_rows(Groups& groups, const GroupOptions& options);
/// Makes units of kind chain where the target has a kernel for them, by `stream_ns`. Returns whether it made any.
bool chain_products(Groups& groups, const GroupOptions& options);
/// Lets the images that convolutions pass to each other have their channels last. Returns whether it did so for any.
bool choose_layouts(Groups& groups, const ChannelsLast& pays);
/// Lets products of matrices lie the other way round in memory where that is how they are read. Returns whether it did so for any.
bool turn_results(Groups& groups, const ChannelsLast& pays);
/// The orders of values that have another one than that of their axes: those with a layout and their aliases.
std::unordered_map<const Value*, std::vector<int64_t>> orders_of(const Groups& groups);
/// Gives Unit::order by them.
void spread_layouts(Groups& groups);
/// Lets the rows of some values begin at multiples of 16 bytes: results and factors of products of matrices that are neither results of the graph nor state,
/// and that only maps, rows and products touch. The last step of form_groups.
void pad_rows(Groups& groups);
/// Gives Unit::row_padding by Groups::row_paddings.
void spread_row_paddings(Groups& groups);

/// Marks the inputs that are weights and are in no state (null: there is none): what a kernel makes of them alone need be made only once. Where these groups are
/// `alone` in their library, also those that no other unit reads: no program can tell what becomes of their bytes, and the library may have others.
void mark_constants(Groups& groups, const StateLayout* state, bool alone);

/// First-form loops of one unit. Parameters: unit.inputs, then unit.outputs, in order.
/// `checks` (null: not asked for): what the check_index of each number is about.
loop::Unit lower(const Graph& graph, const Unit& unit, std::vector<IndexCheck>* checks = nullptr);

}  // namespace tcc::group
