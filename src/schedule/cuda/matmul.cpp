#include "schedule/cuda/matmul.h"

#include <numeric>

#include "tcc/loop/tensor_map.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

WhyNot misfit_of_factors(const Contraction& c, bool takes, int64_t shortest_sum) {
  const DType dtype = c.a.dtype();
  if (c.a.buffer == c.b.buffer) return "both factors are one buffer";
  if (!takes) return "the factors are " + std::string(tcc::name_of(dtype)) + " and " + std::string(tcc::name_of(c.b.dtype()));
  if (c.dtype != sum_dtype(dtype)) return "the sum is in " + std::string(tcc::name_of(c.dtype));
  if (c.length() < shortest_sum) return "a sum of " + std::to_string(c.length()) + " is short";
  return std::nullopt;
}

WhyNot misfit_of_copies(const Unit& unit, const std::set<std::string>& factors) {
  WhyNot why_not;
  walk(unit.body, [&](const Stmt& stmt) {
    const auto* copy = std::get_if<Copy>(&stmt.node);
    if (!copy || why_not || factors.count(copy->source->name) == 0) return;
    if (const std::vector<std::string> faults = faults_of_tensor_copy(*copy); !faults.empty()) why_not = faults.front();
  });
  return why_not;
}

bool ends_with_buffer(const Factor& factor, int axis, const VarRef& k) {
  return factor.indices[static_cast<size_t>(axis)] == Index(k) && factor.buffer->extents[static_cast<size_t>(axis)] == k->extent;
}

MatmulShape shape_of(const Contraction& c, const Matmul& mm, int64_t step, double flops_per_ns, double rate_alone, const Target& target) {
  MatmulShape shape{mm.batches(), mm.m->extent, mm.n->extent, c.length(), step, flops_per_ns / target.cores, 0, false, rate_alone};
  shape.bytes_read = bytes_of(*c.a.buffer) + bytes_of(*c.b.buffer);
  return shape;
}

namespace {

/// Tiles that are computed at a time share rows of a and columns of b in the L2 cache: groups of some rows of tiles run down the columns together. How many
/// rows: those with which tiles of the whole chip read the fewest rows and columns; not such that the groups, some of them not full, take one more wave.
int64_t raster_rows(const Chooser& chooser, const TiledDim& m, const TiledDim& n, int64_t batches) {
  const int64_t blocks = chooser.target().cores, rows_of_tiles = chooser.extent(m.name + "_0");
  const int64_t others = chooser.extent(n.name + "_0") * batches;
  int64_t best = rows_of_tiles, least = 0;
  for (int64_t rows = 4; rows <= 32; rows *= 2) {
    const int64_t read = rows * m.tile + ceil_div(blocks, rows) * n.tile;
    if (ceil_div(align_up(rows_of_tiles, rows) * others, blocks) > ceil_div(rows_of_tiles * others, blocks)) continue;
    if (least == 0 || read < least) best = rows, least = read;
  }
  return best;
}
/// Bytes of one access of a copy, at most.
constexpr int64_t kWidestCopy = 16;

}  // namespace

std::vector<std::string> order_tiles(Chooser& chooser, const std::vector<std::string>& batch, const TiledDim& tiled_m,
                                     const TiledDim& tiled_n, const std::vector<std::string>& inside) {
  const std::string& m = tiled_m.name;
  const std::string& n = tiled_n.name;
  std::vector<std::string> outer = batch;
  int64_t batches = 1;
  for (const std::string& dim : batch) batches *= chooser.extent(dim);
  const int64_t rows = raster_rows(chooser, tiled_m, tiled_n, batches);
  if (chooser.extent(m + "_0") > rows && chooser.extent(n + "_0") > 1) {
    chooser.split(m + "_0", rows);
    outer.insert(outer.end(), {m + "_0_0", n + "_0", m + "_0_1"});
  } else {
    outer.insert(outer.end(), {m + "_0", n + "_0"});
  }
  std::vector<std::string> order = outer;
  order.insert(order.end(), inside.begin(), inside.end());
  chooser.reorder(order);
  return outer;
}

void bind_tiles(Chooser& chooser, const std::vector<std::string>& batch, const TiledDim& m, const TiledDim& n,
                const std::vector<std::string>& inside) {
  for (const std::string& dim : order_tiles(chooser, batch, m, n, inside)) chooser.bind(dim, "block");
}

void tile_per_thread(Chooser& chooser, const Contraction& c, const std::vector<std::string>& per_thread) {
  std::vector<Argument> tiled{Chooser::arg(c.accumulator)};
  for (const std::string& dim : per_thread) tiled.push_back(Chooser::arg(dim));
  chooser.add("tile", std::move(tiled));
}

void stage_factor(Chooser& chooser, const Factor& factor, const std::string& at, int64_t swizzle, int64_t pad) {
  std::vector<Argument> arguments{Chooser::arg(factor.buffer->name), Chooser::arg("shared"), Chooser::key("at", at)};
  if (swizzle > 0) arguments.push_back({"swizzle", swizzle});
  if (pad > 0) arguments.push_back({"pad", pad});
  chooser.add("stage", std::move(arguments));
}

int64_t copy_bytes(const Factor& factor, int64_t last_tile) {
  const Buffer& buffer = *factor.buffer;
  const int64_t size = size_bytes(buffer.dtype), last = static_cast<int64_t>(buffer.extents.size()) - 1;
  const std::vector<int64_t> strides = buffer.element_strides();
  if (strides[static_cast<size_t>(last)] != 1) return size;
  int64_t elements = std::gcd(kWidestCopy / size, std::gcd(last_tile, buffer.extents[static_cast<size_t>(last)]));
  const Index& index = factor.indices[static_cast<size_t>(last)];
  elements = std::gcd(elements, index.constant());
  for (const Term& term : index.terms()) {
    if (term.coefficient != 1) elements = std::gcd(elements, term.coefficient);
  }
  for (int64_t axis = 0; axis < last; axis++) elements = std::gcd(elements, strides[static_cast<size_t>(axis)]);
  return elements * size;
}

int64_t bytes_of(const Buffer& buffer) { return storage_bytes(buffer.dtype, buffer.count()); }

}  // namespace tcc::schedule::cuda
