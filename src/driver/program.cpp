#include "driver/program.h"

#include <cmath>
#include <unordered_map>

#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

using plan::Buffer;

/// Numbers the weights of all plans; each once.
class WeightNumbers {
 public:
  explicit WeightNumbers(link::LinkInput* input) : input_(input) {}
  uint32_t number(const Weight& weight) {
    const auto [at, is_new] = numbers_.try_emplace(&weight, static_cast<uint32_t>(input_->weights.size()));
    if (is_new) {
      input_->program.weights.push_back({weight.name, weight.tensor.dtype(), weight.tensor.shape()});
      input_->weights.push_back(weight.tensor);
    }
    return at->second;
  }

 private:
  link::LinkInput* input_;
  std::unordered_map<const Weight*, uint32_t> numbers_;
};

/// In the program an alias lies in a buffer that comes earlier and is no alias itself; a plan allows chains in any order.
class BufferTable {
 public:
  BufferTable(const plan::Plan& plan, WeightNumbers& weights) : plan_(plan), numbers_(plan.buffers.size()) {
    for (const bool aliases : {false, true}) {
      for (size_t i = 0; i < plan.buffers.size(); ++i) {
        if ((plan.buffers[i].kind == Buffer::Kind::alias) != aliases) continue;
        numbers_[i] = static_cast<uint32_t>(rows.size());
        rows.push_back(aliases ? alias(plan.buffers[i]) : row(plan.buffers[i], weights));
      }
    }
  }
  uint32_t number(int buffer) const { return numbers_.at(static_cast<size_t>(buffer)); }

  std::vector<link::BufferDesc> rows;

 private:
  link::BufferDesc row(const Buffer& buffer, WeightNumbers& weights) const {
    link::BufferDesc desc;
    desc.size_bytes = static_cast<uint64_t>(buffer.size_bytes);
    desc.name = buffer.name;
    switch (buffer.kind) {
      case Buffer::Kind::input: desc.kind = link::BufferKind::input; break;
      case Buffer::Kind::output: desc.kind = link::BufferKind::output; break;
      case Buffer::Kind::weight: desc.kind = link::BufferKind::weight; break;
      case Buffer::Kind::arena: desc.kind = link::BufferKind::arena; break;
      case Buffer::Kind::alias: internal_error("an alias among the buffers that hold bytes");
    }
    if (buffer.kind == Buffer::Kind::arena) desc.offset = static_cast<uint64_t>(buffer.offset);
    else if (buffer.kind == Buffer::Kind::weight) desc.index = weights.number(*plan_.weights.at(static_cast<size_t>(buffer.index)));
    else desc.index = static_cast<uint32_t>(buffer.index);
    return desc;
  }

  link::BufferDesc alias(const Buffer& buffer) const {
    const Buffer* base = &buffer;
    int64_t offset = 0;
    int number = 0;
    while (base->kind == Buffer::Kind::alias) {
      offset += base->offset;
      number = base->index;
      base = &plan_.buffers.at(static_cast<size_t>(number));
    }
    return {link::BufferKind::alias, numbers_.at(static_cast<size_t>(number)), static_cast<uint64_t>(offset),
            static_cast<uint64_t>(buffer.size_bytes), buffer.name};
  }

  const plan::Plan& plan_;
  std::vector<uint32_t> numbers_;
};

link::TargetDesc describe(const TargetBuild& build, uint32_t first_image, WeightNumbers& weights) {
  const plan::Plan& plan = build.plan;
  link::TargetDesc desc;
  const bool cpu = build.choice.target.kind == schedule::Target::Kind::cpu;
  desc.kind = cpu ? link::TargetKind::cpu : link::TargetKind::cuda;
  BufferTable buffers(plan, weights);
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const loop::Kernel& kernel = plan.kernels[k];
    link::KernelDesc row;
    row.name = kernel_name(k);
    row.num_buffers = static_cast<uint32_t>(kernel.params.size());
    if (!cpu) {
      row.threads = static_cast<uint32_t>(kernel.threads);
      row.shared_bytes = static_cast<uint32_t>(kernel.shared_bytes);
      if (k < build.code.images_of_kernel.size()) {
        for (const uint32_t image : build.code.images_of_kernel[k]) row.images.push_back(first_image + image);
      }
    }
    desc.kernels.push_back(std::move(row));
  }
  for (const plan::Launch& launch : plan.launches) {
    link::LaunchDesc row;
    row.label = launch.label;
    row.cost_ns = static_cast<uint64_t>(std::llround(std::max(launch.cost_ns, 0.0)));
    for (const int argument : launch.arguments) row.arguments.push_back(buffers.number(argument));
    if (launch.kind == plan::Launch::Kind::copy) {
      row.kind = link::LaunchKind::copy;
      row.size_bytes = static_cast<uint64_t>(plan.buffers.at(static_cast<size_t>(launch.arguments.at(1))).size_bytes);
    } else {
      row.kernel = static_cast<uint32_t>(launch.kernel);
      row.grid = static_cast<uint64_t>(plan.kernels.at(static_cast<size_t>(launch.kernel)).grid);
    }
    desc.launches.push_back(std::move(row));
  }
  desc.buffers = std::move(buffers.rows);
  if (cpu) {
    for (const std::string& level : build.choice.levels) desc.levels.push_back(cpu_level(level));
  }
  desc.arena_bytes = static_cast<uint64_t>(plan.arena_bytes);
  desc.sum_of_buffers = static_cast<uint64_t>(plan.total_bytes);
  return desc;
}

link::TensorDesc describe(const std::string& name, const Type& type) { return {name, type.dtype, type.shape()}; }

}  // namespace

link::LinkInput make_link_input(const Graph& graph, std::vector<TargetBuild>& builds, const Options& options) {
  link::LinkInput input;
  input.symbol_prefix = options.symbol_prefix;
  input.embed_weights = options.weights == WeightsPlace::embed;
  input.program.model_name = graph.name;
  for (const Value* value : graph.body.args) input.program.inputs.push_back(describe(value->name, value->type));
  for (size_t i = 0; i < graph.body.results.size(); ++i)
    input.program.outputs.push_back(describe(graph.output_names[i], graph.body.results[i]->type));
  WeightNumbers weights(&input);
  for (TargetBuild& build : builds) {
    input.program.targets.push_back(describe(build, static_cast<uint32_t>(input.images.size()), weights));
    for (link::CpuObject& object : build.code.objects) input.cpu_objects.push_back(std::move(object));
    for (link::CudaImage& image : build.code.images) input.images.push_back(std::move(image));
  }
  return input;
}

}  // namespace tcc::driver
