#include "fuzz/seeds.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "frontend/model_builder.h"
#include "fuzz/child.h"
#include "tcc/support/npy.h"
#include "tcc/support/tensor.h"

namespace tcc::attack {
namespace {

namespace fs = std::filesystem;
namespace pb = onnx::pb;
using onnx::float_attribute;
using onnx::int_attribute;
using onnx::ints_attribute;
using onnx::ModelBuilder;

constexpr int kFloat = pb::TensorProto::FLOAT, kInt64 = pb::TensorProto::INT64, kHalf = pb::TensorProto::FLOAT16,
              kUint8 = pb::TensorProto::UINT8;

pb::AttributeProto text_attribute(const std::string& name, const std::string& value) {
  pb::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto::STRING);
  attribute.set_s(value);
  return attribute;
}

std::vector<float> numbers(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(std::sin(static_cast<double>(i) * 1.7)));
  return values;
}

void floats(ModelBuilder& model, const std::string& name, std::vector<int64_t> shape) {
  model.floats(name, shape, numbers(num_elements(shape)));
}

void convolutions(ModelBuilder& m) {
  m.input("x", kFloat, {1, 4, 9, 9});
  floats(m, "w", {6, 2, 3, 3});
  floats(m, "b", {6});
  floats(m, "v", {6, 2, 2, 2});
  m.node("Conv", {"x", "w", "b"}, {"c"},
         {ints_attribute("pads", {1, 1, 1, 1}), int_attribute("group", 2), ints_attribute("dilations", {1, 2})});
  m.node("Relu", {"c"}, {"r"});
  m.node("MaxPool", {"r"}, {"p"},
         {ints_attribute("kernel_shape", {2, 2}), ints_attribute("strides", {2, 2}), int_attribute("ceil_mode", 1)});
  m.node("ConvTranspose", {"p", "v"}, {"t"}, {ints_attribute("strides", {2, 2})});
  m.node("AveragePool", {"t"}, {"a"}, {ints_attribute("kernel_shape", {3, 3}), ints_attribute("pads", {1, 1, 1, 1})});
  m.node("GlobalAveragePool", {"a"}, {"y"});
}

void perceptron(ModelBuilder& m) {
  m.input("x", kFloat, {4, 12});
  floats(m, "w", {8, 12});
  floats(m, "b", {8});
  floats(m, "v", {8, 5});
  m.node("Gemm", {"x", "w", "b"}, {"h"}, {int_attribute("transB", 1)}, "fc1");
  m.node("Tanh", {"h"}, {"t"});
  m.node("MatMul", {"t", "v"}, {"z"}, {}, "fc2");
  m.node("Softmax", {"z"}, {"y"}, {int_attribute("axis", -1)});
}

void attention(ModelBuilder& m) {
  m.input("x", kFloat, {2, 6, 8});
  floats(m, "w", {8, 24});
  floats(m, "scale", {8});
  floats(m, "bias", {8});
  m.int64s("parts", {3}, {8, 8, 8});
  m.int64s("heads", {4}, {0, 0, 2, -1});
  m.int64s("back", {3}, {0, 0, -1});
  m.node("LayerNormalization", {"x", "scale", "bias"}, {"n"});
  m.node("MatMul", {"n", "w"}, {"qkv"});
  m.node("Split", {"qkv", "parts"}, {"q", "k", "v"}, {int_attribute("axis", 2)});
  for (const char* name : {"q", "k", "v"}) {
    const std::string one = name;
    m.node("Reshape", {one, "heads"}, {one + "r"});
    m.node("Transpose", {one + "r"}, {one + "t"}, {ints_attribute("perm", {0, 2, one == "k" ? 3 : 1, one == "k" ? 1 : 3})});
  }
  m.node("MatMul", {"qt", "kt"}, {"s"});
  m.node("Softmax", {"s"}, {"p"});
  m.node("MatMul", {"p", "vt"}, {"o"});
  m.node("Transpose", {"o"}, {"ot"}, {ints_attribute("perm", {0, 2, 1, 3})});
  m.node("Reshape", {"ot", "back"}, {"y"});
}

void shapes(ModelBuilder& m) {
  m.input("x", kFloat, {3, 7});
  m.int64s("zero", {1}, {0});
  m.int64s("two", {1}, {2});
  m.int64s("big", {1}, {100});
  m.int64s("reps", {2}, {2, 3});
  m.int64s("pads", {4}, {1, 0, 0, 2});
  m.node("Shape", {"x"}, {"s"});
  m.node("Gather", {"s", "zero"}, {"d"}, {int_attribute("axis", 0)});
  m.node("Mul", {"d", "two"}, {"e"});
  m.node("Concat", {"e", "two"}, {"f"}, {int_attribute("axis", 0)});
  m.node("Expand", {"d", "f"}, {"g"});
  m.node("Slice", {"x", "zero", "big", "zero", "two"}, {"h"});
  m.node("Tile", {"h", "reps"}, {"i"});
  m.node("Pad", {"i", "pads"}, {"j"}, {text_attribute("mode", "reflect")});
  m.node("Pad", {"j", "pads"}, {"y"});
  m.node("ConstantOfShape", {"f"}, {"z"});
}

void indices(ModelBuilder& m) {
  m.input("x", kFloat, {5, 6});
  m.input("i", kInt64, {4});
  m.int64s("j", {2, 3}, {0, 1, 2, 3, 4, 0});
  m.int64s("k", {1}, {3});
  m.int64s("axis", {}, {1});
  floats(m, "u", {2, 3});
  m.node("Gather", {"x", "i"}, {"a"}, {int_attribute("axis", 1)});
  m.node("ScatterElements", {"x", "j", "u"}, {"b"}, {int_attribute("axis", 0), text_attribute("reduction", "add")});
  m.node("TopK", {"b", "k"}, {"v", "n"}, {int_attribute("axis", 1)});
  m.node("CumSum", {"v", "axis"}, {"c"});
  m.node("GatherElements", {"x", "n"}, {"g"}, {int_attribute("axis", 1)});
  m.node("ArgMax", {"g"}, {"m"}, {int_attribute("axis", 1)});
  m.node("Add", {"c", "g"}, {"y"});
}

void resizes(ModelBuilder& m) {
  m.input("x", kFloat, {1, 2, 5, 6});
  m.floats("scales", {4}, {1, 1, 2, 1.5F});
  m.int64s("sizes", {4}, {1, 2, 7, 4});
  m.node("Resize", {"x", "", "scales"}, {"a"}, {text_attribute("mode", "linear")});
  m.node("Resize", {"a", "", "", "sizes"}, {"b"},
         {text_attribute("mode", "cubic"), text_attribute("coordinate_transformation_mode", "align_corners")});
  m.node("DepthToSpace", {"c"}, {"y"}, {int_attribute("blocksize", 1)});
  m.node("Resize", {"b", "", "scales"}, {"c"}, {text_attribute("mode", "nearest")});
}

void reductions(ModelBuilder& m) {
  m.input("x", kFloat, {3, 4, 5});
  m.int64s("axes", {2}, {0, 2});
  m.node("ReduceMean", {"x", "axes"}, {"a"}, {int_attribute("keepdims", 1)});
  m.node("Sub", {"x", "a"}, {"b"});
  m.node("ReduceL2", {"b", "axes"}, {"c"}, {int_attribute("keepdims", 0)});
  m.node("ReduceMax", {"b", "axes"}, {"d"}, {int_attribute("keepdims", 0)});
  m.node("Einsum", {"b", "c"}, {"e"}, {text_attribute("equation", "abc,b->ca")});
  m.node("LogSoftmax", {"e"}, {"f"}, {int_attribute("axis", 0)});
  m.node("Max", {"c", "d"}, {"g"});
  m.node("ReduceSum", {"f"}, {"h"}, {int_attribute("keepdims", 0)});
  m.node("Add", {"g", "h"}, {"y"});
}

void dtypes(ModelBuilder& m) {
  m.input("x", kHalf, {4, 4});
  m.input("q", kUint8, {4, 4});
  m.floats("s", {}, {0.1F});
  m.node("Cast", {"x"}, {"a"}, {int_attribute("to", kFloat)});
  m.node("DequantizeLinear", {"q", "s"}, {"b"});
  m.node("Greater", {"a", "b"}, {"c"});
  m.node("Where", {"c", "a", "b"}, {"d"});
  m.node("QuantizeLinear", {"d", "s"}, {"e"});
  m.node("DequantizeLinear", {"e", "s"}, {"f"});
  m.node("Clip", {"f", "s"}, {"g"});
  m.node("Pow", {"g", "s"}, {"h"});
  m.node("Cast", {"h"}, {"y"}, {int_attribute("to", kHalf)});
}

void functions_and_branches(ModelBuilder& m) {
  m.import_domain("local", 1);
  m.input("x", kFloat, {2, 3});
  m.int64s("yes", {1}, {1});
  auto add = [&](const char* name, const char* op, const char* domain) {
    auto& function = *m.proto.add_functions();
    function.set_domain("local");
    function.set_name(name);
    function.add_input("a");
    function.add_output("b");
    for (const char* imported : {"", "local"}) {
      auto* import = function.add_opset_import();
      import->set_domain(imported);
      import->set_version(*imported == 0 ? 18 : 1);
    }
    *function.add_node() = onnx::make_node(op, {"a"}, {"v"}, {}, "first", domain);
    *function.add_node() = onnx::make_node(op, {"v"}, {"b"}, {}, "second", domain);
  };
  add("Twice", "Sigmoid", "");
  add("Often", "Twice", "local");
  pb::GraphProto branch;
  branch.set_name("branch");
  *branch.add_node() = onnx::make_node("Neg", {"o"}, {"n"});
  *branch.add_output() = onnx::make_value_info("n", kFloat, nullptr);
  m.node("Often", {"x"}, {"o"}, {}, "call", "local");
  m.node("Cast", {"yes"}, {"c"}, {int_attribute("to", pb::TensorProto::BOOL)});
  m.node("If", {"c"}, {"y"}, {onnx::graph_attribute("then_branch", branch), onnx::graph_attribute("else_branch", branch)});
}

void recurrences(ModelBuilder& m) {
  m.input("x", kFloat, {2, 3, 4});
  floats(m, "scale", {3});
  floats(m, "shift", {3});
  m.floats("mean", {3}, {0.1F, 0.2F, 0.3F});
  m.floats("var", {3}, {1, 2, 3});
  m.node("BatchNormalization", {"x", "scale", "shift", "mean", "var"}, {"a"});
  m.node("Concat", {"a", "x", "a"}, {"b"}, {int_attribute("axis", 1)});
  m.node("Gelu", {"b"}, {"c"}, {}, "", "");
  m.node("HardSwish", {"b"}, {"c2"});
  m.node("Trilu", {"c2"}, {"d"});
  m.node("Flatten", {"d"}, {"y"});
}

std::string model_of(void (*add)(ModelBuilder&), int64_t opset, std::initializer_list<const char*> outputs) {
  ModelBuilder model(opset);
  add(model);
  for (const char* output : outputs) model.output(output, kFloat);
  for (auto& output : *model.graph().mutable_output()) output.clear_type();
  return model.bytes();
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// Texts from each line that begins with a word on.
std::vector<std::string> pieces(const std::string& text, const std::string& word) {
  std::vector<std::string> result;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find("\n" + word, at + 1);
    end = end == std::string::npos ? text.size() : end + 1;
    if (text.compare(at, word.size(), word) == 0) result.push_back(text.substr(at, end - at));
    at = end;
  }
  return result;
}

/// "k0: split(k, 4) bind(i, parallel)" -> its primitives.
std::vector<std::string> primitives_of(const std::string& line) {
  std::vector<std::string> primitives;
  const size_t last = std::min(line.find('\n'), line.size());  // comments may follow
  for (size_t at = line.find(": ") + 2; at < last;) {
    const size_t end = line.find(')', at);
    if (end == std::string::npos) break;
    primitives.push_back(line.substr(at, end + 1 - at));
    at = end + 2;
  }
  return primitives;
}

class Maker {
 public:
  Maker(std::string tcc, fs::path folder) : tcc_(std::move(tcc)), folder_(std::move(folder)) {}

  Seeds make() {
    seeds_.models = {model_of(convolutions, 18, {"y"}),
                     model_of(perceptron, 18, {"y"}),
                     model_of(attention, 18, {"y"}),
                     model_of(shapes, 18, {"y", "g", "z"}),
                     model_of(indices, 18, {"a", "y", "m"}),
                     model_of(resizes, 18, {"y"}),
                     model_of(reductions, 18, {"y"}),
                     model_of(dtypes, 19, {"y"}),
                     model_of(functions_and_branches, 18, {"y"}),
                     model_of(recurrences, 20, {"y", "c"})};
    for (size_t i = 0; i < seeds_.models.size(); ++i) {
      const std::string name = "model" + std::to_string(i);
      write(folder_ / (name + ".onnx"), seeds_.models[i]);
      run({name + ".onnx", "--dump-dir=" + name, "--emit=graph,prims,loop,kernel,schedule", "-q"});
      for (const char* form : {"graph", "prims"}) {
        const std::string file = name + "." + form;
        seeds_.texts.push_back(
            {form, "", read(folder_ / name / file), file + ".safetensors", read(folder_ / name / (file + ".safetensors"))});
      }
      for (const char* target : {"cpu", "cuda"}) add_loops(folder_ / name, name, target);
    }
    add_files();
    return std::move(seeds_);
  }

 private:
  Outcome run(std::vector<std::string> command) {
    command.insert(command.begin(), tcc_);
    Outcome outcome = attack::run(command, folder_.string());
    if (outcome.exit_code != 0) throw std::runtime_error("a seed is refused: " + command[1] + "\n" + outcome.errors);
    return outcome;
  }

  void add_loops(const fs::path& folder, const std::string& name, const std::string& target) {
    const std::string start = (folder / (name + "." + target)).string();
    const std::vector<std::string> units = pieces(read(start + ".loop"), "unit ");
    for (const std::string& unit : units) seeds_.texts.push_back({"loop", target, unit, "", ""});
    const std::vector<std::string> kernels = pieces(read(start + ".kernel"), "kernel "), lines = pieces(read(start + ".schedule"), "k");
    for (const std::string& kernel : kernels) seeds_.texts.push_back({"kernel", target, kernel, "", ""});
    // A unit of one kernel has that kernel's line; of others, some line does as well.
    for (size_t i = 0; i < units.size(); ++i)
      seeds_.schedules.push_back(
          {target, units[i], lines.empty() ? std::vector<std::string>() : primitives_of(lines[std::min(i, lines.size() - 1)])});
  }

  void add_files() {
    run({"model1.onnx", "--target=cpu", "-q", "-o", "good.so"});
    run({"model1.onnx", "--target=cpu", "--mode=train", "--loss=mse", "--optimizer=adam", "-q", "-o", "train.so"});
    run({"run", "train.so", "--random", "--steps=1", "--device=cpu", "--save-state=state.safetensors"});
    seeds_.library = read(folder_ / "good.so");
    seeds_.training_library = read(folder_ / "train.so");
    seeds_.state = read(folder_ / "state.safetensors");
    Tensor x(DType::f32, {4, 12});
    for (int64_t i = 0; i < x.count(); ++i) x.set_double(i, static_cast<double>(i % 5));
    write_npy((folder_ / "x.npy").string(), x);
    seeds_.npy = read(folder_ / "x.npy");
    write_npz((folder_ / "x.npz").string(), {{"x", x}});
    seeds_.npz = read(folder_ / "x.npz");
    pb::TensorProto proto;
    proto.set_name("x");
    proto.set_data_type(kFloat);
    for (const int64_t extent : x.shape()) proto.add_dims(extent);
    proto.set_raw_data(x.bytes(), static_cast<size_t>(x.size_bytes()));
    seeds_.tensor_file = proto.SerializeAsString();
    const Outcome whole = attack::run({tcc_, "run", "good.so", "--check", "--random", "--device=cpu", "--threads=1"}, folder_.string());
    seeds_.library_output = whole.output;
  }

  std::string tcc_;
  fs::path folder_;
  Seeds seeds_;
};

}  // namespace

Seeds make_seeds(const std::string& tcc, const std::string& folder) { return Maker(tcc, folder).make(); }

}  // namespace tcc::attack
