// Reductions and scans. A reduce keeps partial states in registers: one for each unrolled iteration and lane, so that additions don't wait for each
// other; they are combined in a fixed order at the end, then across threads, then with the initial value.
#include <llvm/IR/Constants.h>

#include "codegen/llvm/emitter.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

using loop::Bind;
using loop::Dim;

namespace {

constexpr int64_t kMostAccumulators = 8;  // few independent chains hide the latency of an addition; more only cost registers

}  // namespace

llvm::Value* Emitter::identity(Combiner combiner, llvm::Type* type, DType dtype) {
  if (combiner == Combiner::sum && is_float(dtype)) return llvm::ConstantFP::get(type, -0.0);  // keeps the sign of a sum of -0
  const Identity value = identity_of(combiner, dtype);
  if (is_float(dtype)) return llvm::ConstantFP::get(type, value.float_value);
  return llvm::ConstantInt::get(type, static_cast<uint64_t>(value.int_value), is_signed_integer(dtype));
}

llvm::Value* Emitter::combine(Combiner combiner, DType dtype, llvm::Value* a, llvm::Value* b) {
  std::vector<llvm::Value*> args{a, b};
  unify(args);
  if (dtype == DType::boolean && combiner == Combiner::max) combiner = Combiner::or_;
  if (dtype == DType::boolean && combiner == Combiner::min) combiner = Combiner::and_;
  return emit_arithmetic(pointwise_of(combiner), dtype, args);
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

// Partial states of a reduce, in memory that LLVM promotes: one cell a state, for each unrolled iteration when these are few.
Emitter::Partials Emitter::make_partials(const loop::Reduce& reduce, const std::vector<Dim>& dims) {
  Partials partials;
  int64_t copies = 1, vector = 1;
  for (const Dim& dim : dims) {
    if (dim.bind == Bind::unroll) copies *= dim.var->extent;
    if (dim.bind == Bind::vector) vector = dim.var->extent;
  }
  if (copies > kMostAccumulators) copies = 1;
  if (lane_var_ && vector > 1) fail("a vector reduce inside a vector loop");
  partials.lanes = lane_var_ ? static_cast<int64_t>(lanes_) : vector;
  const auto lanes = llvm::ElementCount::getFixed(static_cast<unsigned>(partials.lanes));
  std::vector<llvm::Value*> identities;
  for (const loop::State& state : reduce.states) {
    llvm::Type* type = register_type(state.result->dtype);
    if (partials.lanes > 1) type = llvm::VectorType::get(type, lanes);
    partials.types.push_back(type);
    if (reduce.combine) {  // `init` is the identity of a custom combine
      llvm::Value* value = emit_expr(state.init);
      identities.push_back(partials.lanes > 1 && !varies(value) ? splat(value, lanes) : value);
    } else {
      identities.push_back(identity(state.combiner, type, state.result->dtype));
    }
  }
  partials.cells.resize(static_cast<size_t>(copies));
  for (auto& cells : partials.cells) {
    for (size_t i = 0; i < identities.size(); ++i) {
      cells.push_back(make_alloca(partials.types[i], 1, 64));
      builder_.CreateStore(identities[i], cells.back());
    }
  }
  return partials;
}

// One iteration: the body, then its values into the cells of its copy.
void Emitter::accumulate(const loop::Reduce& reduce, const std::vector<Dim>& dims, const Partials& partials) {
  // Which copy: the mixed-radix number of the unrolled iteration, constants by now.
  int64_t copy = 0;
  if (partials.cells.size() > 1) {
    for (const Dim& dim : dims) {
      if (dim.bind == Bind::unroll) copy = copy * dim.var->extent + llvm::cast<llvm::ConstantInt>(vars_[dim.var.get()])->getSExtValue();
    }
  }
  const std::vector<llvm::AllocaInst*>& cells = partials.cells[static_cast<size_t>(copy)];
  emit_block(reduce.body);
  std::vector<llvm::Value*> left, right;
  for (size_t i = 0; i < cells.size(); ++i) {
    left.push_back(builder_.CreateLoad(partials.types[i], cells[i]));
    llvm::Value* value = emit_expr(reduce.states[i].value);
    right.push_back(partials.lanes > 1 ? widen(value) : value);
  }
  std::vector<llvm::Value*> next = combine_states(reduce.states, reduce.combine.get(), left, right);
  for (size_t i = 0; i < cells.size(); ++i) {
    llvm::Value* value = next[i];
    if (mask_ && varies(mask_)) value = builder_.CreateSelect(mask_, value, left[i]);
    builder_.CreateStore(value, cells[i]);
  }
}

// Lanes: halves against halves while even, then one by one.
void Emitter::join_lanes(const loop::Reduce& reduce, std::vector<llvm::Value*>& totals, int64_t lanes) {
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
  for (; lanes > 1 && lanes % 2 == 0; lanes /= 2)
    totals = combine_states(reduce.states, reduce.combine.get(), parts(0, lanes / 2), parts(lanes / 2, lanes / 2));
  if (lanes <= 1) return;
  std::vector<llvm::Value*> sum = parts(0, 1);
  for (int64_t k = 1; k < lanes; ++k) sum = combine_states(reduce.states, reduce.combine.get(), sum, parts(k, 1));
  totals = sum;
}

void Emitter::emit(const loop::Reduce& reduce) {
  if (reduce.tile) return emit_tile_reduce(reduce);
  std::vector<Dim> parallel, rest;
  for (const Dim& dim : reduce.dims) {
    const bool across = dim.bind == Bind::thread || dim.bind == Bind::lane || dim.bind == Bind::warp;
    (across ? parallel : rest).push_back(dim);
  }
  const Partials partials = make_partials(reduce, rest);
  const bool in_lanes = lane_var_ != nullptr;
  auto loops = [&] { emit_dims(rest, 0, [&] { emit_where(reduce.where, [&] { accumulate(reduce, rest, partials); }); }); };
  llvm::Value* outer_mask = mask_;
  std::vector<loop::ExprPtr> outer_conditions = mask_conditions_;
  if (!in_lanes) mask_ = nullptr, mask_conditions_.clear();  // lanes of the reduce are its own
  if (parallel.empty()) loops();
  else emit_parallel_dims(parallel, loops);
  mask_ = outer_mask;
  mask_conditions_ = std::move(outer_conditions);

  auto held = [&](const std::vector<llvm::AllocaInst*>& cells) {
    std::vector<llvm::Value*> values;
    for (size_t i = 0; i < cells.size(); ++i) values.push_back(builder_.CreateLoad(partials.types[i], cells[i]));
    return values;
  };
  std::vector<llvm::Value*> totals = held(partials.cells[0]);
  for (size_t copy = 1; copy < partials.cells.size(); ++copy)
    totals = combine_states(reduce.states, reduce.combine.get(), totals, held(partials.cells[copy]));
  if (!in_lanes) join_lanes(reduce, totals, partials.lanes);
  if (!parallel.empty()) combine_across(reduce, parallel, totals);
  publish(reduce, std::move(totals));
}

void Emitter::publish(const loop::Reduce& reduce, std::vector<llvm::Value*> totals) {
  for (size_t i = 0; i < totals.size(); ++i) {
    const loop::State& state = reduce.states[i];
    if (state.init && !reduce.combine) totals[i] = combine(state.combiner, state.result->dtype, emit_expr(state.init), totals[i]);
    scalars_[state.result.get()] = totals[i];
  }
}

void Emitter::emit(const loop::Scan& scan) {
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
      if (scan.exclusive && !scan.states[i].init && !scan.combine && scan.states[i].combiner == Combiner::sum &&
          is_float(scan.states[i].result->dtype)) {
        seen = builder_.CreateFAdd(seen, llvm::Constant::getNullValue(seen->getType()));
      }
      scalars_[scan.states[i].result.get()] = seen;
    }
    emit_block(scan.after);
  });
  for (size_t i = 0; i < n; ++i) scalars_[scan.states[i].result.get()] = builder_.CreateLoad(types[i], cells[i]);  // of all iterations
}

}  // namespace tcc::codegen
