// The plan: the program of launches over buffers that the launcher runs, per target.
//
//   plan @net target x86-64-v3 peak 73_728 total 120_000 {
//     launch k0 #0 "fc1/Gemm + relu/Relu" grid 8 cost_ns 900 (%x, @fc1.weight, @fc1.bias, %r)
//     buffer %r arena offset 0 bytes 8192
//   }
//
// State. A weight that PlanOptions::state has is memory that stays between runs. A plan reads what it held on entry, and the value of `state(@w = %v)` is
// there when the plan ends: the unit that computes %v writes it straight into the state when everything else that reads those bytes comes before it, and
// reads them itself only element by element where it writes (the old value and the new one are then one parameter of the kernel, read and written).
// Where that is not possible, %v lies in the arena and a copy at the end brings it home. No launch reads bytes of the state that an earlier one wrote.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/group/lower_units.h"
#include "tcc/schedule/schedule_units.h"

namespace tcc {
struct StateLayout;
}

namespace tcc::plan {

/// state: of the instance; block 0: parameters, optimizer, statistics, block 1: gradients. scalar: set through the API, read as an input of rank 0.
/// constant: a result of one of Plan::constants, which the library has among its weights. prepared: a result of one of Plan::preparations, which an instance
/// makes for itself.
struct Buffer {
  enum class Kind : uint8_t { input, output, weight, arena, alias, state, scalar, constant, prepared };
  Kind kind = Kind::arena;
  std::string name;  ///< of the value (scratch: "<unit>.scratch0")
  DType dtype = DType::f32;
  Shape shape;
  int64_t row_padding = 0;  ///< elements behind each row, as loop::Buffer has it
  int64_t size_bytes = 0;
  int index = 0;  ///< input, output, weight, scalar, constant, prepared: which; alias: the base buffer's number; state: the block
  int64_t offset =
      0;  ///< arena, state: byte offset (256-byte aligned); alias: byte offset in the base; input, output: where in the packed tensor
  bool scratch = false;
  bool overwrites = false;  ///< alias: holds another value than its base, whose bytes it takes over
};

/// The label of units and kernels that come from no model.
inline constexpr std::string_view kUnitLabel = "unit";

struct Launch {
  enum class Kind : uint8_t {
    kernel,
    copy
  };  ///< copy: an output that is an input, a weight or another output; a state that could not be written in place. Later: if, while with regions
  Kind kind = Kind::kernel;
  int kernel = 0;              ///< number in Plan::kernels
  int unit = -1;               ///< a kernel of a scheduled unit: its number in ScheduledUnits::units
  std::string label;           ///< what it computes, in the names of the model; kUnitLabel outside of one
  int64_t grid = 1;            ///< of the kernel: blocks, or parallel items
  std::vector<int> arguments;  ///< buffer numbers, in the kernel's parameter order (copy: source, destination)
  int first_check = -1;        ///< a kernel that checks indices: its check 0 in Plan::checks
  double cost_ns = 0;
};

/// What a check of indices is about, for the message when one is out of range.
struct IndexCheck {
  std::string index;  ///< "input `ids` has the index"; of a guard the whole message: "the guard that input `x` is 3 fails"
  std::string place;  ///< "gather `embed/Gather`"; of a guard empty
  int64_t low = 0, high = 0;
  bool operator==(const IndexCheck&) const = default;
};

struct Plan {
  std::string name;
  schedule::Target target;
  std::vector<Buffer> buffers;
  std::vector<Launch> launches;
  std::vector<Launch> constants;        ///< run once, when the library is made: they read constants, and weights that nothing else reads
  std::vector<Launch> preparations;     ///< run once for an instance: they read weights, constants and what others prepared
  std::vector<Tensor> constant_values;  ///< by Buffer::index; undefined until they have run
  std::vector<IndexCheck> checks;       ///< of all units that have some, one after the other
  std::vector<loop::Kernel> kernels;    ///< each body once: equal bodies share one
  std::vector<Weight*> weights;         ///< by Buffer::index
  int64_t arena_bytes = 0;              ///< the planned peak
  int64_t total_bytes = 0;              ///< sum of all arena buffers without reuse
  int first_packed_output = -1, first_packed_input = -1;  ///< as in PlanOptions
  int64_t packed_output_bytes = 0, packed_input_bytes = 0;
};

/// Every list of launches, those of each run first.
inline std::array<std::vector<Launch>*, 3> launch_lists(Plan& plan) { return {&plan.launches, &plan.preparations, &plan.constants}; }
inline std::array<const std::vector<Launch>*, 3> launch_lists(const Plan& plan) {
  return {&plan.launches, &plan.preparations, &plan.constants};
}

struct PlanOptions {
  const StateLayout* state =
      nullptr;                       ///< weights found there are state; state updates are written there. Null: `state_updates` are left out
  std::vector<std::string> scalars;  ///< graph inputs of these names are scalars; indices of inputs count the others only
  /// From this graph output (input that is not a scalar) on, all are parts of one tensor u8[N] of the caller, at 256-byte aligned offsets in order:
  /// Buffer::index is this number for all of them.
  int first_packed_output = -1, first_packed_input = -1;
};

/// Orders the launches of all units and places every buffer. `lowered` and `scheduled` are of these groups, for one target.
Plan make_plan(const group::Groups& groups, const group::LoweredUnits& lowered, const schedule::ScheduledUnits& scheduled,
               const PlanOptions& options = {});

/// Units that no graph stands behind. One of them is a program whose inputs and outputs are its parameters; what passes between several is not known: their
/// plan holds the kernels, to be looked at.
Plan plan_units(const schedule::ScheduledUnits& scheduled, std::string name);

/// The kernels that a library has code for: the first ones of the list, without those behind them that constants alone need.
int num_launched_kernels(const Plan& plan);

/// Makes one list of kernels for all plans of one target, each body once, numbered in the order of the plans.
void merge_kernels(const std::vector<Plan*>& plans);

struct Estimate {
  int64_t arena_bytes = 0;
  double cost_ns = 0;  ///< sum over the launches
  /// The most bytes that live at a time, if what units of the forward pass make lived no longer than that pass reads it. estimate_plan sets this.
  int64_t floor_bytes = 0;
};
Estimate estimate(const Plan& plan);
/// The same of the plan that make_plan would make, and its floor.
Estimate estimate_plan(const group::Groups& groups, const group::LoweredUnits& lowered, const schedule::ScheduledUnits& scheduled,
                       const PlanOptions& options = {});

std::string print(const Plan& plan);
Plan parse_plan(std::string_view text, const std::string& file);  ///< launches and buffers; kernels stay empty
bool equal(const Plan& a, const Plan& b, std::string* why = nullptr);
/// No two live buffers overlap, arguments match parameters, and what a launch reads is the value it names: written before, not overwritten since. State is
/// written once: what a launch reads of a weight is what it was on entry; only the new value's own buffer reads the new value.
std::vector<std::string> verify(const Plan& plan);

/// What stays between runs of a plan's functions: the two blocks of state, and the scalars by their number.
struct StateMemory {
  std::vector<std::byte> blocks[2];
  std::vector<Tensor> scalars;
};
StateMemory initial_state(const StateLayout& layout, std::vector<Tensor> scalars);
Tensor read_state(const StateMemory& memory, const StateLayout& layout, std::string_view name);
/// What the plan's constants are, by the kernel interpreter.
std::vector<Tensor> interpret_constants(const Plan& plan);
/// Runs the plan with the kernel interpreter (preparations included, and constants unless their values are there): the oracle of launch order and buffer
/// reuse. `inputs`: the caller's, packed ones as one tensor; state is read from and written to `state`, which may be null for a plan that has none. `bad_indices` (null: not asked for): of each check, or 0.
std::vector<Tensor> interpret(const Plan& plan, const std::vector<Tensor>& inputs, StateMemory* state = nullptr,
                              std::vector<int64_t>* bad_indices = nullptr);

}  // namespace tcc::plan
