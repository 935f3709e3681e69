// Random schedules: chosen ones with primitives left out, swapped, changed and added. Each is refused as the user's mistake (exit 2), or its kernels verify,
// compile, and compute what the unit does, in the interpreter and, on the CPU, as machine code between guard pages.
//
//   test_fuzz_schedules --seed=1 --count=2000       prints unit, target and schedule of what fails
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "codegen/host_kernel.h"
#include "tcc/codegen/codegen.h"
#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/diagnostics.h"

namespace tcc::fuzz {
namespace {

using schedule::Argument;
using schedule::Primitive;
using schedule::Schedule;
using schedule::Target;

uint32_t first_seed = 1;
int count = 150;
char current[4096];  // what a signal ends

/// Units of a few thousand iterations: kernels of hundreds of threads are interpreted thread by thread.
const char* const kUnits[] = {"softmax",         "softmax_of_a_slice", "layernorm_gelu", "argmax", "column_sum_odd",   "concat_pad",
                              "cumsum",          "embedding",          "maxpool",        "gemv",   "matmul_bias_relu", "matmul_constant",
                              "pointwise_chain", "reduce_all",         "scatter",        "topk",   "transpose_add",    "conv_odd"};

struct Given {
  std::string name;
  loop::Unit unit;
  Schedule chosen[2];  ///< for the CPU, for CUDA
};

Target target_of(bool cuda) {
  Target target = cuda ? Target::cuda_sm80() : Target::cpu_v3();
  if (cuda) target.cores = 2;  // small units get the schedules of large ones
  return target;
}

std::vector<Given> read_units() {
  std::vector<Given> units;
  for (const char* name : kUnits) {
    std::ifstream file(std::filesystem::path(TCC_SOURCE_DIR) / "tests/schedule/small" / (std::string(name) + ".loop"));
    std::ostringstream text;
    text << file.rdbuf();
    Given given{name, loop::parse_unit(text.str(), name), {}};
    for (const bool cuda : {false, true}) given.chosen[cuda] = schedule::choose(given.unit, target_of(cuda));
    units.push_back(std::move(given));
  }
  return units;
}

class Mutator {
 public:
  Mutator(uint32_t seed, const Given& given, const Target& target) : random_(seed), given_(given), target_(target) {
    primitives_ = schedule::primitive_names();
  }

  /// Half of them are changed blindly, the others grow by what fits where they are.
  Schedule mutate(const Schedule& chosen) { return pick(0, 1) ? changed(chosen) : grown(chosen); }

 private:
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  template <class List> auto& one_of(List& list) { return list[static_cast<size_t>(pick(0, static_cast<int64_t>(list.size()) - 1))]; }

  std::variant<std::string, int64_t> value() {
    static const std::vector<int64_t> numbers{0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 100, 1024, 4096, 1 << 20, int64_t{1} << 40, -1};
    static const std::vector<std::string> words{"serial",  "unroll", "vector", "block",  "parallel", "thread", "warp", "lane", "registers",
                                                "scratch", "shared", "top",    "global", "m16n8k16", "mask",   "peel", "pad",  "nothing"};
    switch (pick(0, 5)) {
      case 0:
      case 1: return one_of(numbers);
      case 2: return one_of(words);
      default: return one_of(words_);
    }
  }
  /// What fits more often than chance has it.
  Primitive primitive() {
    static const std::vector<std::string> binds{"serial", "unroll", "vector", "block", "parallel", "thread", "warp", "lane"};
    static const std::vector<int64_t> factors{1, 2, 3, 4, 7, 8, 16, 32, 33};
    const std::string loop = one_of(words_);
    switch (pick(0, 9)) {
      case 0:
      case 1: return {"split", {{"", loop}, {"", one_of(factors)}}};
      case 2:
      case 3:
      case 4: return {"bind", {{"", loop}, {"", one_of(binds)}}};
      case 5: return {"reorder", {{"", loop}, {"", one_of(words_)}}};
      case 6: return {"cache", {{"", loop}, {"", std::string("registers")}}};
      case 7: return {"tile", {{"", loop}, {"", one_of(words_)}}};
      case 8: return {"peel", {{"", loop}}};
      default: {
        Primitive made{one_of(primitives_), {}};
        for (int64_t i = pick(1, 4); i > 0; --i) made.arguments.push_back({"", value()});
        if (pick(0, 3) == 0) made.arguments.push_back({"at", one_of(words_)});
        return made;
      }
    }
  }

  void take_words(const loop::Unit& unit, bool with_parts) {
    words_.clear();
    for (const loop::Param& param : unit.params) words_.push_back(param.buffer->name);
    loop::walk(unit.body, [&](const loop::Stmt& stmt) {
      if (const auto* dims = loop::dims_of(stmt)) {
        for (const loop::Dim& dim : *dims) {
          words_.push_back(dim.var->name);
          if (!with_parts) continue;
          for (const char* part : {"_0", "_1", "_0_0", "_1_1"}) words_.push_back(dim.var->name + part);
        }
      }
      for (const loop::ScalarRef& scalar : loop::defined_by(stmt)) words_.push_back(scalar->name);
    });
  }

  Schedule changed(Schedule schedule) {
    take_words(given_.unit, true);
    for (int64_t times = pick(1, 4); times > 0; --times) change(schedule);
    return schedule;
  }

  Schedule grown(const Schedule& chosen) {
    Schedule schedule(chosen.begin(), chosen.begin() + pick(0, static_cast<int64_t>(chosen.size())));
    for (int64_t times = pick(1, 6); times > 0; --times) {
      take_words(schedule::apply(given_.unit, schedule, target_), false);
      schedule.push_back(primitive());
      try {
        schedule::apply(given_.unit, schedule, target_);
      } catch (const Error& error) {
        if (error.code() != ExitCode::usage) return schedule;
        schedule.pop_back();
      }
    }
    return schedule;
  }

  void change(Schedule& schedule) {
    const auto at = [&](size_t index) { return schedule.begin() + static_cast<ptrdiff_t>(index); };
    const size_t place = static_cast<size_t>(pick(0, static_cast<int64_t>(schedule.size())));
    if (schedule.empty() || place == schedule.size() || pick(0, 2) == 0) {
      schedule.insert(at(place), primitive());
      return;
    }
    Primitive& chosen = schedule[place];
    switch (pick(0, 5)) {
      case 0: schedule.erase(at(place)); return;
      case 1: schedule.insert(at(place), Primitive(chosen)); return;
      case 2: std::swap(chosen, one_of(schedule)); return;
      case 3: chosen.name = one_of(primitives_); return;
      default:
        if (!chosen.arguments.empty()) one_of(chosen.arguments).value = value();
        return;
    }
  }

  std::mt19937 random_;
  const Given& given_;
  const Target& target_;
  std::vector<std::string> words_, primitives_;
};

/// Small integers, so that sums in any order are exact.
std::vector<Tensor> make_params(const loop::Unit& unit) {
  std::vector<Tensor> params;
  uint32_t state = 12345;
  for (const loop::Param& param : unit.params) {
    Tensor tensor(param.buffer->dtype, param.buffer->extents);
    for (int64_t i = 0; i < tensor.count() && !param.written; i++) {
      state = state * 1664525u + 1013904223u;
      tensor.set_int64(i, static_cast<int64_t>(state >> 29) - (is_unsigned_integer(tensor.dtype()) ? 0 : 3));
    }
    params.push_back(std::move(tensor));
  }
  return params;
}

std::vector<Tensor> run(const loop::Unit& unit, const std::vector<loop::Kernel>& kernels, const std::vector<loop::BufferRef>& temporaries,
                        const std::function<void(const loop::Kernel&, std::vector<Tensor>&)>& run_kernel) {
  std::map<int, Tensor> tensors;
  const std::vector<Tensor> params = make_params(unit);
  for (size_t i = 0; i < params.size(); i++) tensors[unit.params[i].buffer->id] = params[i];
  for (const loop::BufferRef& buffer : temporaries) tensors[buffer->id] = Tensor(buffer->dtype, buffer->extents);
  for (const loop::Kernel& kernel : kernels) {
    std::vector<Tensor> arguments;
    for (const loop::Param& param : kernel.params) arguments.push_back(tensors.at(param.buffer->id));
    run_kernel(kernel, arguments);
    for (size_t i = 0; i < kernel.params.size(); i++) tensors[kernel.params[i].buffer->id] = arguments[i];
  }
  std::vector<Tensor> results;
  for (const loop::Param& param : unit.params) results.push_back(tensors.at(param.buffer->id));
  return results;
}

void expect_close(const std::vector<Tensor>& found, const std::vector<Tensor>& expected, const char* where) {
  for (size_t p = 0; p < expected.size(); p++) {
    for (int64_t i = 0; i < expected[p].count(); i++) {
      const double a = found[p].as_double(i), b = expected[p].as_double(i);
      const double allowed = (expected[p].dtype() == DType::bf16 ? 4e-2 : 1e-4) * (1 + std::abs(b));
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= allowed) continue;
      ADD_FAILURE() << where << ": parameter " << p << " at " << i << " is " << a << ", expected " << b;
      break;
    }
  }
}

codegen::Options codegen_options(const Target& target) {
  codegen::Options options;
  options.target = target.name;
  return options;
}

/// Whether the schedule was accepted.
bool check(const loop::Unit& unit, const Schedule& schedule, const Target& target) {
  std::vector<loop::BufferRef> temporaries;
  std::vector<loop::Kernel> kernels;
  try {
    kernels = schedule::split_kernels(schedule::apply(unit, schedule, target), target, &temporaries);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
    return false;
  }
  for (const loop::Kernel& kernel : kernels) {
    if (!loop::verify_kernel(kernel).empty()) return false;
  }
  std::vector<Tensor> expected = make_params(unit);
  loop::interpret(unit, expected);
  expect_close(
      run(unit, kernels, temporaries, [](const loop::Kernel& kernel, std::vector<Tensor>& params) { loop::interpret(kernel, params); }),
      expected, "interpreted");
  if (target.kind == Target::Kind::cuda) {
    std::vector<codegen::NamedKernel> named;
    for (size_t k = 0; k < kernels.size(); k++) named.push_back({"k" + std::to_string(k), &kernels[k]});
    EXPECT_FALSE(codegen::emit_nvptx(named, codegen_options(target)).assembly.empty());
    return true;
  }
  expect_close(
      run(unit, kernels, temporaries,
          [](const loop::Kernel& kernel, std::vector<Tensor>& params) { codegen::HostKernel(loop::print(kernel, "k"), 1).run(params); }),
      expected, "compiled");
  return true;
}

TEST(FuzzSchedules, AreRefusedOrRight) {
  const std::vector<Given> units = read_units();
  int accepted = 0;
  for (int i = 0; i < count; i++) {
    const uint32_t seed = first_seed + static_cast<uint32_t>(i);
    const Given& given = units[seed / 2 % units.size()];
    const Target target = target_of(seed % 2 == 1);
    std::snprintf(current, sizeof current, "seed %u, making the schedule\n", seed);
    const Schedule schedule = Mutator(seed, given, target).mutate(given.chosen[seed % 2]);
    const std::string what = "seed " + std::to_string(seed) + ", " + given.name + " for " + target.name + ": " + print(schedule);
    SCOPED_TRACE(what);
    std::snprintf(current, sizeof current, "%s\n", what.c_str());
    try {
      accepted += check(given.unit, schedule, target);
    } catch (const std::exception& error) { ADD_FAILURE() << error.what(); }
  }
  std::printf("%d of %d schedules were accepted\n", accepted, count);
}

void on_signal(int number) {
  const ssize_t ignored = write(2, current, std::strlen(current));
  (void)ignored;
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void start(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    const std::string argument = argv[i];
    if (argument.starts_with("--seed=")) first_seed = static_cast<uint32_t>(std::atoll(argument.c_str() + 7));
    if (argument.starts_with("--count=")) count = std::atoi(argument.c_str() + 8);
  }
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(number, on_signal);
}

}  // namespace
}  // namespace tcc::fuzz

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  tcc::fuzz::start(argc, argv);
  return RUN_ALL_TESTS();
}
