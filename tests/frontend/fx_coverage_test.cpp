// docs/aten_coverage.md says of each operator of core ATen whether programs with it are read, and whether it has gradients: what this test finds by asking
// the importer, and by differentiating the cases that use it. TCC_UPDATE=1 writes the page anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "frontend/fx/importer.h"
#include "frontend/fx_cases.h"
#include "tcc/autograd/autograd.h"
#include "tcc/frontend/import.h"
#include "tcc/passes/passes.h"
#include "unit/scratch.h"

namespace tcc {
namespace {

using Json = nlohmann::json;

/// Why an operator is not read.
const std::map<std::string, std::string>& reasons() {
  static const std::map<std::string, std::string> table = {
      {"_fft_c2r.default", "complex numbers"},
      {"_fft_r2c.default", "complex numbers"},
      {"_local_scalar_dense.default", "a number that depends on data"},
      {"nonzero.default", "a size that depends on data"},
  };
  return table;
}

/// The cases that an operator is in.
struct Use {
  int cases = 0;
  bool has_gradient = false;
};

std::set<std::string> ops_of(const Json& program) {
  std::set<std::string> ops;
  for (const Json& node : program.at("graph_module").at("graph").at("nodes")) {
    const std::string target = node.at("target").get<std::string>();
    if (target.starts_with("torch.ops.aten.")) ops.insert(target.substr(15));
  }
  return ops;
}

/// Whether a gradient of each float input can be made.
bool differentiates(const Json& program) {
  const testing::ScratchFolder folder;
  std::ofstream(folder / "program.json") << program.dump();
  Diagnostics diagnostics;
  const auto graph = import_model(folder / "program.json", {}, diagnostics);
  resolve(*graph, diagnostics);
  diagnostics.checkpoint();
  GradOptions options;
  for (const Value* input : graph->body.args) {
    if (is_float(input->type.dtype)) options.wrt.push_back(input->name);
  }
  if (options.wrt.empty()) return false;
  try {
    Diagnostics of_gradients;
    build_joint(*graph, options, of_gradients);
    return true;
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal) throw;
    return false;
  }
}

/// Operators whose result is not a float, or is flat or made of nothing wherever it is.
bool is_without_gradient(const std::string& op) {
  static const std::set<std::string> names = {"any",
                                              "all",
                                              "argmax",
                                              "argmin",
                                              "bitwise_and",
                                              "bitwise_not",
                                              "bitwise_or",
                                              "bitwise_xor",
                                              "eq",
                                              "ge",
                                              "gt",
                                              "le",
                                              "lt",
                                              "ne",
                                              "isinf",
                                              "isnan",
                                              "logical_and",
                                              "logical_not",
                                              "logical_or",
                                              "logical_xor",
                                              "nonzero",
                                              "sym_size",
                                              "sym_numel",
                                              "sym_stride",
                                              "sym_storage_offset",
                                              "sym_is_contiguous",
                                              "_local_scalar_dense",
                                              "arange",
                                              "empty",
                                              "empty_strided",
                                              "full",
                                              "full_like",
                                              "rand",
                                              "randn",
                                              "randperm",
                                              "scalar_tensor",
                                              "ceil",
                                              "floor",
                                              "round",
                                              "trunc",
                                              "sign"};
  return names.contains(op.substr(0, op.find('.')));
}

std::string page() {
  std::map<std::string, Use> uses;
  for (const Json& one : testing::fx_cases()) {
    for (const Json& program : one.at("programs")) {
      const std::set<std::string> ops = ops_of(program);
      const bool all_have = std::all_of(ops.begin(), ops.end(), [&](const std::string& op) { return uses[op].has_gradient; });
      const bool has_gradient = !all_have && differentiates(program);
      for (const std::string& op : ops) {
        ++uses[op].cases;
        uses[op].has_gradient |= has_gradient;
      }
    }
  }
  std::istringstream list(read_text_file(std::string(TCC_TEST_DATA_DIR) + "/core_aten.txt"));
  std::ostringstream rows;
  int total = 0, read = 0;
  for (std::string op; list >> op; ++total) {
    const bool is_read = fx::find_handler("aten." + op).handler != nullptr;
    const Use use = uses[op];
    read += is_read ? 1 : 0;
    EXPECT_NE(is_read, reasons().contains(op)) << op << " is read, or a reason says why not";
    std::string gradient = is_without_gradient(op) ? "none" : use.has_gradient ? "yes" : "not tested";
    if (!is_read) gradient = "";
    rows << "| `" << op << "` | " << (is_read ? "yes" : "no: " + reasons().at(op)) << " | " << gradient << " | " << use.cases << " |\n";
  }
  std::ostringstream text;
  text << "# Core ATen\n\n"
       << "The operators that torch 2.11 tags as core (`torch.Tag.core`), to which `ExportedProgram.run_decompositions()` reduces a "
          "program: "
       << read << " of " << total
       << " are\nread. Programs may hold others, too: `tcc check model.pt2` names those that tcc lacks "
          "([torch_programs.md](torch_programs.md)).\n\n"
       << "Gradient: `none` where there is none by nature (comparisons, positions, sizes, rounding, what is made of nothing). Cases: "
          "programs in\n"
       << "`tests/frontend/fx_cases.json` and `fx_training_cases.json` that use it, whose values are compared with torch's and, where "
          "there is a gradient,\n"
       << "that are differentiated. A test writes this page (`TCC_UPDATE=1 build/dev/tests/test_import_fx --gtest_filter='FxCoverage.*'`) "
          "and checks it.\n\n"
       << "| operator | read | gradient | cases |\n|---|---|---|---|\n"
       << rows.str();
  return text.str();
}

TEST(FxCoverage, PageIsCurrent) {
  const std::string path = std::string(TCC_SOURCE_DIR) + "/docs/aten_coverage.md", now = page();
  if (std::getenv("TCC_UPDATE") != nullptr) std::ofstream(path) << now;
  EXPECT_EQ(read_text_file(path), now) << "TCC_UPDATE=1 writes it anew";
}

}  // namespace
}  // namespace tcc
