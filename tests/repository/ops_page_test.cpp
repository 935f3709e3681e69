// docs/ops.md says of each op what it means, its types, its gradient and its precision: this test makes it of ops.def and op_docs.def, and reads its examples.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "tcc/ops/attributes.h"
#include "tcc/ops/op_docs.h"
#include "tcc/rules/verify.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"

namespace tcc {
namespace {

/// The shape rule of each op, in order; of a pointwise prim the rule of its class.
const std::vector<std::string>& shape_rules() {
  static const std::vector<std::string> rules = [] {
    std::map<ScalarClass, std::string> of_class = {
#define TCC_SCALAR_CLASS(name, operands, infer_rule, eval_rule) {ScalarClass::name, #infer_rule},
#include "tcc/ops/ops.def"
    };
    return std::vector<std::string>{
#define TCC_POINTWISE(name, scalar_class, cost, gradient, precision, attributes) of_class[ScalarClass::scalar_class],
#define TCC_PRIM(name, min_operands, max_operands, results, lowering, gradient, precision, infer_rule, eval_rule, attributes) #infer_rule,
#define TCC_COMPOSITE(name, min_operands, max_operands, results, gradient, precision, infer_rule, decompose_rule, attributes) #infer_rule,
#define TCC_DYNAMIC(name, min_operands, max_operands, results, infer_rule, resolve_rule, attributes) #infer_rule,
#include "tcc/ops/ops.def"
    };
  }();
  return rules;
}

/// What the rules that many ops share ask of the types; the others follow from the meaning.
const std::map<std::string, std::string> kTypes = {
    {"infer_unary", "the result has the type of the first operand"},
    {"infer_unary_float", "a float; the result has the type of the operand"},
    {"infer_unary_bits", "bool or an integer; the result has the type of the operand"},
    {"infer_test", "a float; the result is bool"},
    {"infer_binary", "operands and result have one dtype and shape"},
    {"infer_binary_bits", "bool or integers; operands and result have one dtype and shape"},
    {"infer_binary_float", "floats; operands and result have one dtype and shape"},
    {"infer_shift", "integers; operands and result have one dtype and shape"},
    {"infer_compare", "operands have one dtype and shape; the result is bool"},
    {"infer_ternary", "operands and result have one dtype and shape"},
    {"infer_reduce", "the result has the dtype of the operand"},
    {"infer_argmax", "the result is i64"},
    {"infer_gather", "indices are i32 or i64"},
    {"infer_gather_elements", "indices are i32 or i64"},
    {"infer_gather_nd", "indices are i32 or i64"},
    {"infer_scatter", "indices are i32 or i64; data, updates and result have one dtype"},
    {"infer_topk", "the positions are i64"},
    {"infer_random", "the seed is i64[]"},
    {"infer_by_decomposition", "those of the decomposition"},
};

std::string gradient_of(Op op) {
  if (op == Op::gradient_) return "gradients of gradients";
  if (info(op).kind == OpKind::dynamic) return "of the ops that it becomes";
  switch (info(op).gradient) {
    case Gradient::none: return "none: a model that needs it is refused";
    case Gradient::zero: return "zero";
    case Gradient::decompose: return "of its decomposition";
    case Gradient::conditional: return "a rule, for some attributes; otherwise of its decomposition";
    case Gradient::rule: return "a rule";
  }
  return "";
}

std::string precision_of(Op op) {
  switch (info(op).precision) {
    case Precision::low: return "in bf16 or f16";
    case Precision::f32: return "in f32";
    case Precision::widest: return "in the widest dtype of its operands";
    case Precision::keep: return "in the dtypes of its operands";
    case Precision::by_op: return "in f32; mean, max and min in the dtype of the operand";
    case Precision::written: return "in the dtypes of the model";
  }
  return "";
}

/// The example as a graph by itself: operands with types become inputs.
struct Example {
  std::string line, graph;
};
Example example_of(Op op) {
  const std::string name(name_of(op));
  std::string text(doc(op).example);
  if (text.empty()) {
    text = "%y: f32[4] = " + name + "(";
    for (int i = 0; i < info(op).min_operands; ++i) text += std::string(i > 0 ? ", " : "") + "%" + "abc"[i] + ": f32[4]";
    text += ")";
  }
  const size_t equals = text.find(" = "), open = text.find('(', equals), close = text.find(')', open);
  const std::string results = text.substr(0, equals), operands = text.substr(open + 1, close - open - 1);
  std::string inputs, plain;
  for (size_t at = 0; at < operands.size();) {
    size_t end = at;
    for (int depth = 0; end < operands.size() && (operands[end] != ',' || depth > 0); ++end)
      depth += (operands[end] == '[') - (operands[end] == ']');
    const std::string operand = operands.substr(at, end - at);
    if (operand != "none") inputs += (inputs.empty() ? "" : ", ") + operand;
    plain += (plain.empty() ? "" : ", ") + operand.substr(0, operand.find(':'));
    at = std::min(end + 2, operands.size());
  }
  Example example;
  example.line = results + text.substr(equals, open + 1 - equals) + plain + text.substr(close);
  example.graph = "graph @g(" + inputs + ") -> (" + results + ") {\n  " + example.line + "\n}\n";
  example.line = text;
  return example;
}

std::string attributes_of(Op op) {
  std::string text;
  for (const AttrSpec& spec : attribute_schema(op))
    text += (text.empty() ? "" : ", ") + std::string(spec.name) + ": " + std::string(name_of(spec.kind)) + (spec.optional ? "?" : "");
  return text;
}

void add_op(std::ostream& out, Op op) {
  const OpDoc& words = doc(op);
  out << "### " << name_of(op) << "\n`" << name_of(op) << "(" << words.operands << ")`: " << words.meaning << ".\n";
  if (const std::string attributes = attributes_of(op); !attributes.empty()) out << "Attributes: `" << attributes << "`.\n";
  const auto types = kTypes.find(shape_rules()[static_cast<size_t>(op)]);
  if (types != kTypes.end()) out << "Types: " << types->second << ".\n";
  out << "Gradient: " << gradient_of(op) << ".\n";
  if (info(op).kind != OpKind::dynamic) out << "With a lower precision: " << precision_of(op) << ".\n";
  out << "\n    " << example_of(op).line << "\n\n";
}

std::string page() {
  std::ostringstream out;
  out << "# Ops\n\n"
         "What the nodes of a graph may be. A test makes this page of `include/tcc/ops/ops.def` and `src/ops/op_docs.def`\n"
         "(`TCC_UPDATE=1 build/dev/tests/test_ops_page`), reads every example, and fails when the page is not current. In the examples "
         "operands carry their\n"
         "types; in graph text only their names stand there ([ir.md](ir.md)). `?` marks what may be absent.\n"
         "*With a lower precision* is for `--precision=bf16` and `f16` ([command_line.md](command_line.md#precision)).\n\n";
  const std::tuple<OpKind, const char*, const char*> kinds[] = {
      {OpKind::prim, "Prims",
       "What is lowered and evaluated. Pointwise prims take operands of one shape; conversion and broadcast are explicit."},
      {OpKind::composite, "Composites", "What `decompose` turns into prims. Floats of 16 bits are computed in f32 and rounded once."},
      {OpKind::dynamic, "Ops whose sizes are operands",
       "What `resolve` turns into the above as soon as those operands are known. Their meaning is ONNX's."},
  };
  for (const auto& [kind, title, about] : kinds) {
    out << "## " << title << "\n\n" << about << "\n\n";
    for (int i = 0; i < num_ops(); ++i) {
      if (info(static_cast<Op>(i)).kind == kind) add_op(out, static_cast<Op>(i));
    }
  }
  std::string text = out.str();
  text.pop_back();
  return text;
}

TEST(OpsPage, IsCurrent) {
  const std::string path = std::string(TCC_SOURCE_DIR) + "/docs/ops.md", now = page();
  if (std::getenv("TCC_UPDATE") != nullptr) std::ofstream(path) << now;
  EXPECT_EQ(read_text_file(path), now) << "TCC_UPDATE=1 writes it anew";
}

TEST(OpsPage, ExamplesAreWellFormed) {
  for (int i = 0; i < num_ops(); ++i) {
    const Example example = example_of(static_cast<Op>(i));
    try {
      EXPECT_EQ(verify(*parse_graph(example.graph, "example", {}), GraphStage::imported), std::vector<std::string>()) << example.graph;
    } catch (const Error& error) { ADD_FAILURE() << error.what() << "\n" << example.graph; }
  }
}

TEST(OpsPage, NamesAsManyOperandsAsThereAre) {
  for (int i = 0; i < num_ops(); ++i) {
    const Op op = static_cast<Op>(i);
    const std::string_view operands = doc(op).operands;
    int named = operands.empty() ? 0 : 1, optional = 0;
    for (const char c : operands) named += c == ',', optional += c == '?';
    const bool any = operands.ends_with("...");
    EXPECT_EQ(any, info(op).max_operands < 0) << name_of(op);
    if (any) continue;
    EXPECT_EQ(named, info(op).max_operands) << name_of(op);
    EXPECT_EQ(named - optional, info(op).min_operands) << name_of(op);
  }
}

}  // namespace
}  // namespace tcc
