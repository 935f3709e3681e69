// Sums of many terms in a row become sums of sums, whatever made them long: rounding errors grow with the lengths of the levels, not with their product. Of
// 4e7 equal addends, 32 running sums lose 1 %, these a few units in the last place.
//
//   %s: f32 = reduce sum %k_0 in 39062, %k_1 in 32 bind(vector)
// becomes, by split(k_0, 64) peel(k_0_1) two_level_sum(k_0_0) and the same again for k_0_0, levels of 9, 64 and 64
#include <algorithm>
#include <iterator>

#include "schedule/chooser.h"
#include "tcc/loop/edit.h"

namespace tcc::schedule {

using namespace tcc::loop;

namespace {

/// Shorter sums are exact enough; longer ones are cut into blocks.
constexpr int64_t kLongSum = 256, kSumBlock = 64;

}  // namespace

/// From the innermost serial dim outwards: those that make a block go inside, the one that would make it too long is split.
void shorten_sums(Chooser& chooser) {
  const auto is_serial = [](const loop::Dim& dim) { return dim.bind == Bind::none || dim.bind == Bind::serial; };
  const auto next_long = [&] {
    std::vector<loop::Dim> serial;
    walk(chooser.unit().body, [&](const Stmt& stmt) {
      const auto* reduce = std::get_if<Reduce>(&stmt.node);
      if (!reduce || reduce->combine || !serial.empty()) return;
      const bool sums = std::any_of(reduce->states.begin(), reduce->states.end(),
                                    [](const State& state) { return state.combiner == Combiner::sum && is_float(state.result->dtype); });
      std::vector<loop::Dim> found;
      std::copy_if(reduce->dims.begin(), reduce->dims.end(), std::back_inserter(found), is_serial);
      if (sums && iterations(found) > kLongSum) serial = std::move(found);
    });
    return serial;
  };
  for (std::vector<loop::Dim> serial = next_long(); !serial.empty(); serial = next_long()) {
    int64_t inside = 1;
    size_t at = serial.size() - 1;
    while (inside * serial[at].var->extent <= kSumBlock) inside *= serial[at--].var->extent;
    const std::string name = serial[at].var->name;
    const int64_t extent = serial[at].var->extent, factor = kSumBlock / inside;
    if (factor == 1) {
      chooser.add("two_level_sum", {Chooser::arg(name)});
      continue;
    }
    chooser.split(name, factor);
    if (extent % factor != 0 && chooser.target().is_cpu()) chooser.peel(name + "_1");  // elsewhere, threads join twice
    chooser.add("two_level_sum", {Chooser::arg(name + "_0")});
  }
}

}  // namespace tcc::schedule
