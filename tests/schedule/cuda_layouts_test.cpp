// Operands of any layout on tensor cores: dims are fused, copies by loops gather them, and kernels compute what the first form does.
#include <gtest/gtest.h>

#include "check_contract.h"
#include "random_contraction.h"

namespace tcc::schedule {
namespace {

using examples::ContractionGenerator;
using examples::RandomContraction;

std::string call(const std::string& primitive, const std::vector<std::string>& arguments) {
  std::string text;
  for (const std::string& argument : arguments) text += (text.empty() ? "" : ", ") + argument;
  return primitive + "(" + text + ") ";
}

/// Fuses the dims, says with which primitives, and returns the name of the result.
std::string fused(const std::vector<std::string>& dims, std::string& schedule) {
  std::string name = dims[0];
  for (size_t i = 1; i < dims.size(); i++) {
    schedule += call("fuse", {name, dims[i]});
    name += "_" + dims[i];
  }
  return name;
}

TEST(CudaLayouts, RandomOperandsAreStagedByLoops) {
  for (uint32_t seed = 1; seed <= 24; seed++) {
    ContractionGenerator generator(seed);
    const bool narrowed = generator.chance(4);
    const RandomContraction made = generator.draw(generator.chance(2), narrowed);
    std::string schedule;
    std::vector<std::string> sum = made.sum;
    std::shuffle(sum.begin(), sum.end(), std::mt19937(seed));
    if (sum.size() > 1) schedule += call("reorder", sum);
    const std::string m = fused(made.rows, schedule), n = fused(made.columns, schedule), k = fused(sum, schedule);
    const std::string swizzle = generator.chance(2) ? ", swizzle=1" : "";
    schedule += call("split", {m, generator.chance(2) ? "16" : "32", "tail=pad"}) + call("split", {n, "16", "tail=pad"});
    std::vector<std::string> order = made.batch;
    for (const std::string& dim : {m + "_0", n + "_0", m + "_1", n + "_1"}) order.push_back(dim);
    schedule += call("reorder", order);
    for (const std::string& dim : std::vector<std::string>(order.begin(), order.end() - 2)) schedule += call("bind", {dim, "block"});
    schedule += call("split", {k, "16", "tail=pad"}) + call("tile", {"v0", m + "_1", n + "_1"});
    schedule += call("stage", {"a1", "shared", "at=" + k + "_0", "by=loops" + swizzle});
    schedule += call("stage", {"a0", "shared", "at=" + k + "_0", std::string("by=loops") + (narrowed ? ", as=bf16" : "") + swizzle});
    schedule += "tensorize(v0, m16n8k16, 1, 1)";
    if (generator.chance(2)) schedule += " pipeline(" + k + "_0, 3)";
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + made.text + schedule);
    check(made.text, Target::cuda_sm80(), schedule.c_str());
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

TEST(CudaLayouts, RandomContractionsAreChosenForTensorCores) {
  for (uint32_t seed = 101; seed <= 130; seed++) {
    ContractionGenerator generator(seed);
    const bool window = generator.chance(2), narrowed = generator.chance(4);
    const RandomContraction made = generator.draw(window, narrowed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + made.text);
    const std::string schedule = check(made.text, Target::cuda_sm80());
    EXPECT_EQ(has(schedule, "tensorize"), made.length >= 16) << schedule;
    if (HasFatalFailure() || HasNonfatalFailure()) return;
  }
}

}  // namespace
}  // namespace tcc::schedule
