#include "schedule/cuda/matmul.h"

#include <numeric>

namespace tcc::schedule::cuda {

using namespace tcc::loop;

bool ends_with_buffer(const Factor& factor, int axis, const VarRef& k) {
  return factor.indices[static_cast<size_t>(axis)] == Index(k) && factor.buffer->extents[static_cast<size_t>(axis)] == k->extent;
}

MatmulShape shape_of(const Contraction& c, const Matmul& mm, int64_t step, double flops_per_ns, double rate_alone, const Target& target) {
  MatmulShape shape{mm.batches(), mm.m->extent, mm.n->extent, c.length(), step, flops_per_ns / target.cores, 0, false, rate_alone};
  shape.bytes_read = bytes_of(*c.a.buffer) + bytes_of(*c.b.buffer);
  return shape;
}

namespace {

/// Blocks of rows next to each other share columns of b in the L2 cache: groups of 8 rows of tiles run down the columns together.
constexpr int64_t kRasterRows = 8;
/// Bytes of one access of a copy, at most.
constexpr int64_t kWidestCopy = 16;

}  // namespace

void bind_tiles(Chooser& chooser, const std::vector<std::string>& batch, const std::string& m, const std::string& n,
                const std::vector<std::string>& inside) {
  std::vector<std::string> outer = batch;
  if (chooser.extent(m + "_0") > kRasterRows && chooser.extent(n + "_0") > 1) {
    chooser.split(m + "_0", kRasterRows);
    outer.insert(outer.end(), {m + "_0_0", n + "_0", m + "_0_1"});
  } else {
    outer.insert(outer.end(), {m + "_0", n + "_0"});
  }
  std::vector<std::string> order = outer;
  order.insert(order.end(), inside.begin(), inside.end());
  chooser.reorder(order);
  for (const std::string& dim : outer) chooser.bind(dim, "block");
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

int64_t bytes_of(const Buffer& buffer) { return buffer.count() * size_bytes(buffer.dtype); }

}  // namespace tcc::schedule::cuda
