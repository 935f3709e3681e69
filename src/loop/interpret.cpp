// The two interpreters: a unit on one thread, a kernel on its threads.
#include <cstring>
#include <string>
#include <utility>

#include "loop/machine.h"
#include "tcc/loop/loop.h"
#include "tcc/loop/row_padding.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {
namespace {

/// The written tensors become ours to write: their bytes may be shared or mapped. Space for one that is not there yet is made.
void own_written(const std::vector<Param>& params, std::vector<Tensor>& tensors) {
  if (params.size() != tensors.size()) {
    internal_error("interpret: found " + std::to_string(tensors.size()) + " tensors for " + std::to_string(params.size()) + " parameters");
  }
  for (size_t i = 0; i < params.size(); ++i) {
    const Buffer& buffer = *params[i].buffer;
    if (!tensors[i].defined() && params[i].written) {
      tensors[i] = Tensor(buffer.dtype, buffer.extents);
      continue;
    }
    if (tensors[i].dtype() != buffer.dtype || tensors[i].shape() != buffer.extents) {
      internal_error("interpret: %" + buffer.name + " is " + std::string(name_of(buffer.dtype)) + tcc::to_string(buffer.extents) +
                     ", the tensor " + std::string(name_of(tensors[i].dtype())) + tcc::to_string(tensors[i].shape()));
    }
    if (!params[i].written) continue;
    Tensor copy(buffer.dtype, buffer.extents);
    std::memcpy(copy.mutable_bytes(), tensors[i].bytes(), static_cast<size_t>(copy.size_bytes()));
    tensors[i] = copy;
  }
}

/// Runs on the parameters as they lie in memory.
void run(const Block& body, const std::vector<Param>& params, std::vector<Tensor>& tensors, const Machine::Options& options) {
  std::vector<Tensor> memory = tensors;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].buffer->row_padding() > 0) memory[i] = with_row_padding(*params[i].buffer, tensors[i]);
  }
  Machine(body, params, memory, options).run();
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].written && params[i].buffer->row_padding() > 0)
      unpad_rows(*params[i].buffer, memory[i].bytes(), tensors[i].mutable_bytes());
  }
}

bool has_pipes(const Block& body) {
  bool result = false;
  walk(body, [&](const Stmt& stmt) { result = result || as<PipeDecl>(stmt); });
  return result;
}

}  // namespace

void interpret(const Unit& unit, std::vector<Tensor>& params, std::vector<int64_t>* bad_indices) {
  own_written(unit.params, params);
  if (bad_indices) bad_indices->assign(static_cast<size_t>(num_index_checks(unit.body)), 0);
  Machine::Options options;
  options.bad_indices = bad_indices;
  run(unit.body, unit.params, params, options);
}

void interpret(const Kernel& kernel, std::vector<Tensor>& params, std::vector<int64_t>* bad_indices) {
  own_written(kernel.params, params);
  if (bad_indices) bad_indices->assign(static_cast<size_t>(num_index_checks(kernel.body)), 0);
  Machine::Options options;
  options.bad_indices = bad_indices;
  options.threads = kernel.threads;
  options.lockstep = true;
  options.grid = kernel.grid;
  if (!has_pipes(kernel.body)) {
    run(kernel.body, kernel.params, params, options);
    return;
  }
  // The producer as far ahead as the pipes allow, then as far behind: a schedule that is right gives the same.
  std::vector<Tensor> late = params;
  own_written(kernel.params, late);
  run(kernel.body, kernel.params, params, options);
  options.copies_land_late = true;
  options.last_role_first = true;
  run(kernel.body, kernel.params, late, options);
  for (size_t i = 0; i < params.size(); ++i) {
    if (!params[i].same_bytes(late[i]))
      internal_error("interpret: %" + kernel.params[i].buffer->name + " depends on when the copies of a pipe arrive");
  }
}

}  // namespace tcc::loop
