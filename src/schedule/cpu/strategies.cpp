// The table of strategies for the host, in order of preference for each kind of nest: vectors along contiguous memory, register tiles for contractions, items of
// a few microseconds for the pool.
#include "schedule/cpu/nest.h"

namespace tcc::schedule::cpu {

namespace {

using K = NestKind;

template <WhyNot (CpuNest::*method)()> WhyNot call(CpuNest& nest) { return (nest.*method)(); }

/// On the nest as it is, with the dims of the model.
constexpr Strategy<CpuNest> kBeforeFusion[] = {
    {"im2col", {K::contraction, K::dot_product}, call<&CpuNest::im2col>},
};

constexpr Strategy<CpuNest> kStrategies[] = {
    {"scatter_in_order", {K::pointwise}, call<&CpuNest::scatter_in_order>},
    {"vectors", {K::pointwise}, call<&CpuNest::vectors>},

    {"vectors_of_rows", {K::rows}, call<&CpuNest::vectors_of_rows>},
    {"vectors_along_rows", {K::rows}, call<&CpuNest::vectors_along_rows>},

    {"split_reduction", {K::reduction}, call<&CpuNest::split_reduction>},
    {"vectors_along_sum", {K::reduction}, call<&CpuNest::vectors_along_sum>},
    {"vectors_of_results", {K::reduction}, call<&CpuNest::vectors_of_results>},

    {"channels_in_vectors", {K::contraction}, call<&CpuNest::channels_in_vectors>},
    {"packed_panels", {K::contraction}, call<&CpuNest::packed_panels>},
    {"partial_sums", {K::contraction, K::dot_product}, call<&CpuNest::partial_sums>},
    {"staged_tile", {K::contraction, K::dot_product}, call<&CpuNest::staged_tile>},
    {"staged_planes", {K::contraction, K::dot_product}, call<&CpuNest::staged_planes>},
    {"register_tile", {K::contraction, K::dot_product}, call<&CpuNest::register_tile>},

    {"few_rows_of_computed", {K::computed_factor}, call<&CpuNest::few_rows_of_computed>},
    {"factor_before", {K::computed_factor}, call<&CpuNest::factor_before>},

    {"vectors_of_scans", {K::scan}, call<&CpuNest::vectors_of_scans>},
    {"scans_in_order", {K::scan}, call<&CpuNest::scans_in_order>},
};

}  // namespace

WhyNot CpuNest::factor_before() {
  const std::optional<Contraction> contraction = as_contraction(c_.find(dims_[0]));
  if (!contraction) internal_error("a contraction with a computed factor is none");
  schedule_nest(c_, compute_factors(c_, *contraction), May{});
  schedule_nest(c_, dims_[0], may_);
  return std::nullopt;
}

void schedule_nest(Chooser& chooser, const std::string& first_dim, May may) {
  Nest recognised = recognise(chooser.find(first_dim));
  Attempts<CpuNest> attempts(chooser, recognised.kind);
  CpuNest nest(chooser, std::move(recognised), may);
  if (attempts.take_first(kBeforeFusion, nest, false)) return;
  nest.prepare();
  if (!attempts.take_first(kStrategies, nest, true)) internal_error("no strategy schedules the nest of `" + first_dim + "`");
}

void schedule_nest(Chooser& chooser, const std::string& first_dim) { schedule_nest(chooser, first_dim, May{}); }

}  // namespace tcc::schedule::cpu
