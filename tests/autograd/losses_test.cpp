// Losses by their formulas.
#include <gtest/gtest.h>

#include <cmath>

#include "tcc/autograd/autograd.h"
#include "tcc/passes/passes.h"
#include "tcc/rules/interpret.h"

namespace tcc {
namespace {

/// Weighted cross entropy of logits 0, 1, 2 in each of three rows, with classes 2, 1 and (ignored) 0; as torch.nn.functional.cross_entropy has it.
TEST(Losses, ClassWeightsAreTheFormula) {
  const auto graph = parse_graph("graph @g(%x: f32[3, 3]) -> (%y: f32[3, 3]) { %y: f32[3, 3] = identity(%x) }", "", {});
  const double w[] = {0.5, 2, 3}, sum = 1 + std::exp(1) + std::exp(2);
  double log_p[3], all = 0;
  for (int c = 0; c < 3; ++c) {
    log_p[c] = c - std::log(sum);
    all += w[c] * log_p[c];
  }
  const double picked = -(w[2] * log_p[2] + w[1] * log_p[1]), total = w[2] + w[1];
  struct Row {
    const char* text;
    double loss;
    bool logits;
  };
  for (const Row& row :
       {Row{"cross_entropy:weights=true,ignore_index=0", picked / total, true},
        Row{"cross_entropy:weights=true,ignore_index=0,reduction=sum", picked, true},
        Row{"cross_entropy:weights=true,ignore_index=0,label_smoothing=0.1", (0.9 * picked - 0.1 / 3 * 2 * all) / total, true},
        Row{"nll:weights=true,ignore_index=0", picked / total, false}}) {
    SCOPED_TRACE(row.text);
    GradOptions options;
    options.loss = parse_loss(row.text);
    options.wrt = {"x"};
    Diagnostics diagnostics;
    const auto joint = build_joint(*graph, options, diagnostics);
    ASSERT_EQ(joint->body.args.size(), 3u);
    EXPECT_EQ(joint->body.args[2]->name, "class_weights");
    EXPECT_EQ(to_string(joint->body.args[2]->type), "f32[3]");
    Tensor x(DType::f64, {3, 3}), weights(DType::f64, {3});
    for (int64_t i = 0; i < 9; ++i) x.set_double(i, row.logits ? static_cast<double>(i % 3) : log_p[i % 3]);
    for (int64_t c = 0; c < 3; ++c) weights.set_double(c, w[c]);
    auto loss_of = [&](const Tensor& at) {
      return interpret(*joint, std::vector<Tensor>{at, Tensor::from_ints({2, 1, 0}), weights}, true);
    };
    const auto outputs = loss_of(x);
    EXPECT_NEAR(outputs[0].as_double(0), row.loss, 1e-12);
    for (int64_t k = 0; k < 9; ++k) {
      double sides[2];
      for (int side = 0; side < 2; ++side) {
        Tensor moved(DType::f64, {3, 3});
        for (int64_t i = 0; i < 9; ++i) moved.set_double(i, x.as_double(i) + (i == k ? (side == 0 ? -1e-5 : 1e-5) : 0));
        sides[side] = loss_of(moved)[0].as_double(0);
      }
      EXPECT_NEAR(outputs[1].as_double(k), (sides[1] - sides[0]) / 2e-5, 1e-8) << k;
    }
  }
}

}  // namespace
}  // namespace tcc
