// Every first form gets a schedule for each target whose kernels verify and compute what the first form does.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "forms.h"
#include "padded_rows.h"
#include "tcc/loop/loop.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/tensor.h"

namespace tcc::schedule {
namespace {

/// Small integers, so that any order of summation is exact. Index buffers get indices that are mostly in range.
Tensor data_for(const loop::Buffer& buffer, int seed) {
  Tensor tensor(buffer.dtype, buffer.extents);
  uint32_t state = 12345u + static_cast<uint32_t>(seed) * 777u;
  for (int64_t i = 0; i < tensor.count(); i++) {
    state = state * 1664525u + 1013904223u;
    tensor.set_int64(
        i, buffer.dtype == DType::boolean ? state >> 31 : static_cast<int64_t>(state >> 29) - (is_unsigned_integer(buffer.dtype) ? 0 : 3));
  }
  return tensor;
}

std::vector<Tensor> make_params(const loop::Unit& unit) {
  std::vector<Tensor> params;
  for (size_t i = 0; i < unit.params.size(); i++) {
    const loop::Param& param = unit.params[i];
    params.push_back(param.written ? Tensor(param.buffer->dtype, param.buffer->extents) : data_for(*param.buffer, static_cast<int>(i)));
  }
  return params;
}

void run_kernels(const loop::Unit& unit, const std::vector<loop::Kernel>& kernels, std::vector<Tensor>& params,
                 const std::vector<loop::BufferRef>& temporaries) {
  std::map<int, Tensor> tensors;
  for (size_t i = 0; i < unit.params.size(); i++) tensors[unit.params[i].buffer->id] = params[i];
  for (const loop::BufferRef& buffer : temporaries) tensors[buffer->id] = Tensor(buffer->dtype, buffer->extents);
  for (const loop::Kernel& kernel : kernels) {
    std::vector<Tensor> arguments;
    for (const loop::Param& param : kernel.params) arguments.push_back(tensors.at(param.buffer->id));
    loop::interpret(kernel, arguments);
    for (size_t i = 0; i < kernel.params.size(); i++) tensors[kernel.params[i].buffer->id] = arguments[i];
  }
  for (size_t i = 0; i < unit.params.size(); i++) params[i] = tensors.at(unit.params[i].buffer->id);
}

void expect_close(const Tensor& expected, const Tensor& actual, const std::string& what) {
  for (int64_t i = 0; i < expected.count(); i++) {
    const double e = expected.as_double(i), a = actual.as_double(i);
    const double tolerance = 1e-5 + 1e-5 * std::abs(e);
    ASSERT_TRUE(e == a || (std::isnan(e) && std::isnan(a)) || std::abs(e - a) <= tolerance)
        << what << " at " << i << ": " << a << ", expected " << e;
  }
}

void choose_or_fail(const loop::Unit& unit, const Target& target, Schedule& schedule) {
  try {
    schedule = choose(unit, target);
  } catch (const std::exception& error) { ADD_FAILURE() << error.what(); }
}

class Forms : public testing::TestWithParam<const char*> {};

Target target_named(std::string_view name) {
  if (name == "cpu") return Target::cpu_v3();
  Target target = Target::cuda_sm80();
  if (name == "narrow_cuda") target.cores = 2;  // little work fills it, so small units get the schedules of large ones
  return target;
}

TEST_P(Forms, ChoiceVerifies) {
  const Target target = target_named(GetParam());
  for (const auto& path : forms("forms")) {
    SCOPED_TRACE(path.filename().string());
    const loop::Unit unit = loop::parse_unit(read(path), path.filename().string());
    Schedule schedule;
    ASSERT_NO_FATAL_FAILURE(choose_or_fail(unit, target, schedule));
    EXPECT_EQ(print(parse_schedule(print(schedule), "schedule")), print(schedule));
    const loop::Unit scheduled = apply(unit, schedule, target);
    std::vector<loop::BufferRef> temporaries;
    const std::vector<loop::Kernel> kernels = split_kernels(scheduled, target, &temporaries);
    EXPECT_FALSE(kernels.empty());
    if (getenv("TCC_PRINT_KERNELS")) {
      std::puts((path.filename().string() + ": " + print(schedule)).c_str());
      for (const loop::Kernel& kernel : kernels) std::puts(loop::print(kernel, "k").c_str());
    }
    for (const loop::Kernel& kernel : kernels) {
      for (const std::string& fault : loop::verify_kernel(kernel))
        ADD_FAILURE() << fault << "\n" << print(schedule) << "\n" << loop::print(kernel, "k");
      EXPECT_GT(estimate_ns(kernel, target), 0);
    }
  }
}

/// What follows `// <kind>: ` in the explanation of the first nest.
std::string strategy_of(const std::string& explanation) {
  const size_t begin = explanation.find(": ") + 2;
  return explanation.substr(begin, explanation.find('\n') - begin);
}

TEST_P(Forms, ChoiceIsExplained) {
  const Target target = target_named(GetParam());
  for (const char* folder : {"forms", "small"}) {
    for (const auto& path : forms(folder)) {
      SCOPED_TRACE(path.filename().string());
      Schedule schedule;
      choose_or_fail(loop::parse_unit(read(path), path.filename().string()), target, schedule);
      const std::string explanation = explain(schedule);
      EXPECT_FALSE(strategy_of(explanation).empty()) << explanation;
      // Comments, which the reader of schedules skips; each strategy that was not taken has a reason.
      EXPECT_EQ(parse_schedule(explanation + print(schedule), "schedule"), schedule);
      std::istringstream lines(explanation);
      for (std::string line; std::getline(lines, line);) {
        EXPECT_TRUE(line.starts_with("// ")) << line;
        if (line.starts_with("//   not ")) { EXPECT_GT(line.size(), line.find(": ") + 4) << line; }
      }
    }
  }
}

TEST(Choose, TheStrategyIsTheOneForTheNest) {
  const auto chosen = [](const char* form, const Target& target, const char* folder = "forms") {
    const auto path = std::filesystem::path(TCC_TEST_DATA_DIR) / folder / (std::string(form) + ".loop");
    return explain(choose(loop::parse_unit(read(path), form), target));
  };
  const Target cuda = Target::cuda_sm80(), cpu = Target::cpu_v3();
  EXPECT_EQ(strategy_of(chosen("matmul_bf16_nt", cuda)), "tensor_cores");
  EXPECT_EQ(strategy_of(chosen("matmul_bias_relu", cuda)), "shared_tiles");
  EXPECT_NE(chosen("matmul_bias_relu", cuda).find("//   not tensor_cores: products of f32 must be exact\n"), std::string::npos);
  EXPECT_EQ(strategy_of(chosen("conv_relu", cuda)), "conv");
  EXPECT_EQ(strategy_of(chosen("conv_weight_gradient", cuda)), "conv_wgrad");
  EXPECT_EQ(strategy_of(chosen("softmax", cuda)), "row_per_block");
  EXPECT_EQ(strategy_of(chosen("layernorm_gelu", cuda)), "row_per_warp");
  EXPECT_EQ(strategy_of(chosen("softmax_long_rows", cuda)), "row_per_block");
  EXPECT_EQ(strategy_of(chosen("column_sum", cuda)), "strided_reduction");
  EXPECT_EQ(strategy_of(chosen("transpose_add", cuda)), "transpose");
  EXPECT_EQ(strategy_of(chosen("pointwise_chain", cuda)), "vectors_per_thread");
  EXPECT_EQ(strategy_of(chosen("softmax", cpu)), "vectors_along_rows");
  EXPECT_EQ(strategy_of(chosen("pointwise_chain", cpu)), "vectors");
  EXPECT_EQ(strategy_of(chosen("matmul_bias_relu", cpu)), "packed_panels");
  EXPECT_EQ(strategy_of(chosen("matmul_constant", cpu, "small")), "packed_panels");
  EXPECT_EQ(strategy_of(chosen("conv_constant", cpu, "small")), "channels_in_vectors");
}

void expect_the_same(const std::string& text, const std::string& name, const Target& target) {
  SCOPED_TRACE(name);
  const loop::Unit unit = loop::parse_unit(text, name);
  Schedule schedule;
  choose_or_fail(unit, target, schedule);
  SCOPED_TRACE(print(schedule));
  const loop::Unit scheduled = apply(unit, schedule, target);
  std::vector<loop::BufferRef> temporaries;
  const std::vector<loop::Kernel> kernels = split_kernels(scheduled, target, &temporaries);
  for (const loop::Kernel& kernel : kernels) {
    for (const std::string& fault : loop::verify_kernel(kernel)) ADD_FAILURE() << fault << "\n" << loop::print(kernel, "k");
  }
  std::vector<Tensor> expected = make_params(unit), actual = make_params(unit);
  loop::interpret(unit, expected);
  ASSERT_NO_THROW(run_kernels(unit, kernels, actual, temporaries));
  for (size_t i = 0; i < expected.size(); i++) {
    if (unit.params[i].written) expect_close(expected[i], actual[i], unit.params[i].buffer->name);
  }
  if (testing::Test::HasFailure() && getenv("TCC_PRINT_KERNELS")) {
    for (const loop::Kernel& kernel : kernels) std::puts(loop::print(kernel, "k").c_str());
    return;
  }
}

TEST_P(Forms, ChoiceComputesTheSame) {
  for (const auto& path : forms("small")) expect_the_same(read(path), path.filename().string(), target_named(GetParam()));
}

/// Parameters whose rows have padding.
TEST_P(Forms, ChoiceComputesTheSameWithPaddedRows) {
  for (const auto& path : forms("small"))
    expect_the_same(examples::with_padded_rows(read(path)), path.filename().string(), target_named(GetParam()));
}

/// LLVM takes vectors of 24 or 40 elements apart wherever they live longer than a block of code: a register tile is made of powers of two.
TEST(ChooseCpu, TilesOfAnyNumberOfColumnsAreWholeVectors) {
  for (const char* columns : {"20", "24", "200"}) {
    SCOPED_TRACE(columns);
    const auto path = std::filesystem::path(TCC_TEST_DATA_DIR) / "small" / ("matmul_columns_" + std::string(columns) + ".loop");
    const loop::Unit unit = loop::parse_unit(read(path), path.string());
    std::vector<loop::BufferRef> temporaries;
    int vectors = 0;
    for (const loop::Kernel& kernel :
         split_kernels(apply(unit, choose(unit, Target::cpu_v3()), Target::cpu_v3()), Target::cpu_v3(), &temporaries)) {
      const std::string text = loop::print(kernel, "k"), bound = " bind(vector)";
      for (size_t at = text.find(bound); at != std::string::npos; at = text.find(bound, at + 1), vectors++) {
        const int extent = std::stoi(text.substr(text.rfind(' ', at - 1)));
        EXPECT_EQ(extent & (extent - 1), 0) << text;
        EXPECT_GE(extent, 4) << text;
      }
    }
    EXPECT_GT(vectors, 0);
  }
}

/// Functions are approximated where their result is rounded to 16 bits in the same expression, on CUDA.
TEST(Apply, MarksMathThatIsRoundedAtOnce) {
  const loop::Unit unit = loop::parse_unit(R"(unit (%a: f32[64]) -> (%r: bf16[64], %s: f32[64], %t: bf16[64]) {
    map %i in 64 {
      %e: f32 = exp(load %a[%i])
      store cast<bf16>(add(tanh(load %a[%i]), 1.0)), %r[%i]
      store erf(cast<f32>(cast<f16>(erf(%e)))), %s[%i]
      store cast<bf16>(select(lt(%e, cast<f32>(cast<i32>(exp2(%e)))), rsqrt(%e), sqrt(%e))), %t[%i]
    } })",
                                           "test");
  const auto text = [&](const Target& target) {
    const std::vector<loop::Kernel> kernels = split_kernels(apply(unit, choose(unit, target), target), target, nullptr);
    return loop::print(kernels.front(), "k");
  };
  const std::string cuda = text(Target::cuda_sm80()), cpu = text(Target::cpu_v3());
  for (const char* marked : {"add(approx.tanh(", "erf(cast<f32>(cast<f16>(approx.erf(", "approx.rsqrt(", "= exp(", "cast<i32>(exp2("})
    EXPECT_NE(cuda.find(marked), std::string::npos) << marked << "\n" << cuda;
  EXPECT_EQ(cuda.find("approx.exp"), std::string::npos) << cuda;
  EXPECT_EQ(cpu.find("approx."), std::string::npos) << cpu;
}

INSTANTIATE_TEST_SUITE_P(Targets, Forms, testing::Values("cpu", "cuda", "narrow_cuda"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tcc::schedule
