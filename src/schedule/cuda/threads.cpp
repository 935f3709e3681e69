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

int64_t vector_width(const Chooser& chooser, const std::vector<Access>& accesses, const loop::Dim& dim, bool need_store) {
  int64_t v = 8;
  bool contiguous = false, padded = true;
  for (const Access& access : accesses) {
    const std::optional<int64_t> stride = stride_of(access, dim.var.get());
    if (!stride || (*stride != 0 && *stride != 1)) return 1;
    if (*stride == 0) {
      if (access.store) return 1;
      continue;
    }
    padded = padded && ends_in_padding(access, dim);
    if (access.guarded && access.store) return 1;  // a scatter is of one element
    while (access.guarded && v > 1 && guard_varies(access, dim.var.get(), v)) v /= 2;
    contiguous |= access.store || !need_store;
    v = std::min<int64_t>(v, chooser.target().vector_bytes / size_bytes(access.buffer->dtype));
    while (v > 1) {  // every other part of the offset must be a multiple
      bool multiple = access.flat.constant() % v == 0;
      for (const Term& term : access.flat.terms()) {
        const bool own = term.atom.kind == Atom::Kind::var && term.atom.var == dim.var;
        multiple = multiple && (own || term.coefficient % v == 0);
      }
      if (multiple) break;
      v /= 2;
    }
  }
  if (!contiguous) return 1;
  while (v > 1 && !padded && dim.var->extent % v != 0) v /= 2;
  return std::max<int64_t>(v, 1);
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
