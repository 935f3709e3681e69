#include "schedule/cuda/split_factors.h"

#include <algorithm>

#include "schedule/cuda/matmul.h"
#include "schedule/cuda/thread_tiles.h"
#include "tcc/loop/edit.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

std::vector<std::string> nests_of(const Unit& unit) {
  std::vector<std::string> nests;
  for (const Stmt& stmt : unit.body) {
    if (const auto* loop = std::get_if<Loop>(&stmt.node)) nests.push_back(loop->dims.front().var->name);
  }
  return nests;
}

}  // namespace

Sum split_factors(Chooser& chooser, const Contraction& c, int64_t apart) {
  const std::vector<std::string> before = nests_of(chooser.unit());
  chooser.add("split_factors", {Chooser::arg(c.accumulator), Chooser::arg(apart)});
  Sum sum;
  walk(chooser.unit().body, [&](const Stmt& stmt) {
    const auto* whole = std::get_if<Reduce>(&stmt.node);
    if (!whole || whole->states[0].result->name != c.accumulator) return;
    const auto& products = std::get<Reduce>(whole->body[0].node);
    sum = {c.accumulator, products.states[0].result->name, products.dims[0].var->name, "", ""};
    for (const Access& access : accesses_of(products.body)) (sum.a.empty() ? sum.a : sum.b) = access.buffer->name;
  });
  for (const std::string& nest : nests_of(chooser.unit())) {
    if (std::find(before.begin(), before.end(), nest) == before.end()) schedule_nest(chooser, nest);
  }
  return sum;
}

double split_ns(const Factor& factor, const Target& target) {
  constexpr double kRead = 4, kWritten = 6;  // bytes of an element
  return target.second_kernel_ns + (kRead + kWritten) * static_cast<double>(factor.buffer->count()) / target.bytes_per_ns;
}

double fma_ns(const Contraction& c, const Target& target) {
  return 2.0 * static_cast<double>(c.results()) * static_cast<double>(c.length()) / (target.flops_per_ns * kExactRate);
}

}  // namespace tcc::schedule::cuda
