// Iterations over threads and vectors: what strategies for CUDA are made of.
#include <algorithm>

#include "schedule/cuda/nest.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

std::string fuse_everything(Chooser& chooser, const std::vector<std::string>& dims) {
  std::string name = dims[0];
  for (size_t i = 1; i < dims.size(); i++) name = chooser.fuse(name, dims[i]);
  return name;
}

void spread_over_threads(Chooser& c, const std::vector<std::string>& dims, int64_t threads, int64_t per_thread) {
  const std::string all = fuse_everything(c, dims);
  const int64_t extent = c.extent(all);
  const int64_t warp = c.target().warp_threads;
  threads = std::min(threads, std::max(warp, align_up(extent, warp)));
  std::vector<int64_t> options{threads};
  for (const int64_t other : {threads * 2, threads / 2}) {
    if (other >= 2 * warp && other <= kThreads * 2 && other <= extent) options.push_back(other);
  }
  threads = options[c.decide("threads of a block", options.size(), 0)];
  c.split(all, threads * per_thread);
  c.bind(all + "_0", "block");
  if (per_thread == 1) {
    c.bind(all + "_1", "thread");
    return;
  }
  if (extent % (threads * per_thread) != 0) c.peel(all + "_1");
  c.split(all + "_1", threads);
  c.unroll(all + "_1_0");
  c.bind(all + "_1_1", "thread");
}

namespace {

/// Whether the access runs along a row of its buffer, to whose end padding follows: a vector that begins in the row may end in the padding.
bool ends_in_padding(const Access& access, const loop::Dim& dim) {
  const loop::Buffer& buffer = *access.buffer;
  return buffer.row_padding() > 0 && dim.var->extent == buffer.extents.back() && access.indices.back() == Index(dim.var);
}

}  // namespace

namespace {

/// How an access moves from one of `width` neighbours along the dim to the next: 1 or 0 elements; nothing where it does something else, or where such a group
/// does not begin at a multiple of its width. Within a division, as when the dim is a row of several heads, it may do so in groups.
std::optional<int64_t> step_in_groups(const Access& access, const loop::Dim& dim, int64_t width) {
  const auto [flat, place] = in_groups(access.flat, dim.var.get(), width);
  bool inside = false;
  const int64_t step = flat.coefficient_of(place.get(), &inside);
  if (inside || (step != 0 && step != 1)) return std::nullopt;
  if (step == 0) return step;
  bool multiple = flat.constant() % width == 0;
  for (const Term& term : flat.terms()) {
    const bool own = term.atom.kind == Atom::Kind::var && term.atom.var == place;
    multiple = multiple && (own || term.coefficient % width == 0);
  }
  return multiple ? std::optional(step) : std::nullopt;
}

/// Whether all accesses take `width` neighbours at once, and one of them is moved so.
bool takes_vectors(const Chooser& chooser, const std::vector<Access>& accesses, const loop::Dim& dim, bool need_store, int64_t width) {
  bool contiguous = false, padded = true;
  for (const Access& access : accesses) {
    const std::optional<int64_t> step = step_in_groups(access, dim, width);
    if (!step || (*step == 0 && access.store) || (access.guarded && access.store)) return false;  // a scatter is of one element
    if (*step == 0) continue;
    padded = padded && ends_in_padding(access, dim);
    if (access.guarded && guard_varies(access, dim.var.get(), width)) return false;
    if (width > chooser.target().vector_bytes / size_bytes(access.buffer->dtype)) return false;
    contiguous |= access.store || !need_store;
  }
  return contiguous && (padded || dim.var->extent % width == 0);
}

}  // namespace

int64_t vector_width(const Chooser& chooser, const std::vector<Access>& accesses, const loop::Dim& dim, bool need_store) {
  for (const int64_t width : {8, 4, 2}) {
    if (takes_vectors(chooser, accesses, dim, need_store, width)) return width;
  }
  return 1;
}

void load_together(Chooser& c, const std::string& first) {
  const std::string steps = c.fuse_all(first).back();
  const int64_t extent = c.extent(steps);
  if (extent <= 32) {
    c.unroll(steps);
    return;
  }
  for (const int64_t together : {16, 12, 8, 4}) {
    if (extent % together != 0) continue;
    c.split(steps, together);
    c.unroll(steps + "_1");
    return;
  }
}

}  // namespace tcc::schedule::cuda
