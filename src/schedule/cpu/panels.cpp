// Matrix products on the host. The operand that varies along neighbouring results is copied into panels: a few vectors of columns for all terms of the sum, one
// term after the other. All tiles of rows then read them from a cache, in order, whatever the strides were; columns past the end are zeros.
//
//   for each block of panels and part of the rows, an item of the pool {
//     copy b[0..K, 16 columns] for each panel of the block
//     for each 6 rows of a, for each panel { 12 vectors of sums: for k in K { 2 loads of the panel, 6 broadcasts of a, 12 multiply-adds };  store }
//   }
//
// Panels of a constant are made by a nest of its own, in front, which runs once, when the library is made or an instance is created (plan/made_once.h): they
// are the weight, as the kernels read it. There is no copy then to be paid for by uses, or to be made again by another item.
//
// The sum is not cut. A block stays in the second-level cache, out of which its vectors come as fast as they are used; the rows of a tile stay in the first
// while the panels of a block pass.
#include <algorithm>
#include <limits>

#include "schedule/cost.h"
#include "schedule/cpu/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cpu {

using namespace tcc::loop;

namespace {}  // namespace

WhyNot CpuNest::find_panels(Panels& panels) const {
  if (nest().where) return "the nest is masked";
  for (const loop::Dim& dim : map_) {
    if (stride_of(operands_.c, dim.var.get()) == 1 && dim.var->extent > 1) panels.columns = &dim;
  }
  if (!panels.columns) return "results are not neighbours along a dim";
  const Var* columns = panels.columns->var.get();
  const bool a_moves = moves(operands_.a, columns);
  const Access& other = a_moves ? operands_.b : operands_.a;
  panels.packed = a_moves ? operands_.a : operands_.b;
  if (moves(other, columns) || !moves(panels.packed, columns)) return "not one operand alone varies along the results";
  int uses = 0;
  for (const Access& access : accesses_of(nest().body)) uses += access.buffer == panels.packed.buffer;
  if (uses != 1) return "the operand is read elsewhere, too";
  if (WhyNot why_not = find_axis(panels)) return why_not;
  panels.constant = is_constant(panels.packed.buffer);
  panels.rows = rows_dim(map_, panels.packed, other, columns);
  if (!panels.rows) return "the operand is read for one row of results";
  for (const loop::Dim& dim : map_) {
    if (&dim == panels.columns || &dim == panels.rows) continue;
    (moves(panels.packed, dim.var.get()) ? panels.outer : panels.inside).push_back(dim.var->name);
  }
  panels.depth = iterations(reduced_);
  return std::nullopt;
}

bool CpuNest::is_constant(const BufferRef& buffer) const {
  const std::vector<Param>& params = c_.unit().params;
  return std::any_of(params.begin(), params.end(), [&](const Param& param) { return param.constant && param.buffer == buffer; });
}

/// Whether the index, while the sum runs, goes from a corner upwards: a sum of loops, and of pieces of fused loops of the sum.
bool CpuNest::is_box(const Index& index) const {
  return std::all_of(index.terms().begin(), index.terms().end(), [&](const Term& term) {
    if (term.coefficient < 0) return false;
    if (term.atom.kind == Atom::Kind::var) return true;
    std::vector<VarRef> vars;
    if (term.atom.operand) collect_vars(*term.atom.operand, vars);
    return !vars.empty() && std::all_of(vars.begin(), vars.end(), [&](const VarRef& var) {
      return std::any_of(reduced_.begin(), reduced_.end(), [&](const loop::Dim& dim) { return dim.var == var; });
    });
  });
}

WhyNot CpuNest::find_axis(Panels& panels) const {
  const Var* columns = panels.columns->var.get();
  const std::vector<Index>& indices = panels.packed.indices;
  int axes = 0;
  for (size_t axis = 0; axis < indices.size(); axis++) {
    if (!indices[axis].uses(columns)) {
      if (!is_box(indices[axis])) return "an index is not a sum of loops";
      continue;
    }
    const Index whole(panels.columns->var);
    const int64_t next = axis + 1 < indices.size() ? panels.packed.buffer->extents[axis + 1] : 1;
    if (next > 1 && indices[axis] == floor_div(whole, next) && indices[axis + 1] == mod(whole, next)) {
      panels.axis = axis++;
      panels.joined = true;
    } else if (indices[axis] == whole) {
      panels.axis = axis;
    } else {
      return "the columns are not an axis of the operand";
    }
    axes++;
  }
  return axes == 1 ? std::nullopt : WhyNot("the columns are several axes of the operand");
}

int64_t CpuNest::tiles_of_part(int64_t tiles, int64_t parts, const Packing& packing) const {
  for (parts = std::min(tiles, parts); parts > 1; parts--) {
    Packing part = packing;
    part.products /= static_cast<double>(parts);
    if (pays(part, c_.target())) return nice_chunk(tiles, parts);
  }
  return tiles;
}

CpuNest::Shares CpuNest::share_panels(const Panels& panels, const TileSize& tile, const Packing& packing) {
  Shares shares;
  const int64_t wanted = wanted_items(), width = tile.vectors * lanes_;
  int64_t items = 1;
  for (const std::string& name : panels.outer) items *= c_.extent(name);
  const int64_t count = ceil_div(panels.columns->var->extent, width), tiles = ceil_div(panels.rows->var->extent, tile.rows);
  const int64_t panel_bytes = panels.depth * width * static_cast<int64_t>(packing.bytes);
  const int64_t fit = std::max<int64_t>(1, c_.target().l2_bytes / 4 / panel_bytes);
  shares.panels = std::min(nice_chunk(count, ceil_div(wanted, items)), fit);
  // Whole blocks where that costs little of their size: a part of one is masked, and the last panels of a constant would be zeros.
  for (int64_t size = shares.panels; 2 * size > shares.panels; size--) {
    if (count % size != 0) continue;
    shares.panels = size;
    break;
  }
  items *= ceil_div(count, shares.panels);
  shares.tiles = tiles_of_part(tiles, wanted / items, packing);
  return shares;
}

void CpuNest::stage_panels(const Panels& panels, int64_t width, const std::string& at) {
  const std::string buffer = panels.packed.buffer->name, axis(1, static_cast<char>('a' + panels.axis));
  std::string axes;
  for (size_t i = 0; i < panels.packed.indices.size(); i++) {
    if (i != panels.axis) axes += static_cast<char>('a' + i);
  }
  const bool whole = at == "top";
  std::vector<Argument> arguments{Chooser::arg(buffer), Chooser::arg(std::string(whole ? "global" : "scratch")), Chooser::key("at", at),
                                  Chooser::key("order", axes + axis), Argument{"panels", width}};
  if (panels.joined) arguments.push_back(Chooser::key("join", axis));
  c_.add("stage", std::move(arguments));
  if (whole) c_.bind(buffer + "_" + axis + "_panel", "parallel");
  c_.vectorize(split_columns(buffer + "_" + axis, width).back());
}

std::vector<std::string> CpuNest::split_panel(const PanelDims& dims, const TileSize& tile) {
  const std::string v = dims.columns->name;
  const int64_t width = tile.vectors * lanes_;
  if (width > dims.columns->extent) c_.add("split", {Chooser::arg(v), Chooser::arg(width), Chooser::key("tail", "pad")});
  else c_.split(v, width);
  const std::vector<std::string> registers = split_columns(v + "_1", width);
  c_.split(dims.rows->name, tile.rows);
  return registers;
}

void CpuNest::multiply_panels(const PanelDims& dims, const TileSize& tile, std::vector<std::string> order,
                              const std::vector<std::string>& inside, const std::vector<std::string>& registers) {
  const std::string row = dims.rows->name + "_1";
  for (const std::string& name : order) c_.bind(name, "parallel");
  order.insert(order.end(), inside.begin(), inside.end());
  order.push_back(row);
  order.insert(order.end(), registers.begin(), registers.end());
  c_.reorder(order);
  if (dims.rows->extent % tile.rows != 0) c_.peel(row);
  unroll_steps(reduced_);
  tile_registers(sum_, row, registers, two_level_sum(reduced_));
  // Of the map that stores the tile: the sums of all columns are computed.
  if (dims.columns->extent % (tile.vectors * lanes_) != 0) c_.peel(dims.columns->name + "_1");
}

WhyNot CpuNest::packed_panels() {
  Panels panels;
  if (WhyNot why_not = find_panels(panels)) return why_not;
  const int64_t rows = panels.rows->var->extent, columns = panels.columns->var->extent, size = size_bytes(panels.packed.buffer->dtype);
  int64_t reuses = rows;
  for (const std::string& name : panels.inside) reuses *= c_.extent(name);
  const bool in_rows = stride_of(panels.packed, panels.columns->var.get()) == 1;
  const TileSize tile = choose_tile(panels.rows, columns, Rest::peeled, kExposedLoad);
  const int64_t width = tile.vectors * lanes_;
  panels.constant = panels.constant && static_cast<double>(align_up(columns, width)) <= kLargestPadding * static_cast<double>(columns);
  if (!panels.constant && panels.depth * columns * size <= c_.target().l1_bytes / 2) return "the operand stays in the first-level cache";
  const Packing packing{.bytes = static_cast<double>(size),
                        .bytes_per_ns = in_rows ? c_.target().vector_load_bytes_per_ns : c_.target().mixed_load_bytes_per_ns,
                        .products = panels.constant ? std::numeric_limits<double>::infinity() : static_cast<double>(reuses)};
  if (!pays(packing, c_.target())) return "an element is used for " + std::to_string(reuses) + " results";

  if (panels.depth * width * size > c_.target().l2_bytes / 2) return "a panel is larger than half of the second-level cache";

  const PanelDims dims{panels.columns->var, panels.rows->var};
  const std::string v = dims.columns->name, u = dims.rows->name;
  const Shares shares = share_panels(panels, tile, packing);
  const std::vector<std::string> registers = split_panel(dims, tile);
  c_.split(v + "_0", shares.panels);
  std::vector<std::string> order = panels.outer;
  order.push_back(v + "_0_0");
  std::string tiles = u + "_0";
  if (shares.tiles < c_.extent(tiles)) {
    c_.split(tiles, shares.tiles);
    order.push_back(tiles + "_0");
    tiles += "_1";
  }
  const std::string at = order.back();
  std::vector<std::string> inside = panels.inside;
  inside.insert(inside.end(), {tiles, v + "_0_1"});
  multiply_panels(dims, tile, order, inside, registers);
  stage_panels(panels, width, panels.constant ? "top" : at);
  return std::nullopt;
}

}  // namespace tcc::schedule::cpu
