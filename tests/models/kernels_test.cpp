// How many kernels a model becomes: fusion as the whole compiler does it, counted in its plans for both devices.
#include <gtest/gtest.h>

#include <set>

#include "cli/models.h"
#include "cli/program.h"
#include "plan/plan_graph.h"
#include "tcc/driver/pipeline.h"
#include "tcc/frontend/import.h"
#include "tcc/group/group.h"

namespace tcc {
namespace {

const schedule::Target kTargets[] = {schedule::Target::cpu_v3(), schedule::Target::cuda_sm80()};

driver::Options options_for(const std::string& model, const std::string& from = "") {
  driver::Options options;
  options.model = model;
  options.from = from;
  options.verify_passes = true;
  return options;
}

plan::Plan plan_of(const driver::Options& options, const schedule::Target& target) {
  Diagnostics diagnostics;
  const std::unique_ptr<Graph> prims = driver::compile_to_prims(options, diagnostics);
  plan::Plan plan = plan::plan_graph(*prims, target);
  EXPECT_EQ(plan::verify(plan), std::vector<std::string>());
  return plan;
}

void expect_one_kernel(const std::string& graph) {
  const test::Folder folder;
  folder.write("g.graph", graph);
  for (const schedule::Target& target : kTargets) {
    const plan::Plan plan = plan_of(options_for(folder / "g.graph", "graph"), target);
    EXPECT_EQ(plan.kernels.size(), 1U) << target.name << "\n" << plan::print(plan);
    EXPECT_EQ(plan.launches.size(), 1U) << target.name << "\n" << plan::print(plan);
  }
}

TEST(Kernels, SoftmaxOverTheLastAxisIsOne) {
  for (const char* shape : {"[8192, 8192]", "[33, 127]", "[4, 12, 64, 64]"}) {
    const std::string type = std::string("f32") + shape;
    expect_one_kernel("graph @g(%x: " + type + ") -> (%y: " + type + ") {\n  %y: " + type + " = softmax(%x) {axis=-1}\n}\n");
  }
}

TEST(Kernels, LayerNormIsOne) {
  expect_one_kernel(R"(graph @g(%x: f32[4096, 768], %scale: f32[768], %bias: f32[768]) -> (%y: f32[4096, 768]) {
  %y: f32[4096, 768] = layer_norm(%x, %scale, %bias) {axis=1, epsilon=1e-05}
})");
}

TEST(Kernels, LayerNormOfASumThenGeluIsOne) {
  expect_one_kernel(R"(graph @g(%x: f32[512, 768], %r: f32[512, 768], %scale: f32[768], %bias: f32[768]) -> (%z: f32[512, 768]) {
  %s: f32[512, 768] = add(%x, %r)
  %y: f32[512, 768] = layer_norm(%s, %scale, %bias) {axis=1, epsilon=1e-05}
  %z: f32[512, 768] = gelu(%y) {approximate="none"}
})");
}

TEST(Kernels, TenPointwiseOpsAreOne) {
  std::string text = "graph @g(%v0: f32[1024, 1000], %w: f32[1000]) -> (%v10: f32[1024, 1000]) {\n";
  const char* const ops[] = {"add(%v0, %w)", "relu(%v1)", "exp(%v2)",     "mul(%v3, %v0)", "tanh(%v4)",
                             "sub(%v5, %w)", "neg(%v6)",  "sigmoid(%v7)", "abs(%v8)",      "sqrt(%v9)"};
  for (int i = 0; i < 10; ++i) text += "  %v" + std::to_string(i + 1) + ": f32[1024, 1000] = " + ops[i] + "\n";
  expect_one_kernel(text + "}\n");
}

TEST(Kernels, BertNeedsFewerThanHalfItsOps) {
  for (const char* name : {"bert_tiny/dynamo.onnx", "bert_tiny/legacy.onnx", "bert_tiny/unoptimized.onnx"}) {
    const std::string path = std::string(TCC_MODELS_DIR) + "/" + name;
    // What is left of the exporter's ops when shapes are bound and constants folded, before any is decomposed.
    Diagnostics diagnostics;
    const std::unique_ptr<Graph> graph = import_model(path, {}, diagnostics);
    bind_shapes(*graph, {});
    resolve(*graph, diagnostics);
    canonicalize(*graph);
    fold_constants(*graph);
    eliminate_common_subexpressions(*graph);
    eliminate_dead_code(*graph);
    for (const schedule::Target& target : kTargets) {
      const plan::Plan plan = plan_of(options_for(path), target);
      EXPECT_LT(2 * plan.launches.size(), graph->body.nodes.size()) << name << " for " << target.name << "\n" << plan::print(plan);
    }
  }
}

TEST(Kernels, LayersThatRepeatShareTheirBodies) {
  for (const schedule::Target& target : kTargets) {
    const plan::Plan plan = plan_of(options_for(std::string(TCC_MODELS_DIR) + "/vit_tiny/dynamo.onnx"), target);
    std::set<std::string> bodies;
    for (const loop::Kernel& kernel : plan.kernels) bodies.insert(loop::print(kernel, "k"));
    EXPECT_EQ(bodies.size(), plan.kernels.size()) << "equal bodies are compiled twice for " << target.name;
    // Two layers: the second adds launches and no kernel.
    EXPECT_LE(3 * plan.kernels.size(), 2 * plan.launches.size()) << target.name << "\n" << plan::print(plan);
  }
}

}  // namespace
}  // namespace tcc
