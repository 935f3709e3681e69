// The one kernel of a unit whose products stay in registers, for tests: that it is well formed, and what it computes in the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "check_contract.h"

namespace tcc::schedule {

/// Normal random numbers for what is read.
inline std::vector<Tensor> random_params(const loop::Unit& unit, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Tensor> params;
  for (const loop::Param& param : unit.params) {
    Tensor tensor(param.buffer->dtype, param.buffer->extents);
    for (int64_t i = 0; i < tensor.count() && !param.written; i++) tensor.set_double(i, normal(random));
    params.push_back(std::move(tensor));
  }
  return params;
}

/// Runs the unit's kernel by the schedule, or by the one that is chosen where that is empty, on the parameters; `texts` become those of the schedule and the kernel.
inline void run_streamed(const loop::Unit& unit, const std::string& schedule, std::vector<Tensor>& params, std::string& texts) {
  for (const std::string& fault : loop::verify_first_form(unit)) FAIL() << fault << "\n" << loop::print(unit);
  const Target target = Target::cuda_sm90a();
  EXPECT_TRUE(stream_ns(unit, target)) << loop::print(unit);
  const Schedule chosen = schedule.empty() ? choose(unit, target) : parse_schedule(schedule, "test");
  std::vector<loop::BufferRef> temporaries;
  const std::vector<loop::Kernel> kernels = split_kernels(apply(unit, chosen, target), target, &temporaries);
  ASSERT_EQ(kernels.size(), 1U);
  const std::string printed = loop::print(kernels[0], "k");
  texts = print(chosen) + "\n" + printed;
  EXPECT_NE(printed.find("roles"), std::string::npos) << texts;
  for (const std::string& fault : loop::verify_kernel(kernels[0])) FAIL() << fault << "\n" << printed;
  std::string why;
  EXPECT_TRUE(loop::equal(loop::parse_kernel(printed, "kernel"), kernels[0], &why)) << why << "\n" << printed;
  try {
    run(unit, kernels, temporaries, params, interpret_kernel);
  } catch (const std::exception& error) { FAIL() << error.what() << "\n" << printed; }
}

/// Whether a number is the one wanted, NaN and infinite ones exactly.
inline bool agrees(double is, double wanted, double tolerance) {
  if (std::isnan(wanted)) return std::isnan(is);
  return std::isfinite(wanted) ? std::abs(is - wanted) <= tolerance : is == wanted;
}

}  // namespace tcc::schedule
