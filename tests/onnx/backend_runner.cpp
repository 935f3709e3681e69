// Runs ONNX's backend tests and holds the ones that pass in files, so that a regression fails and a new pass is noticed.
//
//   test_onnx_backend_runner [--via=interpreter|gradient|so] [--suite=node|converted|operator|simple|newest] [--filter=TEXT] [--update]
//                            [--failures=FILE] [--data=DIR] [-j=N]
//
// expected_<suite>.txt has the tests that pass. The suite `newest` is made of the pinned `onnx` package (scripts/make_onnx_tests.sh), and runs only when it
// is named; what fails there must have its reason in reasons_newest.txt: lines of a name, or the beginning of names and *, and why.
//
// Some tests give shapes, axes and the like as inputs. A compiler must know those: when compiling says that it needs the value of an input,
// the runner binds that input to the test's value, as a user would with --bind.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "onnx/backend.h"
#include "onnx/compare.h"
#include "onnx/isolated.h"
#include "onnx/test_case.h"
#include "tcc/frontend/import.h"
#include "tcc/support/parallel.h"

namespace tcc::onnx_suite {
namespace {

struct Suite {
  const char* name;
  const char* folder;
};
constexpr Suite kSuites[] = {
    {"node", "node"}, {"converted", "pytorch-converted"}, {"operator", "pytorch-operator"}, {"simple", "simple"}, {"newest", "node"}};

struct Options {
  std::string via = "interpreter", suite, filter, failures, data;
  bool update = false;
  int processes = 2;
};

std::unique_ptr<Backend> make_backend(const std::string& via) {
  if (via == "interpreter") return make_interpreter_backend();
  if (via == "gradient") return make_gradient_backend();
#ifdef TCC_HAVE_DRIVER
  if (via == "so") return make_library_backend();
#endif
  return nullptr;
}

bool asks_for_a_value(const Error& error) {
  return std::any_of(error.diagnostics().begin(), error.diagnostics().end(), [](const Diagnostic& diagnostic) {
    return diagnostic.kind == "unknown-value" || diagnostic.kind == "data-dependent-size" || diagnostic.kind == "unsupported-control-flow";
  });
}

/// Compiles, binding inputs that the compiler asks for; returns the inputs that stay in the signature.
std::vector<Tensor> compile(Backend& backend, const std::string& path, const std::vector<std::string>& names,
                            const std::vector<Tensor>& inputs) {
  Bindings bindings;
  for (size_t i = 0; i < names.size(); ++i) bindings.shapes[names[i]] = inputs[i].shape();
  while (true) {
    try {
      backend.compile(path, bindings);
      break;
    } catch (const Error& error) {
      if (!asks_for_a_value(error)) throw;
      const size_t before = bindings.inputs.size();
      const std::string text = error.what();
      auto bind = [&](size_t i) {
        bindings.inputs[names[i]] = inputs[i];
        bindings.shapes.erase(names[i]);
      };
      for (size_t i = 0; i < names.size(); ++i) {
        if (text.find("`" + names[i] + "`") != std::string::npos || text.find("%" + names[i] + ":") != std::string::npos) bind(i);
      }
      // The value asked for may be computed from inputs: then from the small integers.
      for (size_t i = 0; i < names.size() && bindings.inputs.size() == before; ++i) {
        const Tensor& input = inputs[i];
        if ((is_integer(input.dtype()) || input.dtype() == DType::boolean) && input.rank() <= 1 && !bindings.inputs.contains(names[i]))
          bind(i);
      }
      if (bindings.inputs.size() == before) throw;
    }
  }
  std::vector<Tensor> rest;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!bindings.inputs.contains(names[i])) rest.push_back(inputs[i]);
  }
  return rest;
}

/// Empty when the test passes; else why not, in one line.
std::string run_test(const TestCase& test, const std::string& via) {
  try {
    const std::string path = test.folder + "/model.onnx";
    const auto [names, sets] = read_test(test);
    if (sets.empty()) return "no data";
    for (const TestData& data : sets) {
      const auto backend = make_backend(via);
      if (names.size() != data.inputs.size())
        return "the model has " + std::to_string(names.size()) + " inputs, the data " + std::to_string(data.inputs.size());
      const auto inputs = compile(*backend, path, names, data.inputs);
      const auto outputs = backend->run(inputs);
      if (outputs.size() != data.outputs.size())
        return "the model has " + std::to_string(outputs.size()) + " outputs, the data " + std::to_string(data.outputs.size());
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (std::string text = difference(outputs[i], data.outputs[i], 1e-3, 1e-7); !text.empty())
          return "output " + std::to_string(i) + ": " + text;
      }
    }
    return "";
  } catch (const std::exception& error) {
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text.empty() ? "failed" : text;
  }
}

std::set<std::string> read_lines(const std::string& path) {
  std::set<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') lines.insert(line);
  }
  return lines;
}

/// Why tests of a suite fail: the beginnings of their names, and reasons.
class Reasons {
 public:
  /// Without the file every failure is only one that is not expected to pass.
  explicit Reasons(const std::string& path) : is_there_(std::filesystem::exists(path)) {
    for (const std::string& line : read_lines(path)) {
      const size_t end = line.find(' '), text = line.find_first_not_of(' ', end);
      if (text == std::string::npos) throw std::runtime_error(path + ": `" + line + "` has no reason");
      const std::string name = line.substr(0, end);
      const bool is_family = name.back() == '*';
      families_.push_back({is_family ? name.substr(0, name.size() - 1) : name, is_family, false});
    }
  }
  bool is_missing(const std::string& test) {
    bool found = false;
    for (Family& family : families_) {
      const bool is_its = family.is_family ? test.starts_with(family.name) : test == family.name;
      family.is_used |= is_its;
      found |= is_its;
    }
    return is_there_ && !found;
  }
  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (const Family& family : families_) {
      if (!family.is_used) names.push_back(family.name + (family.is_family ? "*" : ""));
    }
    return names;
  }

 private:
  struct Family {
    std::string name;
    bool is_family, is_used;
  };
  bool is_there_;
  std::vector<Family> families_;
};

/// Number of regressions.
int run_suite(const Suite& suite, const Options& options) {
  auto tests = find_tests(options.data + "/" + suite.folder);
  const size_t all = tests.size();
  std::erase_if(tests, [&](const TestCase& test) { return test.name.find(options.filter) == std::string::npos; });
  const auto results = run_isolated(static_cast<int>(tests.size()), options.processes, 120,
                                    [&](int i) { return run_test(tests[static_cast<size_t>(i)], options.via); });
  const std::string expectations = std::string(TCC_TEST_DATA_DIR) + "/expected_" + suite.name + ".txt";
  const auto expected = read_lines(expectations);
  std::ofstream failures;
  if (!options.failures.empty()) failures.open(options.failures, std::ios::app);
  Reasons reasons(std::string(TCC_TEST_DATA_DIR) + "/reasons_" + suite.name + ".txt");
  std::set<std::string> passed;
  int regressions = 0;
  for (size_t i = 0; i < tests.size(); ++i) {
    if (results[i].empty()) {
      passed.insert(tests[i].name);
      if (!options.update && !expected.contains(tests[i].name)) std::printf("new pass: %s/%s\n", suite.name, tests[i].name.c_str());
      continue;
    }
    if (failures.is_open()) failures << suite.name << "/" << tests[i].name << ": " << results[i] << "\n";
    const bool has_no_reason = reasons.is_missing(tests[i].name);
    if (has_no_reason || (expected.contains(tests[i].name) && !options.update)) {
      ++regressions;
      std::printf("FAILED%s: %s/%s: %s\n", has_no_reason ? " without a reason" : "", suite.name, tests[i].name.c_str(), results[i].c_str());
    }
  }
  for (const std::string& name : tests.size() == all ? reasons.unused() : std::vector<std::string>()) {
    std::printf("no failure of %s/%s: its reason can go\n", suite.name, name.c_str());
  }
  std::printf("%s via %s: %zu of %zu pass, %zu expected%s\n", suite.name, options.via.c_str(), passed.size(), tests.size(), expected.size(),
              tests.size() < all ? " (filtered)" : "");
  if (options.update && tests.size() == all) {
    std::ofstream file(expectations);
    file << "# Tests of the suite that pass, one a line; written by --update.\n";
    for (const std::string& name : passed) file << name << "\n";
  }
  return regressions;
}

bool take(const std::string& argument, const std::string& flag, std::string& value) {
  if (!argument.starts_with(flag + "=")) return false;
  value = argument.substr(flag.size() + 1);
  return true;
}

int run(int argc, char** argv) {
  Options options;
#ifdef TCC_HAVE_DRIVER
  options.via = "so";
#endif
  std::string processes = "2";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--update") options.update = true;
    else if (!take(argument, "--via", options.via) && !take(argument, "--suite", options.suite) &&
             !take(argument, "--filter", options.filter) && !take(argument, "--failures", options.failures) &&
             !take(argument, "--data", options.data) && !take(argument, "-j", processes)) {
      std::fprintf(stderr, "unknown flag %s\n", argument.c_str());
      return 2;
    }
  }
  options.processes = std::max(1, std::atoi(processes.c_str()));
  if (make_backend(options.via) == nullptr) {
    std::fprintf(stderr, "no backend `%s` in this build\n", options.via.c_str());
    return 2;
  }
  const bool is_newest = options.suite == "newest";
  if (options.data.empty()) options.data = is_newest ? TCC_ONNX_NODE_TESTS : "/usr/share/libonnx-testdata/data";
  if (!std::filesystem::is_directory(options.data)) {
    std::printf("skipped: %s is not there (%s)\n", options.data.c_str(),
                is_newest ? "scripts/make_onnx_tests.sh" : "Debian package libonnx-testdata");
    return 77;
  }
  set_num_threads(1);
  int regressions = 0;
  for (const Suite& suite : kSuites) {
    if (options.suite.empty() ? suite.name != std::string("newest") : options.suite == suite.name) regressions += run_suite(suite, options);
  }
  return regressions == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tcc::onnx_suite

int main(int argc, char** argv) { return tcc::onnx_suite::run(argc, argv); }
