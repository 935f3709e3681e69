// A model that drops out while it trains: masks come from the seed and the number of the step, and the backward pass has those of the forward pass.
//
//   test_models_dropout [--device=cuda]
#include <gtest/gtest.h>

#include <set>

#include "cli/program.h"
#include "frontend/model_builder.h"
#include "models/exported.h"
#include "tcc/driver/pipeline.h"
#include "tcc/runtime/library.h"

namespace tcc::test {
namespace {

constexpr int64_t kCount = 16384;
constexpr double kRatio = 0.25;

/// y = dropout(x * w), its mask an output too; x and w are ones.
class Dropout : public testing::Test {
 protected:
  void SetUp() override {
    onnx::ModelBuilder model;
    model.input("x", onnx::pb::TensorProto::FLOAT, {kCount});
    model.floats("w", {kCount}, std::vector<float>(kCount, 1.0F));
    model.floats("ratio", {}, {static_cast<float>(kRatio)});
    auto& training = *model.graph().add_initializer();
    training.set_name("training");
    training.set_data_type(onnx::pb::TensorProto::BOOL);
    training.add_int32_data(1);
    model.node("Mul", {"x", "w"}, {"scaled"});
    model.node("Dropout", {"scaled", "ratio", "training"}, {"y", "mask"});
    model.output("y", onnx::pb::TensorProto::FLOAT);
    model.output("mask", onnx::pb::TensorProto::BOOL);
    model.save(folder_ / "dropout.onnx");
    for (int64_t i = 0; i < kCount; ++i) ones_.set_double(i, 1);
  }
  std::shared_ptr<const runtime::Library> compile(driver::Mode mode) const {
    driver::Options options = compile_options();
    options.mode = mode;
    if (mode == driver::Mode::train) {
      options.loss = "mse:of=y";
      options.optimizer = "sgd:lr=1";
    }
    const std::string path = folder_ / ("library" + std::to_string(static_cast<int>(mode)) + ".so");
    driver::compile_to_library(folder_ / "dropout.onnx", options, path);
    return runtime::Library::open(path);
  }
  static std::unique_ptr<runtime::Instance> instance(const std::shared_ptr<const runtime::Library>& library, double seed, int threads = 0) {
    auto result = std::make_unique<runtime::Instance>(library, runtime::InstanceOptions{.device = device(), .num_threads = threads});
    result->set_scalar("seed", seed);
    return result;
  }
  static std::set<int64_t> kept(const Tensor& tensor) {
    std::set<int64_t> result;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (tensor.as_double(i) != 0) result.insert(i);
    }
    return result;
  }

  Folder folder_;
  Tensor ones_{DType::f32, {kCount}}, target_{DType::f32, {kCount}};
};

TEST_F(Dropout, TheSeedDecides) {
  const auto library = compile(driver::Mode::infer);
  const auto one = instance(library, 7, 1), two = instance(library, 7, 2), other = instance(library, 8);
  const std::vector<Tensor> outputs = one->run({ones_});
  EXPECT_TRUE(one->run({ones_})[0].same_bytes(outputs[0]));
  EXPECT_TRUE(two->run({ones_})[0].same_bytes(outputs[0]));
  EXPECT_FALSE(other->run({ones_})[0].same_bytes(outputs[0]));
  const std::set<int64_t> mask = kept(outputs[1]);
  EXPECT_EQ(kept(outputs[0]), mask);
  for (const int64_t i : mask) ASSERT_FLOAT_EQ(static_cast<float>(outputs[0].as_double(i)), static_cast<float>(1 / (1 - kRatio)));
  EXPECT_NEAR(static_cast<double>(mask.size()) / kCount, 1 - kRatio, 0.015);  // four deviations
}

TEST_F(Dropout, GradientsHaveTheMaskOfTheForwardPass) {
  const auto library = compile(driver::Mode::grad);
  ASSERT_EQ(library->inputs().size(), 2U);  // x and cotangent.y
  const std::vector<Tensor> outputs = instance(library, 7)->run({ones_, ones_});
  ASSERT_EQ(library->outputs().at(2).name, "grad.w");
  EXPECT_TRUE(outputs[2].same_bytes(outputs[0]));  // both are the mask over what is kept
  EXPECT_EQ(kept(outputs[2]), kept(outputs[1]));
}

TEST_F(Dropout, EachStepHasAMaskOfItsOwn) {
  const auto library = compile(driver::Mode::train);
  const auto training = instance(library, 7), parts = instance(library, 7), other = instance(library, 8);
  std::vector<std::set<int64_t>> masks;
  for (int step = 0; step < 3; ++step) {
    const Tensor before = training->read_state("w");
    const double loss = training->step({ones_, target_})[0].as_double(0);
    // The gradient of mean(y * y) is zero where the mask is: those parameters stay.
    const Tensor after = training->read_state("w");
    std::set<int64_t> moved;
    double expected = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      if (before.as_double(i) == after.as_double(i)) continue;
      moved.insert(i);
      expected += before.as_double(i) * before.as_double(i) / ((1 - kRatio) * (1 - kRatio));
    }
    EXPECT_NEAR(loss, expected / kCount, 1e-5);
    EXPECT_NE(other->step({ones_, target_})[0].as_double(0), loss);

    std::vector<Tensor> inputs = {ones_, target_};
    const std::vector<Tensor> forward = parts->run("forward", inputs);
    EXPECT_NEAR(forward[0].as_double(0), loss, 1e-6);
    inputs.push_back(forward[1]);
    parts->run("backward", inputs);
    EXPECT_EQ(kept(parts->read_state("grad.w")), moved);
    parts->run("update", {});
    masks.push_back(moved);
  }
  EXPECT_NE(masks[0], masks[1]);
  EXPECT_NE(masks[1], masks[2]);

  // The number of the step is state: what is resumed goes on with the masks that would have come.
  training->save_state(folder_ / "state");
  const auto resumed = instance(library, 7);
  resumed->load_state(folder_ / "state");
  EXPECT_EQ(resumed->step({ones_, target_})[0].as_double(0), training->step({ones_, target_})[0].as_double(0));
}

}  // namespace
}  // namespace tcc::test

int main(int argc, char** argv) { return tcc::test::run_tests(argc, argv); }
