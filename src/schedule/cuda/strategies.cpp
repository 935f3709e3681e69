// The table of strategies for CUDA, in order of preference for each kind of nest.
#include <algorithm>

#include "schedule/cuda/nest.h"
#include "tcc/loop/edit.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

using K = NestKind;

/// On the nest as it is, with the dims of the model.
constexpr Strategy<CudaNest> kBeforeFusion[] = {
    {"transpose", {K::pointwise}, transpose},
    {"streamed_rows", {K::rows}, streamed_rows},
    {"chained_products", {K::reduction}, chained_products},
};

/// Before those, where each run has to compute the same bits.
constexpr Strategy<CudaNest> kDeterministic[] = {
    {"scatter_in_order", {K::pointwise}, scatter_in_order},
};

/// Where it matters, neighbouring dims are one: of pointwise nests, rows and scans.
constexpr Strategy<CudaNest> kStrategies[] = {
    {"vectors_per_thread", {K::pointwise}, vectors_per_thread},
    {"element_per_thread", {K::pointwise, K::scan}, element_per_thread},

    {"row_per_thread", {K::rows}, row_per_thread},
    {"row_per_warp", {K::rows}, row_per_warp},
    {"row_per_block", {K::rows}, row_per_block},

    {"rows_by_matrix", {K::contraction, K::computed_factor}, rows_by_matrix},
    {"warpgroup_cores", {K::contraction}, warpgroup_cores},
    {"warpgroups_after_factor", {K::contraction, K::computed_factor}, warpgroups_after_factor},
    {"tensor_cores", {K::contraction, K::computed_factor}, tensor_cores},
    {"conv", {K::contraction}, conv},
    {"shared_tiles", {K::contraction}, shared_tiles},
    {"conv_wgrad", {K::contraction}, conv_wgrad},
    {"result_per_warp", {K::contraction}, result_per_warp},
    {"strided_sum_in_parts", {K::contraction}, strided_sum_in_parts},
    {"direct", {K::contraction}, direct},
    {"factor_before", {K::computed_factor}, factor_before},

    {"strided_reduction", {K::reduction, K::dot_product}, strided_reduction},
    {"split_reduction", {K::reduction, K::dot_product}, split_reduction},
    {"contiguous_reduction", {K::reduction, K::dot_product}, contiguous_reduction},
    {"result_per_thread", {K::reduction, K::dot_product}, result_per_thread},
};

/// The loops over a row: everything with dims, before those of the map become fewer.
Rows loops_over_rows(const Loop& loop) {
  Rows rows;
  for (const Stmt& stmt : loop.body) {
    const auto* dims = dims_of(stmt);
    if (!dims || dims->empty()) continue;
    rows.loops.push_back(dims->front().var->name);
    rows.along += contiguity(accesses_of({stmt}), dims->back().var.get());
    rows.longest = std::max(rows.longest, iterations(*dims));
    for (const Block* block : blocks_of(stmt)) walk(*block, [&](const Stmt& s) { rows.plain = rows.plain && dims_of(s) == nullptr; });
  }
  return rows;
}

/// The reduces of a result.
Rows reduces_of(const Loop& loop) {
  Rows rows;
  for (const Stmt& stmt : loop.body) {
    const auto* reduce = std::get_if<Reduce>(&stmt.node);
    if (!reduce) continue;
    rows.sums.push_back(reduce->states[0].result->name);
    rows.loops.push_back(reduce->dims.front().var->name);
    rows.along += contiguity(accesses_of({stmt}), reduce->dims.back().var.get());
    rows.longest = std::max(rows.longest, iterations(reduce->dims));
    rows.masked = rows.masked || reduce->where != nullptr;
    walk(reduce->body, [&](const Stmt& s) { rows.plain = rows.plain && dims_of(s) == nullptr; });
  }
  walk(loop.body, [&](const Stmt& stmt) { rows.scatters = rows.scatters || std::holds_alternative<Scatter>(stmt.node); });
  return rows;
}

/// Fuses the dims of nests whose strategies all begin with that, and measures rows.
void prepare(CudaNest& nest) {
  const NestKind kind = nest.nest.kind;
  if (kind == K::contraction || kind == K::computed_factor) return;
  const bool reduces = kind == K::reduction || kind == K::dot_product;
  if (reduces) nest.rows = reduces_of(nest.loop());
  else if (kind == K::rows) nest.rows = loops_over_rows(nest.loop());
  if (!reduces) nest.rows.dims = nest.chooser.fuse_all(nest.first());
  if (!reduces && kind != K::rows) return;
  const Loop& loop = std::get<Loop>(nest.chooser.find(reduces ? nest.first() : nest.rows.dims.back()).node);
  nest.rows.across = contiguity(accesses_of(loop.body), loop.dims.back().var.get());
  nest.rows.count = iterations(loop.dims);
}

}  // namespace

/// Computes the factor in a nest of its own, in front; what is left reads it as it is.
WhyNot factor_before(CudaNest& nest) {
  Chooser& chooser = nest.chooser;
  const std::string first = nest.first();
  schedule_nest(chooser, compute_factors(chooser, *nest.nest.contraction));
  schedule_nest(chooser, first);
  return std::nullopt;
}

void schedule_nest(Chooser& chooser, const std::string& first_dim) {
  CudaNest nest{chooser, recognise(chooser.find(first_dim))};
  Attempts<CudaNest> attempts(chooser, nest.nest.kind);
  if (nest.target().deterministic && attempts.take_first(kDeterministic, nest, false)) return;
  if (attempts.take_first(kBeforeFusion, nest, false)) return;
  prepare(nest);
  if (!attempts.take_first(kStrategies, nest, true)) internal_error("no strategy schedules the nest of `" + first_dim + "`");
}

}  // namespace tcc::schedule::cuda
