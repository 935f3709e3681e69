// What fx_cases.json and fx_training_cases.json hold: small captured programs, and what the framework computes for them (make_fx_cases.py).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/support/files.h"
#include "tcc/support/tensor.h"

namespace tcc::testing {

/// Those of operators, then those of training.
inline const nlohmann::json& fx_cases() {
  static const nlohmann::json json = [] {
    nlohmann::json all = nlohmann::json::array();
    for (const char* file : {"/fx_cases.json", "/fx_training_cases.json"}) {
      for (auto& one : nlohmann::json::parse(read_text_file(std::string(TCC_TEST_DATA_DIR) + file))) all.push_back(std::move(one));
    }
    return all;
  }();
  return json;
}

inline double number_of(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value.get<std::string>();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "inf" ? infinity : text == "-inf" ? -infinity : std::numeric_limits<double>::quiet_NaN();
}

inline Tensor tensor_of(const nlohmann::json& json) {
  Tensor tensor(*parse_dtype(json.at("dtype").get<std::string>()), json.at("shape").get<Shape>());
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const nlohmann::json& value = json.at("values").at(static_cast<size_t>(i));
    if (value.is_number_integer()) tensor.set_int64(i, value.get<int64_t>());
    else tensor.set_double(i, number_of(value));
  }
  return tensor;
}

/// In the order of the graph's inputs. Without an archive around a program its constants are inputs, too.
inline std::vector<Tensor> inputs_of(const nlohmann::json& one, const Graph& graph) {
  std::vector<Tensor> all;
  size_t next = 0;
  for (const Value* input : graph.body.args) {
    if (input->name == "seed") {  // that of tcc's own generator
      all.push_back(Tensor::scalar(DType::i64, 7));
      continue;
    }
    const bool is_constant = one.contains("constants") && one.at("constants").contains(input->name);
    all.push_back(tensor_of(is_constant ? one.at("constants").at(input->name) : one.at("inputs").at(next++)));
  }
  EXPECT_EQ(next, one.at("inputs").size());
  return all;
}

/// Relative to what the framework rounds to.
inline double tolerance_of(DType dtype) {
  return dtype == DType::bf16 ? 2e-2 : dtype == DType::f16 ? 2e-3 : dtype == DType::f64 ? 1e-9 : 2e-5;
}

/// Within `factor` times the tolerance. Shapes are not looked at: a plan has those of the memory.
inline void compare(const Tensor& found, const Tensor& expected, const std::string& what, double factor = 1) {
  ASSERT_EQ(found.count(), expected.count()) << what;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double a = found.as_double(i), b = expected.as_double(i);
    if (std::isnan(b)) {
      ASSERT_TRUE(std::isnan(a)) << what << " at " << i << ": " << a;
      continue;
    }
    if (a == b) continue;
    ASSERT_LE(std::abs(a - b), factor * tolerance_of(expected.dtype()) * (1 + std::abs(b)))
        << what << " at " << i << ": " << a << ", expected " << b;
  }
}

}  // namespace tcc::testing
