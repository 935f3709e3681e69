// Real models: fusion keeps them few in units and repeats few in forms, their first forms verify, and small ones run unit by unit.

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "group/run_units.h"
#include "tcc/frontend/import.h"
#include "tcc/passes/passes.h"
#include "tcc/support/random.h"

namespace tcc::group {
namespace {

struct Model {
  std::unique_ptr<Graph> graph;
  size_t graph_ops = 0;  ///< before decomposition
};

Model read_model(const std::string& name) {
  Model model;
  Diagnostics diagnostics;
  model.graph = import_model(std::string(TCC_MODELS_DIR) + "/" + name, {}, diagnostics);
  bind_shapes(*model.graph, {});
  resolve(*model.graph, diagnostics);
  auto clean = [&] {
    fold_constants(*model.graph);
    canonicalize(*model.graph);
    eliminate_common_subexpressions(*model.graph);
    eliminate_dead_code(*model.graph);
  };
  clean();
  model.graph_ops = model.graph->body.nodes.size();
  decompose(*model.graph, diagnostics);
  clean();
  diagnostics.checkpoint();
  return model;
}

/// Inputs that the models take: small numbers; token ids are small integers, masks are ones.
std::vector<Tensor> inputs_for(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < graph.body.args.size(); ++i) {
    const Type& type = graph.body.args[i]->type;
    const RandomStream stream{7, i, 0};
    if (is_float(type.dtype)) inputs.push_back(random_uniform(type.dtype, type.shape(), stream, -1, 1));
    else inputs.push_back(random_integers(type.dtype, type.shape(), stream, 0, 2));
  }
  return inputs;
}

TEST(Models, BertHasFewerUnitsThanHalfItsOps) {
  for (const char* name : {"bert_tiny/dynamo.onnx", "bert_tiny/legacy.onnx", "bert_tiny/unoptimized.onnx"}) {
    const Model model = read_model(name);
    const Groups groups = form_groups(*model.graph);
    EXPECT_LT(groups.units.size() * 2, model.graph_ops) << name << "\n" << print(groups);
  }
}

TEST(Models, LayersShareTheirForms) {
  const Model model = read_model("vit_tiny/dynamo.onnx");
  const Groups groups = form_groups(*model.graph);
  std::set<std::string> forms;
  for (const Unit& unit : groups.units) forms.insert(loop::print(lower(*model.graph, unit)));
  EXPECT_LE(forms.size() * 2, groups.units.size());
}

TEST(Models, FirstFormsVerifyAndGroupsReadBack) {
  for (const auto& folder : std::filesystem::directory_iterator(TCC_MODELS_DIR)) {
    if (!std::filesystem::exists(folder.path() / "dynamo.onnx")) continue;
    const std::string name = folder.path().filename().string();
    const Model model = read_model(name + "/dynamo.onnx");
    const Groups groups = form_groups(*model.graph);
    EXPECT_EQ(verify(groups), std::vector<std::string>()) << name;
    for (const Unit& unit : groups.units) {
      const loop::Unit lowered = lower(*model.graph, unit);
      EXPECT_EQ(loop::verify_first_form(lowered), std::vector<std::string>()) << name << " " << unit.label << "\n" << loop::print(lowered);
    }
    std::string why;
    EXPECT_TRUE(equal(parse_groups(print(groups), name, *model.graph), groups, &why)) << name << ": " << why;
  }
}

class SmallModels : public testing::TestWithParam<const char*> {};

TEST_P(SmallModels, UnitsComputeWhatTheGraphDoes) {
  const Model model = read_model(GetParam());
  EXPECT_EQ(run_units(*model.graph, form_groups(*model.graph), inputs_for(*model.graph), {1e-4, 1e-4}), "");
}

INSTANTIATE_TEST_SUITE_P(Models, SmallModels,
                         testing::Values("mnist_mlp/dynamo.onnx", "mnist_cnn/dynamo.onnx", "where_instead_of_branch/dynamo.onnx",
                                         "t5_encoder_tiny/legacy.onnx", "bert_tiny/dynamo.onnx"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find('/'));
                         });

}  // namespace
}  // namespace tcc::group
