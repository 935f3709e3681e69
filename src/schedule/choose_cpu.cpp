// Schedules for the host: vectors along contiguous memory, register tiles for contractions, items of a few microseconds for the pool.
//
//   pointwise     dims fused while indices stay sums; the last one in vectors; chunks to the pool
//   rows          rows to the pool; loops over a row in vectors, or, where rows lie side by side in memory, vectors of rows
//   reduction     vectors along the reduced dim where that is contiguous, otherwise along the last dim of the map
//   contraction   a register tile: rows of one operand (unrolled) x vectors of the other; where both operands are contiguous along the reduced dim, vectors
//                 of partial sums along that
//   ordered       vectors of scans where they lie side by side, otherwise one after the other
#include <algorithm>
#include <cmath>

#include "loop/primitives/edit.h"
#include "schedule/chooser.h"
#include "schedule/cost.h"
#include "tcc/loop/primitives.h"

namespace tcc::schedule {

using namespace tcc::loop;

namespace {

/// What an item of the pool should take, so that handing it out costs little.
constexpr double kItemNs = 6000;
constexpr int64_t kMaxItems = 32;
/// Loops over a row that run so few vectors are unrolled.
constexpr int64_t kShortLoop = 4;
/// A row kept between loops must fit on the stack with room to spare.
constexpr int64_t kKeptBytes = 16 << 10;

class CpuNest {
 public:
  CpuNest(Chooser& chooser, std::string first) : c_(chooser), first_(std::move(first)) {}

  void run(bool may_spread = true) {
    const Loop& loop = std::get<Loop>(c_.find(first_).node);
    const NestKind kind = kind_of(loop);
    if (kind == NestKind::contraction && may_spread && spread_window(loop)) return;
    work_ns_ = single_core_ns();
    dims_ = c_.fuse_all(first_);
    lanes_ = widest_lanes();
    costly_ = costly_body();
    switch (kind) {
      case NestKind::pointwise: pointwise(); break;
      case NestKind::rows: rows(); break;
      case NestKind::reduction: reduction(); break;
      case NestKind::contraction: contraction(); break;
      case NestKind::ordered: ordered(); break;
    }
  }

 private:
  const Loop& nest() const { return std::get<Loop>(c_.find(dims_[0]).node); }

  /// Time of the nest on one core, as if it were all vectors.
  double single_core_ns() const {
    const Work work = measure_work({c_.find(first_)});
    return work.ops / 24 + work.load_bytes / 40;
  }

  int64_t widest_lanes() const {
    int64_t widest = 4;
    for (const Access& access : accesses_of(nest().body)) {
      if (access.store) widest = std::max<int64_t>(widest, size_bytes(access.buffer->dtype));
    }
    return c_.target().vector_bytes / widest;
  }

  /// Vector width for a loop of this extent: several registers where the body is short, a divisor where there is one.
  static int64_t width(int64_t extent, int64_t lanes, bool costly) {
    const int64_t most = lanes * (costly ? 2 : 4);
    for (int64_t w = most; w >= lanes; w /= 2) {
      if (extent % w == 0 && extent >= w) return w;
    }
    return extent >= 8 * lanes ? std::min(most, 2 * lanes) : std::min(extent, lanes);
  }

  /// Binds leading dims of `outer` to the pool, so that there are enough items and each is worth handing out. One dim is always bound: the nest stays one
  /// loop, whatever happens inside it.
  void parallelize(const std::vector<std::string>& outer) {
    const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(work_ns_ / kItemNs), 1, kMaxItems);
    int64_t items = 1;
    for (size_t i = 0; i < outer.size(); i++) {
      const int64_t extent = c_.extent(outer[i]), need = (wanted + items - 1) / items;
      if (need == 1 && i > 0) return;
      if (extent <= need * 3 / 2 || extent == 1) {
        c_.bind(outer[i], "threads");
        items *= extent;
        continue;
      }
      const int64_t chunk = nice_chunk(extent, need);
      c_.split(outer[i], chunk);
      c_.bind(outer[i] + "_0", "threads");
      if (extent % chunk != 0) c_.peel(outer[i] + "_1");
      return;
    }
  }

  /// About extent / pieces, a divisor of the extent when one is near.
  static int64_t nice_chunk(int64_t extent, int64_t pieces) {
    const int64_t ideal = (extent + pieces - 1) / pieces;
    if (pieces <= 1) return extent;
    for (int64_t chunk = ideal; chunk <= ideal * 2 && chunk <= extent / 2; chunk++) {
      if (extent % chunk == 0) return chunk;
    }
    for (int64_t chunk = ideal; chunk * 2 >= ideal && chunk >= 1; chunk--) {
      if (extent % chunk == 0) return chunk;
    }
    return ideal;
  }

  void vectors(const std::string& dim, int64_t w) {
    const int64_t extent = c_.extent(dim);
    if (extent == 1) return;
    c_.split(dim, w);
    c_.vectorize(dim + "_1");
    if (extent % w != 0) c_.peel(dim + "_1");
  }

  // ------------------------------------------------------------------------------------------------------- pointwise

  bool costly_body() const {
    bool costly = false;
    for_each_expr([&](const ExprPtr& expr) { costly |= is_costly(expr); });
    return costly;
  }

  void for_each_expr(const std::function<void(const ExprPtr&)>& f) const {
    walk(nest().body, [&](const Stmt& stmt) {
      if (const auto* let = std::get_if<Let>(&stmt.node)) f(let->value);
      if (const auto* store = std::get_if<Store>(&stmt.node)) f(store->value);
      if (const auto* reduce = std::get_if<Reduce>(&stmt.node)) {
        for (const State& state : reduce->states) f(state.value);
      }
    });
  }

  bool scatters() const {
    bool found = false;
    walk(nest().body, [&](const Stmt& stmt) { found |= std::holds_alternative<Scatter>(stmt.node); });
    return found;
  }

  void pointwise() {
    const std::string last = dims_.back();
    const int64_t extent = c_.extent(last);
    if (scatters()) {  // iterations may collide: one after the other, but for loops whose offset does not depend on data
      one_item();
      return;
    }
    const int64_t w = width(extent, lanes_, costly_);
    if (dims_.size() == 1) {
      const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(work_ns_ / kItemNs), 1, kMaxItems);
      const int64_t chunk = wanted == 1 ? extent : (extent / wanted + w - 1) / w * w;
      c_.split(last, chunk);
      c_.bind(last + "_0", "threads");
      if (extent % chunk != 0) c_.peel(last + "_1");
      split_vectors(last + "_1", w);
      return;
    }
    std::vector<std::string> outer(dims_.begin(), dims_.end() - 1);
    parallelize(outer);
    split_vectors(last, w);
  }

  /// Vectors of a dim that may have a copy for a remainder, which gets its own remainder.
  void split_vectors(const std::string& dim, int64_t w) {
    const int64_t extent = c_.extent(dim);
    if (extent == 1) return;
    c_.split(dim, w);
    c_.vectorize(dim + "_1");
    c_.peel(dim + "_1");
  }

  void one_item() {
    c_.split(dims_[0], c_.extent(dims_[0]));
    c_.bind(dims_[0] + "_0", "threads");
  }

  // ------------------------------------------------------------------------------------------------------------ rows

  /// Loads and stores that are contiguous along the dim, less those that jump.
  static int contiguity(const std::vector<Access>& accesses, const Var* var) {
    int score = 0;
    for (const Access& access : accesses) {
      const std::optional<int64_t> stride = stride_of(access, var);
      if (stride == 1) score++;
      else if (!stride || *stride != 0) score--;
    }
    return score;
  }

  void rows() {
    std::vector<std::string> inner;  // one dim of each loop of the row
    int inside = 0;
    for (const Stmt& stmt : nest().body) {
      const auto* dims = dims_of(stmt);
      if (dims && !dims->empty()) inner.push_back(dims->front().var->name);
    }
    for (std::string& name : inner) {
      name = c_.fuse_all(name).back();
      const auto* var = dims_of(c_.find(name))->back().var.get();
      inside += contiguity(accesses_of({c_.find(name)}), var);
    }
    const loop::Dim across = nest().dims.back();
    const int outside = contiguity(accesses_of(nest().body), across.var.get());
    if (outside > inside && across.var->extent >= 4) {
      vectors_of_rows();
      return;
    }
    parallelize(dims_);
    std::vector<std::string> split, short_loops;  // those of a few vectors, whose iterations better overlap
    for (const std::string& name : inner) {
      const Stmt& stmt = c_.find(name);
      if (!is_plain(stmt)) continue;
      const int64_t extent = c_.extent(name);
      if (extent < 4) continue;
      const int64_t w = width(extent, lanes_, costly_);
      c_.split(name, w);
      c_.vectorize(name + "_1");
      split.push_back(name + "_1");
      if (extent % w == 0 && extent / w <= kShortLoop) short_loops.push_back(name + "_0");
    }
    keep_costly();
    for (const std::string& name : split) {
      if (c_.has(name)) c_.peel(name);
    }
    for (const std::string& name : short_loops) {
      if (c_.has(name)) c_.unroll(name);
    }
  }

  /// No loops within: what a vector dim may hold.
  static bool is_plain(const Stmt& stmt) {
    bool plain = !std::holds_alternative<Scan>(stmt.node);
    for (const Block* block : blocks_of(stmt)) {
      walk(*block, [&](const Stmt& inner) { plain = plain && dims_of(inner) == nullptr; });
    }
    return plain;
  }

  void vectors_of_rows() {
    const std::string last = dims_.back();
    const int64_t w = width(c_.extent(last), lanes_, true);
    std::vector<std::string> outer(dims_.begin(), dims_.end() - 1);
    const int64_t extent = c_.extent(last);
    c_.split(last, w);
    outer.push_back(last + "_0");
    parallelize(outer);
    c_.vectorize(last + "_1");
    if (extent % w != 0) c_.peel(last + "_1");
  }

  /// Values that cost much and are computed again in a later loop over the row are kept.
  void keep_costly() {
    const std::vector<std::string> names = [&] {
      std::vector<std::string> result;
      walk(c_.unit().body, [&](const Stmt& stmt) {
        const auto* reduce = std::get_if<Reduce>(&stmt.node);
        if (!reduce || reduce->combine) return;
        for (const State& state : reduce->states) {
          if (is_costly(state.value) && iterations(reduce->dims) * size_bytes(state.value->dtype) <= kKeptBytes)
            result.push_back(state.result->name);
        }
      });
      return result;
    }();
    for (const std::string& name : names) {
      const int before = count_costly(c_.unit());
      const loop::Unit trial = keep(c_.unit(), name, Space::registers);
      if (count_costly(trial) < before) c_.add("keep", {Chooser::arg(name), Chooser::arg(std::string("registers"))});
    }
  }

  static int count_costly(const loop::Unit& unit) {
    int count = 0;
    walk_exprs(unit.body, [&](const Expr& expr) {
      if (expr.kind != Expr::Kind::op) return;
      Expr bare = expr;
      bare.args.clear();
      count += is_costly(std::make_shared<const Expr>(bare));
    });
    return count;
  }

  // ------------------------------------------------------------------------------------------------------- reduction

  void reduction() {
    std::vector<std::string> reduces;
    walk(nest().body, [&](const Stmt& stmt) {
      const auto* reduce = std::get_if<Reduce>(&stmt.node);
      if (reduce && !reduce->dims.empty()) reduces.push_back(reduce->dims.front().var->name);
    });
    int inside = 0;
    int64_t longest = 1, total = 1;
    for (std::string& name : reduces) {
      name = c_.fuse_all(name).back();
      const Stmt& stmt = c_.find(name);
      inside += contiguity(accesses_of({stmt}), dims_of(stmt)->back().var.get());
      longest = std::max(longest, c_.extent(name));
      total = std::max(total, iterations(*dims_of(stmt)));
    }
    const loop::Dim across = nest().dims.back();
    const int outside = contiguity(accesses_of(nest().body), across.var.get());
    const bool flat = reduces.size() == 1 ||
                      std::all_of(reduces.begin(), reduces.end(), [&](const std::string& name) { return is_plain(c_.find(name)); });
    if (flat && longest >= lanes_ && (inside > outside || across.var->extent < 4)) {
      parallelize(dims_);
      for (const std::string& name : reduces) {
        if (c_.extent(name) >= lanes_) vectors(name, width(c_.extent(name), lanes_, costly_));
      }
      return;
    }
    if (total <= 32) {
      for (const std::string& name : reduces) {
        for (const std::string& dim : names_of(*dims_of(c_.find(name)))) c_.unroll(dim);
      }
    }
    if (across.var->extent >= 4 && !scatters()) {
      vectors_of_rows();
    } else {
      parallelize(dims_);
    }
  }

  void ordered() {
    const loop::Dim across = nest().dims.back();
    const std::vector<Access> accesses = accesses_of(nest().body);
    if (contiguity(accesses, across.var.get()) == static_cast<int>(accesses.size()) && across.var->extent >= lanes_) {
      vectors_of_rows();
    } else {
      parallelize(dims_);
    }
  }

  // ----------------------------------------------------------------------------------------------------- contraction

  struct Operands {
    Access a, b, c;
  };

  /// A convolution whose rows of results are shorter than a vector: its input is spread out (im2col), what is left is a product along contiguous memory.
  bool spread_window(const Loop& loop) {
    if (loop.dims.size() < 2 || loop.dims.back().var->extent >= 8 || loop.where) return false;
    const Reduce* reduce = nullptr;
    for (const Stmt& stmt : loop.body) {
      if (const auto* found = std::get_if<Reduce>(&stmt.node)) reduce = found;
    }
    if (!reduce || reduce->dims.size() < 2 || iterations(reduce->dims) < 64) return false;
    const Let* window = nullptr;
    bool contiguous = false;
    int64_t reuse = 1;
    for (const Stmt& stmt : reduce->body) {
      const auto* let = std::get_if<Let>(&stmt.node);
      if (!let || let->value->kind != Expr::Kind::load) continue;
      const Access access = accesses_of(let->value)[0];
      if (access.flat.uses_scalars()) return false;
      if (access.flat.uses(loop.dims.back().var.get())) {
        if (window) return false;
        window = let;
        for (const loop::Dim& dim : loop.dims) {
          if (!moves(access, dim.var.get())) reuse *= dim.var->extent;
        }
      } else {  // the weights: contiguous along the whole sum
        int64_t stride = 1;
        contiguous = true;
        for (size_t i = reduce->dims.size(); i-- > 0;) {
          contiguous = contiguous && (reduce->dims[i].var->extent == 1 || stride_of(access, reduce->dims[i].var.get()) == stride);
          stride *= reduce->dims[i].var->extent;
        }
      }
    }
    if (!window || !contiguous || reuse < 8) return false;
    const std::string name = window->scalar->name, spread = loop.dims[0].var->name;
    std::string copied;
    for (const loop::Dim& dim : loop.dims) {
      if (copied.empty() && accesses_of(window->value)[0].flat.uses(dim.var.get())) copied = dim.var->name + "_at";
    }
    c_.add("compute_at", {Chooser::arg(name), Chooser::arg(std::string("top"))});
    CpuNest(c_, copied).run();
    CpuNest(c_, spread).run(false);
    return true;
  }

  const Reduce& reduce() const {
    for (const Stmt& stmt : nest().body) {
      if (const auto* found = std::get_if<Reduce>(&stmt.node)) return *found;
    }
    std::abort();  // kind_of found one
  }

  Operands operands() const {
    Operands result;
    std::vector<Access> loads = accesses_of(Block{Stmt{reduce()}});
    result.a = loads[0];
    result.b = loads[1];
    for (const Access& access : accesses_of(nest().body)) {
      if (access.store) result.c = access;
    }
    return result;
  }

  static bool moves(const Access& access, const Var* var) { return access.flat.uses(var); }

  struct TileSize {
    int64_t rows = 1, vectors = 1;
  };

  static bool is_power(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

  /// The register tile that spends least, in half cycles: two products, or two loads, a cycle, and sums that wait four cycles for their last product.
  /// Accumulators, the vectors and one broadcast fit in the registers. Columns that are left over become a narrower tile of their own, or, where `padded`,
  /// are computed and dropped.
  TileSize best_tile(int64_t rows, int64_t columns, int64_t lanes, bool padded) const {
    TileSize best;
    double least = 0;
    const auto tile_cost = [](int64_t m, int64_t v) {
      return static_cast<double>(std::max<int64_t>({m * v, m + v, 8})) + 0.1 * static_cast<double>(m + v);
    };
    for (int64_t v = 1; v <= 8; v++) {
      if (v > 1 && (v - 1) * lanes >= columns) continue;
      const int64_t width = padded ? v * lanes : std::min(v * lanes, columns);
      const int64_t whole = columns / width, rest = columns % width;
      if (!padded && rest > 0 && !is_power(width)) continue;
      // Vectors of other than a power of two elements end as single elements.
      const int64_t narrow = rest == 0 ? 0 : padded ? v : is_power(rest) ? std::max<int64_t>(1, rest / lanes) : rest;
      const int64_t wide = width % lanes == 0 ? v : is_power(width) ? 1 : width;
      for (int64_t m = 1; m <= std::min<int64_t>(rows, 12); m++) {
        if (m * v + v + 1 > c_.target().vector_registers) continue;
        const auto band = [&](int64_t height) {
          return static_cast<double>(whole) * tile_cost(height, wide) + (narrow > 0 ? tile_cost(height, narrow) : 0);
        };
        const double cost = static_cast<double>(rows / m) * band(m) + (rows % m > 0 ? band(rows % m) : 0);
        if (least == 0 || cost < least - 1e-9) {
          least = cost;
          best = {m, v};
        }
      }
    }
    return best;
  }

  /// Several registers of a tile's row: one vector where their elements are a power of two, otherwise unrolled vectors that are, since LLVM takes others
  /// apart into elements wherever they live longer than a block of code. Gives the names.
  std::vector<std::string> split_columns(const std::string& dim, int64_t columns) {
    if (is_power(columns) || columns % lanes_ != 0) return {dim};
    c_.split(dim, columns & -columns);
    return {dim + "_0", dim + "_1"};
  }

  void contraction() {
    const std::string sum = reduce().states[0].result->name;
    c_.fuse_all(reduce().dims.front().var->name);
    const Operands o = operands();
    const std::vector<loop::Dim> dims = nest().dims, reduced = reduce().dims;

    // Vectors along a dim of the map that is contiguous in the result and in an operand (constant in the other).
    const loop::Dim* vector = nullptr;
    const auto unit_or_none = [&](const Access& access, const Var* var) {
      const std::optional<int64_t> stride = stride_of(access, var);
      return stride && (*stride == 0 || *stride == 1);
    };
    for (const loop::Dim& dim : dims) {
      const Var* var = dim.var.get();
      if (dim.var->extent >= 4 && stride_of(o.c, var) == 1 && unit_or_none(o.a, var) && unit_or_none(o.b, var)) vector = &dim;
    }
    const loop::Dim& last_reduced = reduced.back();
    const bool along_k =
        stride_of(o.a, last_reduced.var.get()) == 1 && stride_of(o.b, last_reduced.var.get()) == 1 && last_reduced.var->extent >= 8;
    if (!vector && along_k) {
      partial_sums(sum, o, dims, last_reduced);
      return;
    }
    if (!vector) vector = &dims.back();
    if (!staged_tile(sum, o, dims, reduced, *vector)) register_tile(sum, o, dims, reduced, *vector);
  }

  /// The part of a split of leading dims that goes to the pool, and what stays inside. Remainders are masked.
  struct Items {
    std::vector<std::string> parallel, inside;
  };
  Items split_items(const std::vector<std::string>& outer, int64_t most_inside) {
    const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(work_ns_ / kItemNs), 1, kMaxItems);
    Items items;
    int64_t count = 1;
    for (size_t i = 0; i < outer.size(); i++) {
      const int64_t extent = c_.extent(outer[i]), need = (wanted + count - 1) / count;
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

  /// A convolution: what an item reads of the image is copied first, with its padding, so that the inner loops load whole vectors without a mask.
  bool staged_tile(const std::string& sum, const Operands& o, const std::vector<loop::Dim>& dims, const std::vector<loop::Dim>& reduced,
                   const loop::Dim& vector) {
    const bool a_moves = moves(o.a, vector.var.get());
    const Access& moving = a_moves ? o.a : o.b;
    const Access& other = a_moves ? o.b : o.a;
    const std::optional<int64_t> stride = stride_of(moving, vector.var.get());
    if (moves(other, vector.var.get()) || moving.buffer == other.buffer || !stride || *stride < 1) return false;
    const bool odd = vector.var->extent % lanes_ != 0 && reduced.size() > 1;  // part of a vector would load element by element
    if (!moving.guarded && *stride == 1 && !odd) return false;
    const size_t last = moving.indices.size() - 1;
    if (moving.indices[last].coefficient_of(vector.var.get()) != *stride) return false;
    for (const Index& index : moving.indices) {
      for (const Term& term : index.terms()) {
        if (term.atom.kind != Atom::Kind::var || term.coefficient < 0) return false;
      }
    }
    const loop::Dim* rows = rows_dim(dims, moving, other, vector.var.get());
    if (!rows) return false;
    const std::string v = vector.var->name, u = rows->var->name;

    // The dims that an item covers: all but rows and vector, those that walk over the image last.
    std::vector<std::string> outer;
    const loop::Dim* walk_dim = nullptr;
    for (const loop::Dim& dim : dims) {
      const std::string& name = dim.var->name;
      if (name == v || name == u) continue;
      const bool batch = !moves(moving, dim.var.get()) || moves(other, dim.var.get());
      if (!batch && dim.var->extent > 1) walk_dim = &dim;
      outer.push_back(name);
    }
    if (walk_dim) {
      std::erase(outer, walk_dim->var->name);
      outer.push_back(walk_dim->var->name);
    }
    if (outer.empty()) return false;
    // How many steps of the last one fit the copy into the second-level cache's half.
    const TileSize size = best_tile(rows->var->extent, vector.var->extent, lanes_, true);
    const int64_t columns = size.vectors * lanes_;
    const auto copy_bytes = [&](int64_t steps) {
      int64_t elements = 1;
      for (const Index& index : moving.indices) {
        int64_t length = 1;
        for (const Term& term : index.terms()) {
          int64_t extent = 1;
          for (const loop::Dim& dim : reduced) {
            if (dim.var == term.atom.var) extent = dim.var->extent;
          }
          if (term.atom.var == vector.var) extent = (vector.var->extent + columns - 1) / columns * columns;
          if (walk_dim && term.atom.var == walk_dim->var) extent = steps;
          length += term.coefficient * (extent - 1);
        }
        elements *= length;
      }
      return elements * size_bytes(moving.buffer->dtype);
    };
    int64_t steps = walk_dim ? walk_dim->var->extent : 1;
    while (steps > 1 && copy_bytes(steps) > c_.target().l2_bytes / 2) steps = (steps + 1) / 2;
    if (copy_bytes(steps) > c_.target().l2_bytes / 2) return false;

    const Items items = split_items(outer, steps);
    if (columns > vector.var->extent) c_.add("split", {Chooser::arg(v), Chooser::arg(columns), Chooser::key("tail", "pad")});
    else c_.split(v, columns);
    const std::vector<std::string> registers = split_columns(v + "_1", columns);
    c_.split(u, size.rows);
    std::vector<std::string> order = items.parallel;
    order.push_back(u + "_0");
    order.insert(order.end(), items.inside.begin(), items.inside.end());
    order.insert(order.end(), {v + "_0", u + "_1"});
    order.insert(order.end(), registers.begin(), registers.end());
    c_.reorder(order);
    for (const std::string& name : items.parallel) c_.bind(name, "threads");
    if (rows->var->extent % size.rows != 0) c_.peel(u + "_1");
    unroll_steps(reduced);
    tile_registers(sum, u + "_1", registers);
    std::vector<Argument> arguments{Chooser::arg(moving.buffer->name), Chooser::arg(std::string("scratch")),
                                    Chooser::key("at", items.parallel.back())};
    if (*stride > 1) arguments.push_back({"phases", *stride});
    c_.add("stage", std::move(arguments));
    if (*stride == 1) {
      const std::string copied = moving.buffer->name + "_" + static_cast<char>('a' + last);
      const int64_t extent = c_.extent(copied);
      c_.split(copied, std::min<int64_t>(extent, extent % 16 == 0 ? 16 : lanes_));
      c_.vectorize(copied + "_1");
      c_.peel(copied + "_1");
    }
    return true;
  }

  /// Unrolls all steps of a small window, or a few of a long sum.
  void unroll_steps(const std::vector<loop::Dim>& reduced) {
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

  /// The dim to unroll: the longest along which the operand that moves with `vector` stands still.
  static const loop::Dim* rows_dim(const std::vector<loop::Dim>& dims, const Access& moving, const Access& other, const Var* vector) {
    const loop::Dim* rows = nullptr;
    for (const loop::Dim& dim : dims) {
      if (dim.var.get() == vector || moves(moving, dim.var.get()) || !moves(other, dim.var.get())) continue;
      if (!rows || dim.var->extent > rows->var->extent) rows = &dim;
    }
    return rows;
  }

  void register_tile(const std::string& sum, const Operands& o, const std::vector<loop::Dim>& dims, const std::vector<loop::Dim>& reduced,
                     const loop::Dim& vector) {
    const bool a_moves = moves(o.a, vector.var.get());
    const Access& moving = a_moves ? o.a : o.b;
    const Access& other = a_moves ? o.b : o.a;
    const loop::Dim* rows = rows_dim(dims, moving, other, vector.var.get());
    const TileSize size = best_tile(rows ? rows->var->extent : 1, vector.var->extent, lanes_, false);
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
    tile_registers(sum, rows ? u + "_1" : "", registers);
  }

  /// The register tile of the sum: rows (none: one), unrolled registers of a row, elements of a register.
  void tile_registers(const std::string& sum, const std::string& row, const std::vector<std::string>& registers) {
    std::vector<std::string> dims = registers;
    if (!row.empty()) dims.insert(dims.begin(), row);
    std::vector<Argument> arguments{Chooser::arg(sum)};
    for (const std::string& dim : dims) arguments.push_back(Chooser::arg(dim));
    c_.add("tile", std::move(arguments));
    for (size_t i = 0; i + 1 < dims.size(); i++) c_.unroll(dims[i]);
    c_.vectorize(dims.back());
  }

  void partial_sums(const std::string& sum, const Operands& o, const std::vector<loop::Dim>& dims, const loop::Dim& reduced) {
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
    std::vector<Argument> arguments{Chooser::arg(sum)};
    for (const std::string& name : inner) arguments.push_back(Chooser::arg(name));
    arguments.push_back(Chooser::arg(k + "_1"));
    c_.add("tile", std::move(arguments));
    for (const std::string& name : inner) c_.unroll(name);
    c_.vectorize(k + "_1");
  }

  Chooser& c_;
  std::string first_;
  std::vector<std::string> dims_;
  double work_ns_ = 0;
  int64_t lanes_ = 8;
  bool costly_ = false;
};

}  // namespace

void choose_cpu_nest(Chooser& chooser, const std::string& first_dim) { CpuNest(chooser, first_dim).run(); }

}  // namespace tcc::schedule
