#include "link/check_program.h"

#include <cctype>
#include <set>

#include "link/weights_layout.h"

namespace tcc::link {
namespace {

std::string_view name_of(TargetKind kind) { return kind == TargetKind::cpu ? "cpu" : "cuda"; }

class Checker {
 public:
  explicit Checker(const LinkInput& input) : input_(input), program_(input.program) {}

  void run() {
    check_interface();
    if (program_.targets.empty()) fault("there is no target");
    for (size_t t = 0; t < program_.targets.size(); t++) {
      for (size_t u = 0; u < t; u++) {
        if (program_.targets[t].kind == TargetKind::cpu && program_.targets[u].kind == TargetKind::cpu)
          fault("target " + std::string(name_of(program_.targets[t].kind)) + " is there twice");
      }
      check_target(program_.targets[t]);
    }
    faults_.checkpoint(ExitCode::internal);
  }

 private:
  void fault(const std::string& message) {
    faults_.add(
        {.severity = Diagnostic::Severity::internal_error, .kind = "internal-error", .where = where_, .message = message, .snippet = ""});
  }

  static int64_t size_of(const TensorDesc& tensor) { return storage_bytes(tensor.dtype, num_elements(tensor.shape)); }

  void check_interface() {
    where_ = program_.model_name;
    const std::string& prefix = input_.symbol_prefix;
    bool identifier = !prefix.empty() && !std::isdigit(static_cast<unsigned char>(prefix[0]));
    for (const char c : prefix) identifier &= std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    if (!identifier) throw Error(ExitCode::usage, "invalid-argument", "", "symbol prefix is `" + prefix + "`, expected a C identifier");
    check_shapes(program_.weights);
    if (program_.functions.empty()) fault("there is no function");
    std::set<std::string_view> names;
    for (const FunctionDesc& function : program_.functions) {
      check_shapes(function.inputs);
      check_shapes(function.outputs);
      if (!names.insert(function.name).second) fault("function `" + function.name + "` is there twice");
    }
    if (program_.accumulate < 1 || (program_.accumulate > 1 && !(names.contains("step") && names.contains("accumulate"))))
      fault("a step has " + std::to_string(program_.accumulate) + " micro-batches, without functions `step` and `accumulate`");
    check_state();
    if (program_.weights.size() != input_.weights.size()) {
      fault(std::to_string(input_.weights.size()) + " weights given, " + std::to_string(program_.weights.size()) + " described");
      return;
    }
    for (size_t w = 0; w < input_.weights.size(); w++) {
      if (size_of(program_.weights[w]) != input_.weights[w].size_bytes()) {
        fault("weight `" + program_.weights[w].name + "` has " + std::to_string(input_.weights[w].size_bytes()) + " bytes, expected " +
              std::to_string(size_of(program_.weights[w])));
      }
    }
  }

  void check_shapes(const std::vector<TensorDesc>& tensors) {
    for (const TensorDesc& tensor : tensors) {
      for (const int64_t extent : tensor.shape) {
        if (extent < 0) fault("`" + tensor.name + "` has shape " + to_string(tensor.shape));
      }
    }
  }

  void check_state() {
    const StateLayout& state = program_.state;
    const int64_t block_bytes[] = {state.state_bytes, state.gradient_bytes};
    std::set<std::string_view> names;
    for (const StateSection& section : state.sections) {
      if (!names.insert(section.name).second) fault("section `" + section.name + "` is there twice");
      const int64_t bytes = block_bytes[section.role == StateRole::gradient];
      if (section.offset < 0 || section.offset % kStateAlignment != 0 || section.size_bytes < 0 ||
          section.offset > bytes - section.size_bytes)
        fault("section `" + section.name + "` ends at " + std::to_string(section.offset + section.size_bytes) + " in a block of " +
              std::to_string(bytes) + " bytes");
    }
    names.clear();
    for (const StateTensor& tensor : state.tensors) {
      if (tensor.view) continue;
      const std::string name = "state tensor `" + tensor.name + "`";
      if (!names.insert(tensor.name).second) fault(name + " is there twice");
      if (size_bits(tensor.dtype) < 8) fault(name + " has dtype " + std::string(tcc::name_of(tensor.dtype)) + ", which is packed");
      if (tensor.section < 0 || static_cast<size_t>(tensor.section) >= state.sections.size()) {
        fault(name + " is in section " + std::to_string(tensor.section) + " of " + std::to_string(state.sections.size()));
        continue;
      }
      const StateSection& section = state.sections[static_cast<size_t>(tensor.section)];
      if (section.role != tensor.role || section.dtype != tensor.dtype || tensor.offset < section.offset ||
          tensor.offset + tensor.size_bytes() > section.offset + section.size_bytes)
        fault(name + " does not lie in its section `" + section.name + "`");
      if (!tensor.converted_from.empty()) {
        const StateTensor* from = state.find(tensor.converted_from);
        const bool converts = from != nullptr && is_stored(*from) && (from->dtype == DType::f16 || from->dtype == DType::bf16) &&
                              tensor.dtype == DType::f32 && from->shape == tensor.shape;
        if (!converts) fault(name + " begins as `" + tensor.converted_from + "`, which isn't the same in 16 bits");
      }
      if (tensor.initial.defined() && tensor.initial.size_bytes() != tensor.size_bytes())
        fault(name + " has first contents of " + std::to_string(tensor.initial.size_bytes()) + " bytes, expected " +
              std::to_string(tensor.size_bytes()));
    }
    for (const FunctionDesc& function : program_.functions) {
      for (const GuardDesc& guard : function.guards) {
        if (guard.scalar >= program_.scalars.size())
          fault("a guard of " + function.name + " is on scalar " + std::to_string(guard.scalar) + " of " +
                std::to_string(program_.scalars.size()));
      }
    }
    for (const ScalarDesc& scalar : program_.scalars) {
      if (size_bits(scalar.dtype) < 8) fault("scalar `" + scalar.name + "` has a packed dtype");
    }
  }

  void check_target(const TargetDesc& target) {
    where_ = program_.model_name + ", target " + std::string(name_of(target.kind));
    const bool cuda = target.kind == TargetKind::cuda;
    if (target.arena_alignment == 0 || (target.arena_alignment & (target.arena_alignment - 1)) != 0 ||
        target.arena_alignment > (cuda ? 256u : 4096u)) {
      fault("arena alignment is " + std::to_string(target.arena_alignment));
    }
    if (!cuda && target.levels.empty() && !target.kernels.empty()) fault("no CPU level is given");
    for (size_t l = 1; l < target.levels.size(); l++) {
      if (target.levels[l] <= target.levels[l - 1]) fault("CPU levels are not in ascending order");
    }
    for (const KernelDesc& kernel : target.kernels) {
      if (!cuda) continue;
      if (kernel.threads == 0 || kernel.threads > 1024)
        fault("kernel `" + kernel.name + "` has " + std::to_string(kernel.threads) + " threads per block");
      if (kernel.images.empty()) fault("kernel `" + kernel.name + "` has no code");
      for (const program::TensorMap& map : kernel.tensor_maps) {
        if (map.buffer >= kernel.num_buffers || map.num_axes < 1 || map.num_axes > 5)
          fault("kernel `" + kernel.name + "` has a tensor map of buffer " + std::to_string(map.buffer) + " with " +
                std::to_string(map.num_axes) + " axes");
      }
      for (const uint32_t image : kernel.images) {
        if (image >= input_.images.size())
          fault("kernel `" + kernel.name + "` names image " + std::to_string(image) + " of " + std::to_string(input_.images.size()));
      }
    }
    if (target.functions.size() != program_.functions.size()) {
      fault("there is code for " + std::to_string(target.functions.size()) + " functions of " + std::to_string(program_.functions.size()));
      return;
    }
    for (size_t f = 0; f < target.functions.size(); f++) {
      where_ = program_.model_name + ", target " + std::string(name_of(target.kind)) +
               (target.functions.size() > 1 ? ", function " + program_.functions[f].name : "");
      const FunctionCode& code = target.functions[f];
      for (size_t b = 0; b < code.buffers.size(); b++) check_buffer(program_.functions[f], target, code, b);
      for (size_t l = 0; l < code.launches.size(); l++) check_launch(target, code, l);
    }
    check_preparation(target);
  }

  /// It runs without tensors of a caller, workspace or state.
  void check_preparation(const TargetDesc& target) {
    where_ = program_.model_name + ", target " + std::string(name_of(target.kind)) + ", preparation";
    const FunctionCode& code = target.preparation;
    for (size_t b = 0; b < code.buffers.size(); b++) {
      const BufferDesc& buffer = code.buffers[b];
      if (buffer.kind != BufferKind::weight && buffer.kind != BufferKind::prepared)
        fault("buffer " + std::to_string(b) + " `" + buffer.name + "` is neither a weight nor prepared");
      check_buffer({}, target, code, b);
    }
    for (size_t l = 0; l < code.launches.size(); l++) {
      if (code.launches[l].kind == LaunchKind::kernel) check_launch(target, code, l);
      else fault("launch " + std::to_string(l) + " `" + code.launches[l].label + "` runs no kernel");
    }
  }

  void check_buffer(const FunctionDesc& function, const TargetDesc& target, const FunctionCode& code, size_t b) {
    const BufferDesc& buffer = code.buffers[b];
    const std::string name = "buffer " + std::to_string(b) + " `" + buffer.name + "`";
    const auto of = [&](const std::vector<TensorDesc>& tensors, const char* what) {
      if (buffer.index >= tensors.size())
        return fault(name + " is " + what + " " + std::to_string(buffer.index) + " of " + std::to_string(tensors.size()));
      const uint64_t size = static_cast<uint64_t>(size_of(tensors[buffer.index]));
      if (buffer.offset > size || buffer.size_bytes > size - buffer.offset) {
        fault(name + " has " + std::to_string(buffer.size_bytes) + " bytes at " + std::to_string(buffer.offset) + ", " + what + " `" +
              tensors[buffer.index].name + "` " + std::to_string(size));
      }
    };
    const auto inside = [&](uint64_t bytes, const char* what) {
      if (buffer.offset > bytes || buffer.size_bytes > bytes - buffer.offset) {
        fault(name + " ends at " + std::to_string(buffer.offset + buffer.size_bytes) + " in " + what + " of " + std::to_string(bytes) +
              " bytes");
      }
    };
    switch (buffer.kind) {
      case BufferKind::input: return of(function.inputs, "input");
      case BufferKind::output: return of(function.outputs, "output");
      case BufferKind::weight: return of(program_.weights, "weight");
      case BufferKind::arena: return inside(code.arena_bytes, "an arena");
      case BufferKind::prepared: return inside(target.prepared_bytes, "a block of what is prepared");
      case BufferKind::state:
        if (buffer.index >= program::kNumStateBlocks) return fault(name + " is in state block " + std::to_string(buffer.index));
        return inside(static_cast<uint64_t>(buffer.index == 0 ? program_.state.state_bytes : program_.state.gradient_bytes),
                      "a state block");
      case BufferKind::scalar:
        if (buffer.index >= program_.scalars.size())
          return fault(name + " is scalar " + std::to_string(buffer.index) + " of " + std::to_string(program_.scalars.size()));
        return;
      case BufferKind::checks:
        if (buffer.size_bytes % 8 != 0 || buffer.index + buffer.size_bytes / 8 > code.checks.size())
          return fault(name + " has " + std::to_string(buffer.size_bytes) + " bytes of checks from " + std::to_string(buffer.index) +
                       " on, of " + std::to_string(code.checks.size()) + " checks");
        return;
      case BufferKind::alias:
        if (buffer.index >= b || code.buffers[buffer.index].kind == BufferKind::alias)
          return fault(name + " is an alias of buffer " + std::to_string(buffer.index));
        if (buffer.offset > code.buffers[buffer.index].size_bytes ||
            buffer.size_bytes > code.buffers[buffer.index].size_bytes - buffer.offset) {
          fault(name + " reaches outside buffer " + std::to_string(buffer.index));
        }
        return;
    }
    fault(name + " is of no known kind");
  }

  void check_launch(const TargetDesc& target, const FunctionCode& code, size_t l) {
    const LaunchDesc& launch = code.launches[l];
    const std::string name = "launch " + std::to_string(l) + " `" + launch.label + "`";
    for (const uint32_t argument : launch.arguments) {
      if (argument >= code.buffers.size())
        return fault(name + " names buffer " + std::to_string(argument) + " of " + std::to_string(code.buffers.size()));
      if (launch.kind != LaunchKind::kernel && launch.size_bytes > code.buffers[argument].size_bytes) {
        fault(name + " moves " + std::to_string(launch.size_bytes) + " bytes, buffer " + std::to_string(argument) + " has " +
              std::to_string(code.buffers[argument].size_bytes));
      }
    }
    if (!launch.arguments.empty() && (launch.kind == LaunchKind::fill || launch.kind == LaunchKind::copy)) {
      const BufferDesc* written = &code.buffers[launch.arguments.back()];
      if (written->kind == BufferKind::alias) written = &code.buffers[written->index];
      if (written->kind == BufferKind::weight || written->kind == BufferKind::input || written->kind == BufferKind::scalar ||
          written->kind == BufferKind::prepared)
        fault(name + " writes to an input, weight or scalar, or to what is prepared");
    }
    size_t expected = 0;
    switch (launch.kind) {
      case LaunchKind::kernel:
        if (launch.kernel >= target.kernels.size())
          return fault(name + " names kernel " + std::to_string(launch.kernel) + " of " + std::to_string(target.kernels.size()));
        expected = target.kernels[launch.kernel].num_buffers;
        if (launch.grid > (target.kind == TargetKind::cuda ? uint64_t{0x7fffffff} : uint64_t{INT64_MAX}))
          fault(name + " has a grid of " + std::to_string(launch.grid));
        break;
      case LaunchKind::copy: expected = 2; break;
      case LaunchKind::fill:
        expected = 1;
        if (launch.pattern_bytes != 1 && launch.pattern_bytes != 2 && launch.pattern_bytes != 4) {
          fault(name + " has a pattern of " + std::to_string(launch.pattern_bytes) + " bytes");
        } else if (launch.size_bytes % launch.pattern_bytes != 0) {
          fault(name + " fills " + std::to_string(launch.size_bytes) + " bytes with a pattern of " + std::to_string(launch.pattern_bytes));
        }
        break;
    }
    if (launch.arguments.size() != expected)
      fault(name + " has " + std::to_string(launch.arguments.size()) + " arguments, expected " + std::to_string(expected));
  }

  const LinkInput& input_;
  const ProgramDesc& program_;
  Diagnostics faults_;
  std::string where_;
};

}  // namespace

void check_program(const LinkInput& input) { Checker(input).run(); }

}  // namespace tcc::link
