// Pointwise nests on the host: dims fused while indices stay sums, the last one in vectors, chunks to the pool. And what all nests there need: how much work
// they are, and how they are shared out.
#include <algorithm>

#include "schedule/cost.h"
#include "schedule/cpu/nest.h"
#include "tcc/loop/edit.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule::cpu {

using namespace tcc::loop;

void CpuNest::prepare() {
  choose_items();
  dims_ = c_.fuse_all(first_);
  lanes_ = widest_lanes();
  costly_ = costly_body();
  switch (kind_) {
    case NestKind::rows: prepare_rows(); break;
    case NestKind::reduction: prepare_reduction(); break;
    case NestKind::dot_product:
    case NestKind::contraction: prepare_contraction(); break;
    case NestKind::computed_factor: prepare_contraction(); break;
    default: break;
  }
}

double CpuNest::single_core_ns() const {
  const Work work = measure_work({c_.find(first_)});
  const Target& target = c_.target();
  const double per_core = target.flops_per_ns / 2 / target.cores;  // multiply-adds; loads and addresses take half of the time
  return work.ops / (per_core / 2) + work.load_bytes / target.mixed_load_bytes_per_ns;
}

void CpuNest::choose_items() {
  const int64_t items = std::clamp<int64_t>(static_cast<int64_t>(single_core_ns() / kItemNs), 1, kMaxItems);
  std::vector<int64_t> options{items, 2 * items};
  if (items > 1) options.push_back(items / 2);
  wanted_items_ = options[c_.decide("items of the pool", options.size(), 0)];
}

int64_t CpuNest::widest_lanes() const {
  int64_t widest = 4;
  for (const Access& access : accesses_of(nest().body)) {
    if (access.store) widest = std::max<int64_t>(widest, size_bytes(access.buffer->dtype));
  }
  return c_.target().vector_bytes / widest;
}

int64_t CpuNest::width(int64_t extent, int64_t lanes, bool costly) {
  const int64_t most = lanes * (costly ? 2 : 4);
  for (int64_t w = most; w >= lanes; w /= 2) {
    if (extent % w == 0 && extent >= w) return w;
  }
  return extent >= 8 * lanes ? std::min(most, 2 * lanes) : std::min(extent, lanes);
}

void CpuNest::parallelize(const std::vector<std::string>& outer) {
  const int64_t wanted = wanted_items();
  int64_t items = 1;
  for (size_t i = 0; i < outer.size(); i++) {
    const int64_t extent = c_.extent(outer[i]), need = ceil_div(wanted, items);
    if (need == 1 && i > 0) return;
    if (extent <= need * 3 / 2 || extent == 1) {
      c_.bind(outer[i], "parallel");
      items *= extent;
      continue;
    }
    const int64_t chunk = nice_chunk(extent, need);
    c_.split(outer[i], chunk);
    c_.bind(outer[i] + "_0", "parallel");
    if (extent % chunk != 0) c_.peel(outer[i] + "_1");
    return;
  }
}

int64_t CpuNest::nice_chunk(int64_t extent, int64_t pieces) {
  const int64_t ideal = ceil_div(extent, pieces);
  if (pieces <= 1) return extent;
  constexpr int64_t kTried = 1 << 20;  // a long prime extent has none
  for (int64_t chunk = ideal; chunk <= ideal * 2 && chunk <= extent / 2 && chunk - ideal < kTried; chunk++) {
    if (extent % chunk == 0) return chunk;
  }
  for (int64_t chunk = ideal; chunk * 2 >= ideal && chunk >= 1 && ideal - chunk < kTried; chunk--) {
    if (extent % chunk == 0) return chunk;
  }
  return ideal;
}

bool CpuNest::costly_body() const {
  bool costly = false;
  for_each_expr([&](const ExprPtr& expr) { costly |= is_costly(expr); });
  return costly;
}

void CpuNest::for_each_expr(const std::function<void(const ExprPtr&)>& f) const {
  walk(nest().body, [&](const Stmt& stmt) {
    if (const auto* let = std::get_if<Let>(&stmt.node)) f(let->value);
    if (const auto* store = std::get_if<Store>(&stmt.node)) f(store->value);
    if (const auto* reduce = std::get_if<Reduce>(&stmt.node)) {
      for (const State& state : reduce->states) f(state.value);
    }
  });
}

bool CpuNest::scatters() const {
  bool found = false;
  walk(nest().body, [&](const Stmt& stmt) { found |= std::holds_alternative<Scatter>(stmt.node); });
  return found;
}

WhyNot CpuNest::scatter_in_order() {
  if (!scatters()) return "nothing is scattered";
  // Iterations may collide: one after the other, but for loops whose offset does not depend on data.
  c_.split(dims_[0], c_.extent(dims_[0]));
  c_.bind(dims_[0] + "_0", "parallel");
  return std::nullopt;
}

WhyNot CpuNest::vectors() {
  if (scatters()) return "iterations may collide";
  const std::string last = dims_.back();
  const int64_t extent = c_.extent(last), best = width(extent, lanes_, costly_);
  std::vector<int64_t> widths{best};
  for (const int64_t other : {best / 2, best * 2}) {
    if (other >= lanes_ && other <= 4 * lanes_ && other <= extent) widths.push_back(other);
  }
  const int64_t w = widths[c_.decide("elements of a vector", widths.size(), 0)];
  if (dims_.size() == 1) {
    const int64_t wanted = wanted_items();
    const int64_t chunk = wanted == 1 ? extent : align_up(extent / wanted, w);
    c_.split(last, chunk);
    c_.bind(last + "_0", "parallel");
    if (extent % chunk != 0) c_.peel(last + "_1");
    split_vectors(last + "_1", w);
    return std::nullopt;
  }
  parallelize({dims_.begin(), dims_.end() - 1});
  split_vectors(last, w);
  return std::nullopt;
}

void CpuNest::split_vectors(const std::string& dim, int64_t w) {
  const int64_t extent = c_.extent(dim);
  if (extent == 1) return;
  c_.split(dim, w);
  c_.vectorize(dim + "_1");
  c_.peel(dim + "_1");
}

}  // namespace tcc::schedule::cpu
