// Every composite against what ONNX's reference evaluator gives for the operator it stands for (onnx_cases.txt, from make_expectations.py), and
// decomposed against not decomposed.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"
#include "tcc/support/diagnostics.h"

namespace tcc {
namespace {

struct Case {
  std::string name, graph;
  std::vector<std::string> inputs, outputs;  // values, separated by blanks
};

std::vector<Case> read_cases() {
  std::ifstream file(std::string(TCC_TEST_DATA_DIR) + "/onnx_cases.txt");
  std::vector<Case> cases;
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("case ", 0) == 0) cases.push_back({line.substr(5), "", {}, {}});
    else if (line.rfind("in", 0) == 0) cases.back().inputs.push_back(line.substr(2));
    else if (line.rfind("out", 0) == 0) cases.back().outputs.push_back(line.substr(3));
    else if (!cases.empty()) cases.back().graph += line + "\n";
  }
  return cases;
}

Tensor read_tensor(const Type& type, const std::string& text) {
  Tensor tensor(type.dtype, type.shape());
  std::istringstream words(text);
  std::string word;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    words >> word;
    tensor.set_double(i, std::strtod(word.c_str(), nullptr));
  }
  return tensor;
}

void expect_close(const Tensor& found, const Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double x = found.as_double(i), y = expected.as_double(i);
    if (std::isnan(y)) {
      EXPECT_TRUE(std::isnan(x)) << what << " at " << i << ": " << x;
    } else if (x != y) {
      EXPECT_NEAR(x, y, tolerance * (1 + std::abs(y))) << what << " at " << i;
    }
  }
}

TEST(PrimsOnnx, CompositesGiveWhatOnnxGives) {
  const std::vector<Case> cases = read_cases();
  ASSERT_GT(cases.size(), 150u);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    std::unique_ptr<Graph> graph;
    try {
      graph = parse_graph(c.graph, c.name, {});
      std::vector<Tensor> inputs, wide_inputs;
      for (size_t i = 0; i < graph->body.args.size(); ++i) inputs.push_back(read_tensor(graph->body.args[i]->type, c.inputs[i]));
      const std::vector<Tensor> results = interpret(*graph, inputs, false);
      ASSERT_EQ(results.size(), c.outputs.size());
      std::vector<Tensor> expected;
      for (size_t i = 0; i < results.size(); ++i) {
        expected.push_back(read_tensor(graph->body.results[i]->type, c.outputs[i]));
        expect_close(results[i], expected[i], 2e-5, c.name);
      }

      Diagnostics diagnostics;
      decompose(*graph, diagnostics);
      diagnostics.checkpoint();
      EXPECT_EQ(verify(*graph, GraphStage::prims), std::vector<std::string>());
      const std::vector<Tensor> decomposed = interpret(*graph, inputs, false);
      for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(decomposed[i].same_bytes(results[i])) << c.name << " changes when decomposed";

      const std::vector<Tensor> wide = interpret(*graph, inputs, true);
      for (size_t i = 0; i < results.size(); ++i) expect_close(wide[i], expected[i], 2e-5, c.name + " in f64");
    } catch (const Error& error) { ADD_FAILURE() << c.name << "\n" << error.what(); } catch (const RuleError& error) {
      ADD_FAILURE() << c.name << "\n" << error.message;
    }
  }
}

}  // namespace
}  // namespace tcc
