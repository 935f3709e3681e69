// Constants are computed by the code that would compute them in each run: the kernels become a library of their own, whose inputs are the weights and whose
// outputs are the constants, and this process loads it. The interpreter takes a thousand times as long, which of the weights of a transformer is minutes. It
// is for a machine that can't run the code: one without AVX2, or with a temporary folder where nothing may be executed. Both give the same bytes.
#include "driver/evaluate_constants.h"

#include <cstring>
#include <map>

#include "tcc/codegen/codegen.h"
#include "tcc/link/link.h"
#include "tcc/runtime/library.h"
#include "tcc/support/parallel.h"
#include "tcc/support/temporary.h"

namespace tcc::driver {

namespace {

/// A library of the constants of one plan.
class ConstantsLibrary {
 public:
  ConstantsLibrary(const plan::Plan& plan, int optimization) : plan_(plan) {
    input_.program.model_name = "constants";
    input_.program.functions.emplace_back();
    link::TargetDesc& target = input_.program.targets.emplace_back();
    target.levels = {cpu_level(plan.target.name)};
    target.functions.emplace_back();
    for (const plan::Launch& launch : plan.constants) add(launch);
    compile(optimization);
  }

  /// By Buffer::index.
  std::vector<Tensor> run() const {
    TemporaryFolder folder;  // once the library is loaded its file is not needed
    const std::string file = folder.file("constants.so");
    link::link_shared_object(input_, file);
    runtime::Instance instance(runtime::Library::open(file), {.device = runtime::Device::cpu, .num_threads = num_threads()});
    std::vector<Tensor> values(plan_.constant_values.size());
    const std::vector<Tensor> outputs = instance.run(weights_);
    for (size_t i = 0; i < outputs.size(); ++i) values[static_cast<size_t>(constants_[i])] = outputs[i];
    return values;
  }

 private:
  void add(const plan::Launch& launch) {
    link::LaunchDesc row;
    const auto [at, is_new] = kernels_.try_emplace(launch.kernel, static_cast<uint32_t>(input_.program.targets[0].kernels.size()));
    const loop::Kernel& kernel = plan_.kernels.at(static_cast<size_t>(launch.kernel));
    if (is_new) {
      link::KernelDesc& desc = input_.program.targets[0].kernels.emplace_back();
      desc.name = kernel_name(static_cast<size_t>(launch.kernel));
      desc.num_buffers = static_cast<uint32_t>(kernel.params.size());
    }
    row.kernel = at->second;
    row.grid = static_cast<uint64_t>(kernel.grid);
    row.label = launch.label;
    row.cost_ns = static_cast<uint64_t>(launch.cost_ns);
    for (const int argument : launch.arguments) row.arguments.push_back(number_of(argument));
    input_.program.targets[0].functions[0].launches.push_back(std::move(row));
  }

  /// Of a weight or a constant, which are an input and an output.
  uint32_t number_of(int buffer) {
    link::FunctionCode& code = input_.program.targets[0].functions[0];
    const auto [at, is_new] = buffers_.try_emplace(buffer, static_cast<uint32_t>(code.buffers.size()));
    if (!is_new) return at->second;
    const plan::Buffer& row = plan_.buffers.at(static_cast<size_t>(buffer));
    const bool weight = row.kind == plan::Buffer::Kind::weight;
    std::vector<link::TensorDesc>& list = weight ? input_.program.functions[0].inputs : input_.program.functions[0].outputs;
    link::BufferDesc& desc = code.buffers.emplace_back();
    desc.kind = weight ? link::BufferKind::input : link::BufferKind::output;
    desc.index = static_cast<uint32_t>(list.size());
    desc.size_bytes = static_cast<uint64_t>(row.size_bytes);
    desc.name = row.name;
    link::TensorDesc& tensor = list.emplace_back();
    tensor.name = row.name;
    tensor.dtype = row.dtype;
    tensor.shape = row.shape;
    if (weight) weights_.push_back(aligned(plan_.weights.at(static_cast<size_t>(row.index))->tensor));
    else constants_.push_back(row.index);
    return at->second;
  }

  /// A weight in a mapped file may lie anywhere.
  static Tensor aligned(const Tensor& tensor) {
    if (reinterpret_cast<uintptr_t>(tensor.bytes()) % static_cast<uintptr_t>(std::max(1, size_bytes(tensor.dtype()))) == 0) return tensor;
    Tensor copy(tensor.dtype(), tensor.shape());
    std::memcpy(copy.mutable_bytes(), tensor.bytes(), static_cast<size_t>(tensor.size_bytes()));
    return copy;
  }

  void compile(int optimization) {
    std::vector<int> numbers;
    for (const auto& [kernel, row] : kernels_) numbers.push_back(kernel);
    input_.cpu_objects.resize(numbers.size());
    parallel_each(numbers.size(), [&](size_t i) {
      const auto number = static_cast<size_t>(numbers[i]);
      const std::string symbol = link::cpu_symbol(kernel_name(number), cpu_level(plan_.target.name));
      const codegen::Options options{.optimization = optimization, .want_llvm = false, .want_asm = false, .target = plan_.target.name};
      input_.cpu_objects[i] = {"kernel " + kernel_name(number), codegen::emit_x86({{symbol, &plan_.kernels[number]}}, options).object};
    });
  }

  const plan::Plan& plan_;
  link::LinkInput input_;
  std::map<int, uint32_t> kernels_, buffers_;  ///< by their numbers in the plan
  std::vector<Tensor> weights_;                ///< the inputs
  std::vector<int> constants_;                 ///< of each output, Buffer::index
};

std::vector<Tensor> evaluate(const plan::Plan& plan, int optimization) {
  const ConstantsLibrary library(plan, optimization);
  try {
    return library.run();
  } catch (const Error& error) {
    if (error.code() != ExitCode::environment) throw;
    return plan::interpret_constants(plan);
  }
}

}  // namespace

void evaluate_constants(Session& session, std::vector<TargetBuild>& builds) {
  for (TargetBuild& build : builds) {
    for (plan::Plan& plan : build.plans) {
      if (plan.constants.empty() || plan.constant_values.front().defined()) continue;
      session.progress.step("packing weights");
      run_stage(session, "evaluate-constants", {}, [&] { plan.constant_values = evaluate(plan, session.options.optimization); });
    }
  }
}

}  // namespace tcc::driver
