// Chooses the schedule of a unit, nest by nest.
#include "schedule/strategy.h"

namespace tcc::schedule {

Schedule choose(const loop::Unit& unit, const Target& target) { return choose(unit, target, nullptr); }

Schedule choose(const loop::Unit& unit, const Target& target, Decisions* decisions) {
  std::vector<std::string> nests;
  for (const loop::Stmt& stmt : unit.body) {
    const auto* nest = std::get_if<loop::Loop>(&stmt.node);
    if (nest && nest->kind == loop::Loop::Kind::map && !nest->dims.empty()) nests.push_back(nest->dims[0].var->name);
  }
  Chooser chooser(unit, target, decisions);
  for (const std::string& nest : nests) {
    if (target.is_cpu()) cpu::schedule_nest(chooser, nest);
    else cuda::schedule_nest(chooser, nest);
  }
  shorten_sums(chooser);
  return chooser.take();
}

}  // namespace tcc::schedule
