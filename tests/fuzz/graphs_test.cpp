// Random graphs beside the interpreter in f64: forward, gradients and mixed precision; compiled for the CPU and run from tensors that are aligned as their
// elements are, between guard pages; planned for CUDA and run by the interpreter of kernels.
//
//   test_fuzz_graphs --seed=1 --count=1000        prints the seed of what fails; --seed=N --count=1 shows it again
//   test_fuzz_graphs --device=cuda                compiled for CUDA and run on a device
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "cli/program.h"
#include "codegen/guarded.h"
#include "fuzz/wide_graph.h"
#include "models/exported.h"
#include "plan/plan_graph.h"
#include "tcc/driver/pipeline.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/reference.h"
#include "tcc/rules/verify.h"
#include "tcc/runtime/library.h"

namespace tcc::fuzz {
namespace {

uint32_t first_seed = 1;
int count = 30;
bool shows_graphs = false;
char current[128];  // what a signal ends

std::vector<Tensor> inputs_for(const Graph& graph, uint32_t seed, bool exact) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (const Value* input : graph.body.args) {
    Tensor tensor(input->type.dtype, input->type.shape());
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (exact || !is_float(tensor.dtype())) tensor.set_int64(i, std::uniform_int_distribution<int64_t>(-4, 4)(random));
      else tensor.set_double(i, std::uniform_real_distribution<double>(-2, 2)(random));
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-9;
    case DType::f32: return 2e-4;
    case DType::f16: return 2e-2;
    case DType::bf16: return 0.15;
    default: return 0;
  }
}

/// What an output may be off by.
struct Allowed {
  DType computed_in;  ///< the coarsest dtype on the way
  double moved = 0;   ///< how far rounding on the way moves it
};

/// Relative to the largest element, which sums lose their digits to. Shapes are not looked at: a plan has those of the memory.
std::string differences(const Tensor& found, const Tensor& expected, const Allowed& allowed) {
  const double relative = std::max(tolerance(found.dtype()), is_float(found.dtype()) ? tolerance(allowed.computed_in) : 0);
  if (found.count() != expected.count()) return "another number of elements";
  double largest = 1;
  for (int64_t i = 0; i < expected.count(); ++i) {
    if (std::isfinite(expected.as_double(i))) largest = std::max(largest, std::abs(expected.as_double(i)));
  }
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double a = found.as_double(i), b = expected.as_double(i);
    if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= relative * largest + allowed.moved) continue;
    return "[" + std::to_string(i) + "] is " + std::to_string(a) + ", expected " + std::to_string(b) + " (largest " +
           std::to_string(largest) + ")";
  }
  return "";
}

/// Runs the library on tensors of their own, as little aligned as the interface allows.
std::vector<Tensor> run_guarded(const std::string& path, const std::vector<Tensor>& inputs, Guarded::Place place) {
  const auto library = runtime::Library::open(path);
  runtime::InstanceOptions options;
  options.device = runtime::Device::cpu;
  options.num_threads = 2;
  runtime::Instance instance(library, options);
  std::vector<std::unique_ptr<Guarded>> memory;
  std::vector<Shape> shapes;
  for (const Tensor& tensor : inputs) shapes.push_back(tensor.shape());
  for (const runtime::TensorInfo& info : library->outputs()) shapes.push_back(info.shape);
  const auto described = [&](DType dtype, size_t index, size_t bytes) {
    memory.push_back(std::make_unique<Guarded>(bytes, static_cast<size_t>(std::max(size_bytes(dtype), 1)), place));
    tcc_tensor tensor = {};
    tensor.data = memory.back()->data();
    tensor.shape = shapes[index].data();
    tensor.rank = static_cast<uint32_t>(shapes[index].size());
    tensor.dtype = static_cast<int32_t>(dtype);
    return tensor;
  };
  std::vector<tcc_tensor> in, out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(described(inputs[i].dtype(), i, static_cast<size_t>(inputs[i].size_bytes())));
    std::memcpy(in.back().data, inputs[i].bytes(), static_cast<size_t>(inputs[i].size_bytes()));
  }
  for (size_t i = 0; i < library->outputs().size(); ++i) {
    const runtime::TensorInfo& info = library->outputs()[i];
    out.push_back(described(info.dtype, inputs.size() + i, static_cast<size_t>(info.size_bytes)));
  }
  const int status = library->api().run(instance.handle(), in.data(), static_cast<uint32_t>(in.size()), out.data(),
                                        static_cast<uint32_t>(out.size()), nullptr, 0, nullptr);
  EXPECT_EQ(status, 0) << library->api().last_error();
  std::vector<Tensor> results;
  for (size_t i = 0; i < out.size(); ++i) {
    results.emplace_back(library->outputs()[i].dtype, library->outputs()[i].shape);
    std::memcpy(results.back().mutable_bytes(), out[i].data, static_cast<size_t>(results.back().size_bytes()));
  }
  return results;
}

/// What is compiled, and the coarsest dtype in it.
struct Program {
  std::unique_ptr<Graph> prims;
  DType computed_in;
};

/// The right outputs, and how far each may be off.
struct Expected {
  std::vector<Tensor> outputs;
  std::vector<Allowed> allowed;
};

/// In 16 bits rounding is part of the meaning, and a product of large values or a sine magnifies it: noise in the last place of every value says by how much.
Expected expected_of(const Program& program, const std::vector<Tensor>& inputs) {
  const bool rounds = program.computed_in == DType::f16 || program.computed_in == DType::bf16;
  Expected expected{rounds ? interpret_reference(*program.prims, inputs) : interpret(*program.prims, inputs, true), {}};
  expected.allowed.assign(expected.outputs.size(), {program.computed_in});
  for (uint64_t noise = 1; rounds && noise <= 3; ++noise) {
    const std::vector<Tensor> moved = interpret_reference(*program.prims, inputs, noise);
    for (size_t i = 0; i < moved.size(); ++i) {
      double& most = expected.allowed[i].moved;
      for (int64_t k = 0; k < moved[i].count(); ++k) {
        const double distance = std::abs(moved[i].as_double(k) - expected.outputs[i].as_double(k));
        if (std::isfinite(distance)) most = std::max(most, 4 * distance);
      }
    }
  }
  return expected;
}

void compare(const std::vector<Tensor>& found, const Expected& right, const Program& program, const char* where) {
  const std::vector<Tensor>& expected = right.outputs;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].count() == 0) continue;  // no launch writes it
    ASSERT_LT(i, found.size()) << where;
    EXPECT_EQ(differences(found[i], expected[i], right.allowed[i]), "") << where << ", output `" << program.prims->output_names[i] << "`";
  }
}

std::unique_ptr<Graph> prims_of(const Graph& graph, driver::Options options, const std::string& folder) {
  const std::string path = folder + "/random.graph";
  FILE* file = std::fopen(path.c_str(), "w");
  std::fputs(print(graph).c_str(), file);
  std::fclose(file);
  options.model = path;
  options.from = "graph";
  Diagnostics diagnostics;
  return driver::compile_to_prims(options, diagnostics);
}

/// The gradients of all outputs by all inputs; null where an op has none.
std::unique_ptr<Graph> joint_of(const Graph& graph, const std::string& folder) {
  driver::Options options;
  options.mode = driver::Mode::grad;
  options.wrt = {"*"};
  try {
    return prims_of(graph, options, folder);
  } catch (const Error& error) {
    if (error.code() != ExitCode::model) throw;
    return nullptr;
  }
}

/// Every second seed with its gradients, every third in mixed precision: both where dtypes allow it.
Program program_of(std::unique_ptr<Graph> graph, const WideGraph& random, uint32_t seed, const std::string& folder) {
  if (random.dtype() == DType::f32 && seed % 3 == 0) {
    driver::Options options;
    options.precision = seed % 2 == 0 ? DType::bf16 : DType::f16;
    return {prims_of(*graph, options, folder), *options.precision};
  }
  std::unique_ptr<Graph> joint = random.has_gradients() && seed % 2 == 0 ? joint_of(*graph, folder) : nullptr;
  return {joint ? std::move(joint) : std::move(graph), random.dtype()};
}

void check_on_cuda(const Program& program, const std::vector<Tensor>& inputs, const Expected& expected, const std::string& path) {
  driver::Options options;
  options.cpu = false;
  driver::compile_prims_to_library(program.prims->clone(), options, path);
  runtime::Instance instance(runtime::Library::open(path), {.device = runtime::Device::cuda});
  compare(instance.run(inputs), expected, program, "on the CUDA device");
}

void check(const Program& program, uint32_t seed, bool exact, const std::string& folder) {
  const Graph& prims = *program.prims;
  const std::vector<Tensor> inputs = inputs_for(prims, seed, exact);
  const Expected expected = expected_of(program, inputs);
  std::snprintf(current, sizeof current, "seed %u: compiling\n", seed);
  if (test::device() == runtime::Device::cuda) return check_on_cuda(program, inputs, expected, folder + "/random.so");
  driver::Options options;
  options.cuda = false;
  options.optimization = 1;
  const std::string library = folder + "/random.so";
  driver::compile_prims_to_library(prims.clone(), options, library);
  for (const auto place : {Guarded::Place::after_start, Guarded::Place::before_end}) {
    std::snprintf(current, sizeof current, "seed %u: running on the CPU\n", seed);
    compare(run_guarded(library, inputs, place), expected, program, "on the CPU");
  }
  std::snprintf(current, sizeof current, "seed %u: planning for CUDA\n", seed);
  const plan::Plan plan = plan::plan_graph(prims, schedule::Target::cuda_sm80());
  EXPECT_EQ(plan::verify(plan), std::vector<std::string>());
  for (const loop::Kernel& kernel : plan.kernels)
    EXPECT_EQ(loop::verify_kernel(kernel), std::vector<std::string>()) << loop::print(kernel, "k");
  compare(plan::interpret(plan, inputs), expected, program, "in kernels for CUDA");
}

TEST(FuzzGraphs, RunLikeTheInterpreter) {
  const test::Folder folder;
  for (int i = 0; i < count; ++i) {
    const uint32_t seed = first_seed + static_cast<uint32_t>(i);
    WideGraph random(seed);
    std::unique_ptr<Graph> graph = random.make();
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::string(name_of(random.dtype())) + (random.exact() ? ", exact" : ""));
    const std::string text = print(*graph);
    try {
      ASSERT_EQ(verify(*graph, GraphStage::prims), std::vector<std::string>());
      if (shows_graphs) std::puts(text.c_str());
      const Program program = program_of(std::move(graph), random, seed, folder.path());
      if (shows_graphs) std::puts(print(*program.prims).c_str());
      check(program, seed, random.exact(), folder.path());
    } catch (const std::exception& error) { ADD_FAILURE() << error.what() << "\n" << text; }
  }
}

}  // namespace

void on_signal(int number) {
  const ssize_t ignored = write(2, current, std::strlen(current));
  (void)ignored;
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace tcc::fuzz

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--seed=")) tcc::fuzz::first_seed = static_cast<uint32_t>(std::atoll(argument.c_str() + 7));
    else if (argument.starts_with("--count=")) tcc::fuzz::count = std::atoi(argument.c_str() + 8);
    else if (argument == "--print") tcc::fuzz::shows_graphs = true;
    else if (argument.starts_with("--device=")) continue;  // run_tests takes it
    else if (argument.starts_with("--gtest_")) continue;
    else return std::fprintf(stderr, "flags are --seed=N, --count=N, --device=cuda and --print\n"), 2;
  }
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(number, tcc::fuzz::on_signal);
  return tcc::test::run_tests(argc, argv);
}
