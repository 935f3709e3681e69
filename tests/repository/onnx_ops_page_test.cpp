// docs/onnx_ops.md says of each ONNX operator which versions and element types are imported, and what its gradient is. Nothing of it is written by hand:
// this test imports a model of each version and each type (tests/onnx/op_forms.json), takes it to a plan, differentiates it, and writes what became of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "autograd/vjp.h"
#include "onnx/op_forms.h"
#include "plan/plan_graph.h"
#include "tcc/autograd/autograd.h"
#include "tcc/autograd/gradient_op.h"
#include "tcc/frontend/import.h"
#include "tcc/passes/passes.h"
#include "tcc/support/files.h"
#include "unit/scratch.h"

namespace tcc {
namespace {

using onnx_suite::OpForm;
using Forms = std::map<std::pair<std::string, std::string>, std::vector<OpForm>>;

const Forms& forms() {
  static const Forms forms = onnx_suite::read_op_forms(std::string(TCC_SOURCE_DIR) + "/tests/onnx/op_forms.json");
  return forms;
}

/// What was said of the last model that was refused, for tests that fail.
std::string& last_refusal() {
  static std::string text;
  return text;
}

/// The resolved graph of a model; null where it is refused. Anything but a refusal fails the test.
std::unique_ptr<Graph> imported(const OpForm& form, int version, const std::string& type = "", bool all = false) {
  static const testing::ScratchFolder folder;
  const std::string path = folder / "model.onnx";
  std::ofstream(path, std::ios::binary) << form.model(version, type, all);
  Diagnostics diagnostics;
  try {
    auto graph = import_model(path, {}, diagnostics);
    resolve(*graph, diagnostics, expand_gradient);
    diagnostics.checkpoint();
    return graph;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::model) << form.op << ": " << error.what();
    last_refusal() = error.what();
    return nullptr;
  }
}

/// A plan for the CPU.
bool compiles(std::unique_ptr<Graph> graph) {
  if (!graph) return false;
  try {
    Diagnostics diagnostics;
    decompose(*graph, diagnostics);
    diagnostics.checkpoint();
    eliminate_dead_code(*graph);
    const plan::Plan plan = plan::plan_graph(*graph, schedule::Target::cpu_v3());
    EXPECT_EQ(plan::verify(plan), std::vector<std::string>()) << print(*graph);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::model) << error.what();
    last_refusal() = error.what();
    return false;
  }
}

/// The versions of which every one of the domain in that range is imported. (Old ones are read where the form did not change since.)
std::vector<int> versions_of(const std::vector<OpForm>& all) {
  std::vector<int> versions;
  for (const OpForm& form : all) {
    const int first = form.domain.empty() ? std::clamp(kOldestOpset, form.since, form.last) : form.since;
    if (imported(form, first) && imported(form, form.last)) versions.push_back(form.since);
  }
  return versions;
}

const std::vector<std::pair<const char*, std::vector<std::string>>> kGroups = {
    {"floats", {"f32", "f64", "f16", "bf16"}},
    {"integers", {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}},
    {"bool", {"bool"}},
    {"f8", {"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"}},
    {"i4 u4", {"i4", "u4"}},
};

/// The newest version with a type for the operands that vary, or for all that may have it: a scale may be of another type than what is scaled, or not.
std::unique_ptr<Graph> newest(const OpForm& form, const std::string& type) {
  auto graph = imported(form, form.last, type);
  return graph || form.beside.empty() ? std::move(graph) : imported(form, form.last, type, true);
}

/// Of the newest version: the types that compile.
std::vector<std::string> elements_of(const OpForm& form) {
  std::vector<std::string> elements;
  for (const std::string& type : form.types) {
    if (compiles(newest(form, type))) elements.push_back(type);
  }
  return elements;
}

std::string text_of(const std::vector<std::string>& elements) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  for (const auto& [name, group] : kGroups) {
    const auto has = [&](const std::string& type) { return std::find(elements.begin(), elements.end(), type) != elements.end(); };
    if (std::all_of(group.begin(), group.end(), has)) {
      add(name);
      continue;
    }
    for (const std::string& type : group) {
      if (has(type)) add(type);
    }
  }
  return text.empty() ? "-" : text;
}

/// Whether all gradients of a joint graph are zeros that no input changes.
bool is_zero(Graph& joint) {
  fold_constants(joint);
  canonicalize(joint);
  for (size_t i = 0; i < joint.body.results.size(); ++i) {
    if (!joint.output_names[i].starts_with("grad.")) continue;
    const Value* value = joint.body.results[i];
    const bool is_full = value->producer != nullptr && value->producer->op == Op::full_ && value->producer->attrs.get_float("value") == 0;
    if (!is_full && value->type.count() > 0) return false;
  }
  return true;
}

/// Whether the model is differentiated by rules of its ops alone.
bool has_rules(const Graph& graph) {
  return std::all_of(graph.body.nodes.begin(), graph.body.nodes.end(),
                     [](const Node* node) { return autograd::find_vjp(*node).kind != Gradient::decompose; });
}

std::string gradient_of(const OpForm& form, const std::vector<std::string>& elements) {
  const auto is_float_type = [](const std::string& type) { return is_float(*parse_dtype(type)); };
  const auto type = std::find_if(elements.begin(), elements.end(), is_float_type);
  const auto graph = newest(form, type == elements.end() ? "" : *type);
  EXPECT_NE(graph, nullptr) << form.op << ": its newest version is not imported: " << last_refusal();
  if (!graph) return "";
  const auto is_float_value = [](const Value* value) { return is_float(value->type.dtype); };
  const auto& inputs = graph->body.args;
  const auto& outputs = graph->body.results;
  if (std::none_of(inputs.begin(), inputs.end(), is_float_value) || std::none_of(outputs.begin(), outputs.end(), is_float_value))
    return "zero";
  Diagnostics diagnostics;
  try {
    GradOptions options;
    options.wrt = {"*"};
    const auto joint = build_joint(*graph, options, diagnostics);
    if (is_zero(*joint)) return "zero";
  } catch (const Error& error) {
    EXPECT_EQ(error.diagnostics()[0].kind, "unsupported-gradient") << error.what();
    return "none";
  }
  return has_rules(*graph) ? "rule" : "decomposed";
}

std::string domain_text(const std::string& domain) { return domain.empty() ? "ai.onnx" : domain; }

std::string row_of(const KnownOp& op) {
  const std::vector<OpForm>& all = forms().at({op.domain, op.name});
  for (const OpForm& form : all) EXPECT_FALSE(form.graph.node().empty()) << op.name << " " << form.since << " has no model";
  std::string versions;
  for (const int version : versions_of(all)) versions += (versions.empty() ? "" : ", ") + std::to_string(version);
  EXPECT_NE(versions, "") << op.name << ": no version of it is imported: " << last_refusal();
  if (versions.empty()) return "";
  const std::vector<std::string> elements = elements_of(all.back());
  EXPECT_EQ(elements.empty(), all.back().types.empty()) << op.name << ": no element type of it compiles: " << last_refusal();
  return "| " + op.name + " | " + domain_text(op.domain) + " | " + versions + " | " + text_of(elements) + " | " +
         gradient_of(all.back(), elements) + " |\n";
}

std::string page() {
  std::ostringstream out;
  out << "# ONNX ops\n\n"
         "The ops that tcc imports, from opset "
      << kOldestOpset << " to " << kNewestOpset
      << ". A test imports a small model of each version and type, takes it to a plan, and makes this page of what came\n"
         "of it (`TCC_UPDATE=1 build/dev/tests/test_onnx_ops_page`); `tcc check --ops` lists the ops. Functions of a model are inlined, so "
         "an op that is\n"
         "missing may be given as one. [Below](#branches-loops-recurrent-layers) is what branches, loops and recurrent layers become.\n\n"
         "- **versions**: those of ONNX's operator sets in which the op changed, as far as they are imported; each holds until the next "
         "one.\n"
         "- **elements**: what the operands whose type varies may be, of those that ONNX allows in the newest version. *floats* are f32, "
         "f64, f16 and\n"
         "  bf16, *integers* those of 8 to 64 bits, *f8* the four floats of 8 bits. Strings, complex numbers and maps are "
         "not known;\n"
         "  [ir.md](ir.md#element-types-of-onnx) says how narrower types are read.\n"
         "- **gradient**: *rule*: the op has a formula of its own; *decomposed*: that of the simpler ops that it becomes; *zero*: steps, "
         "tests, integers and\n"
         "  constants; *none*: a model that needs it is refused. `tcc check --mode=grad` says so of a model.\n\n"
         "| op | domain | versions | elements | gradient |\n|---|---|---|---|---|\n";
  std::vector<std::pair<std::string, std::string>> known;
  for (const KnownOp& op : known_ops()) {
    known.emplace_back(op.domain, op.name);
    out << row_of(op);
  }
  std::string missing;
  for (const auto& [name, all] : forms()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) missing += (missing.empty() ? "" : ", ") + name.second;
  }
  out << "\nONNX's other ops are refused by name: " << missing << ".\n";
  out << "\n## Branches, loops, recurrent layers\n\n"
         "- `If`: where the condition is known when compiling, its branch is taken. Where it depends on data, both are computed, and the "
         "result is chosen.\n"
         "- `Loop`, `Scan`, `SequenceMap`: one copy of the body for each step. A loop whose condition depends on data needs a trip count "
         "that is known; what\n"
         "  the steps behind the end make is thrown away ([diagnostics.md](diagnostics.md#unsupported-control-flow)).\n"
         "- `RNN`, `GRU`, `LSTM`, `LinearAttention`: the steps are unrolled, 4,096 at most. The products with the input are one for all "
         "steps. A sequence of\n"
         "  length 0 ends with zeros, as in ONNX Runtime. `DynamicQuantizeLSTM` computes with the floats that its weights stand for.\n"
         "- Sequences have a length that is known when compiling. An input that is one has an input for each element: "
         "`--shapes=s.0:2x3,s.1:4x3` says how\n"
         "  many, and of which shapes. An output that is one has an output for each element, `s.0`, `s.1`, ...\n"
         "- Optional values fold away. An input of the model that is optional is there.\n";
  return out.str();
}

TEST(OnnxOpsPage, IsCurrent) {
  for (const KnownOp& op : known_ops()) {
    ASSERT_TRUE(forms().contains({op.domain, op.name}))
        << op.name << " of `" << op.domain << "` has no model: tests/onnx/make_op_forms.py makes them";
  }
  const std::string path = std::string(TCC_SOURCE_DIR) + "/docs/onnx_ops.md", now = page();
  if (std::getenv("TCC_UPDATE") != nullptr) std::ofstream(path) << now;
  EXPECT_EQ(read_text_file(path), now) << "TCC_UPDATE=1 writes it anew";
}

}  // namespace
}  // namespace tcc
