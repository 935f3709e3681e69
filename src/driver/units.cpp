#include "driver/units.h"

#include <algorithm>
#include <cctype>

#include "driver/from.h"
#include "driver/kernels.h"
#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

constexpr int64_t kArenaAlignment = 256;

/// Parameters are inputs and outputs in their order.
std::unique_ptr<Graph> interface_of(const std::vector<loop::Param>& params) {
  auto graph = std::make_unique<Graph>("unit");
  for (const loop::Param& param : params) {
    const Type type(param.buffer->dtype, param.buffer->extents);
    if (!param.written) graph->add_input(param.buffer->name, type);
    else graph->add_output(graph->make_value(Value::Kind::result, type, param.buffer->name), param.buffer->name);
  }
  return graph;
}

/// Gives every buffer of the kernels a place: parameters of the unit outside, temporaries one after the other.
class Placement {
 public:
  Placement(plan::Plan* plan, const std::vector<loop::Param>& params, const std::vector<loop::BufferRef>& temporaries) : plan_(plan) {
    int inputs = 0, outputs = 0;
    for (const loop::Param& param : params) {
      add(*param.buffer, param.written ? plan::Buffer::Kind::output : plan::Buffer::Kind::input, param.written ? outputs++ : inputs++, 0);
    }
    for (const loop::BufferRef& temporary : temporaries) {
      const int64_t bytes = add(*temporary, plan::Buffer::Kind::arena, 0, plan->arena_bytes);
      plan->arena_bytes += (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
      plan->buffers.back().scratch = true;
    }
    plan->total_bytes = plan->arena_bytes;
  }

  void launch(int number, const loop::Kernel& kernel, double cost_ns) {
    plan::Launch launch;
    if (loop::num_index_checks(kernel.body) > 0) launch.first_check = add_checks(kernel.body);
    launch.kernel = number;
    launch.label = "unit";
    launch.grid = kernel.grid;
    launch.cost_ns = cost_ns;
    for (const loop::Param& param : kernel.params) launch.arguments.push_back(find(param.buffer->name));
    plan_->launches.push_back(std::move(launch));
  }

 private:
  /// A unit says of its checks only what the extents are.
  int add_checks(const loop::Block& body) {
    const size_t first = plan_->checks.size();
    plan_->checks.resize(first + static_cast<size_t>(loop::num_index_checks(body)), {"an index is", "a check of the unit", 0, 0});
    loop::walk_exprs(body, [&](const loop::Expr& e) {
      if (e.kind != loop::Expr::Kind::op || e.op != Op::check_index_) return;
      plan_->checks[first + static_cast<size_t>(e.args[4]->int_value)].high = e.args[3]->int_value - 1;
    });
    return static_cast<int>(first);
  }
  int64_t add(const loop::Buffer& buffer, plan::Buffer::Kind kind, int index, int64_t offset) {
    plan::Buffer row;
    row.kind = kind;
    row.name = buffer.name;
    row.dtype = buffer.dtype;
    row.shape = buffer.extents;
    int64_t last = 0;  // strides of a temporary may leave gaps
    const std::vector<int64_t> strides = buffer.element_strides();
    for (size_t i = 0; i < strides.size(); ++i) last += (buffer.extents[i] - 1) * strides[i];
    row.size_bytes = storage_bytes(buffer.dtype, buffer.count() == 0 ? 0 : last + 1);
    row.index = index;
    row.offset = offset;
    plan_->buffers.push_back(row);
    return row.size_bytes;
  }
  int find(const std::string& name) const {
    for (size_t i = 0; i < plan_->buffers.size(); ++i) {
      if (plan_->buffers[i].name == name) return static_cast<int>(i);
    }
    internal_error("kernel parameter %" + name + " is neither a parameter nor a temporary of the unit");
  }

  plan::Plan* plan_;
};

/// The primitives of --pass. Error (usage, "invalid-schedule") where a text is none.
schedule::Schedule given_schedule(const std::vector<std::string>& passes) {
  schedule::Schedule schedule;
  for (const std::string& pass : passes) {
    try {
      for (schedule::Primitive& primitive : schedule::parse_schedule(pass, "--pass")) schedule.push_back(std::move(primitive));
    } catch (const Error& error) {
      throw Error(ExitCode::usage, "invalid-schedule", "", "--pass='" + pass + "': " + error.diagnostics()[0].message,
                  "a primitive is written like `split(i, 4)`");
    }
  }
  return schedule;
}

/// Primitives make names like `i_1`. Choosing goes by them, so a unit whose text has such names gets others first.
loop::Unit with_plain_names(loop::Unit unit) {
  loop::NameTable names(unit);
  unit.body = loop::clone_fresh(unit.body, [&](const std::string& name) {
    size_t end = name.size();
    while (end > 0 && std::isdigit(static_cast<unsigned char>(name[end - 1]))) --end;
    return end == name.size() || end < 2 || name[end - 1] != '_' ? name : names.fresh(name.substr(0, end - 1) + "n");
  });
  return unit;
}

schedule::Schedule schedule_of(const Session& session, const loop::Unit& unit, const schedule::Target& target) {
  return session.options.passes.empty() ? schedule::choose(unit, target) : given_schedule(session.options.passes);
}

/// What a chosen schedule makes is checked when stages are; what a hand-made one makes always is, and its faults are the user's.
void check_kernel(const Session& session, const loop::Kernel& kernel) {
  if (session.options.passes.empty()) {
    if (session.verify) require_well_formed("schedule", loop::verify_kernel(kernel));
    return;
  }
  Diagnostics diagnostics;
  for (const std::string& fault : loop::verify_kernel(kernel)) {
    const size_t end = std::min(fault.find('\n'), fault.size());  // the statement, printed, follows
    const size_t snippet = std::min(fault.find_first_not_of(" \n", end), fault.size());
    diagnostics.error("invalid-schedule", session.options.model,
                      "what the schedule makes can't run on " + kernel.target + ": " + fault.substr(0, end), fault.substr(snippet));
  }
  diagnostics.checkpoint(ExitCode::usage);
}

}  // namespace

UnitBuilds plan_units(Session& session, const std::vector<TargetChoice>& choices, bool with_kernels) {
  std::vector<loop::Unit> units = read_units(session.options);
  if (session.options.passes.empty() && with_kernels) std::transform(units.begin(), units.end(), units.begin(), with_plain_names);
  UnitBuilds result;
  for (const TargetChoice& choice : choices) {
    TargetBuild& build = result.builds.emplace_back();
    build.choice = choice;
    build.plans[0].name = "unit";
    build.plans[0].target = build.scheduled[0].target = choice.target;
    run_stage(session, "schedule", nullptr, "", [&] {
      for (const loop::Unit& unit : units) {
        const schedule::Schedule schedule = schedule_of(session, unit, choice.target);
        const int number = static_cast<int>(build.scheduled[0].units.size());
        // What --pass made may be half of a schedule, to be looked at.
        const bool shows_half = !session.options.passes.empty() && !with_kernels;
        const loop::FirstForm form = loop::first_form(shows_half ? schedule::apply(unit, schedule, choice.target) : unit);
        if (!with_kernels) {
          build.scheduled[0].units.push_back(std::make_shared<schedule::ScheduledUnit>(schedule::ScheduledUnit{.form = form}));
          continue;
        }
        const auto scheduled = std::make_shared<const schedule::ScheduledUnit>(schedule::schedule_unit(form, schedule, choice.target));
        build.scheduled[0].units.push_back(scheduled);
        Placement placement(&build.plans[0], unit.params, scheduled->temporaries);
        for (size_t i = 0; i < scheduled->kernels.size(); ++i) {
          check_kernel(session, scheduled->kernels[i]);
          placement.launch(static_cast<int>(build.plans[0].kernels.size()), scheduled->kernels[i], scheduled->costs_ns[i]);
          build.plans[0].launches.back().unit = number;
          build.plans[0].kernels.push_back(scheduled->kernels[i]);
        }
      }
    });
  }
  if (units.size() == 1) result.interface = interface_of(units.front().params);
  return result;
}

TargetChoice target_of(const std::vector<loop::Kernel>& kernels, const std::vector<TargetChoice>& choices, const std::string& where) {
  const std::string& name = kernels.front().target;
  for (const TargetChoice& choice : choices) {
    if ((choice.target.kind == schedule::Target::Kind::cpu) == name.starts_with("x86-64")) return choice;
  }
  throw Error(ExitCode::usage, "invalid-argument", where, "the kernels are for `" + name + "`, which --target leaves out");
}

UnitBuilds plan_kernels(const std::vector<loop::Kernel>& kernels, const TargetChoice& choice) {
  UnitBuilds result;
  TargetBuild& build = result.builds.emplace_back();
  build.choice = choice;
  build.plans[0].name = "kernels";
  build.plans[0].target = choice.target;
  build.plans[0].kernels = kernels;
  if (kernels.size() == 1) {
    result.interface = interface_of(kernels.front().params);
    Placement(&build.plans[0], kernels.front().params, {})
        .launch(0, kernels.front(), schedule::estimate_ns(kernels.front(), choice.target));
  }
  return result;
}

}  // namespace tcc::driver
