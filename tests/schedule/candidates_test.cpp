// Candidates: the first is what `choose` takes, all are different, their kernels verify and compute what the first form does.
#include "tcc/schedule/candidates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "../codegen/host_kernel.h"
#include "check_contract.h"
#include "forms.h"
#include "random_contraction.h"

namespace tcc::schedule {
namespace {

constexpr size_t kMost = kFewCandidates, kChecked = 5;  // of those that are run

Target target_named(std::string_view name) {
  if (name == "cpu") return Target::cpu_v3();
  Target target = name.starts_with("sm_90a") ? Target::cuda_sm90a() : Target::cuda_sm80();
  target.allow_tf32 = name.ends_with("tf32");
  if (name.ends_with("narrow")) target.cores = 2;  // little work fills it, so small units get the schedules of large ones
  return target;
}

void expect_verified(const loop::Unit& unit, const Schedule& schedule, const Target& target) {
  std::vector<loop::BufferRef> temporaries;
  for (const loop::Kernel& kernel : split_kernels(apply(unit, schedule, target), target, &temporaries)) {
    for (const std::string& fault : loop::verify_kernel(kernel)) ADD_FAILURE() << fault << "\n" << loop::print(kernel, "k");
  }
}

class Candidates : public testing::TestWithParam<const char*> {};

TEST_P(Candidates, OfAllFormsVerify) {
  const Target target = target_named(GetParam());
  size_t several = 0, count = 0;
  for (const char* folder : {"forms", "small"}) {
    for (const auto& path : forms(folder)) {
      SCOPED_TRACE(path.string());
      const loop::Unit unit = loop::parse_unit(read(path), path.filename().string());
      const std::vector<Candidate> found = candidates(unit, target, kMost);
      ASSERT_FALSE(found.empty());
      ASSERT_LE(found.size(), kMost);
      EXPECT_EQ(found.front().schedule, choose(unit, target));
      EXPECT_EQ(explain(found.front().schedule), explain(choose(unit, target)));
      count++;
      several += found.size() > 1;
      std::set<std::string> texts;
      for (const Candidate& candidate : found) {
        const std::string text = print(candidate.schedule);
        SCOPED_TRACE(text);
        EXPECT_TRUE(texts.insert(text).second);
        EXPECT_EQ(parse_schedule(text, "schedule"), candidate.schedule);
        EXPECT_FALSE(explain(candidate.schedule).empty());
        EXPECT_GT(candidate.ns, 0);
        expect_verified(unit, candidate.schedule, target);
      }
      for (size_t i = 2; i < found.size(); i++) EXPECT_LE(found[i - 1].ns, found[i].ns);
    }
  }
  EXPECT_GT(several, count * 2 / 3);
}

/// Sums may be taken in any order.
void expect_close(const Tensor& expected, const Tensor& found, const std::string& what) {
  const double tolerance = size_bytes(expected.dtype()) < 4 ? 1e-2 : 1e-5;
  for (int64_t i = 0; i < expected.count(); i++) {
    const double e = expected.as_double(i), f = found.as_double(i);
    ASSERT_TRUE(e == f || (std::isnan(e) && std::isnan(f)) || std::abs(e - f) <= tolerance * (1 + std::abs(e)))
        << what << " at " << i << ": " << f << ", expected " << e;
  }
}

/// All candidates compute what the unit does: on the CPU as machine code, of CUDA in the interpreter.
void check_candidates(const std::string& text, const Target& target, size_t most) {
  SCOPED_TRACE(text);
  const loop::Unit unit = loop::parse_unit(text, "test");
  std::vector<Tensor> expected = make_params(unit);
  loop::interpret(unit, expected);
  struct Built {
    std::vector<loop::Kernel> kernels;
    std::vector<loop::BufferRef> temporaries;
  };
  const std::vector<Candidate> found = candidates(unit, target, most);
  std::vector<Built> built;
  std::vector<loop::Kernel> all;
  for (const Candidate& candidate : found) {
    Built& one = built.emplace_back();
    one.kernels = split_kernels(apply(unit, candidate.schedule, target), target, &one.temporaries);
    all.insert(all.end(), one.kernels.begin(), one.kernels.end());
  }
  std::optional<codegen::HostKernels> machine_code;
  if (target.is_cpu()) machine_code.emplace(all, 1);
  size_t next = 0;
  const auto run_kernel = [&](const loop::Kernel& kernel, std::vector<Tensor>& arguments) {
    if (machine_code) machine_code->run(next++, arguments, 0, kernel.grid);
    else loop::interpret(kernel, arguments);
  };
  for (size_t i = 0; i < found.size(); i++) {
    SCOPED_TRACE(print(found[i].schedule));
    std::vector<Tensor> params = make_params(unit);
    ASSERT_NO_THROW(run(unit, built[i].kernels, built[i].temporaries, params, run_kernel));
    for (size_t p = 0; p < params.size(); p++) {
      if (!unit.params[p].written) continue;
      ASSERT_NO_FATAL_FAILURE(expect_close(expected[p], params[p], unit.params[p].buffer->name));
    }
  }
}

/// A kernel of hundreds of threads takes long in the interpreter.
bool is_slow(const Target& target, const std::string& text) {
  if (target.is_cpu()) return false;
  int64_t elements = 0;
  for (const loop::Param& param : loop::parse_unit(text, "test").params) elements += param.buffer->count();
  return elements > 20000;
}

/// On targets that little work fills.
class SmallCandidates : public Candidates {};

TEST_P(SmallCandidates, OfSmallFormsComputeTheSame) {
  const Target target = target_named(GetParam());
  int checked = 0;
  for (const auto& path : forms("small")) {
    const std::string text = read(path);
    if (is_slow(target, text)) continue;
    SCOPED_TRACE(path.filename().string());
    checked++;
    check_candidates(text, target, kChecked);
    if (HasFailure()) return;
  }
  EXPECT_GE(checked, 10);
}

/// The same for units that nobody wrote down.
TEST_P(SmallCandidates, OfRandomContractionsComputeTheSame) {
  const Target target = target_named(GetParam());
  for (uint32_t seed = 1; seed <= 16 && !HasFailure(); seed++) {
    examples::ContractionGenerator random(seed);
    check_candidates(random.draw(seed % 3 == 0, seed % 2 == 0).text, target, kChecked);
  }
}

/// Rows as softmax and norms have them: sums and maxima along one or two dims, which lie anywhere in memory, then each element again.
std::string random_rows(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::initializer_list<int> values) { return std::to_string(values.begin()[random() % values.size()]); };
  const std::string rows = pick({1, 3, 8, 17}), more = pick({1, 2, 5}), row = pick({3, 16, 31, 64, 130, 260}),
                    dtype = pick({0, 1}) == "0" ? "f32" : "bf16";
  const bool across = random() % 3 == 0;
  const std::string shape = across ? "[" + rows + ", " + row + ", " + more + "]" : "[" + rows + ", " + more + ", " + row + "]";
  const auto at = [&](const std::string& k) { return across ? "[%i, " + k + ", %j]" : "[%i, %j, " + k + "]"; };
  const auto load = [&](const std::string& k) { return dtype == "f32" ? "load %a0" + at(k) : "cast<f32>(load %a0" + at(k) + ")"; };
  const std::string combiner = random() % 2 ? "max" : "sum";
  return "unit (%a0: " + dtype + shape + ", %a1: f32[" + row + "]) -> (%r0: f32" + shape + ") {\n  map %i in " + rows + ", %j in " + more +
         " {\n    %v0: f32 = reduce " + combiner + " %k in " + row + " {\n      %v1: f32 = " + load("%k") + "\n      yield %v1\n    }\n" +
         "    %v2: f32 = reduce sum %l in " + row + " {\n      %v3: f32 = " + load("%l") +
         "\n      yield mul(sub(%v3, %v0), %v3)\n    }\n" + "    map %m in " + row + " {\n      %v4: f32 = " + load("%m") +
         "\n      %v5: f32 = load %a1[%m]\n      store add(mul(sub(%v4, %v0), %v5), %v2), %r0" + at("%m") + "\n    }\n  }\n}\n";
}

TEST_P(SmallCandidates, OfRandomRowsComputeTheSame) {
  const Target target = target_named(GetParam());
  for (uint32_t seed = 1; seed <= 24 && !HasFailure(); seed++) check_candidates(random_rows(seed), target, kChecked);
}

TEST(CandidatesOfOneUnit, AreOtherStrategiesAndOtherTiles) {
  const auto of = [](const char* form, const Target& target) {
    std::set<std::string> strategies;
    const std::string text = read(std::filesystem::path(TCC_TEST_DATA_DIR) / "forms" / (std::string(form) + ".loop"));
    for (const Candidate& candidate : candidates(loop::parse_unit(text, form), target, 2 * kMost)) {
      const std::string why = explain(candidate.schedule);
      const size_t begin = why.find(": ") + 2;
      strategies.insert(why.substr(begin, why.find('\n') - begin));
    }
    return strategies;
  };
  EXPECT_EQ(of("matmul_bf16_nt", Target::cuda_sm90a()), (std::set<std::string>{"warpgroup_cores", "tensor_cores"}));
  EXPECT_TRUE(of("matmul_bias_relu", Target::cpu_v3()).contains("packed_panels"));
  EXPECT_TRUE(of("matmul_bias_relu", Target::cpu_v3()).contains("register_tile"));
}

// The gradient of a weight that rows of an odd length share: the sum is filled up with zeros, row by row, and nothing is behind the last one.
TEST(CandidatesOfOneUnit, OfSumsThatAreFilledUpVerify) {
  for (const auto& [rows, length] : {std::pair(32, 197), std::pair(5, 300), std::pair(7, 90)}) {
    const std::string l = std::to_string(length), r = std::to_string(rows);
    const loop::Unit unit =
        loop::parse_unit("unit (%a0: bf16[" + r + ", " + l + ", 768], %a1: bf16[" + l + ", " + r + R"(, 2304]) -> (%r0: bf16[2304, 768]) {
  map %i in 768, %j in 2304 {
    %v0: f32 = reduce sum %k in )" +
                             l + ", %l in " + r + R"( {
      %v1: bf16 = load %a0[%l, %k, %i]
      %v2: bf16 = load %a1[%k, %l, %j]
      yield mul(cast<f32>(%v1), cast<f32>(%v2))
    }
    store cast<bf16>(%v0), %r0[%j, %i]
  }
}
)",
                         "filled");
    const Target target = Target::cuda_sm90a();
    const std::vector<Candidate> found = candidates(unit, target, 24);
    EXPECT_GT(found.size(), 8u);
    for (const Candidate& candidate : found) expect_verified(unit, candidate.schedule, target);
  }
}

TEST(CandidatesOfOneUnit, AreAtMostSoMany) {
  const std::string text = read(std::filesystem::path(TCC_TEST_DATA_DIR) / "forms" / "matmul_bf16_nt.loop");
  const loop::Unit unit = loop::parse_unit(text, "matmul");
  const std::vector<Candidate> all = candidates(unit, Target::cuda_sm80(), kMost);
  ASSERT_EQ(all.size(), kMost);
  EXPECT_EQ(candidates(unit, Target::cuda_sm80(), 1).size(), 1u);
  EXPECT_EQ(candidates(unit, Target::cuda_sm80(), 2).size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Targets, Candidates,
                         testing::Values("cpu", "sm_80", "sm_80_narrow", "sm_80_tf32", "sm_90a", "sm_90a_narrow", "sm_90a_tf32"),
                         [](const auto& info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(Targets, SmallCandidates, testing::Values("cpu", "sm_80_narrow", "sm_90a_narrow"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tcc::schedule
