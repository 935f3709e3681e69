// Cases from public reports of faults in compilers and frameworks: a folder each, with its model, values and case.json.
//
//   test_cases [--device=cuda] [--gtest_filter=Cases.*grad]
//
// Files of a case: model.onnx (and its data), inputs.npz by input name, expected.npz: "0", "1", ... by output order, `grad.<name>`; of a training `losses`
// and `state.<tensor>`. case.json:
//   what, report    what must hold, and where the fault was reported
//   mode            infer, grad (of the inputs and parameters in `wrt`), train (`steps` on the same inputs), verify (tcc verify, compiled for all targets),
//                   command (`tcc` with `args` must fail with a message and leave the files in `keeps` as they are)
//   flags           of the compiler
//   model, links    the model's path, when it is another; symbolic links to make first, target by name
//   exact, or rtol and atol; check_sign_of_zero; input_dtypes, output_dtypes of arrays that are raw bits
//   refused         what the message says: an op that tcc does not know yet. The case begins to fail when it does
// A case that is listed in expected_failures.txt must fail.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/program.h"
#include "models/exported.h"
#include "tcc/driver/tolerance.h"
#include "tcc/runtime/library.h"
#include "tcc/support/npy.h"

namespace tcc::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Arrays = std::map<std::string, Tensor>;

std::string quoted(const std::string& word) { return "'" + word + "'"; }

std::string file_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A dtype that .npz has not is there as integers of its width.
Tensor with_dtype(const Tensor& tensor, const Json& dtypes, const std::string& name) {
  if (!dtypes.contains(name)) return tensor;
  return Tensor(*parse_dtype(dtypes.at(name).get<std::string>()), tensor.shape(), tensor.bytes(), std::make_shared<Tensor>(tensor));
}

/// Empty when they are the same.
std::string difference(const Tensor& found, const Tensor& expected, const Json& about) {
  if (found.shape() != expected.shape())
    return to_string(std::span(found.shape())) + ", expected " + to_string(std::span(expected.shape()));
  const bool exact = about.value("exact", false);
  const driver::Tolerance tolerance = exact ? driver::Tolerance{} : driver::Tolerance{about.at("rtol"), about.at("atol")};
  const driver::Comparison comparison = driver::compare(found, expected, tolerance);
  std::string text;
  if (comparison.num_wrong > 0) {
    text = std::to_string(comparison.num_wrong) + " of " + std::to_string(comparison.num_elements) + " elements differ, element " +
           std::to_string(comparison.worst) + " is " + std::to_string(comparison.found) + ", expected " +
           std::to_string(comparison.expected);
  }
  if (!about.value("check_sign_of_zero", false)) return text;
  for (int64_t i = 0; i < found.count(); ++i) {
    const double f = found.as_double(i), e = expected.as_double(i);
    if (f == 0 && e == 0 && std::signbit(f) != std::signbit(e))
      return text + " element " + std::to_string(i) + " is a zero of the wrong sign";
  }
  return text;
}

/// One case in a folder of its own. run() gives what is wrong; empty when all holds.
class Case {
 public:
  explicit Case(const std::string& folder) : about_(Json::parse(file_text(fs::path(folder) / "case.json"))) {
    fs::copy(folder, work_.path(), fs::copy_options::recursive);
    if (!about_.contains("links")) return;
    for (const auto& [name, target] : about_.at("links").items()) {
      fs::create_directories(fs::path(work_ / name).parent_path());
      fs::create_symlink(target.get<std::string>(), work_ / name);
    }
  }

  std::string run() {
    const std::string mode = about_.value("mode", "infer");
    if (mode == "command") return run_command();
    if (mode == "verify") return run_verify();
    const Result compiled = tcc(flags() + " -o case.so");
    if (about_.contains("refused")) return refusal(compiled);
    if (compiled.exit_code != 0) return "exit code " + std::to_string(compiled.exit_code) + ": " + compiled.err;
    const auto library = runtime::Library::open(work_ / "case.so");
    runtime::Instance instance(library, {.device = device()});
    return mode == "train" ? run_training(instance) : run_once(instance);
  }

 private:
  Result tcc(const std::string& arguments) const { return run_tcc(arguments, work_.path()); }
  Arrays arrays(const char* name) const { return read_npz(work_ / name); }
  Json dtypes(const char* of) const { return about_.value(of, Json::object()); }

  std::string flags() const {
    std::string text =
        quoted(about_.value("model", "model.onnx")) + (device() == runtime::Device::cuda ? " --target=cuda" : " --target=cpu");
    for (const std::string flag : about_.value("flags", Json::array())) text += " " + quoted(flag);
    if (about_.value("mode", "infer") != "grad") return text;
    text += " --mode=grad";
    for (const std::string name : about_.at("wrt")) text += " " + quoted("--wrt=" + name);
    return text;
  }

  std::string refusal(const Result& result) const {
    const std::string message = about_.at("refused");
    if (result.exit_code == 1 && result.err.find("not supported yet: " + message) != std::string::npos) return "";
    return "not refused with \"" + message + "\": exit code " + std::to_string(result.exit_code) + ", " + result.err;
  }

  std::string run_command() const {
    std::map<std::string, std::string> before;
    for (const std::string name : about_.at("keeps")) before[name] = file_text(work_ / name);
    std::string arguments;
    for (const std::string word : about_.at("args")) arguments += " " + quoted(word);
    const Result result = tcc(arguments);
    for (const auto& [name, bytes] : before) {
      if (file_text(work_ / name) != bytes) return name + " is not as it was";
    }
    const bool documented = result.exit_code == 1 || result.exit_code == 2 || result.exit_code == 5;
    return documented && !result.err.empty() ? "" : "exit code " + std::to_string(result.exit_code) + ", message: " + result.err;
  }

  std::string run_verify() const {
    const Result compiled = tcc(quoted(about_.value("model", "model.onnx")) + " --verify-passes -o case.so");
    if (compiled.exit_code != 0) return compiled.err;
    const Result verified = tcc("verify " + flags() + (device() == runtime::Device::cuda ? " --device=cuda" : " --device=cpu"));
    return verified.exit_code == 0 ? "" : verified.err;
  }

  std::vector<Tensor> inputs(const std::vector<runtime::TensorInfo>& infos) const {
    const Arrays given = arrays("inputs.npz");
    std::vector<Tensor> tensors;
    for (const runtime::TensorInfo& info : infos) tensors.push_back(with_dtype(given.at(info.name), dtypes("input_dtypes"), info.name));
    return tensors;
  }

  std::string run_once(runtime::Instance& instance) const {
    const std::vector<Tensor> outputs = instance.run(inputs(instance.library().inputs()));
    const Arrays expected = arrays("expected.npz");
    std::string wrong;
    int number = 0, compared = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = instance.library().outputs()[i].name;
      const std::string key = name.starts_with("grad.") ? name : std::to_string(number++);
      const auto found = expected.find(key);
      if (found == expected.end()) continue;
      ++compared;
      const std::string text = difference(outputs[i], with_dtype(found->second, dtypes("output_dtypes"), name), about_);
      if (!text.empty()) wrong += name + ": " + text + "\n";
    }
    if (static_cast<size_t>(compared) != expected.size()) wrong += "not all that is expected is an output\n";
    return wrong;
  }

  std::string run_training(runtime::Instance& instance) const {
    const runtime::Library& library = instance.library();
    const std::vector<Tensor> batch = inputs(library.functions().at(static_cast<size_t>(library.function("step"))).inputs);
    Tensor losses(DType::f64, {about_.at("steps").get<int64_t>()});
    for (int64_t i = 0; i < losses.count(); ++i) losses.set_double(i, instance.step(batch).at(0).as_double(0));
    std::string wrong;
    for (const auto& [name, expected] : arrays("expected.npz")) {
      const std::string state = "state.";
      const Tensor found = name == "losses" ? losses : instance.read_state(name.substr(state.size()));
      const std::string text = difference(found, expected, about_);
      if (!text.empty()) wrong += name + ": " + text + "\n";
    }
    return wrong;
  }

  Folder work_;
  Json about_;
};

std::set<std::string> expected_failures() {
  std::ifstream file(std::string(TCC_TEST_DATA_DIR) + "/expected_failures.txt");
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') names.insert(line);
  }
  return names;
}

class CaseTest : public testing::Test {
 public:
  explicit CaseTest(std::string folder) : folder_(std::move(folder)) {}
  void TestBody() override {
    std::string wrong;
    try {
      wrong = Case(folder_).run();
    } catch (const std::exception& error) { wrong = error.what(); }
    const bool may_fail = expected_failures().contains(fs::path(folder_).filename().string());
    if (may_fail) EXPECT_NE(wrong, "") << "it holds now: take its line out of expected_failures.txt";
    else EXPECT_EQ(wrong, "");
  }

 private:
  std::string folder_;
};

void register_cases() {
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(TCC_TEST_DATA_DIR)) {
    if (fs::exists(entry.path() / "case.json")) folders.insert(entry.path().string());
  }
  for (const std::string& folder : folders) {
    const std::string name = fs::path(folder).filename().string();
    testing::RegisterTest("Cases", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [folder]() -> CaseTest* { return new CaseTest(folder); });
  }
}

}  // namespace
}  // namespace tcc::test

int main(int argc, char** argv) {
  tcc::test::register_cases();
  return tcc::test::run_tests(argc, argv);
}
