#include "link/check_program.h"

#include <cctype>

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
        if (program_.targets[t].kind == program_.targets[u].kind)
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
    for (const auto* tensors : {&program_.inputs, &program_.outputs, &program_.weights}) {
      for (const TensorDesc& tensor : *tensors) {
        for (const int64_t extent : tensor.shape) {
          if (extent < 0) fault("`" + tensor.name + "` has shape " + to_string(tensor.shape));
        }
      }
    }
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

  void check_target(const TargetDesc& target) {
    where_ = program_.model_name + ", target " + std::string(name_of(target.kind));
    for (size_t b = 0; b < target.buffers.size(); b++) check_buffer(target, b);
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
      for (const uint32_t image : kernel.images) {
        if (image >= input_.images.size())
          fault("kernel `" + kernel.name + "` names image " + std::to_string(image) + " of " + std::to_string(input_.images.size()));
      }
    }
    for (size_t l = 0; l < target.launches.size(); l++) check_launch(target, l);
  }

  void check_buffer(const TargetDesc& target, size_t b) {
    const BufferDesc& buffer = target.buffers[b];
    const std::string name = "buffer " + std::to_string(b) + " `" + buffer.name + "`";
    const auto of = [&](const std::vector<TensorDesc>& tensors, const char* what) {
      if (buffer.index >= tensors.size())
        return fault(name + " is " + what + " " + std::to_string(buffer.index) + " of " + std::to_string(tensors.size()));
      if (static_cast<uint64_t>(size_of(tensors[buffer.index])) < buffer.size_bytes) {
        fault(name + " has " + std::to_string(buffer.size_bytes) + " bytes, " + what + " `" + tensors[buffer.index].name + "` " +
              std::to_string(size_of(tensors[buffer.index])));
      }
    };
    switch (buffer.kind) {
      case BufferKind::input: return of(program_.inputs, "input");
      case BufferKind::output: return of(program_.outputs, "output");
      case BufferKind::weight: return of(program_.weights, "weight");
      case BufferKind::arena:
        if (buffer.offset > target.arena_bytes || buffer.size_bytes > target.arena_bytes - buffer.offset) {
          fault(name + " ends at " + std::to_string(buffer.offset + buffer.size_bytes) + " in an arena of " +
                std::to_string(target.arena_bytes) + " bytes");
        }
        return;
      case BufferKind::alias:
        if (buffer.index >= b || target.buffers[buffer.index].kind == BufferKind::alias)
          return fault(name + " is an alias of buffer " + std::to_string(buffer.index));
        if (buffer.offset > target.buffers[buffer.index].size_bytes ||
            buffer.size_bytes > target.buffers[buffer.index].size_bytes - buffer.offset) {
          fault(name + " reaches outside buffer " + std::to_string(buffer.index));
        }
        return;
    }
    fault(name + " is of no known kind");
  }

  void check_launch(const TargetDesc& target, size_t l) {
    const LaunchDesc& launch = target.launches[l];
    const std::string name = "launch " + std::to_string(l) + " `" + launch.label + "`";
    for (const uint32_t argument : launch.arguments) {
      if (argument >= target.buffers.size())
        return fault(name + " names buffer " + std::to_string(argument) + " of " + std::to_string(target.buffers.size()));
      if (launch.kind != LaunchKind::kernel && launch.size_bytes > target.buffers[argument].size_bytes) {
        fault(name + " moves " + std::to_string(launch.size_bytes) + " bytes, buffer " + std::to_string(argument) + " has " +
              std::to_string(target.buffers[argument].size_bytes));
      }
    }
    if (!launch.arguments.empty() && (launch.kind == LaunchKind::fill || launch.kind == LaunchKind::copy)) {
      const BufferDesc* written = &target.buffers[launch.arguments.back()];
      if (written->kind == BufferKind::alias) written = &target.buffers[written->index];
      if (written->kind == BufferKind::weight || written->kind == BufferKind::input) fault(name + " writes to an input or weight");
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
