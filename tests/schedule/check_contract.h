// Whether kernels of a schedule verify and compute what the first form does, on integers for which all sums are exact: small ones, and all of 8 bits.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tcc/loop/loop.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/tensor.h"

namespace tcc::schedule {

inline std::vector<Tensor> make_params(const loop::Unit& unit) {
  std::vector<Tensor> params;
  uint32_t state = 12345;
  for (const loop::Param& param : unit.params) {
    Tensor tensor(param.buffer->dtype, param.buffer->extents);
    for (int64_t i = 0; i < tensor.count() && !param.written; i++) {
      state = state * 1664525u + 1013904223u;
      const DType dtype = tensor.dtype();
      if (dtype == DType::i8 || dtype == DType::u8) tensor.set_int64(i, static_cast<int64_t>(state >> 24) - (dtype == DType::i8 ? 128 : 0));
      else tensor.set_int64(i, static_cast<int64_t>(state >> 30) - 1);
    }
    params.push_back(std::move(tensor));
  }
  return params;
}

/// Runs one kernel on tensors in the order of its parameters.
using RunKernel = std::function<void(const loop::Kernel& kernel, std::vector<Tensor>& arguments)>;

inline void interpret_kernel(const loop::Kernel& kernel, std::vector<Tensor>& arguments) { loop::interpret(kernel, arguments); }

/// Runs the kernels one after the other, temporaries between them.
inline void run(const loop::Unit& unit, const std::vector<loop::Kernel>& kernels, const std::vector<loop::BufferRef>& temporaries,
                std::vector<Tensor>& params, const RunKernel& run_kernel) {
  std::map<int, Tensor> tensors;
  for (size_t i = 0; i < params.size(); i++) tensors[unit.params[i].buffer->id] = params[i];
  for (const loop::BufferRef& buffer : temporaries) tensors[buffer->id] = Tensor(buffer->dtype, buffer->extents);
  for (const loop::Kernel& kernel : kernels) {
    std::vector<Tensor> arguments;
    for (const loop::Param& param : kernel.params) arguments.push_back(tensors.at(param.buffer->id));
    run_kernel(kernel, arguments);
    for (size_t i = 0; i < arguments.size(); i++) tensors[kernel.params[i].buffer->id] = arguments[i];
  }
  for (size_t i = 0; i < params.size(); i++) params[i] = tensors.at(unit.params[i].buffer->id);
}

/// `num_kernels`: expected, 0 for any number. The schedule's text; failures when a kernel doesn't verify or the kernels compute something else.
inline std::string check(const std::string& text, const Target& target, const char* given = nullptr, size_t num_kernels = 1,
                         const RunKernel& run_kernel = interpret_kernel) {
  const loop::Unit unit = loop::parse_unit(text, "test");
  const Schedule schedule = given ? parse_schedule(given, "test") : choose(unit, target);
  const std::string printed = print(schedule);
  EXPECT_EQ(print(parse_schedule(printed, "schedule")), printed);
  std::vector<loop::BufferRef> temporaries;
  const std::vector<loop::Kernel> kernels = split_kernels(apply(unit, schedule, target), target, &temporaries);
  EXPECT_TRUE(num_kernels == 0 || kernels.size() == num_kernels) << kernels.size() << " kernels\n" << printed;
  std::string all;
  for (const loop::Kernel& kernel : kernels) {
    const std::string one = loop::print(kernel, "k");
    all += one;
    const std::vector<std::string> faults = loop::verify_kernel(kernel);
    for (const std::string& fault : faults) ADD_FAILURE() << fault << "\n" << printed << "\n" << one;
    if (!faults.empty()) return printed;
    std::string why;
    EXPECT_TRUE(loop::equal(loop::parse_kernel(one, "kernel"), kernel, &why)) << why << "\n" << one;
    EXPECT_GT(estimate_ns(kernel, target), 0);
  }

  std::vector<Tensor> expected = make_params(unit), actual = make_params(unit);
  loop::interpret(unit, expected);
  try {
    run(unit, kernels, temporaries, actual, run_kernel);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << "\n" << printed << "\n" << all;
    return printed;
  }
  const Tensor& e = expected.back();
  const Tensor& a = actual.back();
  for (int64_t i = 0; i < e.count(); i++) {
    if (e.as_double(i) == a.as_double(i)) continue;
    ADD_FAILURE() << "at " << i << ": " << a.as_double(i) << ", expected " << e.as_double(i) << "\n" << printed << "\n" << all;
    break;
  }
  return printed;
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tcc::schedule
