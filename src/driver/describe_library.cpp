#include "driver/describe_library.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "tcc/driver/count_operations.h"
#include "tcc/graph/ranges.h"
#include "tcc/loop/tensor_map.h"
#include "tcc/schedule/order.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/integer_math.h"
#include "tcc/support/text.h"

namespace tcc::driver {

namespace {

using plan::Buffer;

/// Numbers the weights of all plans; each once.
class WeightNumbers {
 public:
  explicit WeightNumbers(link::LinkInput* input) : input_(input) {}
  uint32_t number(const Weight& weight) {
    const auto [at, is_new] = numbers_.try_emplace(&weight, static_cast<uint32_t>(input_->weights.size()));
    return is_new ? at->second = number(weight.name, weight.tensor) : at->second;
  }
  uint32_t number(const std::string& name, const Tensor& tensor) {
    // Functions of one file share weights by name; what a pass made of one of them may have the name and other bytes.
    for (auto [same, last] = named_.equal_range(name); same != last; ++same) {
      if (input_->weights[same->second].same_bytes(tensor)) return same->second;
    }
    const auto number = static_cast<uint32_t>(input_->weights.size());
    named_.emplace(name, number);
    input_->program.weights.push_back({name, tensor.dtype(), tensor.shape()});
    input_->weights.push_back(tensor);
    return number;
  }

 private:
  link::LinkInput* input_;
  std::unordered_map<const Weight*, uint32_t> numbers_;
  std::unordered_multimap<std::string, uint32_t> named_;
};

/// Of each buffer, whether some launch of each run uses it, itself or through an alias. Weights that others were made of once are not among them.
std::vector<bool> used_buffers(const plan::Plan& plan) {
  std::vector<bool> used(plan.buffers.size());
  for (const plan::Launch& launch : plan.launches) {
    for (int buffer : launch.arguments) {
      used[static_cast<size_t>(buffer)] = true;
      for (; plan.buffers[static_cast<size_t>(buffer)].kind == Buffer::Kind::alias; used[static_cast<size_t>(buffer)] = true)
        buffer = plan.buffers[static_cast<size_t>(buffer)].index;
    }
  }
  return used;
}

/// What an instance on a target makes of weights, once: preparations of all plans, equal ones one time.
class Preparations {
 public:
  explicit Preparations(WeightNumbers& weights) : weights_(weights) {}

  /// Where in the block each prepared buffer of the plan lies, by Buffer::index.
  std::vector<uint64_t> add(const plan::Plan& plan) {
    std::vector<uint64_t> offsets;
    for (const plan::Launch& launch : plan.preparations) add(plan, launch, offsets);
    return offsets;
  }

  link::FunctionCode code;
  uint64_t bytes = 0;

 private:
  static constexpr uint64_t kAlignment = 256;
  /// A kernel, and the rows of what it reads.
  using Key = std::pair<int, std::vector<uint32_t>>;

  void add(const plan::Plan& plan, const plan::Launch& launch, std::vector<uint64_t>& offsets) {
    const loop::Kernel& kernel = plan.kernels.at(static_cast<size_t>(launch.kernel));
    const auto buffer_of = [&](size_t i) -> const Buffer& { return plan.buffers.at(static_cast<size_t>(launch.arguments[i])); };
    Key key{launch.kernel, {}};
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      if (!kernel.params[i].written) key.second.push_back(row_of(plan, buffer_of(i), offsets));
    }
    const auto [known, is_new] = rows_written_.try_emplace(key);
    std::vector<uint32_t>& written = known->second;
    if (is_new) {
      link::LaunchDesc row;
      row.kernel = static_cast<uint32_t>(launch.kernel);
      row.grid = static_cast<uint64_t>(kernel.grid);
      row.label = launch.label;
      row.cost_ns = static_cast<uint64_t>(std::llround(std::max(launch.cost_ns, 0.0)));
      size_t read = 0;
      for (size_t i = 0; i < launch.arguments.size(); ++i) {
        if (kernel.params[i].written) written.push_back(place(buffer_of(i)));
        row.arguments.push_back(kernel.params[i].written ? written.back() : key.second[read++]);
      }
      code.launches.push_back(std::move(row));
    }
    size_t next = 0;
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      if (!kernel.params[i].written) continue;
      const auto index = static_cast<size_t>(buffer_of(i).index);
      offsets.resize(std::max(offsets.size(), index + 1));
      offsets[index] = code.buffers[written[next++]].offset;
    }
  }

  uint32_t row_of(const plan::Plan& plan, const Buffer& buffer, const std::vector<uint64_t>& offsets) {
    link::BufferDesc row{link::BufferKind::weight, 0, 0, static_cast<uint64_t>(buffer.size_bytes), buffer.name};
    const auto index = static_cast<size_t>(buffer.index);
    switch (buffer.kind) {
      case Buffer::Kind::weight: row.index = weights_.number(*plan.weights.at(index)); break;
      case Buffer::Kind::constant: row.index = weights_.number(buffer.name, plan.constant_values.at(index)); break;
      case Buffer::Kind::prepared: return row_at_.at(offsets.at(index));
      default: internal_error("`" + buffer.name + "` is read before anything runs");
    }
    const auto [at, is_new] = row_of_weight_.try_emplace(row.index, static_cast<uint32_t>(code.buffers.size()));
    if (is_new) code.buffers.push_back(std::move(row));
    return at->second;
  }

  uint32_t place(const Buffer& buffer) {
    const auto row = static_cast<uint32_t>(code.buffers.size());
    const auto size = static_cast<uint64_t>(buffer.size_bytes);
    row_at_[bytes] = row;
    code.buffers.push_back({link::BufferKind::prepared, 0, bytes, size, buffer.name});
    bytes += align_up(std::max<uint64_t>(size, 1), kAlignment);
    return row;
  }

  WeightNumbers& weights_;
  std::map<Key, std::vector<uint32_t>> rows_written_;
  std::map<uint32_t, uint32_t> row_of_weight_;
  std::map<uint64_t, uint32_t> row_at_;  ///< by offset in the block
};

/// In the program an alias lies in a buffer that comes earlier and is no alias itself; a plan allows chains in any order.
class BufferTable {
 public:
  /// `prepared`: where in the block each prepared buffer lies.
  BufferTable(const plan::Plan& plan, WeightNumbers& weights, const std::vector<uint64_t>& prepared)
      : plan_(plan), prepared_(prepared), numbers_(plan.buffers.size()) {
    const std::vector<bool> used = used_buffers(plan);
    for (const bool aliases : {false, true}) {
      for (size_t i = 0; i < plan.buffers.size(); ++i) {
        if ((plan.buffers[i].kind == Buffer::Kind::alias) != aliases) continue;
        if (is_made_before(plan.buffers[i].kind) && !used[i]) continue;
        numbers_[i] = static_cast<uint32_t>(rows.size());
        rows.push_back(aliases ? alias(plan.buffers[i]) : row(plan.buffers[i], weights));
      }
    }
  }
  uint32_t number(int buffer) const { return numbers_.at(static_cast<size_t>(buffer)); }

  /// Where a kernel reports bad indices to: one buffer for the checks of a unit.
  uint32_t checks(int first, int count) {
    rows.push_back(
        {link::BufferKind::checks, static_cast<uint32_t>(first), 0, static_cast<uint64_t>(count) * 8, "checks" + std::to_string(first)});
    return static_cast<uint32_t>(rows.size()) - 1;
  }

  std::vector<link::BufferDesc> rows;

 private:
  static bool is_made_before(Buffer::Kind kind) {
    return kind == Buffer::Kind::weight || kind == Buffer::Kind::constant || kind == Buffer::Kind::prepared;
  }

  link::BufferDesc row(const Buffer& buffer, WeightNumbers& weights) const {
    link::BufferDesc desc;
    desc.size_bytes = static_cast<uint64_t>(buffer.size_bytes);
    desc.name = buffer.name;
    switch (buffer.kind) {
      case Buffer::Kind::input: desc.kind = link::BufferKind::input; break;
      case Buffer::Kind::output: desc.kind = link::BufferKind::output; break;
      case Buffer::Kind::weight:
      case Buffer::Kind::constant: desc.kind = link::BufferKind::weight; break;
      case Buffer::Kind::prepared: desc.kind = link::BufferKind::prepared; break;
      case Buffer::Kind::arena: desc.kind = link::BufferKind::arena; break;
      case Buffer::Kind::state: desc.kind = link::BufferKind::state; break;
      case Buffer::Kind::scalar: desc.kind = link::BufferKind::scalar; break;
      case Buffer::Kind::alias: internal_error("an alias among the buffers that hold bytes");
    }
    if (desc.kind != link::BufferKind::weight && buffer.kind != Buffer::Kind::scalar) desc.offset = static_cast<uint64_t>(buffer.offset);
    const auto index = static_cast<size_t>(buffer.index);
    if (buffer.kind == Buffer::Kind::weight) desc.index = weights.number(*plan_.weights.at(index));
    else if (buffer.kind == Buffer::Kind::constant) desc.index = weights.number(buffer.name, plan_.constant_values.at(index));
    else if (buffer.kind == Buffer::Kind::prepared) desc.offset = prepared_.at(index);
    else if (buffer.kind != Buffer::Kind::arena) desc.index = static_cast<uint32_t>(buffer.index);
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
  const std::vector<uint64_t>& prepared_;
  std::vector<uint32_t> numbers_;
};

link::FunctionCode describe(const plan::Plan& plan, WeightNumbers& weights, const std::vector<uint64_t>& prepared) {
  link::FunctionCode code;
  BufferTable buffers(plan, weights, prepared);
  for (const plan::Launch& launch : plan.launches) {
    link::LaunchDesc row;
    row.label = launch.label;
    row.cost_ns = static_cast<uint64_t>(std::llround(std::max(launch.cost_ns, 0.0)));
    for (const int argument : launch.arguments) row.arguments.push_back(buffers.number(argument));
    if (launch.first_check >= 0) {
      const int num_checks = loop::num_index_checks(plan.kernels.at(static_cast<size_t>(launch.kernel)).body);
      row.arguments.push_back(buffers.checks(launch.first_check, num_checks));
    }
    if (launch.kind == plan::Launch::Kind::copy) {
      row.kind = link::LaunchKind::copy;
      row.size_bytes = static_cast<uint64_t>(plan.buffers.at(static_cast<size_t>(launch.arguments.at(1))).size_bytes);
    } else {
      row.kernel = static_cast<uint32_t>(launch.kernel);
      row.grid = static_cast<uint64_t>(plan.kernels.at(static_cast<size_t>(launch.kernel)).grid);
    }
    code.launches.push_back(std::move(row));
  }
  for (const plan::IndexCheck& check : plan.checks) code.checks.push_back({check.index, check.place, check.low, check.high});
  code.buffers = std::move(buffers.rows);
  code.arena_bytes = static_cast<uint64_t>(plan.arena_bytes);
  code.sum_of_buffers = static_cast<uint64_t>(plan.total_bytes);
  return code;
}

program::TensorMap describe(const loop::TensorMap& map) {
  program::TensorMap row = {};
  row.buffer = static_cast<uint32_t>(map.param);
  row.dtype = static_cast<uint32_t>(map.dtype);
  row.num_axes = static_cast<uint32_t>(map.extents.size());
  row.swizzle_bytes = static_cast<uint32_t>(map.swizzle_bytes);
  const size_t last = map.extents.size() - 1;
  for (size_t axis = 0; axis <= last; ++axis) {  // the innermost first
    row.extents[axis] = static_cast<uint64_t>(map.extents[last - axis]);
    row.box[axis] = static_cast<uint32_t>(map.box[last - axis] * map.steps[last - axis]);
    row.steps[axis] = static_cast<uint32_t>(map.steps[last - axis]);
    if (axis > 0) row.strides[axis - 1] = static_cast<uint64_t>(map.strides[last - axis]);
  }
  return row;
}

/// Where the images of a build begin among those of the library.
struct PlacedBuild {
  const TargetBuild& build;
  uint32_t first_image;
};

/// The name and the images of a kernel, which may be those of an equal one for the target's base.
void describe_code(const PlacedBuild& placed, const PlacedBuild* base, size_t kernel, link::KernelDesc& row) {
  const GeneratedCode& code = placed.build.code;
  const std::vector<std::optional<size_t>>& in_base = code.sharing.in_base;
  const bool elsewhere = kernel < in_base.size() && in_base[kernel].has_value();
  if (elsewhere) return describe_code(*base, nullptr, *in_base[kernel], row);
  row.name = entry_name(placed.build.choice, kernel);
  if (kernel >= code.images_of_kernel.size()) return;
  for (const uint32_t image : code.images_of_kernel[kernel]) row.images.push_back(placed.first_image + image);
}

link::TargetDesc describe(const PlacedBuild& placed, const PlacedBuild* base, WeightNumbers& weights) {
  const TargetBuild& build = placed.build;
  link::TargetDesc desc;
  const bool cpu = build.choice.target.is_cpu();
  desc.kind = cpu ? link::TargetKind::cpu : link::TargetKind::cuda;
  const std::vector<loop::Kernel>& kernels = build.plans.front().kernels;
  for (size_t k = 0; k < static_cast<size_t>(plan::num_launched_kernels(build.plans.front())); ++k) {
    const loop::Kernel& kernel = kernels[k];
    link::KernelDesc row;
    row.name = kernel_name(k);
    row.num_buffers = static_cast<uint32_t>(kernel.params.size()) + (loop::num_index_checks(kernel.body) > 0 ? 1 : 0);
    row.depends_on_order = schedule::depends_on_order(kernel);
    if (!cpu) {
      row.threads = static_cast<uint32_t>(kernel.threads);
      row.shared_bytes = static_cast<uint32_t>(kernel.shared_bytes);
      for (const loop::TensorMap& map : loop::tensor_maps(kernel)) row.tensor_maps.push_back(describe(map));
      describe_code(placed, base, k, row);
    }
    desc.kernels.push_back(std::move(row));
  }
  Preparations preparations(weights);
  for (const plan::Plan& plan : build.plans) {
    const std::vector<uint64_t> prepared = preparations.add(plan);
    desc.functions.push_back(describe(plan, weights, prepared));
  }
  desc.preparation = std::move(preparations.code);
  desc.prepared_bytes = preparations.bytes;
  if (cpu) {
    for (const std::string& level : build.choice.levels) desc.levels.push_back(cpu_level(level));
  }
  return desc;
}

link::TensorDesc describe(const std::string& name, const Type& type) { return {name, type.dtype, type.shape()}; }

// What is packed may be of another size on each target, yet the interface is one, and `forward` gives what `backward` takes.
int64_t packed_bytes(const std::vector<TargetBuild>& builds) {
  int64_t bytes = 0;
  for (const TargetBuild& build : builds) {
    for (const plan::Plan& plan : build.plans) bytes = std::max({bytes, plan.packed_output_bytes, plan.packed_input_bytes});
  }
  return bytes;
}

// Kernels rely on 16 bytes; of the dtype u8 alone nothing would follow.
link::TensorDesc packed_tensor(int64_t bytes) { return {"saved", DType::u8, {bytes}, 16}; }

link::FunctionDesc describe(const FunctionInterface& function, const LibraryInterface& library, const plan::Plan& plan, int64_t packed) {
  link::FunctionDesc desc;
  desc.name = function.name;
  const auto is_scalar = [&](const std::string& name) {
    return std::any_of(library.scalars.begin(), library.scalars.end(), [&](const link::ScalarDesc& scalar) { return scalar.name == name; });
  };
  const auto full = [](const std::vector<link::TensorDesc>& list, int first_packed) {
    return first_packed >= 0 && list.size() == static_cast<size_t>(first_packed);
  };
  const auto ranges = input_ranges(*function.graph);
  for (const Value* value : function.graph->body.args) {
    if (full(desc.inputs, plan.first_packed_input)) break;
    if (is_scalar(value->name)) continue;
    desc.inputs.push_back(describe(value->name, value->type));
    if (const auto range = ranges.find(value); range != ranges.end()) desc.inputs.back().range = range->second;
  }
  for (size_t i = 0; i < function.graph->body.results.size(); ++i) {
    if (full(desc.outputs, plan.first_packed_output)) break;
    desc.outputs.push_back(describe(function.graph->output_names[i], function.graph->body.results[i]->type));
  }
  for (const ImportedGuard& guard : function.guards) {
    const auto scalar = std::find_if(library.scalars.begin(), library.scalars.end(),
                                     [&](const link::ScalarDesc& row) { return row.name == guard.setting; });
    if (!guard.setting.empty() && scalar != library.scalars.end())
      desc.guards.push_back({static_cast<uint32_t>(scalar - library.scalars.begin()), guard.value, guard.text});
  }
  if (plan.first_packed_input >= 0) desc.inputs.push_back(packed_tensor(packed));
  if (plan.first_packed_output >= 0) desc.outputs.push_back(packed_tensor(packed));
  return desc;
}

}  // namespace

namespace {

/// The flags that decide what the library computes. Left out is what a printed stage has in itself (sizes, the loss of a gradient), and paths: the
/// same model gives the same bytes wherever it lies, and when it is read back from a stage.
std::string flags_text(const Options& options) {
  std::string text = "-O" + std::to_string(options.optimization);
  const auto add = [&](const char* flag, const std::string& value) { text += value.empty() ? "" : std::string(" ") + flag + "=" + value; };
  const auto add_all = [&](const char* flag, const std::vector<std::string>& values) {
    for (const std::string& value : values) add(flag, value);
  };
  add("--matmul-precision", options.allow_tf32 ? "high" : options.split_f32 ? "" : "ieee");
  if (options.deterministic) text += " --deterministic";
  if (options.mode == Mode::infer) return text;
  add("--mode", options.mode == Mode::grad ? "grad" : "train");
  add("--remat", options.remat == Remat::none ? "none" : options.remat == Remat::full ? "full" : "");
  add("--mem-budget", options.memory_budget > 0 ? std::to_string(options.memory_budget) : "");
  if (options.mode == Mode::grad) return text;
  if (options.precision) add("--precision", std::string(name_of(*options.precision)));
  add("--loss", options.loss);
  add("--optimizer", options.optimizer);
  add_all("--train", options.train);
  add_all("--freeze", options.freeze);
  add("--batch-norm", options.train_batch_norms ? "train" : "");
  add("--clip-norm", options.clip_norm != 0 ? print_float(options.clip_norm) : "");
  add("--clip-value", options.clip_value != 0 ? print_float(options.clip_value) : "");
  add("--accumulate", options.accumulate != 1 ? std::to_string(options.accumulate) : "");
  add("--loss-scale", options.loss_scale);
  return text;
}

std::vector<std::pair<std::string, std::string>> about(const LibraryInterface& library, const Options& options) {
  std::vector<std::pair<std::string, std::string>> about;
  std::string flags = flags_text(options);
  std::replace(flags.begin(), flags.end(), '\n', ' ');
  about.emplace_back("flags", flags);
  for (size_t f = 0; f < library.functions.size(); ++f)
    about.emplace_back("operations." + std::to_string(f), print_float(count_operations(*library.functions[f].graph)));
  for (size_t f = 0; f < library.functions.size(); ++f) {
    for (const ImportedGuard& guard : library.functions[f].guards) {
      std::string text = guard.text;
      std::replace(text.begin(), text.end(), '\n', ' ');
      about.emplace_back("guard." + std::to_string(f), text);
    }
  }
  return about;
}

/// What a schedule or a kernel of the user's may have broken.
void require_order(const link::TargetDesc& target, const Options& options) {
  if (!options.deterministic) return;
  for (const link::KernelDesc& kernel : target.kernels) {
    if (kernel.depends_on_order)
      throw Error(ExitCode::usage, "invalid-schedule", options.model,
                  "with --deterministic, the kernel `" + kernel.name + "` makes updates of one element in any order",
                  "leave out its --schedule or --kernel, or let own_updates be among its primitives");
  }
}

}  // namespace

link::LinkInput make_link_input(const LibraryInterface& library, std::vector<TargetBuild>& builds, const Options& options) {
  link::LinkInput input;
  input.symbol_prefix = options.symbol_prefix;
  input.embed_weights = options.weights == WeightsPlace::embed;
  input.program.model_name = library.model_name;
  if (library.state) input.program.state = *library.state;
  input.program.scalars = library.scalars;
  input.program.accumulate = library.accumulate;
  input.program.about = about(library, options);
  const int64_t packed = packed_bytes(builds);
  for (size_t f = 0; f < library.functions.size(); ++f)
    input.program.functions.push_back(describe(library.functions[f], library, builds.front().plans.at(f), packed));
  WeightNumbers weights(&input);
  std::vector<PlacedBuild> placed;
  uint32_t first_image = 0;
  for (const TargetBuild& build : builds) {
    placed.push_back({build, first_image});
    first_image += static_cast<uint32_t>(build.code.images.size());
  }
  for (TargetBuild& build : builds) {
    const TargetBuild* base = base_of(build, builds);
    const auto place = [&](const TargetBuild& of) { return &placed[static_cast<size_t>(&of - builds.data())]; };
    input.program.targets.push_back(describe(*place(build), base ? place(*base) : nullptr, weights));
    require_order(input.program.targets.back(), options);
  }
  for (TargetBuild& build : builds) {
    for (link::CpuObject& object : build.code.objects) input.cpu_objects.push_back(std::move(object));
    for (link::CudaImage& image : build.code.images) input.images.push_back(std::move(image));
  }
  return input;
}

}  // namespace tcc::driver
