// Runs a plan on one block of memory as the launcher would, each kernel through the interpreter of kernels: what the order of launches or the reuse of
// buffers gets wrong shows in the results.

#include <cstring>

#include "tcc/plan/plan.h"
#include "tcc/support/diagnostics.h"

namespace tcc::plan {
namespace {

class Runner {
 public:
  Runner(const Plan& plan, const std::vector<Tensor>& inputs)
      : plan_(plan), inputs_(inputs), arena_(static_cast<size_t>(plan.arena_bytes), kFill) {
    for (const Buffer& buffer : plan.buffers) {
      if (buffer.kind != Buffer::Kind::output) continue;
      if (outputs_.size() <= static_cast<size_t>(buffer.index)) outputs_.resize(static_cast<size_t>(buffer.index) + 1);
      outputs_[static_cast<size_t>(buffer.index)] = Tensor(buffer.dtype, buffer.shape);
    }
  }

  std::vector<Tensor> run() {
    for (const Launch& launch : plan_.launches) {
      if (launch.kind == Launch::Kind::copy) {
        std::memcpy(bytes_of(launch.arguments[1]), read_from(launch.arguments[0]),
                    static_cast<size_t>(buffer(launch.arguments[1]).size_bytes));
      } else {
        run_kernel(launch);
      }
    }
    return std::move(outputs_);
  }

 private:
  /// Bytes that no launch has written yet: a NaN in every float dtype, so that reading them shows.
  static constexpr std::byte kFill{0xff};

  const Buffer& buffer(int number) const { return plan_.buffers.at(static_cast<size_t>(number)); }

  const std::byte* read_from(int number) {
    const Buffer& b = buffer(number);
    switch (b.kind) {
      case Buffer::Kind::input: return inputs_.at(static_cast<size_t>(b.index)).bytes();
      case Buffer::Kind::weight: return plan_.weights.at(static_cast<size_t>(b.index))->tensor.bytes();
      case Buffer::Kind::alias: return read_from(b.index) + b.offset;
      default: return bytes_of(number);
    }
  }

  std::byte* bytes_of(int number) {
    const Buffer& b = buffer(number);
    switch (b.kind) {
      case Buffer::Kind::output: return outputs_.at(static_cast<size_t>(b.index)).mutable_bytes();
      case Buffer::Kind::arena: return arena_.data() + b.offset;
      case Buffer::Kind::alias: return bytes_of(b.index) + b.offset;
      default: internal_error("a launch writes to `" + b.name + "`");
    }
  }

  void run_kernel(const Launch& launch) {
    const loop::Kernel& kernel = plan_.kernels.at(static_cast<size_t>(launch.kernel));
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      const Buffer& b = buffer(launch.arguments[i]);
      Tensor tensor(b.dtype, b.shape);  // a copy: what a kernel is given may not change while it runs
      std::memcpy(tensor.mutable_bytes(), read_from(launch.arguments[i]), static_cast<size_t>(tensor.size_bytes()));
      tensors.push_back(std::move(tensor));
    }
    loop::interpret(kernel, tensors);
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      if (kernel.params[i].written)
        std::memcpy(bytes_of(launch.arguments[i]), tensors[i].bytes(), static_cast<size_t>(tensors[i].size_bytes()));
    }
  }

  const Plan& plan_;
  const std::vector<Tensor>& inputs_;
  std::vector<std::byte> arena_;
  std::vector<Tensor> outputs_;
};

}  // namespace

std::vector<Tensor> interpret(const Plan& plan, const std::vector<Tensor>& inputs) { return Runner(plan, inputs).run(); }

}  // namespace tcc::plan
