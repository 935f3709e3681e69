// Transposes on CUDA: a pointwise nest whose results lie along one dim while operands lie along another. A block takes a square of both dims, copies the
// transposed operands to shared memory along their own dim, and reads them there along the dim of the results: warps touch whole sectors of memory on both sides.
//
//   split(i, 64) split(j, 64) reorder(i_0, j_0, i_1, j_1) bind(i_0, block) bind(j_0, block) stage(a0, shared, at=j_0, pad=1) fuse(i_1, j_1) ...
//
// Rows of the square are padded by four bytes, so that a column lies in different banks.
#include <algorithm>
#include <optional>

#include "schedule/cuda/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Fewer elements are a matter of latency, not of memory sectors.
constexpr int64_t kWorthTiles = 1 << 15;
/// A side of a square that is worth it.
constexpr int64_t kShortestSide = 8;

class Transpose {
 public:
  Transpose(Chooser& chooser, const std::string& first) : c_(chooser), dims_(std::get<Loop>(chooser.find(first).node).dims) {
    const Loop& nest = std::get<Loop>(c_.find(first).node);
    masked_ = nest.where != nullptr;
    accesses_ = accesses_of(nest.body);
  }

  WhyNot run() {
    if (masked_) return "it is masked";
    if (dims_.size() < 2 || iterations(dims_) < kWorthTiles) return "it has one dim, or few elements";
    const loop::Dim written = dims_.back();
    for (const Access& access : accesses_) {
      if (access.store && stride_of(access, written.var.get()) != 1) return "results are not neighbours along the last dim";
    }
    const loop::Dim* read = nullptr;
    for (const Access& access : accesses_) {
      if (!transposed_along(access, written)) continue;
      for (const loop::Dim& dim : dims_) {
        if (dim.var != written.var && stride_of(access, dim.var.get()) == 1) read = &dim;
      }
      if (read) break;
    }
    if (!read) return "no operand is contiguous along another dim than the results";
    if (read->var->extent < kShortestSide || written.var->extent < kShortestSide) return "a side is short";
    const std::vector<Tiled> rows = group(*read), columns = group(written);
    const std::vector<BufferRef> transposed = transposed_buffers(*read, written, rows, columns);
    if (transposed.empty()) return "the operands read along another dim are not plain";
    schedule(rows, columns, transposed);
    return std::nullopt;
  }

 private:
  /// A dim of the square: whole or a part of it.
  struct Tiled {
    VarRef var;
    int64_t factor = 1;
  };

  static bool transposed_along(const Access& access, const loop::Dim& written) {
    if (access.store || access.guarded || access.buffer->space != Space::global) return false;
    const std::optional<int64_t> stride = stride_of(access, written.var.get());
    return stride && *stride > 1;
  }

  /// One side of the square: part of the dim, or all of a short one with a part of the dim outside of it.
  std::vector<Tiled> group(const loop::Dim& dim) const {
    const int64_t side = iterations(dims_) / (64 * 64) >= 2 * c_.target().cores ? 64 : 32;
    if (dim.var->extent > side / 2) {  // squares of one size, hardly larger than needed
      const int64_t squares = ceil_div(dim.var->extent, side);
      return {{dim.var, align_up(ceil_div(dim.var->extent, squares), int64_t{4})}};
    }
    for (size_t i = 1; i < dims_.size(); i++) {
      if (dims_[i].var != dim.var) continue;
      const VarRef outside = dims_[i - 1].var;
      bool neighbours = true;
      for (const Access& access : accesses_) {
        const std::optional<int64_t> inner = stride_of(access, dim.var.get()), outer = stride_of(access, outside.get());
        neighbours = neighbours && inner && outer && (*inner == 0 || *outer == *inner * dim.var->extent);
      }
      if (neighbours) return {{outside, std::min(side / dim.var->extent, outside->extent)}, {dim.var, dim.var->extent}};
    }
    return {{dim.var, dim.var->extent}};
  }

  /// Buffers that are only read transposed, each dim of the square alone on an axis.
  std::vector<BufferRef> transposed_buffers(const loop::Dim& read, const loop::Dim& written, const std::vector<Tiled>& rows,
                                            const std::vector<Tiled>& columns) const {
    std::vector<BufferRef> result;
    for (const Access& access : accesses_) {
      const bool known = std::find(result.begin(), result.end(), access.buffer) != result.end();
      if (known || !transposed_along(access, written) || stride_of(access, read.var.get()) != 1) continue;
      bool fits = true;
      for (const Access& other : accesses_) fits = fits && (other.buffer != access.buffer || other.indices == access.indices);
      std::vector<Tiled> tiled = rows;
      tiled.insert(tiled.end(), columns.begin(), columns.end());
      for (const Index& index : access.indices) {
        int here = 0;
        for (const Tiled& dim : tiled) {
          if (!index.uses(dim.var.get())) continue;
          bool inside = false;
          fits = fits && index.coefficient_of(dim.var.get(), &inside) == 1 && !inside;
          here++;
        }
        fits = fits && here <= 1;
      }
      if (fits && result.size() < 3) result.push_back(access.buffer);
    }
    return result;
  }

  void schedule(const std::vector<Tiled>& rows, const std::vector<Tiled>& columns, const std::vector<BufferRef>& transposed) {
    std::vector<std::string> outer, inner_rows, inner_columns;
    for (const loop::Dim& dim : dims_) {
      const std::string name = dim.var->name;
      const auto part_of = [&](const std::vector<Tiled>& side, std::vector<std::string>& inner) {
        for (const Tiled& tiled : side) {
          if (tiled.var != dim.var) continue;
          if (tiled.factor >= dim.var->extent) {
            inner.push_back(name);
          } else {
            c_.split(name, tiled.factor);
            outer.push_back(name + "_0");
            inner.push_back(name + "_1");
          }
          return true;
        }
        return false;
      };
      if (!part_of(rows, inner_rows) && !part_of(columns, inner_columns)) outer.push_back(name);
    }
    if (outer.empty()) {  // all of it is one square
      c_.split(inner_rows[0], c_.extent(inner_rows[0]));
      outer.push_back(inner_rows[0] + "_0");
      inner_rows[0] += "_1";
    }
    std::vector<std::string> inner = inner_rows, order = outer;
    inner.insert(inner.end(), inner_columns.begin(), inner_columns.end());
    order.insert(order.end(), inner.begin(), inner.end());
    c_.reorder(order);
    for (const std::string& name : outer) c_.bind(name, "block");
    for (const BufferRef& buffer : transposed) {
      const int64_t pad = std::max<int64_t>(1, 4 / size_bytes(buffer->dtype));
      c_.add("stage", {Chooser::arg(buffer->name), Chooser::arg(std::string("shared")), Chooser::key("at", outer.back()), {"pad", pad}});
    }
    const std::string square = fuse_everything(c_, inner);
    const int64_t warp = c_.target().warp_threads, threads = std::min(kThreads, align_up(c_.extent(square), warp));
    c_.split(square, threads);
    c_.unroll(square + "_0");
    c_.bind(square + "_1", "thread");
  }

  Chooser& c_;
  const std::vector<loop::Dim> dims_;
  std::vector<Access> accesses_;
  bool masked_ = false;
};

}  // namespace

WhyNot transpose(CudaNest& nest) { return Transpose(nest.chooser, nest.first()).run(); }

}  // namespace tcc::schedule::cuda
