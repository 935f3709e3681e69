// Chooses the schedule of a unit, nest by nest.
#include "schedule/strategy.h"
#include "tcc/loop/edit.h"
#include "tcc/support/diagnostics.h"

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

std::string compute_factors(Chooser& chooser, const Contraction& c) {
  const Factor& factor = c.a.computed ? c.a : c.b;
  chooser.add("sink_lets", {Chooser::arg(c.accumulator)});
  std::string element;
  loop::walk(chooser.unit().body, [&](const loop::Stmt& stmt) {
    const auto* let = std::get_if<loop::Let>(&stmt.node);
    if (let && let->value->kind == loop::Expr::Kind::load && let->value->buffer == factor.buffer) element = let->scalar->name;
  });
  chooser.add("compute_at", {Chooser::arg(element), Chooser::arg("top"), Chooser::key("as", std::string(tcc::name_of(factor.dtype())))});
  // The nest stands before that of the contraction, behind the temporary.
  const loop::Block& body = chooser.unit().body;
  for (size_t i = 1; i < body.size(); ++i) {
    const auto* loop = std::get_if<loop::Loop>(&body[i].node);
    if (loop && loop->dims[0].var->name == c.dims[0]->name) return std::get<loop::Loop>(body[i - 1].node).dims[0].var->name;
  }
  internal_error("the factor of `" + c.accumulator + "` is not computed");
}

}  // namespace tcc::schedule
