// Runs a plan on one block of memory as the launcher would, each kernel through the interpreter of kernels: what the order of launches or the reuse of
// buffers gets wrong shows in the results.

#include <algorithm>
#include <cstring>
#include <map>

#include "plan/arena.h"
#include "tcc/graph/state.h"
#include "tcc/loop/row_padding.h"
#include "tcc/plan/plan.h"
#include "tcc/support/diagnostics.h"

namespace tcc::plan {
namespace {

class Runner {
 public:
  Runner(const Plan& plan, const std::vector<Tensor>& inputs, StateMemory* state, std::vector<int64_t>* bad_indices)
      : plan_(plan), inputs_(inputs), state_(state), bad_indices_(bad_indices), arena_(static_cast<size_t>(plan.arena_bytes), kFill) {
    for (const Buffer& buffer : plan.buffers) {
      if (buffer.kind != Buffer::Kind::output) continue;
      if (outputs_.size() <= static_cast<size_t>(buffer.index)) outputs_.resize(static_cast<size_t>(buffer.index) + 1);
      if (buffer.index != plan.first_packed_output) outputs_[static_cast<size_t>(buffer.index)] = output_tensor(buffer);
    }
    if (plan.first_packed_output >= 0) {
      outputs_.resize(static_cast<size_t>(plan.first_packed_output) + 1);
      outputs_.back() = Tensor(DType::u8, {plan.packed_output_bytes});
    }
  }

  /// Once.
  std::vector<Tensor> run_constants() {
    constants_.assign(plan_.constant_values.size(), {});
    for (const Launch& constant : plan_.constants) run_kernel(constant);
    return std::move(constants_);
  }

  std::vector<Tensor> run() {
    constants_ = plan_.constant_values;
    if (std::any_of(constants_.begin(), constants_.end(), [](const Tensor& tensor) { return !tensor.defined(); }))
      constants_ = interpret_constants(plan_);
    for (const Launch& preparation : plan_.preparations) run_kernel(preparation);
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
  /// Of a unit alone, the caller has the padding of rows in his tensors.
  static Tensor output_tensor(const Buffer& buffer) { return Tensor(buffer.dtype, padded_shape(buffer.shape, buffer.row_padding)); }

  /// Bytes that no launch has written yet: a NaN in every float dtype, so that reading them shows.
  static constexpr std::byte kFill{0xff};

  const Buffer& buffer(int number) const { return plan_.buffers.at(static_cast<size_t>(number)); }

  const std::byte* read_from(int number) {
    const Buffer& b = buffer(number);
    switch (b.kind) {
      case Buffer::Kind::input: return inputs_.at(static_cast<size_t>(b.index)).bytes() + b.offset;
      case Buffer::Kind::scalar: return state().scalars.at(static_cast<size_t>(b.index)).bytes();
      case Buffer::Kind::weight: return plan_.weights.at(static_cast<size_t>(b.index))->tensor.bytes();
      case Buffer::Kind::constant: return constants_.at(static_cast<size_t>(b.index)).bytes();
      case Buffer::Kind::prepared: return prepared_.at(b.index).bytes();
      case Buffer::Kind::alias: return read_from(b.index) + b.offset;
      default: return bytes_of(number);
    }
  }

  std::byte* bytes_of(int number) {
    const Buffer& b = buffer(number);
    switch (b.kind) {
      case Buffer::Kind::output: return outputs_.at(static_cast<size_t>(b.index)).mutable_bytes() + b.offset;
      case Buffer::Kind::state: return state_bytes(b);
      case Buffer::Kind::arena: return arena_.data() + b.offset;
      case Buffer::Kind::alias: return bytes_of(b.index) + b.offset;
      case Buffer::Kind::constant: return bytes_of(constants_.at(static_cast<size_t>(b.index)), b);
      case Buffer::Kind::prepared: return bytes_of(prepared_[b.index], b);
      default: internal_error("a launch writes to `" + b.name + "`");
    }
  }

  static std::byte* bytes_of(Tensor& tensor, const Buffer& b) {
    if (!tensor.defined()) tensor = Tensor(b.dtype, b.shape);
    return tensor.mutable_bytes();
  }

  StateMemory& state() {
    if (!state_) internal_error("the plan of `" + plan_.name + "` needs state");
    return *state_;
  }

  std::byte* state_bytes(const Buffer& b) {
    std::vector<std::byte>& block = state().blocks[b.index];
    if (b.offset + b.size_bytes > static_cast<int64_t>(block.size())) internal_error("`" + b.name + "` reaches beyond its block of state");
    return block.data() + b.offset;
  }

  void run_kernel(const Launch& launch) {
    const loop::Kernel& kernel = plan_.kernels.at(static_cast<size_t>(launch.kernel));
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      const Buffer& b = buffer(launch.arguments[i]);
      Tensor tensor(b.dtype, b.shape);  // a copy: what a kernel is given may not change while it runs
      const std::byte* bytes = kernel.params[i].written ? bytes_of(launch.arguments[i]) : read_from(launch.arguments[i]);
      loop::unpad_rows(*kernel.params[i].buffer, bytes, tensor.mutable_bytes());
      tensors.push_back(std::move(tensor));
    }
    std::vector<int64_t> bad;
    loop::interpret(kernel, tensors, &bad);
    for (size_t i = 0; bad_indices_ && i < bad.size(); ++i) {
      int64_t& first = bad_indices_->at(static_cast<size_t>(launch.first_check) + i);
      if (first == 0) first = bad[i];
    }
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      if (kernel.params[i].written) loop::pad_rows(*kernel.params[i].buffer, tensors[i].bytes(), bytes_of(launch.arguments[i]));
    }
  }

  const Plan& plan_;
  const std::vector<Tensor>& inputs_;
  StateMemory* state_;
  std::vector<int64_t>* bad_indices_;
  std::vector<std::byte> arena_;
  std::vector<Tensor> constants_, outputs_;
  std::map<int, Tensor> prepared_;  ///< by Buffer::index
};

}  // namespace

StateMemory initial_state(const StateLayout& layout, std::vector<Tensor> scalars) {
  StateMemory memory;
  memory.blocks[0].resize(static_cast<size_t>(layout.state_bytes));
  memory.blocks[1].resize(static_cast<size_t>(layout.gradient_bytes));
  memory.scalars = std::move(scalars);
  for (const StateTensor& tensor : layout.tensors) {
    if (tensor.view) continue;
    Tensor initial = tensor.initial;
    if (!initial.defined()) {
      initial = Tensor(tensor.dtype, tensor.shape);
      for (int64_t i = 0; i < initial.count(); ++i) {
        if (is_float(tensor.dtype)) initial.set_double(i, tensor.fill);
        else initial.set_int64(i, static_cast<int64_t>(tensor.fill));
      }
    }
    std::memcpy(memory.blocks[tensor.block()].data() + tensor.offset, initial.bytes(), static_cast<size_t>(tensor.size_bytes()));
  }
  return memory;
}

Tensor read_state(const StateMemory& memory, const StateLayout& layout, std::string_view name) {
  const StateTensor* found = layout.find(name);
  if (!found) internal_error("the state has no `" + std::string(name) + "`");
  Tensor tensor(found->dtype, found->shape);
  std::memcpy(tensor.mutable_bytes(), memory.blocks[found->block()].data() + found->offset, static_cast<size_t>(found->size_bytes()));
  return tensor;
}

std::vector<Tensor> interpret_constants(const Plan& plan) { return Runner(plan, {}, nullptr, nullptr).run_constants(); }

std::vector<Tensor> interpret(const Plan& plan, const std::vector<Tensor>& inputs, StateMemory* state, std::vector<int64_t>* bad_indices) {
  if (bad_indices) bad_indices->assign(plan.checks.size(), 0);
  return Runner(plan, inputs, state, bad_indices).run();
}

}  // namespace tcc::plan
