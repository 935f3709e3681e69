// Contractions with few results and long sums along neighbouring elements of both factors, on CUDA: the lanes of a warp share a sum.
//
//   split(k, 32) reduce_across(k_1, lane) split(j, 4) bind(i, block) bind(j_0, block) bind(j_1, warp)
#include "schedule/cuda/nest.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// Elements of a sum that are worth a warp.
constexpr int64_t kShortestSum = 64;
/// Results for each multiprocessor from which on threads alone fill it.
constexpr int64_t kManyResults = 1024;
/// Warps of a block, where there are enough results for blocks of so many.
constexpr int64_t kWarps = 4;

bool is_along_memory(const Factor& factor, const VarRef& last) {
  return factor.is_contiguous(factor.axis_of(last.get())) && factor.buffer->element_strides().back() == 1;
}

}  // namespace

WhyNot result_per_warp(CudaNest& nest) {
  if (!nest.nest.contraction) return nest.nest.not_contraction;
  Chooser& chooser = nest.chooser;
  const Contraction& c = *nest.nest.contraction;
  const int64_t cores = chooser.target().cores, results = c.results();
  const VarRef& last = c.k_dims.back();
  if (c.a.dilated || c.b.dilated) return "a factor has zeros between its elements";
  if (last->extent < kShortestSum) return "a sum of " + std::to_string(last->extent) + " is short";
  if (results > cores * kManyResults) return "there are " + std::to_string(results) + " results";
  if (!is_along_memory(c.a, last) || !is_along_memory(c.b, last)) return "the sum is not along neighbouring elements of both factors";
  chooser.split(last->name, chooser.target().warp_threads);
  chooser.add("reduce_across", {Chooser::arg(last->name + "_1"), Chooser::arg("lane")});
  const std::vector<std::string> dims = chooser.fuse_all(nest.first());
  chooser.split(dims.back(), results >= kWarps * cores ? kWarps : 1);
  for (size_t i = 0; i + 1 < dims.size(); i++) chooser.bind(dims[i], "block");
  chooser.bind(dims.back() + "_0", "block");
  chooser.bind(dims.back() + "_1", "warp");
  return std::nullopt;
}

}  // namespace tcc::schedule::cuda
