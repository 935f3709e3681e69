// The plan: the program of launches over buffers that the launcher runs, per target.
//
//   plan @net target x86-64-v3 peak 73_728 total 120_000 {
//     launch k0 #0 "fc1/Gemm + relu/Relu" grid 8 cost_ns 900 (%x, @fc1.weight, @fc1.bias, %r)
//     buffer %r arena offset 0 bytes 8192
//   }
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tcc/group/group.h"
#include "tcc/schedule/schedule.h"

namespace tcc::plan {

struct Buffer {
  enum class Kind : uint8_t { input, output, weight, arena, alias };
  Kind kind = Kind::arena;
  std::string name;  ///< of the value (scratch: "<unit>.scratch0")
  DType dtype = DType::f32;
  Shape shape;
  int64_t size_bytes = 0;
  int index = 0;       ///< input, output, weight: which; alias: the base buffer's number
  int64_t offset = 0;  ///< arena: byte offset (256-byte aligned); alias: byte offset in the base
  bool scratch = false;
};

struct Launch {
  enum class Kind : uint8_t {
    kernel,
    copy
  };  ///< copy: an output that is an input, a weight or another output. Later: fill, if, while with regions
  Kind kind = Kind::kernel;
  int kernel = 0;  ///< number in Plan::kernels
  std::string label;
  int64_t grid = 1;            ///< of the kernel: blocks, or parallel items
  std::vector<int> arguments;  ///< buffer numbers, in the kernel's parameter order (copy: source, destination)
  double cost_ns = 0;
};

struct Plan {
  std::string name;
  schedule::Target target;
  std::vector<Buffer> buffers;
  std::vector<Launch> launches;
  std::vector<loop::Kernel> kernels;          ///< each body once: equal bodies share one
  std::vector<schedule::Schedule> schedules;  ///< of each kernel's unit, for printing
  std::vector<std::string> unit_forms;        ///< first-form text of each distinct unit, for --emit=loop
  std::vector<Weight*> weights;               ///< by Buffer::index
  int64_t arena_bytes = 0;                    ///< the planned peak
  int64_t total_bytes = 0;                    ///< sum of all arena buffers without reuse
};

/// Lowers, schedules and orders all units, and gives every buffer its place. Equal first forms are scheduled once.
Plan make_plan(const Graph& graph, const group::Groups& groups, const schedule::Target& target);
std::string print(const Plan& plan);
Plan parse_plan(std::string_view text, const std::string& file);  ///< launches and buffers; kernels stay empty
bool equal(const Plan& a, const Plan& b, std::string* why = nullptr);
std::vector<std::string> verify(const Plan& plan);  ///< no two live buffers overlap, arguments match parameters, reads after writes
/// Runs the plan with the kernel interpreter: the oracle of launch order and buffer reuse.
std::vector<Tensor> interpret(const Plan& plan, const std::vector<Tensor>& inputs);

}  // namespace tcc::plan
