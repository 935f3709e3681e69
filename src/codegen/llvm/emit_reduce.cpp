// Reductions and scans. A reduce keeps partial states in registers: one for each unrolled iteration and lane, so that additions don't wait for each
// other; they are combined in a fixed order at the end, then across threads, then with the initial value.
#include <llvm/IR/Constants.h>

#include <cmath>
#include <limits>

#include "codegen/llvm/emitter.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

using loop::Bind;
using loop::Dim;

llvm::Value* Emitter::identity(Op combiner, llvm::Type* type, DType dtype) {
  if (is_float(dtype)) {
    switch (combiner) {
      case Op::reduce_sum_: return llvm::ConstantFP::get(type, -0.0);  // -0 keeps the sign of a sum of -0
      case Op::reduce_prod_: return llvm::ConstantFP::get(type, 1.0);
      case Op::reduce_max_: return llvm::ConstantFP::get(type, -std::numeric_limits<double>::infinity());
      case Op::reduce_min_: return llvm::ConstantFP::get(type, std::numeric_limits<double>::infinity());
      default: break;
    }
    fail("no identity of `" + std::string(name_of(combiner)) + "` on floats");
  }
  unsigned bits = type->getScalarSizeInBits();
  bool is_signed = is_signed_integer(dtype);
  switch (combiner) {
    case Op::reduce_sum_:
    case Op::reduce_or_: return llvm::ConstantInt::get(type, 0);
    case Op::reduce_prod_: return llvm::ConstantInt::get(type, 1);
    case Op::reduce_and_: return llvm::Constant::getAllOnesValue(type);
    case Op::reduce_max_:
      return llvm::ConstantInt::get(type, is_signed ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits));
    case Op::reduce_min_:
      return llvm::ConstantInt::get(type, is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits));
    default: fail("no identity of `" + std::string(name_of(combiner)) + "`");
  }
}

llvm::Value* Emitter::combine(Op combiner, DType dtype, llvm::Value* a, llvm::Value* b) {
  std::vector<llvm::Value*> args{a, b};
  unify(args);
  Op op;
  switch (combiner) {
    case Op::reduce_sum_: op = Op::add_; break;
    case Op::reduce_prod_: op = Op::mul_; break;
    case Op::reduce_max_: op = dtype == DType::boolean ? Op::or_ : Op::max_; break;
    case Op::reduce_min_: op = dtype == DType::boolean ? Op::and_ : Op::min_; break;
    case Op::reduce_and_: op = Op::and_; break;
    case Op::reduce_or_: op = Op::or_; break;
    default: fail("`" + std::string(name_of(combiner)) + "` does not combine states");
  }
  return emit_arithmetic(op, dtype, args);
}

std::vector<llvm::Value*> Emitter::combine_states(const std::vector<loop::State>& states, const loop::Combine* custom,
                                                  const std::vector<llvm::Value*>& left, const std::vector<llvm::Value*>& right) {
  std::vector<llvm::Value*> results;
  if (!custom) {
    for (size_t i = 0; i < states.size(); ++i) results.push_back(combine(states[i].combiner, states[i].result->dtype, left[i], right[i]));
    return results;
  }
  for (size_t i = 0; i < states.size(); ++i) {
    scalars_[custom->left[i].get()] = left[i];
    scalars_[custom->right[i].get()] = right[i];
  }
  emit_block(custom->body);
  for (const loop::ExprPtr& result : custom->results) results.push_back(emit_expr(result));
  return results;
}

void Emitter::emit_reduce(const loop::Reduce& reduce) {
  std::vector<Dim> parallel, rest;
  int64_t copies = 1, vector = 1;
  for (const Dim& dim : reduce.dims) {
    bool across = dim.bind == Bind::thread || dim.bind == Bind::lane || dim.bind == Bind::warp;
    (across ? parallel : rest).push_back(dim);
    if (dim.bind == Bind::unroll) copies *= dim.var->extent;
    if (dim.bind == Bind::vector) vector = dim.var->extent;
  }
  if (copies > 8) copies = 1;  // few independent chains hide the latency; more only cost registers
  bool in_lanes = lane_var_ != nullptr;
  if (in_lanes && vector > 1) fail("a vector reduce inside a vector loop");
  int64_t width = in_lanes ? static_cast<int64_t>(lanes_) : vector;
  size_t n = reduce.states.size();

  std::vector<llvm::Type*> types;
  std::vector<llvm::Value*> identities;
  for (const loop::State& state : reduce.states) {
    llvm::Type* type = register_type(state.result->dtype);
    if (width > 1) type = llvm::FixedVectorType::get(type, static_cast<unsigned>(width));
    types.push_back(type);
    if (reduce.combine) {  // `init` is the identity of a custom combine
      llvm::Value* value = emit_expr(state.init);
      identities.push_back(width > 1 && !varies(value) ? splat(value, llvm::ElementCount::getFixed(static_cast<unsigned>(width))) : value);
    } else {
      identities.push_back(identity(state.combiner, type, state.result->dtype));
    }
  }
  std::vector<std::vector<llvm::AllocaInst*>> cells(static_cast<size_t>(copies));
  for (auto& cell : cells) {
    for (size_t i = 0; i < n; ++i) {
      cell.push_back(make_alloca(types[i], 1, 64));
      builder_.CreateStore(identities[i], cell.back());
    }
  }
  auto step = [&] {
    // Which copy: the mixed-radix number of the unrolled iteration, constants by now.
    int64_t copy = 0;
    if (copies > 1) {
      for (const Dim& dim : rest) {
        if (dim.bind == Bind::unroll) copy = copy * dim.var->extent + llvm::cast<llvm::ConstantInt>(vars_[dim.var.get()])->getSExtValue();
      }
    }
    emit_block(reduce.body);
    std::vector<llvm::Value*> left, right;
    for (size_t i = 0; i < n; ++i) {
      left.push_back(builder_.CreateLoad(types[i], cells[static_cast<size_t>(copy)][i]));
      right.push_back(width > 1 ? widen(emit_expr(reduce.states[i].value)) : emit_expr(reduce.states[i].value));
    }
    std::vector<llvm::Value*> next = combine_states(reduce.states, reduce.combine.get(), left, right);
    for (size_t i = 0; i < n; ++i) {
      llvm::Value* value = next[i];
      if (mask_ && varies(mask_)) value = builder_.CreateSelect(mask_, value, left[i]);
      builder_.CreateStore(value, cells[static_cast<size_t>(copy)][i]);
    }
  };
  auto loops = [&] { emit_dims(rest, 0, [&] { emit_where(reduce.where, step); }); };
  llvm::Value* outer_mask = mask_;
  if (!in_lanes) mask_ = nullptr;  // lanes of the reduce are its own
  if (parallel.empty()) loops();
  else emit_parallel_dims(parallel, loops);
  mask_ = outer_mask;

  std::vector<llvm::Value*> totals;
  for (size_t i = 0; i < n; ++i) totals.push_back(builder_.CreateLoad(types[i], cells[0][i]));
  for (size_t copy = 1; copy < cells.size(); ++copy) {
    std::vector<llvm::Value*> more;
    for (size_t i = 0; i < n; ++i) more.push_back(builder_.CreateLoad(types[i], cells[copy][i]));
    totals = combine_states(reduce.states, reduce.combine.get(), totals, more);
  }
  if (!in_lanes) {  // lanes: halves against halves while even, then one by one
    int64_t lanes = vector;
    auto part = [&](llvm::Value* total, int64_t from, int64_t count) -> llvm::Value* {
      if (count == 1) return builder_.CreateExtractElement(total, static_cast<uint64_t>(from));
      llvm::SmallVector<int, 16> pick;
      for (int64_t k = 0; k < count; ++k) pick.push_back(static_cast<int>(from + k));
      return builder_.CreateShuffleVector(total, pick);
    };
    auto parts = [&](int64_t from, int64_t count) {
      std::vector<llvm::Value*> result;
      for (llvm::Value* total : totals) result.push_back(part(total, from, count));
      return result;
    };
    for (; lanes > 1 && lanes % 2 == 0; lanes /= 2) {
      totals = combine_states(reduce.states, reduce.combine.get(), parts(0, lanes / 2), parts(lanes / 2, lanes / 2));
    }
    if (lanes > 1) {
      std::vector<llvm::Value*> sum = parts(0, 1);
      for (int64_t k = 1; k < lanes; ++k) sum = combine_states(reduce.states, reduce.combine.get(), sum, parts(k, 1));
      totals = sum;
    }
  }
  if (!parallel.empty()) combine_across(reduce, parallel, totals);
  for (size_t i = 0; i < n; ++i) {
    const loop::State& state = reduce.states[i];
    if (state.init && !reduce.combine) totals[i] = combine(state.combiner, state.result->dtype, emit_expr(state.init), totals[i]);
    scalars_[state.result.get()] = totals[i];
  }
}

void Emitter::emit_scan(const loop::Scan& scan) {
  size_t n = scan.states.size();
  int width = lane_var_ ? static_cast<int>(lanes_) : 1;
  std::vector<llvm::Type*> types;
  std::vector<llvm::AllocaInst*> cells;
  for (const loop::State& state : scan.states) {
    llvm::Type* type = register_type(state.result->dtype);
    if (width > 1) type = llvm::FixedVectorType::get(type, static_cast<unsigned>(width));
    types.push_back(type);
    cells.push_back(make_alloca(type, 1, 64));
    llvm::Value* init = state.init ? emit_expr(state.init) : identity(state.combiner, type, state.result->dtype);
    builder_.CreateStore(width > 1 ? widen(init) : init, cells.back());
  }
  emit_dims(scan.dims, 0, [&] {
    emit_block(scan.body);
    std::vector<llvm::Value*> left, right;
    for (size_t i = 0; i < n; ++i) {
      left.push_back(builder_.CreateLoad(types[i], cells[i]));
      right.push_back(width > 1 ? widen(emit_expr(scan.states[i].value)) : emit_expr(scan.states[i].value));
    }
    std::vector<llvm::Value*> next = combine_states(scan.states, scan.combine.get(), left, right);
    for (size_t i = 0; i < n; ++i) {
      builder_.CreateStore(next[i], cells[i]);
      llvm::Value* seen = scan.exclusive ? left[i] : next[i];
      // An exclusive sum starts at the identity -0; what the reader sees is +0.
      if (scan.exclusive && !scan.states[i].init && !scan.combine && scan.states[i].combiner == Op::reduce_sum_ &&
          is_float(scan.states[i].result->dtype)) {
        seen = builder_.CreateFAdd(seen, llvm::Constant::getNullValue(seen->getType()));
      }
      scalars_[scan.states[i].result.get()] = seen;
    }
    emit_block(scan.after);
  });
}

}  // namespace tcc::codegen
