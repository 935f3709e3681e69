// parse(print(ir)) is the identity for every printed stage of every model.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cli/models.h"
#include "cli/program.h"
#include "tcc/driver/pipeline.h"
#include "tcc/frontend/fx_json.h"
#include "tcc/frontend/import.h"
#include "tcc/group/group.h"
#include "tcc/loop/loop.h"
#include "tcc/plan/plan.h"
#include "tcc/rules/verify.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/files.h"
#include "tcc/support/safetensors.h"

namespace tcc {
namespace {

void expect_graph_reads_back(const Graph& graph) {
  std::map<std::string, Tensor> weights;
  for (const auto& weight : graph.weights()) weights[weight->name] = weight->tensor;
  const std::string text = print(graph);
  const std::unique_ptr<Graph> read = parse_graph(text, graph.file, weights);
  std::string why;
  EXPECT_TRUE(equal(graph, *read, &why)) << why;
  EXPECT_EQ(print(*read), text);
}

void expect_fx_reads_back(const Graph& graph) {
  const FxJson json = print_fx_json(graph, "w.bin");
  const test::Folder folder;
  folder.write("graph.json", json.text);
  write_file_atomically(folder / "w.bin", json.weights);
  Diagnostics diagnostics;
  const std::unique_ptr<Graph> read = import_model(folder / "graph.json", {}, diagnostics);
  read->file = graph.file;
  std::string why;
  EXPECT_TRUE(equal(graph, *read, &why)) << why;
  // Locations are of the file that was read: all else is the same text.
  for (Node* node : read->body.nodes) node->loc.file = graph.file;
  EXPECT_EQ(print(*read), print(graph));
  for (const auto& weight : graph.weights()) {
    const Weight* same = read->find_weight(weight->name)->weight;
    EXPECT_TRUE(same->tensor.same_bytes(weight->tensor)) << weight->name;
    EXPECT_EQ(same->from_model, weight->from_model) << weight->name;
  }
}

void expect_units_read_back(const schedule::ScheduledUnits& units) {
  for (const auto& unit : units.units) {
    const std::string text = loop::print(*unit->form.unit);
    EXPECT_EQ(loop::print(loop::parse_unit(text, "loop")), text);
    EXPECT_EQ(schedule::parse_schedule(schedule::print(unit->schedule), "schedule"), unit->schedule);
  }
}

void expect_plan_reads_back(const plan::Plan& plan) {
  std::string why;
  const std::string text = plan::print(plan);
  const plan::Plan read = plan::parse_plan(text, "plan");
  EXPECT_TRUE(plan::equal(plan, read, &why)) << why;
  EXPECT_EQ(plan::print(read), text);
  for (const loop::Kernel& kernel : plan.kernels) {
    const std::string kernel_text = loop::print(kernel, "k");
    std::string name;
    const loop::Kernel kernel_read = loop::parse_kernel(kernel_text, "kernel", &name);
    EXPECT_EQ(name, "k");
    EXPECT_TRUE(loop::equal(kernel, kernel_read, &why)) << why << "\n" << kernel_text;
    EXPECT_EQ(loop::print(kernel_read, "k"), kernel_text);
  }
}

class Identity : public testing::TestWithParam<test::ModelFile> {};

TEST_P(Identity, EveryStageReadsBack) {
  Diagnostics diagnostics;
  const std::unique_ptr<Graph> imported = import_model(GetParam().path, {}, diagnostics);
  expect_graph_reads_back(*imported);
  expect_fx_reads_back(*imported);

  driver::Options options;
  options.model = GetParam().path;
  options.verify_passes = true;
  const std::unique_ptr<Graph> prims = driver::compile_to_prims(options, diagnostics);
  expect_graph_reads_back(*prims);

  const group::Groups groups = group::form_groups(*prims);
  EXPECT_EQ(group::verify(groups), std::vector<std::string>());
  std::string why;
  const std::string text = group::print(groups);
  const group::Groups read = group::parse_groups(text, "groups", *prims);
  EXPECT_TRUE(group::equal(groups, read, &why)) << why;
  EXPECT_EQ(group::print(read), text);

  const group::LoweredUnits lowered = group::lower_units(groups);
  for (const schedule::Target& target : {schedule::Target::cpu_v3(), schedule::Target::cuda_sm80()}) {
    const schedule::ScheduledUnits units = schedule::schedule_units(lowered.forms, target);
    expect_units_read_back(units);
    const plan::Plan plan = plan::make_plan(groups, lowered, units);
    EXPECT_EQ(plan::verify(plan), std::vector<std::string>());
    for (const loop::Kernel& kernel : plan.kernels)
      EXPECT_EQ(loop::verify_kernel(kernel), std::vector<std::string>()) << loop::print(kernel, "k");
    expect_plan_reads_back(plan);
  }
}

/// Texts of plans that stand one behind the other, each read by itself.
void expect_plans_read_back(const std::string& text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) {
    const size_t end = std::min(text.find("\nplan @", at), text.size() - 1) + 1;
    const std::string piece = text.substr(at, end - at);
    EXPECT_EQ(plan::print(plan::parse_plan(piece, "plan")), piece);
    at = end;
  }
  EXPECT_GT(count, 0U);
}

class TrainingIdentity : public testing::TestWithParam<test::ModelFile> {};

/// The joint graph, its halves and the plans of all functions: of training where the model has a loss of its own kind, else of gradients.
TEST_P(TrainingIdentity, EveryStageReadsBack) {
  const std::string model = GetParam().name.substr(0, GetParam().name.find('/'));
  const test::Folder folder;
  driver::Options options;
  options.model = GetParam().path;
  options.verify_passes = true;
  options.cuda = false;
  options.mode =
      model == "mnist_mlp" || model == "bert_tiny" || model == "resnet_torchvision_slim" ? driver::Mode::train : driver::Mode::grad;
  if (options.mode == driver::Mode::train) {
    options.loss = model == "bert_tiny" ? "mse" : "cross_entropy";
    options.optimizer = "adamw";
    options.accumulate = 2;
  }
  const std::vector<std::string> graphs = {"joint", "prims", "forward", "backward"};
  for (const std::string& kind : graphs) options.emit.push_back({kind, folder / kind});
  options.emit.push_back({"plan", folder / "plan"});
  Diagnostics diagnostics;
  driver::compile(options, diagnostics);
  for (const std::string& kind : graphs) {
    const std::string text = folder.read(kind);
    const std::unique_ptr<Graph> read = parse_graph(text, kind, read_safetensors(folder / (kind + ".safetensors")).tensors);
    EXPECT_EQ(verify(*read, kind == "joint" ? GraphStage::resolved : GraphStage::prims), std::vector<std::string>());
    PrintOptions as_emitted;
    as_emitted.weights_file = kind + ".safetensors";
    EXPECT_EQ(print(*read, as_emitted), text);
  }
  expect_plans_read_back(folder.read("plan"));
}

std::vector<test::ModelFile> unoptimized() {
  std::vector<test::ModelFile> files = test::model_files();
  std::erase_if(files, [](const test::ModelFile& file) { return !file.name.ends_with("/unoptimized.onnx"); });
  return files;
}

std::string name_of_test(const testing::TestParamInfo<test::ModelFile>& info) {
  std::string name = info.param.name.substr(0, info.param.name.rfind('.'));
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, Identity, testing::ValuesIn(test::model_files()), name_of_test);
INSTANTIATE_TEST_SUITE_P(Models, TrainingIdentity, testing::ValuesIn(unoptimized()), name_of_test);

}  // namespace
}  // namespace tcc
