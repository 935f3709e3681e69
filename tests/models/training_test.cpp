// Training libraries of the exported models: 20 steps of each optimizer against the framework's, through `tcc run` and through the C interface;
// then what has to be equal however it is computed: in parts, in micro-batches, resumed, with less memory.
//
//   test_models_training [--device=cuda] [--gtest_filter=*bert*]
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cli/program.h"
#include "models/exported.h"
#include "tcc/driver/pipeline.h"
#include "tcc/runtime/library.h"
#include "tcc/support/npy.h"
#include "tcc/support/safetensors.h"

namespace tcc::test {
namespace {

struct Model {
  const char* name;
  const char* loss;
};
constexpr Model kMlp = {"mnist_mlp", "cross_entropy"}, kCnn = {"mnist_cnn", "nll"}, kBert = {"bert_tiny", "mse"},
                kGpt = {"gpt2_tiny", "cross_entropy:axis=-1"}, kResnet = {"resnet_torchvision_slim", "cross_entropy"},
                kUnet = {"unet_mini", "l1"};

struct Optimizer {
  const char* name;  ///< as train.npz has it
  const char* text;
};
constexpr Optimizer kSgd = {"sgd", "sgd:lr=0.01,momentum=0.9,nesterov=true,weight_decay=1e-4"},
                    kAdam = {"adam", "adam:beta1=0.9,beta2=0.99"}, kAdamw = {"adamw", "adamw:weight_decay=0.01"};

std::string path_of(const Model& model) { return std::string(TCC_MODELS_DIR "/") + model.name + "/unoptimized.onnx"; }

/// A model's training library and the batch of train.npz, in a folder of their own.
class Trainer {
 public:
  Trainer(const Model& model, const Optimizer& optimizer, driver::Options options = compile_options()) : data_(path_of(model)) {
    options.mode = driver::Mode::train;
    options.loss = model.loss;
    options.optimizer = optimizer.text;
    driver::compile_to_library(path_of(model), options, folder_ / "step.so");
    library_ = runtime::Library::open(folder_ / "step.so");
    for (const runtime::TensorInfo& info : library_->functions()[static_cast<size_t>(library_->function("step"))].inputs) {
      const Tensor& tensor = info.name == "target" ? data_.training.at("target") : data_.input(info.name, inputs_.size());
      inputs_.push_back(tensor.reshaped(info.shape));
      write_npy(folder_ / (info.name + ".npy"), inputs_.back());
      if (info.name != "target") arguments_ += " --input '" + info.name + "=" + info.name + ".npy'";
    }
  }
  const runtime::Library& library() const { return *library_; }
  const Folder& folder() const { return folder_; }
  const ModelData& data() const { return data_; }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  std::vector<Tensor> inputs_to_infer() const {
    return {inputs_.begin(), inputs_.begin() + static_cast<std::ptrdiff_t>(library_->inputs().size())};
  }
  std::unique_ptr<runtime::Instance> instance() const {
    return std::make_unique<runtime::Instance>(library_, runtime::InstanceOptions{.device = device()});
  }
  /// `tcc run` on the inputs of the model; a step takes --input target=target.npy too.
  Result run(const std::string& arguments) const {
    return run_tcc("run step.so --device " + std::string(device() == runtime::Device::cuda ? "cuda" : "cpu") + arguments_ + " " + arguments,
                   folder_.path());
  }
  uint64_t planned_peak(runtime::Instance& instance) const { return instance.function_info(library_->function("step")).planned_peak_bytes; }

 private:
  Folder folder_;
  ModelData data_;
  std::shared_ptr<const runtime::Library> library_;
  std::vector<Tensor> inputs_;
  std::string arguments_;
};

std::vector<double> losses_of(runtime::Instance& instance, const std::vector<Tensor>& inputs, int steps) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(instance.step(inputs).at(0).as_double(0));
  return losses;
}

/// The largest difference of a parameter, in units of its largest magnitude.
double difference_of_parameters(const runtime::Instance& a, const runtime::Instance& b) {
  double worst = 0;
  for (const runtime::StateInfo& info : a.library().state()) {
    if (info.role != StateRole::parameter || info.size_bytes == 0) continue;
    const Tensor x = a.read_state(info.name), y = b.read_state(info.name);
    double difference = 0;
    for (int64_t i = 0; i < x.count(); ++i) difference = std::max(difference, std::abs(x.as_double(i) - y.as_double(i)));
    if (difference > 0) worst = std::max(worst, difference / largest_magnitude(x));
  }
  return worst;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double relative) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], relative * std::max(1.0, std::abs(expected[i]))) << "step " << i;
}

/// What 20 steps leave.
struct Trained {
  std::vector<double> losses;
  std::map<std::string, Tensor> state;
};

/// The first loss or parameter that is not the framework's, or nothing: to 1e-4 of the largest, or 5 times the framework's own deviation in f32.
std::string first_difference(const Trained& found, const std::map<std::string, Tensor>& training, const std::string& optimizer) {
  const Tensor& deviation = training.at(optimizer + ".f32_dev");  // of parameters, of losses
  const Tensor& losses = training.at(optimizer + ".losses");
  const double loss_tolerance = std::max(1e-4, 5 * deviation.as_double(1)) * largest_magnitude(losses);
  for (int64_t i = 0; i < losses.count(); ++i) {
    const double loss = found.losses.at(static_cast<size_t>(i));
    if (!(std::abs(loss - losses.as_double(i)) <= loss_tolerance))
      return "the loss of step " + std::to_string(i) + " is " + std::to_string(loss) + ", expected " + std::to_string(losses.as_double(i));
  }
  const std::string prefix = optimizer + ".param.";
  for (const auto& [key, samples] : training) {
    if (!key.starts_with(prefix)) continue;
    std::string parameter = key.substr(prefix.size());
    if (parameter == "m.transformer.wte.weight") parameter = "m.lm_head.weight";  // tied; the export has the second name
    if (!found.state.contains(parameter)) {
      if (parameter.starts_with("m.pooler.")) continue;  // no output of bert's export depends on it
      return "there is no " + parameter;
    }
    const Tensor& tensor = found.state.at(parameter);
    const double tolerance = std::max(1e-4, 5 * deviation.as_double(0)) * largest_magnitude(tensor);
    const double stride = samples.count() == 1 ? 0 : static_cast<double>(tensor.count() - 1) / static_cast<double>(samples.count() - 1);
    for (int64_t i = 0; i < samples.count(); ++i) {
      const auto at = static_cast<int64_t>(static_cast<double>(i) * stride + 1e-9);
      if (!(std::abs(tensor.as_double(at) - samples.as_double(i)) <= tolerance))
        return parameter + " at " + std::to_string(at) + " is " + std::to_string(tensor.as_double(at)) + ", expected " +
               std::to_string(samples.as_double(i));
    }
  }
  return "";
}

Trained trained_from(const Trainer& trainer, runtime::Instance& instance) {
  Trained result;
  result.losses = losses_of(instance, trainer.inputs(), 20);
  for (const runtime::StateInfo& info : trainer.library().state()) {
    if (info.role != StateRole::gradient) result.state.emplace(info.name, instance.read_state(info.name));
  }
  return result;
}

/// On CUDA gradients of embeddings are added up in any order.
bool steps_are_exact() { return device() == runtime::Device::cpu; }

class TwentySteps : public testing::TestWithParam<std::tuple<Model, Optimizer>> {};

TEST_P(TwentySteps, AreTheFrameworks) {
  const auto& [model, optimizer] = GetParam();
  const Trainer trainer(model, optimizer);
  const std::map<std::string, Tensor>& training = trainer.data().training;
  const Result ran = trainer.run("--input target=target.npy --steps 20 --save . --save-state state.safetensors");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Tensor losses = read_npy(trainer.folder() / "losses.npy");
  Trained by_tcc;
  for (int64_t i = 0; i < losses.count(); ++i) by_tcc.losses.push_back(losses.as_double(i));
  by_tcc.state = read_safetensors(trainer.folder() / "state.safetensors").tensors;

  // The C interface does the same, bit for bit.
  const Trained by_interface = trained_from(trainer, *trainer.instance());
  ASSERT_EQ(by_interface.state.size(), by_tcc.state.size());
  if (steps_are_exact()) {
    EXPECT_EQ(by_interface.losses, by_tcc.losses);
    for (const auto& [name, tensor] : by_tcc.state) EXPECT_TRUE(by_interface.state.at(name).same_bytes(tensor)) << name;
  }

  EXPECT_EQ(first_difference(by_tcc, training, optimizer.name), "");
  EXPECT_EQ(first_difference(by_interface, training, optimizer.name), "");
}

INSTANTIATE_TEST_SUITE_P(Models, TwentySteps,
                         testing::Combine(testing::Values(kMlp, kCnn, kBert, kGpt, kResnet, kUnet), testing::Values(kSgd, kAdam, kAdamw)),
                         [](const auto& info) {
                           return identifier(std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name);
                         });

class Steps : public testing::TestWithParam<Model> {};

TEST_P(Steps, ResumedAreTheSameBitForBit) {
  const Trainer trainer(GetParam(), kAdamw);
  const std::string target = "--input target=target.npy ";
  for (const char* arguments :
       {"--steps 20 --save-state whole", "--steps 10 --save-state half", "--load-state half --steps 10 --save-state resumed"})
    ASSERT_EQ(trainer.run(target + arguments).exit_code, 0) << arguments;
  if (steps_are_exact()) { EXPECT_EQ(trainer.folder().read("resumed"), trainer.folder().read("whole")); }
  const auto whole = trainer.instance(), resumed = trainer.instance();
  whole->load_state(trainer.folder() / "whole");
  resumed->load_state(trainer.folder() / "resumed");
  EXPECT_LT(difference_of_parameters(*whole, *resumed), 1e-4);
  EXPECT_NE(trainer.folder().read("half"), trainer.folder().read("whole"));

  // The same library infers, with the parameters that it was exported with, and with those that it was trained to.
  const auto infer = [&](const std::string& arguments) {
    const Result result = trainer.run(arguments + " --save " + (trainer.folder() / "out"));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return read_npy(trainer.folder() / "out/0.npy");
  };
  const Tensor before = infer(""), after = infer("--weights whole"), &exported = trainer.data().reference.at("out0_f64");
  for (int64_t i = 0; i < exported.count(); ++i)
    ASSERT_NEAR(before.as_double(i), exported.as_double(i), 1e-5 + 1e-4 * std::abs(exported.as_double(i))) << i;
  EXPECT_FALSE(after.same_bytes(before));
  EXPECT_TRUE(infer("--load-state whole").same_bytes(after));
  EXPECT_TRUE(whole->run(trainer.inputs_to_infer()).at(0).same_bytes(after));
  losses_of(*whole, trainer.inputs(), 1);
  EXPECT_FALSE(whole->run(trainer.inputs_to_infer()).at(0).same_bytes(after));
}

TEST_P(Steps, InPartsAndInMicroBatchesAreTheSame) {
  const Trainer trainer(GetParam(), kAdamw);
  driver::Options in_two = compile_options();
  in_two.accumulate = 2;
  const Trainer accumulating(GetParam(), kAdamw, in_two);
  const auto whole = trainer.instance(), parts = trainer.instance(), halves = accumulating.instance();
  for (int i = 0; i < 5; ++i) {
    const double loss = whole->step(trainer.inputs()).at(0).as_double(0), near = 1e-5 * std::max(1.0, std::abs(loss));
    const std::vector<Tensor> forward = parts->run("forward", trainer.inputs());
    std::vector<Tensor> inputs = trainer.inputs();
    inputs.push_back(forward.at(1));
    EXPECT_TRUE(parts->run("backward", inputs).empty());
    parts->run("update", {});
    EXPECT_NEAR(forward.at(0).as_double(0), loss, near);
    EXPECT_NEAR(halves->step(trainer.inputs()).at(0).as_double(0), loss, near);
    EXPECT_NEAR(halves->step(trainer.inputs()).at(0).as_double(0), loss, near);
  }
  EXPECT_LT(difference_of_parameters(*whole, *parts), 1e-4);
  EXPECT_LT(difference_of_parameters(*whole, *halves), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, Steps, testing::Values(kBert, kResnet), [](const auto& info) { return std::string(info.param.name); });

/// --mem-budget is kept, or refused with the smallest that works, which then does; whatever is saved and recomputed, the losses are the same.
TEST(Memory, ABudgetIsKeptAndChangesNoLoss) {
  const Trainer automatic(kGpt, kAdamw);
  const auto instance = automatic.instance();
  const uint64_t peak = automatic.planned_peak(*instance);
  const std::vector<double> losses = losses_of(*instance, automatic.inputs(), 5);

  driver::Options options = compile_options();
  options.memory_budget = 1000;
  uint64_t smallest = 0;
  try {
    const Trainer impossible(kGpt, kAdamw, options);
    ADD_FAILURE() << "a thousand bytes were enough";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::model);
    const std::string text = error.what(), word = "the smallest budget that works is --mem-budget=";
    ASSERT_NE(text.find(word), std::string::npos) << text;
    smallest = std::stoull(text.substr(text.find(word) + word.size()));
  }
  ASSERT_LT(smallest, peak);
  for (const uint64_t budget : {smallest, (smallest + peak) / 2}) {
    options.memory_budget = static_cast<int64_t>(budget);
    const Trainer bounded(kGpt, kAdamw, options);
    const auto with_less = bounded.instance();
    EXPECT_LE(bounded.planned_peak(*with_less), budget);
    expect_near(losses_of(*with_less, bounded.inputs(), 5), losses, 1e-5);
  }
  options.memory_budget = static_cast<int64_t>(smallest - 1);
  EXPECT_THROW(Trainer(kGpt, kAdamw, options), Error);
  for (const driver::Remat remat : {driver::Remat::full, driver::Remat::none}) {
    driver::Options chosen = compile_options();
    chosen.remat = remat;
    const Trainer trainer(kGpt, kAdamw, chosen);
    expect_near(losses_of(*trainer.instance(), trainer.inputs(), 5), losses, 1e-5);
  }
}

/// |a - b| over all parameters that train: the largest, and the norm.
struct Change {
  double largest = 0, norm = 0;
};
Change change_of_first_step(const driver::Options& options) {
  const Trainer trainer(kMlp, {"", "sgd:lr=1"}, options);
  const auto before = trainer.instance(), after = trainer.instance();
  after->step(trainer.inputs());
  Change change;
  for (const runtime::StateInfo& info : trainer.library().state()) {
    if (info.role != StateRole::parameter || !info.trained) continue;
    const Tensor x = before->read_state(info.name), y = after->read_state(info.name);
    for (int64_t i = 0; i < x.count(); ++i) {
      const double moved = std::abs(x.as_double(i) - y.as_double(i));
      change.largest = std::max(change.largest, moved);
      change.norm += moved * moved;
    }
  }
  change.norm = std::sqrt(change.norm);
  return change;
}

TEST(Flags, ClippedGradientsMoveParametersAsFar) {
  driver::Options options = compile_options();
  const Change free = change_of_first_step(options);
  options.clip_value = free.largest / 2;
  EXPECT_NEAR(change_of_first_step(options).largest, free.largest / 2, 1e-4 * free.largest);
  options.clip_value = 0;
  options.clip_norm = free.norm / 4;
  EXPECT_NEAR(change_of_first_step(options).norm, free.norm / 4, 1e-4 * free.norm);
}

TEST(Flags, AScaleOfTheLossCancels) {
  const Trainer trainer(kMlp, kAdamw);
  const auto instance = trainer.instance();
  const std::vector<double> losses = losses_of(*instance, trainer.inputs(), 5);
  for (const char* scale : {"1024", "dynamic"}) {
    driver::Options options = compile_options();
    options.loss_scale = scale;
    const Trainer scaling(kMlp, kAdamw, options);
    const auto scaled = scaling.instance();
    expect_near(losses_of(*scaled, scaling.inputs(), 5), losses, 1e-6);
    EXPECT_LT(difference_of_parameters(*instance, *scaled), 1e-5) << scale;
  }
}

/// On the same batch with a learning rate of 0 running statistics go towards those of the batch by a tenth of what is left, and inference sees it.
TEST(Flags, BatchNormsKeepRunningStatistics) {
  driver::Options options = compile_options();
  options.train_batch_norms = true;
  const Trainer trainer(kResnet, {"", "sgd:lr=0"}, options);
  const auto instance = trainer.instance();
  const Tensor inferred = instance->run(trainer.inputs_to_infer()).at(0);
  std::vector<std::map<std::string, Tensor>> statistics;
  for (int step = 0; step < 3; ++step) {
    if (step > 0) instance->step(trainer.inputs());
    std::map<std::string, Tensor>& now = statistics.emplace_back();
    for (const runtime::StateInfo& info : trainer.library().state()) {
      if (info.role == StateRole::statistic) now.emplace(info.name, instance->read_state(info.name));
    }
  }
  EXPECT_EQ(statistics[0].size(), 10U);  // mean and variance of five batch norms
  for (const auto& [name, first] : statistics[0]) {
    const Tensor &second = statistics[1].at(name), &third = statistics[2].at(name);
    EXPECT_FALSE(second.same_bytes(first)) << name;
    const double tolerance = 1e-5 * largest_magnitude(second);
    for (int64_t i = 0; i < first.count(); ++i)
      ASSERT_NEAR(third.as_double(i) - second.as_double(i), 0.9 * (second.as_double(i) - first.as_double(i)), tolerance) << name;
  }
  EXPECT_FALSE(instance->run(trainer.inputs_to_infer()).at(0).same_bytes(inferred));
}

/// Steps that are too small for the eight bits of bf16 add up in the f32 copy.
TEST(Flags, NarrowParametersAreUpdatedInF32) {
  const Folder folder;
  folder.write("narrow.graph", R"(graph @narrow(%x: bf16[4, 3]) -> (%y: bf16[4, 2]) {
  weight @w: bf16[3, 2] = [1, -1, 0.5, 2, -0.5, 1]
  %y: bf16[4, 2] = matmul(%x, @w)
}
)");
  driver::Options options = compile_options();
  options.from = "graph";
  options.mode = driver::Mode::train;
  options.loss = "mse";
  options.optimizer = "sgd:lr=1e-4";
  driver::compile_to_library(folder / "narrow.graph", options, folder / "narrow.so");
  runtime::Instance instance(runtime::Library::open(folder / "narrow.so"), {.device = device()});
  Tensor x(DType::bf16, {4, 3}), target(DType::bf16, {4, 2});
  for (int64_t i = 0; i < x.count(); ++i) x.set_double(i, static_cast<double>(i % 5) - 1);
  const Tensor before = instance.read_state("w");
  instance.step({x, target});
  EXPECT_TRUE(instance.read_state("w").same_bytes(before));
  losses_of(instance, {x, target}, 300);
  const Tensor after = instance.read_state("w"), master = instance.read_state("optimizer.master.w");
  ASSERT_EQ(master.dtype(), DType::f32);
  EXPECT_FALSE(after.same_bytes(before));
  for (int64_t i = 0; i < after.count(); ++i) {
    Tensor rounded(DType::bf16, {1});
    rounded.set_double(0, master.as_double(i));
    EXPECT_EQ(after.as_double(i), rounded.as_double(0)) << i;
  }
}

}  // namespace
}  // namespace tcc::test

int main(int argc, char** argv) { return tcc::test::run_tests(argc, argv); }
