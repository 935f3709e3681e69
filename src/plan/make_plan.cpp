// Turns units into a program of launches over buffers.
//
//   unit 0 (%x, @w) -> (%h),  unit 1 (%h) -> (%y), %y an output       launch k0 (%x, @w, %h)   launch k1 (%h, %y)
//                                                                     buffer %h arena offset 0   buffer %y output 0
//
// An output is written where the caller wants it: its buffer is the caller's. Only an output that is an input, a weight, another output, or a part of
// something else takes a copy at the end. Aliases are rows of their own, so that a launch sees the shape it expects.
// A buffer of the arena lives from the launch that writes it first to the one that reads it last; temporaries between kernels of one unit are such buffers too.

#include <algorithm>
#include <unordered_map>

#include "plan/arena.h"
#include "plan/forms.h"
#include "tcc/plan/plan.h"
#include "tcc/support/diagnostics.h"

namespace tcc::plan {
namespace {

class Planner {
 public:
  Planner(const Graph& graph, const group::Groups& groups, const schedule::Target& target) : graph_(graph), groups_(groups) {
    plan_.name = graph.name;
    plan_.target = target;
    for (const group::Alias& alias : groups.aliases) aliases_[alias.value] = &alias;
  }

  Plan run() {
    const Forms forms = make_forms(graph_, groups_, plan_.target);
    for (const Form& form : forms.forms) add_kernels(form);
    choose_outputs();
    for (size_t i = 0; i < groups_.units.size(); ++i) {
      const size_t form = static_cast<size_t>(forms.of_unit[i]);
      add_launches(groups_.units[i], forms.forms[form], kernels_of_form_[form]);
    }
    copy_outputs();
    place();
    return std::move(plan_);
  }

 private:
  /// Kernels of a form; those that another form has too are shared.
  void add_kernels(const Form& form) {
    plan_.unit_forms.push_back(form.text);
    std::vector<int> numbers;
    for (const loop::Kernel& kernel : form.kernels) {
      const auto [at, is_new] = kernel_numbers_.emplace(loop::print(kernel, "k"), static_cast<int>(plan_.kernels.size()));
      if (is_new) {
        plan_.kernels.push_back(kernel);
        plan_.schedules.push_back(form.schedule);
      }
      numbers.push_back(at->second);
    }
    kernels_of_form_.push_back(std::move(numbers));
  }

  /// What holds the bytes of a value, and where in it they begin.
  struct Storage {
    const Value* base;
    int64_t offset;
  };
  Storage storage_of(const Value* value) const {
    Storage storage{value, 0};
    for (auto it = aliases_.find(value); it != aliases_.end(); it = aliases_.find(storage.base)) {
      storage.offset += it->second->byte_offset;
      storage.base = it->second->base;
    }
    return storage;
  }

  /// Which values are computed straight into an output of the caller.
  void choose_outputs() {
    const auto& results = graph_.body.results;
    for (size_t i = 0; i < results.size(); ++i) {
      const Storage storage = storage_of(results[i]);
      const bool whole = storage.offset == 0 && storage.base->type.size_bytes() == results[i]->type.size_bytes();
      if (storage.base->producer && whole && output_of_.emplace(storage.base, static_cast<int>(i)).second) continue;
      copied_outputs_.push_back(static_cast<int>(i));
    }
  }

  int add_buffer(Buffer::Kind kind, std::string name, DType dtype, Shape shape, int index) {
    Buffer buffer;
    buffer.kind = kind;
    buffer.name = std::move(name);
    buffer.dtype = dtype;
    buffer.size_bytes = storage_bytes(dtype, num_elements(shape));
    buffer.shape = std::move(shape);
    buffer.index = index;
    plan_.buffers.push_back(std::move(buffer));
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  int buffer_of(const Value* value) {
    if (const auto it = buffers_.find(value); it != buffers_.end()) return it->second;
    const DType dtype = value->type.dtype;
    const Shape shape = value->type.shape();
    int number;
    if (const auto alias = aliases_.find(value); alias != aliases_.end()) {
      const int base = buffer_of(alias->second->base);
      number = add_buffer(Buffer::Kind::alias, value->name, dtype, shape, base);
      plan_.buffers.back().offset = alias->second->byte_offset;
    } else if (value->kind == Value::Kind::input) {
      number = add_buffer(Buffer::Kind::input, value->name, dtype, shape, value->index);
    } else if (value->kind == Value::Kind::weight) {
      number = add_buffer(Buffer::Kind::weight, value->name, dtype, shape, static_cast<int>(plan_.weights.size()));
      plan_.weights.push_back(value->weight);
    } else if (const auto output = output_of_.find(value); output != output_of_.end()) {
      number = add_buffer(Buffer::Kind::output, value->name, dtype, shape, output->second);
    } else {
      number = add_buffer(Buffer::Kind::arena, value->name, dtype, shape, 0);
    }
    buffers_[value] = number;
    return number;
  }

  void add_launches(const group::Unit& unit, const Form& form, const std::vector<int>& kernels) {
    std::unordered_map<std::string, int> arguments;  // by the name of the unit's parameter
    size_t next = 0;
    for (const auto* values : {&unit.inputs, &unit.outputs}) {
      for (const Value* value : *values) arguments[form.params.at(next++).buffer->name] = buffer_of(value);
    }
    int scratch = 0;
    for (const loop::BufferRef& temporary : form.temporaries) {
      const std::string name = "unit" + std::to_string(unit.id) + ".scratch" + std::to_string(scratch++);
      const int number = add_buffer(Buffer::Kind::arena, name, temporary->dtype, temporary->extents, 0);
      // A temporary may have strides with gaps.
      int64_t last = 0;
      const std::vector<int64_t> strides = temporary->element_strides();
      for (size_t i = 0; i < strides.size(); ++i) last += (temporary->extents[i] - 1) * strides[i];
      plan_.buffers.back().size_bytes = storage_bytes(temporary->dtype, last + 1);
      plan_.buffers.back().scratch = true;
      arguments[temporary->name] = number;
    }
    for (size_t i = 0; i < form.kernels.size(); ++i) {
      Launch launch;
      launch.kernel = kernels[i];
      launch.label = unit.label;
      launch.grid = form.kernels[i].grid;
      launch.cost_ns = form.costs_ns[i];
      for (const loop::Param& param : form.kernels[i].params) {
        const auto it = arguments.find(param.buffer->name);
        if (it == arguments.end())
          internal_error("kernel parameter `" + param.buffer->name + "` of \"" + unit.label + "\" belongs to nothing");
        launch.arguments.push_back(it->second);
      }
      plan_.launches.push_back(std::move(launch));
    }
  }

  void copy_outputs() {
    for (int output : copied_outputs_) {
      const Value* value = graph_.body.results[static_cast<size_t>(output)];
      if (value->type.count() == 0) continue;
      const int source = buffer_of(value);
      Launch launch;
      launch.kind = Launch::Kind::copy;
      launch.label = graph_.output_names[static_cast<size_t>(output)];
      launch.arguments = {
          source, add_buffer(Buffer::Kind::output, "output" + std::to_string(output), value->type.dtype, value->type.shape(), output)};
      launch.cost_ns = 2.0 * static_cast<double>(value->type.size_bytes()) / plan_.target.bytes_per_ns;
      plan_.launches.push_back(std::move(launch));
    }
  }

  void place() {
    std::vector<int> interval_of(plan_.buffers.size(), -1);
    std::vector<Interval> intervals;
    for (size_t i = 0; i < plan_.launches.size(); ++i) {
      for (int argument : plan_.launches[i].arguments) {
        while (plan_.buffers[static_cast<size_t>(argument)].kind == Buffer::Kind::alias)
          argument = plan_.buffers[static_cast<size_t>(argument)].index;
        const Buffer& buffer = plan_.buffers[static_cast<size_t>(argument)];
        if (buffer.kind != Buffer::Kind::arena) continue;
        int& number = interval_of[static_cast<size_t>(argument)];
        if (number < 0) {
          number = static_cast<int>(intervals.size());
          intervals.push_back({buffer.size_bytes, static_cast<int>(i), static_cast<int>(i), 0});
        }
        intervals[static_cast<size_t>(number)].last = static_cast<int>(i);
      }
    }
    plan_.arena_bytes = place_intervals(intervals);
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      if (interval_of[i] >= 0) plan_.buffers[i].offset = intervals[static_cast<size_t>(interval_of[i])].offset;
      if (plan_.buffers[i].kind == Buffer::Kind::arena) {
        plan_.total_bytes += (plan_.buffers[i].size_bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
      }
    }
  }

  const Graph& graph_;
  const group::Groups& groups_;
  Plan plan_;
  std::unordered_map<const Value*, const group::Alias*> aliases_;
  std::unordered_map<const Value*, int> buffers_;
  std::unordered_map<const Value*, int> output_of_;  ///< what is computed into which output
  std::vector<int> copied_outputs_;
  std::unordered_map<std::string, int> kernel_numbers_;  ///< by text
  std::vector<std::vector<int>> kernels_of_form_;
};

}  // namespace

Plan make_plan(const Graph& graph, const group::Groups& groups, const schedule::Target& target) {
  return Planner(graph, groups, target).run();
}

}  // namespace tcc::plan
