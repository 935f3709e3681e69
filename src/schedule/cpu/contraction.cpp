// Contractions on the host: register tiles of rows by vectors of columns, or of partial sums where both operands are contiguous along the sum.
#include <algorithm>

#include "schedule/cpu/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cpu {

using namespace tcc::loop;

namespace {

/// Results side by side, and terms of a sum, that are worth vectors.
constexpr int64_t kFewestColumns = 4, kShortestSum = 8;

}  // namespace

void CpuNest::prepare_contraction() {
  sum_ = reduce().states[0].result->name;
  c_.fuse_all(reduce().dims.front().var->name);
  operands_ = operands();
  map_ = nest().dims;
  reduced_ = reduce().dims;
  // Vectors along a dim of the map that is contiguous in the result and in an operand (constant in the other).
  const auto unit_or_none = [&](const Access& access, const Var* var) {
    const std::optional<int64_t> stride = stride_of(access, var);
    return stride && (*stride == 0 || *stride == 1);
  };
  for (const loop::Dim& dim : map_) {
    const Var* var = dim.var.get();
    if (dim.var->extent >= kFewestColumns && stride_of(operands_.c, var) == 1 && unit_or_none(operands_.a, var) &&
        unit_or_none(operands_.b, var))
      vector_ = &dim;
  }
}

int64_t CpuNest::most_rows(const loop::Dim& rows) const {
  constexpr int64_t kMost = 12;
  const Target& target = c_.target();
  const int64_t way = target.l1_bytes / target.l1_ways;
  for (const Access* access : {&operands_.a, &operands_.b}) {
    const std::optional<int64_t> stride = stride_of(*access, rows.var.get());
    if (stride && *stride > 0 && *stride * size_bytes(access->buffer->dtype) % way == 0)
      return std::min<int64_t>(kMost, target.l1_ways - 2);
  }
  return kMost;
}

size_t CpuNest::cheapest(const std::vector<TileSize>& tiles) {
  size_t best = 0;
  for (size_t i = 1; i < tiles.size(); i++) {
    if (tiles[i].cost < tiles[best].cost - 1e-9) best = i;
  }
  return best;
}

CpuNest::TileSize CpuNest::choose_tile(const loop::Dim* rows, int64_t columns, Rest rest, double exposed, const Window& window) const {
  const std::vector<TileSize> all = tiles(rows, columns, rest, exposed, window);
  std::vector<double> costs;
  for (const TileSize& tile : all) costs.push_back(tile.cost);
  return all[c_.decide("register tile", costs, cheapest(all))];
}

std::vector<CpuNest::TileSize> CpuNest::tiles(const loop::Dim* rows_dim, int64_t columns, Rest edge, double exposed,
                                              const Window& window) const {
  std::vector<TileSize> tiles;
  const int64_t rows = rows_dim ? rows_dim->var->extent : 1, most = rows_dim ? std::min(rows, most_rows(*rows_dim)) : 1, lanes = lanes_;
  const bool padded = edge != Rest::narrow;
  // A product of integers is not a part of the addition: those of two rows have registers of their own.
  const int64_t rows_apart = is_float(reduce().states[0].result->dtype) ? 0 : 2;
  const auto tile_cost = [&](int64_t m, int64_t v) {
    const int64_t loads = exposed >= kExposedLoad ? kStreamedVector * v : 0;
    return static_cast<double>(std::max<int64_t>({m * v, m + v, 8, loads})) + 0.1 * static_cast<double>(m) +
           exposed * static_cast<double>(v);
  };
  for (int64_t v = 1; v <= 8; v++) {
    if (v > 1 && (v - 1) * lanes >= columns) continue;
    const int64_t width = padded ? v * lanes : std::min(v * lanes, columns);
    const int64_t whole = columns / width, rest = columns % width;
    if (edge != Rest::padded && rest > 0 && !is_power(width)) continue;
    // Vectors of other than a power of two elements end as single elements.
    const int64_t narrow = rest == 0 ? 0 : padded ? v : is_power(rest) ? std::max<int64_t>(1, rest / lanes) : rest;
    const int64_t wide = width % lanes == 0 ? v : is_power(width) ? 1 : width;
    for (int64_t m = 1; m <= most; m++) {
      if ((m + rows_apart) * v + v + window.kept(m) > c_.target().vector_registers) continue;
      const auto band = [&](int64_t height) {
        return static_cast<double>(whole) * tile_cost(height, wide) + (narrow > 0 ? tile_cost(height, narrow) : 0);
      };
      const double cost = static_cast<double>(rows / m) * band(m) + (rows % m > 0 ? band(rows % m) : 0);
      tiles.push_back({m, v, cost});
    }
  }
  return tiles;
}

std::vector<std::string> CpuNest::split_columns(const std::string& dim, int64_t columns) {
  if (is_power(columns) || columns % lanes_ != 0) return {dim};
  c_.split(dim, columns & -columns);
  return {dim + "_0", dim + "_1"};
}

void CpuNest::tile_registers(const std::string& sum, const std::string& row, const std::vector<std::string>& registers,
                             const std::string& apart) {
  std::vector<std::string> dims = registers;
  if (!row.empty()) dims.insert(dims.begin(), row);
  std::vector<Argument> arguments{Chooser::arg(sum)};
  for (const std::string& dim : dims) arguments.push_back(Chooser::arg(dim));
  if (!apart.empty()) arguments.push_back(Chooser::key("apart", apart));
  c_.add("tile", std::move(arguments));
  for (size_t i = 0; i + 1 < dims.size(); i++) c_.unroll(dims[i]);
  c_.vectorize(dims.back());
}

CpuNest::Operands CpuNest::operands() const {
  Operands result;
  if (kind_ == NestKind::computed_factor) {
    const std::optional<Contraction> contraction = as_contraction(Stmt{nest()});
    if (!contraction) internal_error("a contraction with a computed factor is none");
    result.a = access_of(contraction->a.buffer, contraction->a.indices, false, contraction->a.guarded);
    result.b = access_of(contraction->b.buffer, contraction->b.indices, false, contraction->b.guarded);
  } else {
    std::vector<Access> loads = accesses_of(Block{Stmt{reduce()}});
    result.a = loads[0];
    result.b = loads[1];
  }
  for (const Access& access : accesses_of(nest().body)) {
    if (access.store) result.c = access;
  }
  return result;
}

const Reduce& CpuNest::reduce() const {
  for (const Stmt& stmt : nest().body) {
    if (const auto* found = std::get_if<Reduce>(&stmt.node)) return *found;
  }
  std::abort();  // kind_of found one
}

CpuNest::Items CpuNest::split_items(const std::vector<std::string>& outer, int64_t most_inside) {
  const int64_t wanted = wanted_items();
  Items items;
  int64_t count = 1;
  for (size_t i = 0; i < outer.size(); i++) {
    const int64_t extent = c_.extent(outer[i]), need = ceil_div(wanted, count);
    const bool last = i + 1 == outer.size();
    if (!last || extent == 1) {
      items.parallel.push_back(outer[i]);
      count *= extent;
      continue;
    }
    // A few steps at once: neighbours share most of what they read.
    const int64_t chunk = std::max(nice_chunk(extent, need), std::min<int64_t>(extent, 4));
    c_.split(outer[i], std::min(chunk, most_inside));
    items.parallel.push_back(outer[i] + "_0");
    items.inside.push_back(outer[i] + "_1");
  }
  return items;
}

void CpuNest::unroll_steps(const std::vector<loop::Dim>& reduced) {
  int64_t steps = 1;
  for (size_t i = reduced.size(); i-- > 0;) {
    const int64_t extent = reduced[i].var->extent;
    if (steps * extent > 9) break;
    c_.unroll(reduced[i].var->name);
    steps *= extent;
  }
  if (steps == 1 && reduced.back().var->extent % 4 == 0) {
    c_.split(reduced.back().var->name, 4);
    c_.unroll(reduced.back().var->name + "_1");
  }
}

std::string CpuNest::two_level_sum(const std::vector<loop::Dim>& reduced) {
  // Short sums are exact enough; sums of fewer terms apart would cost more than they are worth.
  constexpr int64_t kTerms = 32;
  int64_t terms = 1;
  size_t first = reduced.size();
  while (first > 1 && terms < kTerms) terms *= reduced[--first].var->extent;
  if (reduced.size() < 2) return "";
  if (terms >= kTerms) return reduced[first - 1].var->extent > 1 ? reduced[first - 1].var->name : "";
  const loop::Dim& channels = reduced[0];
  for (int64_t part = 4; part < channels.var->extent; part *= 2) {
    if (terms * part < kTerms || channels.var->extent % part != 0) continue;
    c_.split(channels.var->name, part);
    return channels.var->name + "_0";
  }
  return "";
}

const loop::Dim* CpuNest::rows_dim(const std::vector<loop::Dim>& dims, const Access& moving, const Access& other, const Var* vector) {
  const loop::Dim* rows = nullptr;
  for (const loop::Dim& dim : dims) {
    if (dim.var.get() == vector || moves(moving, dim.var.get()) || !moves(other, dim.var.get())) continue;
    if (!rows || dim.var->extent > rows->var->extent) rows = &dim;
  }
  return rows;
}

WhyNot CpuNest::register_tile() {
  const Operands& o = operands_;
  const std::vector<loop::Dim>&dims = map_, &reduced = reduced_;
  const loop::Dim& vector = vector_ ? *vector_ : dims.back();
  const bool a_moves = moves(o.a, vector.var.get());
  const Access& moving = a_moves ? o.a : o.b;
  const Access& other = a_moves ? o.b : o.a;
  const loop::Dim* rows = rows_dim(dims, moving, other, vector.var.get());
  const TileSize size = choose_tile(rows, vector.var->extent, Rest::narrow);
  const int64_t columns = std::min(size.vectors * lanes_, vector.var->extent);
  const std::string v = vector.var->name, u = rows ? rows->var->name : "";
  std::vector<std::string> outer, spatial;
  for (const loop::Dim& dim : dims) {
    const std::string& name = dim.var->name;
    if (name == v || name == u) continue;
    const bool batch = moves(o.a, dim.var.get()) && moves(o.b, dim.var.get());
    (batch ? outer : spatial).push_back(name);
  }
  c_.split(v, columns);
  const std::vector<std::string> registers = split_columns(v + "_1", columns);
  if (rows) {
    c_.split(u, size.rows);
    outer.push_back(u + "_0");
  }
  outer.insert(outer.end(), spatial.begin(), spatial.end());
  outer.push_back(v + "_0");
  std::vector<std::string> order = outer;
  if (rows) order.push_back(u + "_1");
  order.insert(order.end(), registers.begin(), registers.end());
  c_.reorder(order);
  parallelize(outer);
  if (rows && rows->var->extent % size.rows != 0) c_.peel(u + "_1");
  if (vector.var->extent % columns != 0) c_.peel(v + "_1");

  unroll_steps(reduced);
  tile_registers(sum_, rows ? u + "_1" : "", registers, two_level_sum(reduced));
  return std::nullopt;
}

// Of few rows the factor is computed for each of them, out of few bytes.
WhyNot CpuNest::few_rows_of_computed() {
  constexpr int64_t kFewRows = 4;
  const Operands& o = operands_;
  int64_t rows[] = {1, 1};
  for (const loop::Dim& dim : map_) {
    const bool a = moves(o.a, dim.var.get()), b = moves(o.b, dim.var.get());
    if (a != b) rows[b] *= dim.var->extent;
  }
  if (std::min(rows[0], rows[1]) > kFewRows) return "there are " + std::to_string(std::min(rows[0], rows[1])) + " rows";
  Chooser before = c_;
  c_.add("sink_lets", {Chooser::arg(sum_)});
  c_.add("skip_rounding", {Chooser::arg(sum_)});
  const WhyNot why_not = partial_sums();
  if (why_not) c_.take_over(std::move(before));
  return why_not;
}

WhyNot CpuNest::partial_sums() {
  const Operands& o = operands_;
  const std::vector<loop::Dim>& dims = map_;
  const loop::Dim& reduced = reduced_.back();
  if (vector_) return "results along %" + vector_->var->name + " are neighbours in memory";
  const bool along_k = stride_of(o.a, reduced.var.get()) == 1 && stride_of(o.b, reduced.var.get()) == 1;
  if (!along_k || reduced.var->extent < kShortestSum) return "the sum is not along neighbouring elements of both operands, or short";
  const loop::Dim* rows = nullptr;
  const loop::Dim* columns = nullptr;
  for (const loop::Dim& dim : dims) {
    const bool a = moves(o.a, dim.var.get()), b = moves(o.b, dim.var.get());
    if (a && !b && (!rows || dim.var->extent > rows->var->extent)) rows = &dim;
    if (b && !a && (!columns || dim.var->extent > columns->var->extent)) columns = &dim;
  }
  const int64_t w = lanes_;
  const auto block = [](int64_t extent, int64_t most) {
    for (int64_t size = most; size > 1; size--) {
      if (extent % size == 0) return size;
    }
    return std::min(extent, most);
  };
  const int64_t n = columns ? block(columns->var->extent, 4) : 1, m = rows ? block(rows->var->extent, n >= 4 ? 3 : 4) : 1;
  std::vector<std::string> outer, inner;
  for (const loop::Dim& dim : dims) {
    const std::string& name = dim.var->name;
    const bool tiled = &dim == rows || &dim == columns;
    if (tiled) {
      c_.split(name, &dim == rows ? m : n);
      inner.push_back(name + "_1");
    }
    outer.push_back(tiled ? name + "_0" : name);
  }
  const std::string k = reduced.var->name;
  c_.split(k, w);
  std::vector<std::string> order = outer;
  order.insert(order.end(), inner.begin(), inner.end());
  c_.reorder(order);
  parallelize(outer);
  if (rows && rows->var->extent % m != 0) c_.peel(rows->var->name + "_1");
  if (columns && columns->var->extent % n != 0) c_.peel(columns->var->name + "_1");
  std::vector<Argument> arguments{Chooser::arg(sum_)};
  for (const std::string& name : inner) arguments.push_back(Chooser::arg(name));
  arguments.push_back(Chooser::arg(k + "_1"));
  c_.add("tile", std::move(arguments));
  for (const std::string& name : inner) c_.unroll(name);
  c_.vectorize(k + "_1");
  return std::nullopt;
}

}  // namespace tcc::schedule::cpu
