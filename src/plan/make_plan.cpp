// Turns units into a program of launches over buffers.
//
//   unit 0 (%x, @w) -> (%h),  unit 1 (%h) -> (%y), %y an output       launch k0 (%x, @w, %h)   launch k1 (%h, %y)
//                                                                     buffer %h arena offset 0   buffer %y output 0
//
// An output is written where the caller wants it: its buffer is the caller's. Only an output that is an input, a weight, another output, or a part of
// something else takes a copy at the end. A state update is written into the state where state_writes.h finds that possible, copied there at the end
// otherwise. Aliases are rows of their own, so that a launch sees the shape it expects; a value that takes over the bytes of another is an alias that
// `overwrites`. A kernel that reads nothing but constants of its unit (Param::constant) and other such results is no launch of each
// run: it runs once, when the library is made or for each instance (made_once.h).
// A buffer of the arena lives from the launch that writes it first to the one that reads it last; temporaries between kernels of one unit are such buffers too.

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "plan/arena.h"
#include "plan/buffer_aliases.h"
#include "plan/check_sizes.h"
#include "plan/made_once.h"
#include "plan/order.h"
#include "plan/padding.h"
#include "plan/reuse.h"
#include "plan/state_writes.h"
#include "tcc/graph/ranges.h"
#include "tcc/loop/overwrite.h"
#include "tcc/plan/plan.h"
#include "tcc/rules/limits.h"
#include "tcc/support/diagnostics.h"

namespace tcc::plan {
namespace {

/// Of a node: its name in the model, else that of its result.
std::string name_of(const Node& node) { return node.loc.node.empty() ? node.result()->name : node.loc.node.str(); }

/// In the model's names: what holds the index, and which op reads it.
IndexCheck describe(const group::IndexCheck& check) {
  const Value* source = source_of(check.index);
  const bool is_class = check.node->op == Op::check_index_;
  if (is_class && check.node->attrs.has("guard")) return {check.node->attrs.get_string("guard"), "", check.low, check.high};
  IndexCheck result;
  if (source->kind == Value::Kind::input) result.index = "input `" + source->name + "`";
  else if (source->kind == Value::Kind::weight) result.index = "`" + source->name + "`";
  else result.index = "the result of `" + name_of(*source->producer) + "`";
  result.index += is_class ? " has the class" : " has the index";
  const std::string_view op = tcc::name_of(check.node->op);
  result.place = (is_class ? "loss" : op.starts_with("scatter") ? "scatter" : "gather") + (" `" + name_of(*check.node) + "`");
  result.low = check.low;
  result.high = check.high;
  return result;
}

class Planner {
 public:
  Planner(const group::Groups& groups, const group::LoweredUnits& lowered, const schedule::ScheduledUnits& scheduled,
          const PlanOptions& options)
      : graph_(*groups.graph), groups_(groups), lowered_(lowered), options_(options), aliases_(groups), state_(options.state) {
    for (const int form : lowered.form_of_unit) scheduled_.push_back(scheduled.units[static_cast<size_t>(form)].get());
    for (const group::RowPadding& padding : groups.row_paddings) row_paddings_[padding.value] = padding.elements;
    orders_ = group::orders_of(groups);
    plan_.name = graph_.name;
    plan_.target = scheduled.target;
    last_launch_.resize(groups.units.size());
  }

  Plan run() {
    Plan best;
    try_orders([&] { best = plan_; });
    number_kernels(best);
    return best;
  }

  Estimate estimate() {
    Estimate best;
    try_orders([&] {
      best = plan::estimate(plan_);
      best.floor_bytes = floor_bytes();
    });
    return best;
  }

 private:
  /// Of the orders of steps the one with the smallest arena is wanted: `keep` is called whenever `plan_` is better than all before. Its launches have numbers
  /// of `known_kernels_`.
  template <class Keep> void try_orders(Keep keep) {
    check_sizes(groups_, scheduled_, plan_.target);
    number_inputs();
    choose_outputs();
    int64_t best = std::numeric_limits<int64_t>::max();
    for (const std::vector<int>& order : order_steps()) {
      plan_in(order, best);
      if (plan_.arena_bytes >= best) continue;
      best = plan_.arena_bytes;
      keep();
    }
  }

  /// `limit`: a plan whose arena is not smaller is not wanted.
  void plan_in(const std::vector<int>& order, int64_t limit) {
    reused_.clear();
    overwrites_ = writes_.overwrites;
    emit(order);
    if (reuse_memory()) emit(order);
    place(limit);
  }

  /// Kernels with the same text are one; they are numbered in the order of their first launches.
  void number_kernels(Plan& plan) const {
    std::vector<int> numbers(known_kernels_.size(), -1);
    std::unordered_map<std::string, int> number_of_text;
    const auto give_number = [&](Launch& launch) {
      if (launch.kind != Launch::Kind::kernel) return;
      int& number = numbers[static_cast<size_t>(launch.kernel)];
      if (number < 0) {
        const loop::Kernel& kernel = *known_kernels_[static_cast<size_t>(launch.kernel)];
        const auto [at, is_new] = number_of_text.emplace(loop::print(kernel, "k"), static_cast<int>(plan.kernels.size()));
        if (is_new) plan.kernels.push_back(kernel);
        number = at->second;
      }
      launch.kernel = number;
    };
    for (std::vector<Launch>* launches : launch_lists(plan)) {
      for (Launch& launch : *launches) give_number(launch);
    }
  }

  // --------------------------------------------------------------------------------------- inputs, outputs, copies

  int num_units() const { return static_cast<int>(groups_.units.size()); }

  /// Where the inputs and outputs of the caller are: the first ones are tensors of their own, the others lie in one, packed.
  struct Place {
    int index = 0;
    int64_t offset = 0;
  };
  static Place place_next(int number, int first_packed, int64_t size_bytes, int64_t* packed_bytes) {
    if (first_packed < 0 || number < first_packed) return {number, 0};
    const int64_t offset = *packed_bytes;
    *packed_bytes += aligned(size_bytes);
    return {first_packed, offset};
  }

  void number_inputs() {
    plan_.first_packed_input = options_.first_packed_input;
    plan_.first_packed_output = options_.first_packed_output;
    int number = 0;
    for (const Value* input : graph_.body.args) {
      const auto scalar = std::find(options_.scalars.begin(), options_.scalars.end(), input->name);
      if (scalar != options_.scalars.end()) {
        scalars_[input] = static_cast<int>(scalar - options_.scalars.begin());
        continue;
      }
      inputs_[input] = place_next(number++, options_.first_packed_input, input->type.size_bytes(), &plan_.packed_input_bytes);
    }
    for (size_t i = 0; i < graph_.body.results.size(); ++i) {
      outputs_.push_back(place_next(static_cast<int>(i), options_.first_packed_output, graph_.body.results[i]->type.size_bytes(),
                                    &plan_.packed_output_bytes));
    }
  }

  /// A copy that is a step of its own: of an output, or of a state that another update will overwrite.
  struct Copy {
    const Value* source;
    int output = -1;                        ///< which output
    const StateUpdate* save_for = nullptr;  ///< ... or for which update
  };

  /// Which values are computed straight into an output of the caller.
  void choose_outputs() {
    const auto& results = graph_.body.results;
    for (size_t i = 0; i < results.size(); ++i) {
      const BufferAliases::Storage storage = aliases_.of(results[i]);
      const bool whole = storage.offset == 0 && storage.base->type.size_bytes() == results[i]->type.size_bytes();
      if (storage.base->producer && whole && output_of_.emplace(storage.base, static_cast<int>(i)).second) continue;
      if (results[i]->type.count() > 0) copies_.push_back({results[i], static_cast<int>(i), nullptr});
    }
    if (!state_.any()) return;
    for (const StateUpdate& update : graph_.state_updates) {
      const StateTensor* source = state_.find(aliases_.of(update.value).base);
      if (source && source != state_.find(update.weight) && update.value->type.count() > 0) copies_.push_back({update.value, -1, &update});
    }
  }

  // ------------------------------------------------------------------------------------------------------- order

  /// Steps are units, then copies, then what fills paddings.
  std::vector<std::vector<int>> order_steps() {
    for (const group::Padding& padding : groups_.paddings) {
      if (paddings_.empty() || paddings_.back().front().base != padding.base) paddings_.emplace_back();
      paddings_.back().push_back(padding);
    }
    const int num_copies = static_cast<int>(copies_.size());
    Order order(num_units() + num_copies + static_cast<int>(paddings_.size()));
    std::unordered_map<const Value*, int> padding_steps;
    for (size_t i = 0; i < paddings_.size(); ++i) {
      const Value* base = aliases_.of(paddings_[i].front().base).base;
      const int step = num_units() + num_copies + static_cast<int>(i);
      padding_steps[base] = step;
      order.add(aliases_.writers(base).front().unit, step);  // memory for the base is needed from there on
    }
    std::vector<StateRead> reads;
    std::vector<int> last_reader(static_cast<size_t>(num_units()), -1);  // so that each edge is added once
    auto add_read = [&](const Value* value, int step, int input) {
      const BufferAliases::Storage storage = aliases_.of(value);
      const int64_t end = storage.offset + value->type.size_bytes();
      for (const BufferAliases::Writer& writer : aliases_.writers(storage.base)) {
        const bool overlaps = writer.offset < end && storage.offset < writer.offset + writer.value->type.size_bytes();
        if (!overlaps || writer.unit == step || std::exchange(last_reader[static_cast<size_t>(writer.unit)], step) == step) continue;
        order.add(writer.unit, step);
      }
      const auto gap_step = padding_steps.find(storage.base);
      if (gap_step != padding_steps.end() && aliases_.writers(storage.base).front().unit != step) order.add(gap_step->second, step);
      if (const StateTensor* tensor = state_.find(storage.base)) {
        const int64_t begin = tensor->offset + storage.offset;
        reads.push_back({step, {tensor->block(), begin, begin + value->type.size_bytes()}, input});
      }
    };
    for (int unit = 0; unit < num_units(); ++unit) {
      const auto& inputs = groups_.units[static_cast<size_t>(unit)].inputs;
      for (size_t i = 0; i < inputs.size(); ++i) add_read(inputs[i], unit, static_cast<int>(i));
    }
    for (size_t i = 0; i < copies_.size(); ++i) add_read(copies_[i].source, num_units() + static_cast<int>(i), -1);
    std::unordered_set<const Value*> taken;
    for (const auto& [value, output] : output_of_) taken.insert(value);
    writes_ = choose_state_writes(graph_, groups_, aliases_, scheduled_, state_, reads, taken, padding_steps, order);
    return order.sorted(footprints());
  }

  /// What each step needs of the arena.
  Footprints footprints() const {
    Footprints result;
    result.blocks.resize(groups_.units.size() + copies_.size() + paddings_.size());
    result.own_bytes.resize(result.blocks.size());
    std::unordered_map<const Value*, int> numbers;
    auto add = [&](const Value* value, size_t step) {
      const Value* base = aliases_.of(value).base;
      if (!base->producer || output_of_.count(base) || writes_.in_place.count(base)) return;
      const auto [at, is_new] = numbers.emplace(base, static_cast<int>(numbers.size()));
      if (is_new) result.block_bytes.push_back(aligned(padded_bytes(base)));
      auto& blocks = result.blocks[step];
      if (std::find(blocks.begin(), blocks.end(), at->second) == blocks.end()) blocks.push_back(at->second);
    };
    for (size_t unit = 0; unit < groups_.units.size(); ++unit) {
      for (const auto* values : {&groups_.units[unit].inputs, &groups_.units[unit].outputs}) {
        for (const Value* value : *values) add(value, unit);
      }
      const MadeOnce once = made_once(static_cast<int>(unit));
      for (const loop::BufferRef& temporary : scheduled_[unit]->temporaries) {
        if (!once.contains(temporary->name)) result.own_bytes[unit] += aligned(span_bytes(*temporary));
      }
    }
    for (size_t i = 0; i < copies_.size(); ++i) add(copies_[i].source, groups_.units.size() + i);
    for (size_t i = 0; i < paddings_.size(); ++i) add(paddings_[i].front().base, groups_.units.size() + copies_.size() + i);
    return result;
  }

  /// All launches and buffers, in order.
  void emit(const std::vector<int>& order) {
    plan_.buffers.clear();
    plan_.launches.clear();
    plan_.preparations.clear();
    plan_.constants.clear();
    plan_.constant_values.clear();
    num_prepared_ = 0;
    names_made_once_.clear();
    plan_.checks.clear();
    plan_.weights.clear();
    buffers_.clear();
    state_buffers_.clear();
    saved_.clear();
    forward_launches_.clear();
    for (const int step : order) {
      const size_t number = static_cast<size_t>(step - num_units());
      if (step < num_units()) add_launches(step);
      else if (number < copies_.size()) add_copy(copies_[number]);
      else fill_paddings(paddings_[number - copies_.size()]);
      forward_launches_.resize(plan_.launches.size(), step < num_units() && is_of_forward_pass(step));
    }
    for (const StateUpdate* update : writes_.copied) copy_state(*update);
    forward_launches_.resize(plan_.launches.size());
  }

  /// No unit has nodes of both.
  bool is_of_forward_pass(int unit) const {
    return std::ranges::all_of(groups_.units[static_cast<size_t>(unit)].nodes, [](const Node* node) { return node->loc.phase.empty(); });
  }

  /// Puts results where operands were, as far as that lowers the peak; says whether it did any.
  bool reuse_memory() {
    const std::vector<Interval> intervals = intervals_of_buffers();
    std::vector<int64_t> live(plan_.launches.size() + 1);
    for (const Interval& interval : intervals) {
      if (interval.first < 0) continue;
      live[static_cast<size_t>(interval.first)] += aligned(interval.size_bytes);
      live[static_cast<size_t>(interval.last) + 1] -= aligned(interval.size_bytes);
    }
    for (size_t i = 1; i < live.size(); ++i) live[i] += live[i - 1];
    auto interval_of = [&](const Value* base) -> const Interval* {
      const auto buffer = buffers_.find(base);
      if (buffer == buffers_.end() || plan_.buffers[static_cast<size_t>(buffer->second)].kind != Buffer::Kind::arena) return nullptr;
      return &intervals[static_cast<size_t>(buffer->second)];
    };
    std::vector<Reuse> reuses = find_reuses(
        groups_, aliases_, scheduled_, [&](const Value* base) { return interval_of(base) != nullptr; },
        [&](const Value* base, int unit) { return interval_of(base)->last <= last_launch_[static_cast<size_t>(unit)]; },
        [&](int unit, const loop::Overwrite& pair) { return can_overwrite(unit, pair); });
    std::vector<std::pair<int, int>> both;
    std::vector<int64_t> sizes;
    for (const Reuse& reuse : reuses) {
      const Interval &old = *interval_of(reuse.old), &result = *interval_of(reuse.result);
      both.emplace_back(std::max(old.first, result.first), std::min(old.last, result.last));
      sizes.push_back(aligned(old.size_bytes));
    }
    const std::vector<size_t> chosen = choose_reuses(live, both, sizes);
    for (size_t i : chosen) {
      Reuse& reuse = reuses[i];
      reused_[reuse.result] = reuse.old;
      auto& all = overwrites_[static_cast<size_t>(reuse.unit)];
      all.insert(all.end(), reuse.overwrites.begin(), reuse.overwrites.end());
    }
    return !chosen.empty();
  }

  // ----------------------------------------------------------------------------------------------------- buffers

  int add_buffer(Buffer::Kind kind, std::string name, DType dtype, Shape shape, int index, int64_t offset = 0) {
    Buffer buffer;
    buffer.kind = kind;
    buffer.name = std::move(name);
    buffer.dtype = dtype;
    buffer.size_bytes = storage_bytes(dtype, num_elements(shape));
    buffer.shape = std::move(shape);
    buffer.index = index;
    buffer.offset = offset;
    plan_.buffers.push_back(std::move(buffer));
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  int state_buffer(const StateTensor& tensor) {
    const auto [at, is_new] = state_buffers_.emplace(&tensor, static_cast<int>(plan_.buffers.size()));
    if (is_new) add_buffer(Buffer::Kind::state, tensor.name, tensor.dtype, tensor.shape, tensor.block(), tensor.offset);
    return at->second;
  }

  int64_t row_padding_of(const Value* value) const {
    const auto found = row_paddings_.find(aliases_.of(value).base);
    return found == row_paddings_.end() ? 0 : found->second;
  }
  int64_t padded_bytes(const Value* value) const {
    return storage_bytes(value->type.dtype, num_elements(padded_shape(value->type.shape(), row_padding_of(value))));
  }

  int buffer_of(const Value* value) {
    if (const auto it = buffers_.find(value); it != buffers_.end()) return it->second;
    const DType dtype = value->type.dtype;
    const auto order = orders_.find(value);
    const Shape shape = order == orders_.end() ? value->type.shape() : group::in_memory(value->type.shape(), order->second);
    int number;
    if (const group::Alias* alias = aliases_.alias(value)) {
      const int base = buffer_of(alias->base);
      number = add_buffer(Buffer::Kind::alias, value->name, dtype, shape, base, alias->byte_offset);
    } else if (const auto scalar = scalars_.find(value); scalar != scalars_.end()) {
      number = add_buffer(Buffer::Kind::scalar, value->name, dtype, shape, scalar->second);
    } else if (value->kind == Value::Kind::input) {
      const Place& place = inputs_.at(value);
      number = add_buffer(Buffer::Kind::input, value->name, dtype, shape, place.index, place.offset);
    } else if (const StateTensor* tensor = state_.find(value)) {
      number = state_buffer(*tensor);
    } else if (value->kind == Value::Kind::weight) {
      number = add_buffer(Buffer::Kind::weight, value->name, dtype, shape, static_cast<int>(plan_.weights.size()));
      plan_.weights.push_back(value->weight);
    } else if (const auto output = output_of_.find(value); output != output_of_.end()) {
      const Place& place = outputs_[static_cast<size_t>(output->second)];
      number = add_buffer(Buffer::Kind::output, value->name, dtype, shape, place.index, place.offset);
    } else if (const auto state = writes_.in_place.find(value); state != writes_.in_place.end()) {
      const int base = state_buffer(*state->second);
      number = add_buffer(Buffer::Kind::alias, value->name, dtype, shape, base);
      plan_.buffers.back().overwrites = true;
    } else if (const auto old = reused_.find(value); old != reused_.end()) {
      const int base = buffer_of(old->second);
      number = add_buffer(Buffer::Kind::alias, value->name, dtype, shape, base);
      plan_.buffers.back().overwrites = true;
    } else {
      number = add_buffer(Buffer::Kind::arena, value->name, dtype, shape, 0);
    }
    plan_.buffers[static_cast<size_t>(number)].row_padding = row_padding_of(value);
    plan_.buffers[static_cast<size_t>(number)].size_bytes = padded_bytes(value);
    buffers_[value] = number;
    return number;
  }

  // ---------------------------------------------------------------------------------------------------- launches

  bool can_overwrite(int unit, const loop::Overwrite& pair) {
    const schedule::ScheduledUnit* scheduled = scheduled_[static_cast<size_t>(unit)];
    const auto [at, is_new] = can_overwrite_.try_emplace({scheduled, pair});
    if (is_new) at->second = loop::can_overwrite(scheduled->kernels, pair.first, pair.second);
    return at->second;
  }

  int add_kernel(const loop::Kernel& kernel) {
    known_kernels_.push_back(&kernel);
    return static_cast<int>(known_kernels_.size()) - 1;
  }

  /// The kernels of a form with some inputs overwritten; most units of a form overwrite nothing.
  struct Variant {
    struct Part {
      const loop::Kernel* kernel;
      int number;  ///< in `known_kernels_`
      double cost_ns;
      bool checks_indices;
      std::vector<int> arguments;  ///< of each parameter: which of the unit's inputs, outputs and temporaries, counted in this order
    };
    std::vector<loop::Kernel> own;  ///< where something is overwritten
    std::vector<Part> parts;
  };
  const Variant& variant(int unit_number) {
    const schedule::ScheduledUnit& scheduled = *scheduled_[static_cast<size_t>(unit_number)];
    const std::vector<loop::Overwrite>& pairs = overwrites_[static_cast<size_t>(unit_number)];
    const auto [at, is_new] = variants_.try_emplace({&scheduled, pairs});
    Variant& result = at->second;
    if (!is_new) return result;
    std::unordered_map<std::string, int> numbers;
    for (const loop::Param& param : scheduled.form.unit->params) numbers.emplace(param.buffer->name, static_cast<int>(numbers.size()));
    for (const loop::BufferRef& temporary : scheduled.temporaries) numbers.emplace(temporary->name, static_cast<int>(numbers.size()));
    if (!pairs.empty()) result.own = loop::overwrite(scheduled.kernels, pairs);
    const std::vector<loop::Kernel>& kernels = pairs.empty() ? scheduled.kernels : result.own;
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (kernels[i].body.empty()) continue;  // overwriting left nothing to do
      const bool checks_indices = loop::num_index_checks(kernels[i].body) > 0;
      Variant::Part part{&kernels[i], add_kernel(kernels[i]), scheduled.costs_ns[i], checks_indices, {}};
      for (const loop::Param& param : kernels[i].params) {
        const auto number = numbers.find(param.buffer->name);
        if (number == numbers.end()) {
          const std::string& label = groups_.units[static_cast<size_t>(unit_number)].label;
          internal_error("kernel parameter `" + param.buffer->name + "` of \"" + label + "\" belongs to nothing");
        }
        part.arguments.push_back(number->second);
      }
      result.parts.push_back(std::move(part));
    }
    return result;
  }

  MadeOnce made_once(int unit_number) const {
    return plan::made_once(*scheduled_[static_cast<size_t>(unit_number)], plan_.target,
                           groups_.units[static_cast<size_t>(unit_number)].owned);
  }

  /// The row of a temporary that is made once: `<weight>.packed` for the first one of a weight.
  int add_made_once(const group::Unit& unit, const loop::Buffer& temporary, Buffer::Kind kind) {
    const size_t dot = temporary.name.find('.');
    std::string name = "unit" + std::to_string(unit.id) + "." + temporary.name;
    for (size_t i = 0; i < unit.inputs.size(); ++i) {
      if (temporary.name.substr(0, dot) == "a" + std::to_string(i)) name = unit.inputs[i]->name + temporary.name.substr(dot);
    }
    // Two units may have one of a weight, where it isn't the library's alone.
    int& count = names_made_once_[name];
    if (++count > 1) name += std::to_string(count);
    const bool constant = kind == Buffer::Kind::constant;
    const int number = add_buffer(kind, name, temporary.dtype, temporary.extents,
                                  constant ? static_cast<int>(plan_.constant_values.size()) : num_prepared_++);
    plan_.buffers.back().size_bytes = span_bytes(temporary);
    if (constant) plan_.constant_values.emplace_back();
    return number;
  }

  /// Where a kernel's launch belongs.
  std::vector<Launch>& list_of(const loop::Kernel& kernel, const MadeOnce& once) {
    const std::optional<Buffer::Kind> made = kind_made(kernel, once);
    return !made ? plan_.launches : *made == Buffer::Kind::constant ? plan_.constants : plan_.preparations;
  }

  void add_launches(int unit_number) {
    const group::Unit& unit = groups_.units[static_cast<size_t>(unit_number)];
    const schedule::ScheduledUnit& scheduled = *scheduled_[static_cast<size_t>(unit_number)];
    std::vector<int> arguments;  // the unit's inputs, outputs and temporaries
    for (const auto* values : {&unit.inputs, &unit.outputs}) {
      for (const Value* value : *values) arguments.push_back(buffer_of(value));
    }
    int scratch = 0;
    const MadeOnce once = made_once(unit_number);
    for (const loop::BufferRef& temporary : scheduled.temporaries) {
      if (const auto made = once.find(temporary->name); made != once.end()) {
        arguments.push_back(add_made_once(unit, *temporary, made->second));
        continue;
      }
      const std::string name = "unit" + std::to_string(unit.id) + ".scratch" + std::to_string(scratch++);
      arguments.push_back(add_buffer(Buffer::Kind::arena, name, temporary->dtype, temporary->extents, 0));
      plan_.buffers.back().row_padding = temporary->row_padding();
      plan_.buffers.back().size_bytes = span_bytes(*temporary);
      plan_.buffers.back().scratch = true;
    }
    const int first_check = static_cast<int>(plan_.checks.size());
    for (const group::IndexCheck& check : lowered_.checks[static_cast<size_t>(unit_number)]) plan_.checks.push_back(describe(check));
    for (const Variant::Part& part : variant(unit_number).parts) {
      Launch launch;
      launch.kernel = part.number;
      launch.unit = lowered_.form_of_unit[static_cast<size_t>(unit_number)];
      launch.label = unit.label;
      launch.grid = part.kernel->grid;
      launch.cost_ns = part.cost_ns;
      if (part.checks_indices) launch.first_check = first_check;
      for (const int argument : part.arguments) launch.arguments.push_back(arguments[static_cast<size_t>(argument)]);
      list_of(*part.kernel, once).push_back(std::move(launch));
    }
    last_launch_[static_cast<size_t>(unit_number)] = static_cast<int>(plan_.launches.size()) - 1;
  }

  void fill_paddings(const std::vector<group::Padding>& paddings) {
    const Value* base = paddings.front().base;
    const auto [at, is_new] = padding_kernels_.try_emplace(base);
    if (is_new) {
      at->second.kernel = padding_kernel(paddings, plan_.target);
      at->second.number = add_kernel(at->second.kernel);
    }
    const loop::Kernel& kernel = at->second.kernel;
    Launch launch;
    launch.kernel = at->second.number;
    launch.label = base->name;
    launch.grid = kernel.grid;
    launch.cost_ns = schedule::estimate_ns(kernel, plan_.target);
    launch.arguments = {buffer_of(base)};
    plan_.launches.push_back(std::move(launch));
  }

  void add_copy(std::string label, int source, int destination) {
    Launch launch;
    launch.kind = Launch::Kind::copy;
    launch.label = std::move(label);
    launch.arguments = {source, destination};
    launch.cost_ns = 2.0 * static_cast<double>(plan_.buffers[static_cast<size_t>(destination)].size_bytes) / plan_.target.bytes_per_ns;
    plan_.launches.push_back(std::move(launch));
  }

  void add_copy(const Copy& copy) {
    const int source = buffer_of(copy.source);
    const Type& type = copy.source->type;
    if (copy.save_for) {
      const int saved = add_buffer(Buffer::Kind::arena, copy.save_for->weight->name + ".saved", type.dtype, type.shape(), 0);
      add_copy(copy.save_for->weight->name, source, saved);
      saved_[copy.save_for] = saved;
      return;
    }
    const Place& place = outputs_[static_cast<size_t>(copy.output)];
    const int output =
        add_buffer(Buffer::Kind::output, "output" + std::to_string(copy.output), type.dtype, type.shape(), place.index, place.offset);
    add_copy(graph_.output_names[static_cast<size_t>(copy.output)], source, output);
  }

  void copy_state(const StateUpdate& update) {
    const auto saved = saved_.find(&update);
    const int source = saved != saved_.end() ? saved->second : buffer_of(update.value);
    add_copy(update.weight->name, source, state_buffer(*state_.find(update.weight)));
  }

  // ------------------------------------------------------------------------------------------------------ places

  /// When each buffer of the arena is needed; first is -1 for those that no launch uses, and for all other buffers. Later uses count where `counts`, of the
  /// buffer's first launch and a later one, says so.
  template <class Counts> std::vector<Interval> intervals_of_buffers(Counts counts) const {
    std::vector<Interval> intervals(plan_.buffers.size(), {0, -1, -1, 0});
    for (size_t i = 0; i < plan_.launches.size(); ++i) {
      for (int argument : plan_.launches[i].arguments) {
        while (plan_.buffers[static_cast<size_t>(argument)].kind == Buffer::Kind::alias)
          argument = plan_.buffers[static_cast<size_t>(argument)].index;
        const Buffer& buffer = plan_.buffers[static_cast<size_t>(argument)];
        if (buffer.kind != Buffer::Kind::arena) continue;
        Interval& interval = intervals[static_cast<size_t>(argument)];
        if (interval.first < 0) interval = {buffer.size_bytes, static_cast<int>(i), static_cast<int>(i), 0};
        if (counts(interval.first, static_cast<int>(i))) interval.last = static_cast<int>(i);
      }
    }
    return intervals;
  }
  std::vector<Interval> intervals_of_buffers() const {
    return intervals_of_buffers([](int, int) { return true; });
  }

  /// Estimate::floor_bytes of the launches as they are.
  int64_t floor_bytes() const {
    return most_live_bytes(intervals_of_buffers([&](int first, int launch) {
      return forward_launches_[static_cast<size_t>(launch)] || !forward_launches_[static_cast<size_t>(first)];
    }));
  }

  void place(int64_t limit) {
    plan_.total_bytes = 0;
    std::vector<Interval> intervals;
    std::vector<Buffer*> placed;
    const std::vector<Interval> all = intervals_of_buffers();
    for (size_t i = 0; i < all.size(); ++i) {
      Buffer& buffer = plan_.buffers[i];
      if (buffer.kind == Buffer::Kind::arena) plan_.total_bytes += aligned(buffer.size_bytes);
      if (plan_.total_bytes > kMaxTotalBytes) break;
      if (all[i].first < 0) continue;
      intervals.push_back(all[i]);
      placed.push_back(&buffer);
    }
    plan_.arena_bytes = place_intervals(intervals, limit);
    check_arena(plan_, graph_.file);
    for (size_t i = 0; i < placed.size(); ++i) placed[i]->offset = intervals[i].offset;
  }

  const Graph& graph_;
  const group::Groups& groups_;
  const group::LoweredUnits& lowered_;
  std::vector<const schedule::ScheduledUnit*> scheduled_;  ///< of each unit
  const PlanOptions& options_;
  const BufferAliases aliases_;
  const StateWeights state_;
  Plan plan_;
  std::unordered_map<const Value*, int64_t> row_paddings_;
  std::unordered_map<const Value*, std::vector<int64_t>> orders_;  ///< of layouts
  std::unordered_map<const Value*, int> scalars_;
  std::unordered_map<const Value*, Place> inputs_;
  std::vector<Place> outputs_;
  std::unordered_map<const Value*, int> output_of_;  ///< what is computed into which output
  std::vector<Copy> copies_;
  std::vector<std::vector<group::Padding>> paddings_;  ///< of one base each
  StateWrites writes_;
  std::vector<std::vector<loop::Overwrite>> overwrites_;   ///< of each unit: in the state, and in the arena
  std::vector<int> last_launch_;                           ///< of each unit
  std::unordered_map<const Value*, const Value*> reused_;  ///< what lies where another value did
  std::unordered_map<const Value*, int> buffers_;
  std::unordered_map<const StateTensor*, int> state_buffers_;
  std::unordered_map<const StateUpdate*, int> saved_;
  std::vector<char> forward_launches_;  ///< of each launch: whether a unit of the forward pass makes it
  int num_prepared_ = 0;
  std::unordered_map<std::string, int> names_made_once_;
  // Of all orders of steps:
  struct PaddingKernel {
    loop::Kernel kernel;
    int number = 0;
  };
  std::vector<const loop::Kernel*> known_kernels_;
  std::map<const Value*, PaddingKernel> padding_kernels_;
  std::map<std::pair<const schedule::ScheduledUnit*, std::vector<loop::Overwrite>>, Variant> variants_;
  std::map<std::pair<const schedule::ScheduledUnit*, loop::Overwrite>, bool> can_overwrite_;
};

}  // namespace

Plan make_plan(const group::Groups& groups, const group::LoweredUnits& lowered, const schedule::ScheduledUnits& scheduled,
               const PlanOptions& options) {
  return Planner(groups, lowered, scheduled, options).run();
}

Estimate estimate_plan(const group::Groups& groups, const group::LoweredUnits& lowered, const schedule::ScheduledUnits& scheduled,
                       const PlanOptions& options) {
  return Planner(groups, lowered, scheduled, options).estimate();
}

Estimate estimate(const Plan& plan) {
  Estimate result;
  result.arena_bytes = plan.arena_bytes;
  for (const Launch& launch : plan.launches) result.cost_ns += launch.cost_ns;
  return result;
}

}  // namespace tcc::plan
