#include "schedule/cuda/turned_factor.h"

#include <algorithm>

#include "schedule/cuda/matmul.h"
#include "tcc/loop/edit.h"

namespace tcc::schedule::cuda {

using namespace tcc::loop;

namespace {

/// The axis whose index is of the dim alone, perhaps turned round or in steps; -1.
int own_axis(const Factor& factor, const VarRef& dim) {
  int found = -1;
  for (size_t axis = 0; axis < factor.indices.size(); ++axis) {
    const Index& index = factor.indices[axis];
    if (!index.uses(dim.get())) continue;
    bool inside = false;
    const int64_t step = index.coefficient_of(dim.get(), &inside);
    if (found >= 0 || inside || step == 0 || !(index - Index(dim) * step).is_constant()) return -1;
    found = static_cast<int>(axis);
  }
  return found;
}

}  // namespace

bool can_turn(const Chooser& chooser, const std::string& dim, const Factor& factor, const std::vector<VarRef>& k) {
  if (factor.guarded || factor.narrowed || factor.dilated) return false;
  if (!std::all_of(k.begin(), k.end(), [&](const VarRef& var) { return own_axis(factor, var) >= 0; })) return false;
  if (!(factor.indices[static_cast<size_t>(own_axis(factor, k.back()))] == Index(k.back()))) return false;
  const std::vector<Param>& params = chooser.unit().params;
  if (std::none_of(params.begin(), params.end(), [&](const Param& param) { return param.buffer == factor.buffer && !param.written; }))
    return false;
  return std::none_of(chooser.unit().body.begin(), chooser.unit().body.end(), [&](const Stmt& stmt) {
    const std::vector<loop::Dim>* dims = dims_of(stmt);
    const bool own = dims && std::any_of(dims->begin(), dims->end(), [&](const loop::Dim& other) { return other.var->name == dim; });
    return !own && uses_of(stmt).reads.contains(factor.buffer.get());
  });
}

double turn_ns(const Chooser& chooser, const Factor& factor) {
  const Target& target = chooser.target();
  const std::vector<Param>& params = chooser.unit().params;
  const bool constant = std::any_of(params.begin(), params.end(), [&](const Param& p) { return p.buffer == factor.buffer && p.constant; });
  if (constant) return 0;  // made once
  return target.second_kernel_ns + 2.0 * static_cast<double>(bytes_of(*factor.buffer)) / target.bytes_per_ns;
}

void turn(Chooser& chooser, const Factor& factor, const std::vector<VarRef>& k) {
  const auto letter = [](size_t axis) { return static_cast<char>('a' + axis); };
  std::string inside, order;
  for (const VarRef& var : k) inside += letter(static_cast<size_t>(own_axis(factor, var)));
  for (size_t axis = 0; axis < factor.indices.size(); ++axis) {
    if (inside.find(letter(axis)) == std::string::npos) order += letter(axis);
  }
  chooser.add("stage", {Chooser::arg(factor.buffer->name), Chooser::arg("global"), Chooser::key("at", "top"),
                        Chooser::key("order", order + inside)});
  const Block& body = chooser.unit().body;  // the copy is the first nest
  const auto nest = std::find_if(body.begin(), body.end(), [](const Stmt& stmt) { return std::holds_alternative<Loop>(stmt.node); });
  schedule_nest(chooser, std::get<Loop>(nest->node).dims[0].var->name);
}

}  // namespace tcc::schedule::cuda
