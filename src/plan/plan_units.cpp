// A plan without a graph: what is known of a unit alone is its parameters, so these are the inputs and outputs.
//
//   unit (%a0: f32[64]) -> (%r0: f32[])        launch k0 "unit" (%a0, %v0.parts)   launch k1 "unit" (%v0.parts, %r0)
//                                              buffer %a0 input 0   buffer %v0.parts arena scratch   buffer %r0 output 0

#include <optional>
#include <unordered_map>

#include "plan/arena.h"
#include "plan/made_once.h"
#include "tcc/plan/plan.h"
#include "tcc/plan/plan_unit.h"
#include "tcc/support/diagnostics.h"

namespace tcc::plan {
namespace {

class UnitPlanner {
 public:
  /// `once`: those of its temporaries that are made once. `with_weights`: its constant parameters are the weights of the plan.
  UnitPlanner(Plan& plan, int number, const schedule::ScheduledUnit& unit, const MadeOnce& once, bool with_weights) : plan_(plan) {
    int inputs = 0, outputs = 0, weights = 0, prepared = 0;
    for (const loop::Param& param : unit.form.unit->params) {
      if (param.constant && with_weights) add(*param.buffer, Buffer::Kind::weight, weights++, 0);
      else if (param.written) add(*param.buffer, Buffer::Kind::output, outputs++, 0);
      else add(*param.buffer, Buffer::Kind::input, inputs++, 0);
    }
    for (const loop::BufferRef& temporary : unit.temporaries) {
      if (const auto made = once.find(temporary->name); made != once.end()) {
        const bool constant = made->second == Buffer::Kind::constant;
        add(*temporary, made->second, constant ? static_cast<int>(plan.constant_values.size()) : prepared++, 0);
        if (constant) plan.constant_values.emplace_back();
        continue;
      }
      const int64_t bytes = add(*temporary, Buffer::Kind::arena, 0, plan.arena_bytes);
      plan.arena_bytes += aligned(bytes);
      plan.buffers.back().scratch = true;
    }
    plan.total_bytes = plan.arena_bytes;
    const std::optional<Buffer::Kind> kinds[] = {std::nullopt, Buffer::Kind::prepared, Buffer::Kind::constant};
    for (size_t list = 0; list < std::size(kinds); ++list) {  // kernels of constants are the last ones
      for (size_t i = 0; i < unit.kernels.size(); ++i) {
        if (kind_made(unit.kernels[i], once) == kinds[list]) launch(unit.kernels[i], unit.costs_ns[i], number, *launch_lists(plan)[list]);
      }
    }
  }

 private:
  void launch(const loop::Kernel& kernel, double cost_ns, int unit, std::vector<Launch>& launches) {
    Launch launch;
    launch.unit = unit;
    if (loop::num_index_checks(kernel.body) > 0) launch.first_check = add_checks(kernel.body);
    launch.kernel = static_cast<int>(plan_.kernels.size());
    launch.label = kUnitLabel;
    launch.grid = kernel.grid;
    launch.cost_ns = cost_ns;
    for (const loop::Param& param : kernel.params) {
      const auto found = buffers_.find(param.buffer->name);
      if (found == buffers_.end())
        internal_error("kernel parameter %" + param.buffer->name + " is neither a parameter nor a temporary of the unit");
      launch.arguments.push_back(found->second);
    }
    plan_.kernels.push_back(kernel);
    launches.push_back(std::move(launch));
  }

  /// A unit says of its checks only what the extents are.
  int add_checks(const loop::Block& body) {
    const size_t first = plan_.checks.size();
    plan_.checks.resize(first + static_cast<size_t>(loop::num_index_checks(body)), {"an index is", "a check of the unit", 0, 0});
    loop::walk_exprs(body, [&](const loop::Expr& e) {
      if (e.kind != loop::Expr::Kind::op || e.op != Op::check_index_) return;
      plan_.checks[first + static_cast<size_t>(e.args[4]->int_value)].high = e.args[3]->int_value - 1;
    });
    return static_cast<int>(first);
  }

  int64_t add(const loop::Buffer& buffer, Buffer::Kind kind, int index, int64_t offset) {
    Buffer row;
    row.kind = kind;
    row.name = buffer.name;
    row.dtype = buffer.dtype;
    row.shape = buffer.extents;
    row.row_padding = buffer.row_padding();
    row.size_bytes = row.row_padding > 0 ? storage_bytes(buffer.dtype, num_elements(buffer.padded_extents())) : span_bytes(buffer);
    row.index = index;
    row.offset = offset;
    buffers_[buffer.name] = static_cast<int>(plan_.buffers.size());
    plan_.buffers.push_back(row);
    return row.size_bytes;
  }

  Plan& plan_;
  std::unordered_map<std::string, int> buffers_;
};

}  // namespace

Plan plan_units(const schedule::ScheduledUnits& scheduled, std::string name) {
  Plan plan;
  plan.name = std::move(name);
  plan.target = scheduled.target;
  for (size_t i = 0; i < scheduled.units.size(); ++i) UnitPlanner(plan, static_cast<int>(i), *scheduled.units[i], {}, false);
  return plan;
}

Plan plan_unit(const schedule::ScheduledUnit& unit, const schedule::Target& target, std::string name, std::span<Weight* const> weights) {
  Plan plan;
  plan.name = std::move(name);
  plan.target = target;
  plan.weights.assign(weights.begin(), weights.end());
  // Nothing else reads its weights.
  UnitPlanner(plan, 0, unit, made_once(unit, target, std::vector<bool>(unit.form.unit->params.size(), true)), true);
  return plan;
}

}  // namespace tcc::plan
