// Gradients and training as a user meets them: what flags refuse, products that come back in, manifests, warnings, `check`, `verify` and `run`.
// That libraries compute the right numbers is tested in tests/models.
#include <gtest/gtest.h>

#include "cli/program.h"
#include "frontend/model_builder.h"
#include "tcc/support/npy.h"
#include "tcc/support/safetensors.h"

namespace tcc::test {
namespace {

constexpr const char* kNeedsTraining = "a library that trains is made with --mode=train";

class Training : public testing::Test {
 protected:
  void SetUp() override { folder_.write("small.graph", small_graph()); }
  Result tcc(const std::string& arguments) const { return run_tcc(arguments, folder_.path()); }
  std::string good(const std::string& arguments) const {
    const Result result = tcc(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments;
    EXPECT_EQ(result.err, "") << arguments;
    return result.out;
  }
  /// Nothing goes to standard output, and no file is left behind.
  void refused(const std::string& arguments, int exit_code, const std::string& message, const std::string& help = "") const {
    const std::vector<std::string> before = folder_.files();
    const Result result = tcc(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << arguments;
    const std::string where = message.substr(0, message.find(": error: "));
    EXPECT_EQ(result.err, message + "\n" + (help.empty() ? "" : where + ": help: " + help + "\n")) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_EQ(folder_.files(), before) << arguments;
  }
  /// What `tcc run` prints, without the line of the device.
  std::string run(const std::string& arguments) const {
    const std::string text = good("run " + arguments + " --device cpu");
    return text.substr(text.find('\n') + 1);
  }
  Folder folder_;
};

TEST_F(Training, FlagsThatDoNotFitTheMode) {
  const std::string infer = "--from=graph small.graph -o n.so ", grad = infer + "--mode=grad ", train = infer + "--mode=train ";
  refused(infer + "--mode=learn", 2, "tcc: error: --mode=learn: there is no such choice [invalid-argument]",
          "choices are `infer`, `grad`, `train`");
  refused(train, 2, "tcc: error: --mode=train needs a loss [invalid-argument]",
          "name it with --loss, e.g. --loss=cross_entropy or --loss=output:NAME");
  refused(train + "--loss=mse", 2, "tcc: error: --mode=train needs an optimizer [invalid-argument]",
          "name it with --optimizer, e.g. --optimizer=adamw");
  const std::string wrt = "it goes with --mode=grad; --train and --freeze choose what trains";
  refused(train + "--loss=mse --optimizer=sgd --wrt=x", 2, "tcc: error: --wrt says nothing with --mode=train [invalid-argument]", wrt);
  refused(infer + "--wrt=x", 2, "tcc: error: --wrt says nothing with --mode=infer [invalid-argument]", wrt);
  for (const std::string flag : {"--loss=mse", "--train=w1", "--freeze=w1", "--batch-norm=train", "--remat=full", "--mem-budget=1G"}) {
    const std::string name = flag == "--batch-norm=train" ? flag : flag.substr(0, flag.find('='));
    refused(infer + flag, 2, "tcc: error: " + name + " says nothing with --mode=infer [invalid-argument]",
            "it goes with --mode=grad and --mode=train");
  }
  for (const std::string flag : {"--optimizer=sgd", "--clip-norm=1", "--clip-value=1", "--accumulate=2", "--loss-scale=8"}) {
    refused(grad + flag, 2, "tcc: error: " + flag.substr(0, flag.find('=')) + " says nothing with --mode=grad [invalid-argument]",
            "it goes with --mode=train");
  }
  refused("verify --from=graph small.graph --mode=train --loss=mse --optimizer=sgd", 2,
          "tcc: error: a training step is not verified as a whole [invalid-argument]",
          "--mode=grad with the same --loss compares all its gradients");
}

TEST_F(Training, ValuesThatAreNone) {
  const std::string model = "--from=graph small.graph -o n.so --mode=train ", sgd = model + "--loss=mse --optimizer=sgd ";
  const std::string invalid = " [invalid-argument]", unknown = " [unknown-input]";
  refused(model + "--loss=mse --optimizer=lamb", 2, "tcc: error: --optimizer=lamb: known are sgd, adam, adamw and adagrad" + invalid);
  refused(model + "--loss=mse --optimizer=adam:beta3=1", 2,
          "tcc: error: --optimizer=adam:beta3=1: `beta3` is not an option of it, known are lr, weight_decay, maximize, beta1, beta2, eps" +
              invalid);
  refused(model + "--loss=hinge --optimizer=sgd", 2,
          "tcc: error: --loss=hinge: known are cross_entropy, nll, mse, l1, huber, bce and output:NAME" + invalid);
  refused(model + "--loss=mse:of=q --optimizer=sgd", 2, "tcc: error: --loss: the model has no output `q`" + invalid, "outputs are `p`");
  refused(model + "--loss=output:p --optimizer=sgd", 2,
          "tcc: error: --loss: the output `p` is f32[4, 2], a float of one element is needed" + invalid);
  refused(sgd + "--train='q*'", 2, "tcc: error: --train=q* matches no float parameter" + unknown);
  refused(sgd + "--freeze='q*'", 2, "tcc: error: --freeze=q* matches no float parameter" + unknown);
  refused(sgd + "--freeze='*'", 2, "tcc: error: --mode=train: no parameter trains" + invalid);
  refused("--from=graph small.graph -o n.so --mode=grad --wrt=y", 2, "tcc: error: --wrt=y matches no float input or parameter" + unknown);
  refused(sgd + "--remat=some", 2, "tcc: error: --remat=some: there is no such choice" + invalid,
          "did you mean `none`? choices are `auto`, `none`, `full`");
  refused(sgd + "--batch-norm=on", 2, "tcc: error: --batch-norm=on: there is no such choice" + invalid, "choices are `keep`, `train`");
  refused(sgd + "--mem-budget=lots", 2, "tcc: error: --mem-budget=lots: a size was expected" + invalid,
          "sizes are written 800M, 6GiB, 1500000000");
  refused(sgd + "--accumulate=0", 2, "tcc: error: --accumulate=0: a number of micro-batches was expected, at least 1" + invalid);
  refused(sgd + "--clip-norm=nan", 2, "tcc: error: --clip-norm=nan: a positive number was expected" + invalid);
  refused(sgd + "--clip-value=-1", 2, "tcc: error: --clip-value=-1.000000: a positive number was expected" + invalid);
  refused(sgd + "--loss-scale=big", 2, "tcc: error: --loss-scale=big: known are dynamic and a factor above 0, as 1024" + invalid);
}

TEST_F(Training, RunRefusesWhatALibraryCannot) {
  good("--from=graph small.graph --target=cpu -o infer.so");
  good("--from=graph small.graph --target=cpu -o grad.so --mode=grad --loss=mse --wrt=x");
  good("--from=graph small.graph --target=cpu -o step.so --mode=train --loss=mse --optimizer=adam");
  good("--from=graph small.graph --target=cpu -o other.so --mode=train --loss=mse --optimizer=sgd:momentum=0.9");
  write_npy(folder_ / "x.npy", Tensor(DType::f32, {4, 3}));
  const std::string help = kNeedsTraining;
  refused("run infer.so --random --steps 2", 2, "infer.so: error: --steps: the library has no training step [invalid-argument]", help);
  refused("run grad.so --random --steps 2", 2, "grad.so: error: --steps: the library has no training step [invalid-argument]", help);
  refused("run infer.so --random --lr 1", 2, "infer.so: error: --lr: the library has no learning rate [invalid-argument]", help);
  refused("run infer.so --random --save-state s", 2, "infer.so: error: the library keeps no state to load or save [invalid-argument]",
          help);
  const std::string run = "run step.so --device cpu --random ";
  for (const std::string steps : {"0", "-3"})
    refused(run + "--steps " + steps, 2,
            "tcc: error: --steps=" + steps + ": a number of steps was expected, at least 1 [invalid-argument]");
  refused(run + "--steps 1 --lr nan", 2, "tcc: error: --lr=nan: a number was expected [invalid-argument]");
  refused("run step.so --device cpu --steps 1 --input x.npy", 2, "step.so: error: input `target` (f32[4, 2]) is not given [missing-input]",
          "give each with --input NAME=FILE, or --random for random values");
  refused(run + "--load-state none", 5,
          "step.so: error: state file `none` cannot be opened: error 2: No such file or directory [file-error]");
  folder_.write("text", "no state at all, but long enough");
  const Result text = tcc(run + "--load-state text");
  EXPECT_EQ(text.exit_code, 5);
  EXPECT_TRUE(text.err.starts_with("step.so: error: state file `text` is not a safetensors file: ")) << text.err;
  // Another optimizer's state is refused as a whole; its parameters alone can be had.
  good("run other.so --device cpu --random --steps 3 --save-state other.safetensors");
  const Result others = tcc(run + "--load-state other.safetensors");
  EXPECT_EQ(others.exit_code, 5) << others.out;
  EXPECT_TRUE(others.err.starts_with("step.so: error: state file `other.safetensors`: tensor `optimizer.")) << others.err;
  const Result parameters = tcc(run + "--weights other.safetensors");
  EXPECT_EQ(parameters.exit_code, 0) << parameters.err;
  EXPECT_EQ(parameters.err, "state file `other.safetensors`: the parameters are taken, the optimizer starts anew\n");
}

TEST_F(Training, StepsPrintTheirLossesAndWriteThem) {
  good("--from=graph small.graph --target=cpu -o step.so --mode=train --loss=mse --optimizer=sgd:lr=0");
  const std::string still = run("step.so --random --steps 2");
  const size_t first = still.find("step 1: loss "), second = still.find("step 2: loss ");
  ASSERT_TRUE(first != std::string::npos && second != std::string::npos) << still;
  EXPECT_EQ(still.substr(first + 13, second - first - 13), still.substr(second + 13));  // the learning rate of --optimizer is 0
  run("step.so --random --steps 9 --lr 0.5 --save out --save-state out/state");
  const Tensor losses = read_npy(folder_ / "out/losses.npy");
  ASSERT_EQ(losses.shape(), Shape{9});
  for (int i = 1; i < 9; ++i) EXPECT_LT(losses.as_double(i), losses.as_double(i - 1));
  const auto state = read_safetensors(folder_ / "out/state").tensors;
  EXPECT_EQ(state.size(), 3U);  // w1, b1, w2: SGD without a momentum keeps nothing
  const std::string json = good("run step.so --device cpu --random --steps 2 --json");
  EXPECT_NE(json.find("\"losses\": ["), std::string::npos) << json;
}

TEST_F(Training, GradientsAreFilesUnderTheirNames) {
  good("--from=graph small.graph --target=cpu -o grad.so --mode=grad --wrt=x,w2");
  const std::string text = run("grad.so --random --save out");
  EXPECT_NE(text.find("grad.w2: f32[5, 2] min "), std::string::npos) << text;
  const std::vector<std::string> files = folder_.files();
  for (const char* file : {"out/0.npy", "out/grad.w2.npy", "out/grad.x.npy"})
    EXPECT_EQ(std::count(files.begin(), files.end(), file), 1) << file;
  EXPECT_EQ(read_npy(folder_ / "out/grad.x.npy").shape(), (Shape{4, 3}));
}

/// The joint graph, its prims and its halves are texts that make the same library, or libraries of their own.
TEST_F(Training, ProductsComeBackIn) {
  good(
      "--from=graph small.graph --target=cpu --mode=grad --loss=mse --wrt='*' --emit=joint,prims,remat,forward,backward,header,manifest -o "
      "whole.so");
  for (const char* ending : {"cpu.remat", "h", "json"}) EXPECT_FALSE(folder_.read(std::string("small.") + ending).empty()) << ending;
  EXPECT_TRUE(folder_.read("small.cpu.remat").starts_with("remat @small mode auto peak "));
  good("--from=graph small.joint --target=cpu --mode=grad -o joint.so --soname=whole.so");
  good("--from=prims small.prims --target=cpu --mode=grad -o prims.so --soname=whole.so");
  for (const char* name : {"joint.so", "prims.so"})
    EXPECT_EQ(run_shell(std::string("cmp whole.so ") + name, folder_.path()).exit_code, 0) << name;
  EXPECT_NE(good("verify --from=graph small.joint --mode=grad --device cpu").find("\nw1: gradient "), std::string::npos);

  good("--from=prims small.cpu.forward --target=cpu -o forward.so");
  good("--from=prims small.cpu.backward --target=cpu -o backward.so");
  // What the forward half saves, given to the backward half.
  write_npy(folder_ / "target.npy", Tensor(DType::f32, {4, 2}));
  Tensor x(DType::f32, {4, 3});
  for (int i = 0; i < 12; ++i) x.set_double(i, 0.3 * i - 1.5);
  write_npy(folder_ / "x.npy", x);
  run("whole.so --input x=x.npy --input target=target.npy --save whole");
  const std::string forward = run("forward.so --input x=x.npy --input target=target.npy --save halves");
  std::string inputs;
  int number = 0;
  for (size_t at = 0; at < forward.size(); at = forward.find('\n', at) + 1, ++number) {
    const std::string name = forward.substr(at, forward.find(": ", at) - at);
    if (name.starts_with("saved.")) inputs += " --input " + name + "=halves/" + std::to_string(number) + ".npy";
  }
  EXPECT_NE(inputs, "");
  const std::string text = folder_.read("small.cpu.backward");
  const std::string signature = text.substr(0, text.find("->"));
  for (const std::string name : {"x", "target"}) {
    if (signature.find("%" + name + ":") != std::string::npos) inputs += " --input " + name + "=" + name + ".npy";
  }
  run("backward.so" + inputs + " --save halves");
  for (const char* name : {"x", "w1", "b1", "w2"}) {
    const std::string file = std::string("/grad.") + name + ".npy";
    const Tensor whole = read_npy(folder_ / ("whole" + file)), halves = read_npy(folder_ / ("halves" + file));
    for (int64_t i = 0; i < whole.count(); ++i) EXPECT_NEAR(halves.as_double(i), whole.as_double(i), 1e-6) << name;
  }
}

TEST_F(Training, TextsOfAStepAreLookedAtOnly) {
  const std::string train = "--from=graph small.graph --target=cpu --mode=train --loss=mse --optimizer=adam ";
  good(train + "--emit=joint,prims,forward,backward");
  EXPECT_NE(folder_.read("small.prims").find("state(@optimizer.step = "), std::string::npos);
  good("--from=prims small.prims --target=cpu --emit=plan=step.plan");
  good("--from=prims small.cpu.forward --target=cpu -o forward.so");
  refused("--from=prims small.prims -o n.so", 2,
          "small.prims: error: the graph updates state, `optimizer.step` for one, and the text doesn't say how it is laid out "
          "[invalid-argument]",
          "leave -o out to look at it; a library that trains is made from the model with --mode=train");
  refused("--from=prims small.prims -o n.so --mode=grad", 2, "small.prims: error: the graph is a training step already [invalid-argument]",
          "leave --mode out");
  refused("--from=graph small.joint -o n.so --mode=grad --loss=mse", 2,
          "small.joint: error: the graph has an output `grad.w1`: it has its gradients already [invalid-argument]",
          "leave --mode out; a joint graph that is read back is taken with --mode=grad alone");
}

TEST_F(Training, TheManifestSaysWhatTrains) {
  const std::string text = good(
      "\"$MODELS/mnist_mlp/unoptimized.onnx\" --target=cpu --mode=train --loss=cross_entropy --optimizer=adam --freeze='3.*' "
      "--emit=manifest");
  for (
      const char* line :
      {R"({"name": "1.weight", "role": "parameter", "dtype": "f32", "shape": [64, 784], "bytes": 200704, "section": "parameters.f32", "offset": 0, "trained": true})",
       R"({"name": "3.weight", "role": "parameter", "dtype": "f32", "shape": [10, 64], "bytes": 2560, "section": "frozen.f32", "offset": 0, "trained": false})",
       R"({"name": "optimizer.exp_avg.1.bias", "role": "optimizer")", R"({"name": "grad.1.bias", "role": "gradient")",
       R"({"name": "lr", "dtype": "f32", "default": 0.001})", R"("planned_peak_bytes": )", R"("accumulate": 1,)"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  EXPECT_EQ(text.find("grad.3."), std::string::npos);
  for (const char* function : {"infer", "step", "forward", "backward", "update"})
    EXPECT_NE(text.find("\"name\": \"" + std::string(function) + "\","), std::string::npos) << function;
}

TEST_F(Training, ExportsForInferenceAreWarnedOf) {
  const std::string arguments = " --target=cpu --mode=train --loss=mse --optimizer=sgd --emit=manifest=m";
  const Result result = tcc("\"$MODELS/bert_tiny/dynamo.onnx\"" + arguments);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.err.find("dynamo.onnx: warning: `val_"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("have no names of the model: the export has folded other tensors into parameters [merged-parameters]"),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find(
                "help: export for training: torch.onnx.export(..., dynamo=True, optimize=False) keeps every parameter under its name"),
            std::string::npos)
      << result.err;
  good("\"$MODELS/bert_tiny/unoptimized.onnx\"" + arguments);
}

constexpr int kFloat = onnx::pb::TensorProto::FLOAT;

onnx::pb::TensorProto three_floats(const std::string& name) {
  onnx::pb::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(kFloat);
  tensor.add_dims(3);
  for (const float value : {0.5F, -1.F, 2.F}) tensor.add_float_data(value);
  return tensor;
}

onnx::pb::AttributeProto tensor_attribute(const std::string& name, const onnx::pb::TensorProto& tensor) {
  onnx::pb::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::pb::AttributeProto::TENSOR);
  *attribute.mutable_t() = tensor;
  return attribute;
}

/// y = x * w + c, where w is an initializer and `way` makes c, f32[3] of 0.5, -1, 2 (0.5 three times where the way has one number only).
struct ConstantWay {
  const char* name;
  bool trains;
  void (*make)(onnx::ModelBuilder& model);
};

void add_constant_node(onnx::ModelBuilder& model, const std::string& name) {
  model.node("Constant", {}, {name}, {tensor_attribute("value", three_floats("value"))});
}
void add_initializer(onnx::ModelBuilder& model, const std::string& name) { *model.graph().add_initializer() = three_floats(name); }

onnx::pb::FunctionProto& add_function(onnx::ModelBuilder& model) {
  model.import_domain("local", 1);
  auto& function = *model.proto.add_functions();
  function.set_domain("local");
  function.set_name("Make");
  function.add_output("made");
  auto* opset = function.add_opset_import();
  opset->set_domain("");
  opset->set_version(18);
  return function;
}

/// An If whose condition is known, so that the branch is inlined.
void add_branch(onnx::ModelBuilder& model, const onnx::pb::GraphProto& branch) {
  onnx::pb::TensorProto yes;
  yes.set_data_type(onnx::pb::TensorProto::BOOL);
  yes.add_int32_data(1);
  model.node("Constant", {}, {"yes"}, {tensor_attribute("value", yes)});
  model.node("If", {"yes"}, {"c"}, {onnx::graph_attribute("then_branch", branch), onnx::graph_attribute("else_branch", branch)});
}

const ConstantWay kConstantWays[] = {
    {"initializer", true, [](onnx::ModelBuilder& model) { add_initializer(model, "c"); }},
    {"initializer that is listed as an input", true,
     [](onnx::ModelBuilder& model) {
       model.input("c", kFloat, {3});
       add_initializer(model, "c");
     }},
    {"initializer behind Identity", true,
     [](onnx::ModelBuilder& model) {
       add_initializer(model, "p");
       model.node("Identity", {"p"}, {"c"});
     }},
    {"initializer behind Transpose", true,
     [](onnx::ModelBuilder& model) {
       add_initializer(model, "p");
       model.node("Transpose", {"p"}, {"c"});
     }},
    {"initializer behind Casts", true,
     [](onnx::ModelBuilder& model) {
       add_initializer(model, "p");
       model.node("Cast", {"p"}, {"q"}, {onnx::int_attribute("to", onnx::pb::TensorProto::DOUBLE)});
       model.node("Cast", {"q"}, {"c"}, {onnx::int_attribute("to", kFloat)});
     }},
    {"initializer plus a constant", true,
     [](onnx::ModelBuilder& model) {
       add_initializer(model, "p");
       add_constant_node(model, "q");
       model.node("Add", {"p", "q"}, {"c"});
     }},
    {"initializer passed to a function", true,
     [](onnx::ModelBuilder& model) {
       auto& function = add_function(model);
       function.add_input("given");
       *function.add_node() = onnx::make_node("Identity", {"given"}, {"made"});
       add_initializer(model, "p");
       model.node("Make", {"p"}, {"c"}, {}, "", "local");
     }},
    {"initializer of a branch", true,
     [](onnx::ModelBuilder& model) {
       onnx::pb::GraphProto branch;
       *branch.add_initializer() = three_floats("p");
       *branch.add_node() = onnx::make_node("Identity", {"p"}, {"t"});
       branch.add_output()->set_name("t");
       add_branch(model, branch);
     }},
    {"Constant of a tensor", false, [](onnx::ModelBuilder& model) { add_constant_node(model, "c"); }},
    {"Constant of a list", false,
     [](onnx::ModelBuilder& model) {
       onnx::pb::AttributeProto list;
       list.set_name("value_floats");
       list.set_type(onnx::pb::AttributeProto::FLOATS);
       for (const float value : {0.5F, -1.F, 2.F}) list.add_floats(value);
       model.node("Constant", {}, {"c"}, {list});
     }},
    {"ConstantOfShape", false,
     [](onnx::ModelBuilder& model) {
       onnx::pb::TensorProto half;
       half.set_data_type(kFloat);
       half.add_dims(1);
       half.add_float_data(0.5F);
       model.int64s("shape", {1}, {3});
       model.node("ConstantOfShape", {"shape"}, {"c"}, {tensor_attribute("value", half)});
     }},
    {"Constant behind Identity, Transpose and Casts", false,
     [](onnx::ModelBuilder& model) {
       add_constant_node(model, "p");
       model.node("Identity", {"p"}, {"q"});
       model.node("Transpose", {"q"}, {"r"});
       model.node("Cast", {"r"}, {"s"}, {onnx::int_attribute("to", onnx::pb::TensorProto::DOUBLE)});
       model.node("Cast", {"s"}, {"c"}, {onnx::int_attribute("to", kFloat)});
     }},
    {"sum of two Constants", false,
     [](onnx::ModelBuilder& model) {
       add_constant_node(model, "p");
       add_constant_node(model, "q");
       model.node("Add", {"p", "q"}, {"c"});
     }},
    {"Constant in a function", false,
     [](onnx::ModelBuilder& model) {
       *add_function(model).add_node() = onnx::make_node("Constant", {}, {"made"}, {tensor_attribute("value", three_floats("value"))});
       model.node("Make", {}, {"c"}, {}, "", "local");
     }},
    {"Constant in a branch", false,
     [](onnx::ModelBuilder& model) {
       onnx::pb::GraphProto branch;
       *branch.add_node() = onnx::make_node("Constant", {}, {"t"}, {tensor_attribute("value", three_floats("value"))});
       branch.add_output()->set_name("t");
       add_branch(model, branch);
     }},
};

// Initializers are parameters, in whatever way they come to the node that reads them; what nodes hold or make of constants is none.
TEST_F(Training, InitializersTrainAndConstantsDoNot) {
  const std::string train = " --mode=train --loss=mse --optimizer=sgd:lr=0.1 --target=cpu ";
  for (const ConstantWay& way : kConstantWays) {
    SCOPED_TRACE(way.name);
    onnx::ModelBuilder model;
    model.input("x", kFloat, {2, 3});
    model.floats("w", {3}, {1, 2, 3});
    way.make(model);
    model.node("Mul", {"x", "w"}, {"xw"});
    model.node("Add", {"xw", "c"}, {"y"});
    model.output("y", kFloat);
    model.save(folder_ / "m.onnx");
    const std::string joint = good("m.onnx --mode=grad --loss=mse --emit=joint");
    const std::string header = joint.substr(0, joint.find('{'));
    EXPECT_NE(header.find("%grad.w: f32[3]"), std::string::npos) << header;
    EXPECT_EQ(header.find("%grad.", header.find("%grad.") + 1) != std::string::npos, way.trains) << header;
    // What the library keeps between steps is all that a step can change.
    const std::string manifest = good("m.onnx" + train + "--emit=manifest");
    size_t parameters = 0;
    for (size_t at = 0; (at = manifest.find("\"trained\": ", at)) != std::string::npos; ++at) ++parameters;
    EXPECT_EQ(parameters, way.trains ? 2U : 1U) << manifest;
  }
}

// Steps from a Constant node are those from an initializer that is frozen.
TEST_F(Training, AConstantStaysAsAFrozenParameterDoes) {
  std::string losses[2];
  for (const bool frozen : {false, true}) {
    onnx::ModelBuilder model;
    model.input("x", kFloat, {2, 3});
    model.floats("w", {3}, {1, 2, 3});
    if (frozen) add_initializer(model, "c");
    else add_constant_node(model, "c");
    model.node("Mul", {"x", "c"}, {"xc"});
    model.node("Mul", {"xc", "w"}, {"y"});
    model.output("y", kFloat);
    model.save(folder_ / "m.onnx");
    good(std::string("m.onnx --mode=train --loss=mse --optimizer=sgd:lr=0.1 --target=cpu -o m.so") + (frozen ? " --freeze=c" : ""));
    losses[frozen] = run("m.so --random --steps 4");
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST_F(Training, ConstantsAloneCannotTrain) {
  onnx::ModelBuilder model;
  model.input("x", kFloat, {2, 3});
  add_constant_node(model, "c");
  model.node("Mul", {"x", "c"}, {"y"});
  model.output("y", kFloat);
  model.save(folder_ / "m.onnx");
  refused("m.onnx --mode=train --loss=mse --optimizer=sgd -o m.so", 2, "tcc: error: --mode=train: no parameter trains [invalid-argument]",
          "parameters are the initializers of the model; tensors of Constant nodes are constants");
}

// Statistics that are constants have no place to be remembered in: the norm stays in its evaluation form, and nothing of it is state.
TEST_F(Training, ConstantStatisticsAreNotLearned) {
  for (const bool constant : {false, true}) {
    SCOPED_TRACE(constant);
    onnx::ModelBuilder model;
    model.input("x", kFloat, {2, 3, 4});
    for (const std::string name : {"scale", "bias"}) add_initializer(model, name);
    for (const std::string name : {"mean", "variance"}) {
      if (constant) add_constant_node(model, name);
      else add_initializer(model, name);
    }
    model.node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"y"});
    model.output("y", kFloat);
    model.save(folder_ / "m.onnx");
    const std::string manifest = good("m.onnx --mode=train --loss=mse --optimizer=sgd --batch-norm=train --target=cpu --emit=manifest");
    EXPECT_EQ(manifest.find("\"role\": \"statistic\"") == std::string::npos, constant) << manifest;
  }
}

/// x f32[2, 3, 4] through a batch norm and a product with w f32[4, 5]; the initializers are scale, bias, mean, variance and w.
void save_norm_model(const std::string& path) {
  onnx::ModelBuilder model;
  model.input("x", kFloat, {2, 3, 4});
  for (const std::string name : {"scale", "bias", "mean"}) add_initializer(model, name);
  model.floats("variance", {3}, {0.5F, 1, 2});
  std::vector<float> w;
  for (int i = 0; i < 20; ++i) w.push_back(0.1F * static_cast<float>(i % 7) - 0.25F);
  model.floats("w", {4, 5}, w);
  model.node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"n"});
  model.node("MatMul", {"n", "w"}, {"y"});
  model.output("y", kFloat);
  model.save(path);
}

// From trained to deployed: the parameters and running statistics of a training, in a library for inference.
TEST_F(Training, ParametersOfATrainingAreDeployed) {
  save_norm_model(folder_ / "m.onnx");
  good("m.onnx --mode=train --loss=mse --optimizer=adam --batch-norm=train --target=cpu -o train.so");
  good("run train.so --random --steps 9 --lr 0.1 --device cpu --save-state s.safetensors");
  std::map<std::string, Tensor> state = read_safetensors(folder_ / "s.safetensors").tensors;
  EXPECT_TRUE(state.contains("mean") && state.contains("w") && state.size() > 5);
  EXPECT_NE(state.at("mean").as_double(0), 0.5);
  const std::string random = " --random --seed 3 --save ";
  run("train.so --load-state s.safetensors" + random + "trained");
  good("m.onnx --target=cpu -o model.so");
  good("m.onnx --target=cpu --parameters=s.safetensors -MD -o infer.so");
  EXPECT_EQ(folder_.read("infer.so.d"), "infer.so: m.onnx s.safetensors\n\ns.safetensors:\n");
  good("m.onnx --emit=graph=m.graph");
  good("--from=graph m.graph --target=cpu --parameters s.safetensors -o text.so");
  run("model.so" + random + "model");
  run("infer.so" + random + "infer");
  run("text.so" + random + "text");
  EXPECT_EQ(folder_.read("infer/0.npy"), folder_.read("text/0.npy"));
  EXPECT_NE(folder_.read("infer/0.npy"), folder_.read("model/0.npy"));
  const Tensor trained = read_npy(folder_ / "trained/0.npy"), infer = read_npy(folder_ / "infer/0.npy");
  for (int64_t i = 0; i < trained.count(); ++i) EXPECT_NEAR(trained.as_double(i), infer.as_double(i), 1e-5);
  EXPECT_EQ(tcc("verify m.onnx --parameters=s.safetensors --device cpu").exit_code, 0);

  // What the file lacks is the model's; the optimizer's state alone is nothing.
  write_safetensors(folder_ / "w.safetensors", {{"w", state.at("w")}, {"scale", state.at("scale")}});
  const Result some = tcc("m.onnx --parameters=w.safetensors --target=cpu -o some.so");
  EXPECT_EQ(some.exit_code, 0);
  EXPECT_EQ(some.err, "w.safetensors: note: 2 parameters taken, 3 parameters of the model's own: `bias`, `mean`, `variance`\n");
  state.erase("w");
  std::erase_if(state, [](const auto& entry) { return !entry.first.starts_with("optimizer."); });
  write_safetensors(folder_ / "none.safetensors", state);
  refused("m.onnx --parameters=none.safetensors -o n.so", 2, "none.safetensors: error: the file has no parameters [invalid-argument]");
}

// The kernels of both are the same: the sums of a library that infers and of one that trains are in one order.
TEST_F(Training, DeployedParametersGiveTheSameBits) {
  good("--from=graph small.graph --mode=train --loss=mse --optimizer=sgd:momentum=0.9 --target=cpu -o train.so");
  good("run train.so --random --steps 5 --lr 0.01 --device cpu --save-state s.safetensors");
  good("--from=graph small.graph --parameters=s.safetensors --target=cpu -o infer.so");
  run("train.so --load-state s.safetensors --random --seed 3 --save trained");
  run("infer.so --random --seed 3 --save infer");
  EXPECT_EQ(folder_.read("infer/0.npy"), folder_.read("trained/0.npy"));
}

TEST_F(Training, ParametersThatDoNotFit) {
  save_norm_model(folder_ / "m.onnx");
  write_safetensors(folder_ / "s.safetensors",
                    {{"w", Tensor(DType::f32, {5, 4})}, {"scale", Tensor(DType::f64, {3})}, {"variants", Tensor(DType::f32, {3})}});
  const Result result = tcc("m.onnx --parameters=s.safetensors -o n.so");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "s.safetensors: error: `scale` is f64[3], the model has f32[3] [invalid-argument]\n"
            "s.safetensors: error: `variants` is not a parameter of the model `m.onnx` [unknown-parameter]\n"
            "s.safetensors: help: did you mean `variance`?\n"
            "s.safetensors: error: `w` is f32[5, 4], the model has f32[4, 5] [invalid-argument]\n");
  write_safetensors(folder_ / "w.safetensors", {{"w", Tensor(DType::f32, {4, 5})}});
  refused("m.onnx --parameters=w.safetensors -o w.safetensors", 2,
          "w.safetensors: error: -o would replace the parameters `w.safetensors` [overwritten-file]", "give it another name");
  // In a text of prims, what was computed from the statistics would keep the old ones.
  good("m.onnx --emit=prims=m.prims");
  const Result prims = tcc("--from=prims m.prims --parameters=w.safetensors -o n.so");
  EXPECT_EQ(prims.exit_code, 2);
  EXPECT_NE(prims.err.find("of the text may be computed from parameters, with their old values [invalid-argument]"), std::string::npos)
      << prims.err;
}

TEST_F(Training, CheckListsEveryNodeWithoutAGradient) {
  folder_.write("refused.graph", R"(graph @refused(%x: f16[2]) -> (%y: f16[2]) {
  weight @a: f16[2] = [1, 2]
  weight @b: f16[2] = [1, 2]
  %0: f16[2] = mul(%x, @a)    loc("first")
  %1: bf16[2] = bitcast(%0) {dtype=bf16}    loc("second")
  %2: f16[2] = cast(%1) {dtype=f16}    loc("third")
  %3: f16[2] = mul(%2, @b)    loc("fourth")
  %4: bf16[2] = bitcast(%3) {dtype=bf16}    loc("fifth")
  %y: f16[2] = cast(%4) {dtype=f16}    loc("sixth")
}
)");
  good("check --from=graph refused.graph");
  const Result result = tcc("check --from=graph refused.graph --mode=train --loss=mse --optimizer=sgd");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err,
            "refused.graph:fifth: error: not supported yet: the gradient of `bitcast` is not known [unsupported-gradient]\n"
            "  %4: bf16[2] = bitcast(%3) {dtype=bf16}\n"
            "refused.graph:fifth: note: the gradients of `a`, `b` depend on it\n"
            "refused.graph:second: error: not supported yet: the gradient of `bitcast` is not known [unsupported-gradient]\n"
            "  %1: bf16[2] = bitcast(%0) {dtype=bf16}\n"
            "refused.graph:second: note: the gradient of `a` depends on it\n");
  EXPECT_NE(good("check --from=graph small.graph --mode=train --loss=mse --optimizer=sgd").find("every node is supported"),
            std::string::npos);
}

TEST_F(Training, VerifyComparesGradientsWithDifferences) {
  const std::string text = good("verify --from=graph small.graph --mode=grad --loss=mse --wrt='*' --device cpu");
  for (const char* name : {"x", "w1", "b1", "w2"}) {
    EXPECT_NE(text.find("\ngrad." + std::string(name) + ": f32"), std::string::npos) << text;
    EXPECT_NE(text.find("\n" + std::string(name) + ": gradient "), std::string::npos) << text;
  }
  EXPECT_EQ(text.find("differs"), std::string::npos) << text;
  const std::string of_outputs = good("verify \"$MODELS/mnist_mlp/unoptimized.onnx\" --mode=grad --wrt=input,3.bias --device cpu");
  EXPECT_NE(of_outputs.find("\n3.bias: gradient "), std::string::npos) << of_outputs;
  EXPECT_EQ(good("verify --from=graph small.graph --mode=grad --device cpu --no-finite-differences").find("finite difference"),
            std::string::npos);

  // Elements that are small beside the rest of their gradient carry the rounding of the rest.
  good("verify \"$MODELS/llama_tiny/unoptimized.onnx\" --mode=grad --device cpu --no-finite-differences");

  // A rule that is wrong: the gradient of a square, three times what is squared.
  good("--from=graph small.graph --mode=grad --loss=mse --emit=joint=right.joint");
  std::string joint = folder_.read("right.joint");
  const size_t factor = joint.find("value=2}");
  ASSERT_NE(factor, std::string::npos) << joint;
  folder_.write("wrong.joint", joint.replace(factor, 8, "value=3}"));
  const Result wrong = tcc("verify --from=graph wrong.joint --mode=grad --device cpu");
  EXPECT_EQ(wrong.exit_code, 3);
  EXPECT_NE(wrong.err.find("wrong.joint: error: `w1`: gradient "), std::string::npos) << wrong.err;
  EXPECT_NE(wrong.out.find("\nb1: gradient "), std::string::npos) << wrong.out;
  EXPECT_NE(wrong.out.find(", differs\n"), std::string::npos) << wrong.out;
}

}  // namespace
}  // namespace tcc::test
