// Tensor-core products on register tiles: ldmatrix from shared memory, mma.sync m16n8k16 (f16, bf16), m16n8k8 (tf32) or m16n8k32 (i8, u8).
//
// Of all of them a word of a fragment is 4 bytes of k: 2 elements of 16 bits, 1 of 32 or 4 of 8. So ldmatrix, which moves rows of 16 bytes, loads each.
//
// The accumulator's layout has register digits i (rows in steps of 16), j (columns in steps of 8), h (rows in steps of 8), e (columns), the lane digits
// of an mma fragment (row lane / 4, column 2 * (lane % 4)) and warp digits for both axes. Which of i, j is slower is read from the layout.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "codegen/code_size.h"
#include "codegen/nvptx/emitter.h"
#include "tcc/loop/rewrite.h"
#include "tcc/support/diagnostics.h"

namespace tcc::codegen {

using loop::TileDigit;

// What digits of one level add to a coordinate along `axis`, for the (run-time) number of that level.
llvm::Value* NvptxEmitter::digit_sum(const loop::TileLayout& layout, TileDigit::Level level, int axis, llvm::Value* number) {
  llvm::Value* sum = llvm::ConstantInt::get(index_type_, 0);
  int64_t radix = 1;
  for (size_t i = layout.digits.size(); i-- > 0;) {
    const TileDigit& digit = layout.digits[i];
    if (digit.level != level) continue;
    if (digit.axis == axis && digit.extent > 1) {
      llvm::Value* value =
          radix > 1 ? builder_.CreateUDiv(number, llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(radix))) : number;
      value = builder_.CreateURem(value, llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(digit.extent)));
      sum = builder_.CreateNUWAdd(sum,
                                  builder_.CreateNUWMul(value, llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(digit.stride))));
    }
    radix *= digit.extent;
  }
  return sum;
}

llvm::Value* NvptxEmitter::tile_slot(const loop::Buffer& buffer, const std::vector<loop::Index>& indices) {
  if (!tile_layout_) fail("register tile %" + buffer.name + " outside a loop over its layout");
  int64_t reg = tile_register_;
  if (indices.size() == 1 && *buffer.tile == loop::row_layout(*tile_layout_)) reg = loop::row_register(*tile_layout_, reg);
  else if (!(*tile_layout_ == *buffer.tile)) fail("register tile %" + buffer.name + " outside a loop over its layout");
  return llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(reg));
}

// Tiles that the body reads, as a window that moves on by the registers of one iteration: registers have no numbers that a loop could count.
//
//   for d in 4 { body(w[0..31]);  w[0..95] = w[32..127] }       instead of       body(acc[0..31]); ... body(acc[96..127])
void NvptxEmitter::emit_rolled(const loop::Loop& loop, int64_t iterations, const std::function<void(llvm::Value* iteration)>& body) {
  const int64_t registers = loop::registers_of(*loop.tile->tile), step = registers / iterations;
  std::map<int, std::pair<llvm::Type*, llvm::Value*>> tiles;  // by Buffer::id, in an order that is the same in every run
  const auto add = [&](const loop::Expr& expr) {
    if (expr.kind == loop::Expr::Kind::load && expr.buffer->tile)
      tiles.emplace(expr.buffer->id, std::pair(memory_type(expr.buffer->dtype), buffers_.at(expr.buffer->id)));
  };
  loop::walk_exprs({loop::Stmt{loop}}, add);  // its condition, too
  const auto move = [&](llvm::Type* type, llvm::Value* to, int64_t to_register, llvm::Value* from, int64_t from_register) {
    llvm::Value* value = builder_.CreateLoad(type, builder_.CreateConstInBoundsGEP1_64(type, from, static_cast<uint64_t>(from_register)));
    builder_.CreateStore(value, builder_.CreateConstInBoundsGEP1_64(type, to, static_cast<uint64_t>(to_register)));
  };
  for (const auto& [id, tile] : tiles) {
    buffers_[id] = make_alloca(tile.first, registers, 64);
    for (int64_t r = 0; r < registers; ++r) move(tile.first, buffers_[id], r, tile.second, r);
  }
  emit_counted_loop(iterations, [&](llvm::Value* iteration) {
    body(iteration);
    for (const auto& [id, tile] : tiles) {
      for (int64_t r = 0; r + step < registers; ++r) move(tile.first, buffers_[id], r, buffers_[id], r + step);
    }
  });
  // Nor is it to be unrolled by ptxas.
  llvm::MDNode* disable = llvm::MDNode::get(context_, llvm::MDString::get(context_, "llvm.loop.unroll.disable"));
  llvm::MDNode* id = llvm::MDNode::getDistinct(context_, {nullptr, disable});
  id->replaceOperandWith(0, id);
  builder_.GetInsertBlock()->getSinglePredecessor()->getTerminator()->setMetadata(llvm::LLVMContext::MD_loop, id);
  for (const auto& [buffer, tile] : tiles) buffers_[buffer] = tile.second;
}

void NvptxEmitter::emit_tile_loop(const loop::Loop& loop) {
  const loop::TileLayout& layout = *loop.tile->tile;
  int64_t warps = 1;
  for (const TileDigit& digit : layout.digits) warps *= digit.level == TileDigit::Level::warp ? digit.extent : 1;
  const auto run = [&] {
    const loop::TileLayout* outer = tile_layout_;
    tile_layout_ = &layout;
    const int64_t iterations = rolled_iterations(loop), registers = loop::registers_of(layout) / iterations;
    const auto slowest = std::find_if(layout.digits.begin(), layout.digits.end(),
                                      [](const TileDigit& digit) { return digit.level == TileDigit::Level::reg && digit.extent > 1; });
    const auto emit_registers = [&](std::vector<llvm::Value*> base, std::vector<int64_t> multiples) {
      for (int64_t r = 0; r < registers; ++r) emit_register(loop, r, base, multiples);
    };
    auto [base, multiples] = tile_origin(loop);
    if (iterations == 1) {
      emit_registers(base, multiples);
    } else {
      emit_rolled(loop, iterations, [&, base = base, multiples = multiples](llvm::Value* iteration) mutable {
        const auto axis = static_cast<size_t>(slowest->axis);
        const int64_t stride = slowest->stride * (slowest->extent / iterations);
        llvm::Value* step = llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(stride));
        base[axis] = builder_.CreateNUWAdd(base[axis], builder_.CreateNUWMul(iteration, step));
        multiples[axis] = std::gcd(multiples[axis], stride);
        emit_registers(base, multiples);
      });
    }
    tile_layout_ = outer;
  };
  if (warps * 32 < team_threads_)
    emit_if(builder_.CreateICmpULT(warp(), llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(warps))), run, nullptr);
  else run();
}

// What lane and warp add to each coordinate, and what that is a multiple of.
std::pair<std::vector<llvm::Value*>, std::vector<int64_t>> NvptxEmitter::tile_origin(const loop::Loop& loop) {
  const loop::TileLayout& layout = *loop.tile->tile;
  std::vector<llvm::Value*> base;
  llvm::Value* this_lane = lane();
  llvm::Value* this_warp = warp();
  for (size_t axis = 0; axis < loop.dims.size(); ++axis) {
    base.push_back(builder_.CreateNUWAdd(digit_sum(layout, TileDigit::Level::warp, static_cast<int>(axis), this_warp),
                                         digit_sum(layout, TileDigit::Level::lane, static_cast<int>(axis), this_lane)));
  }
  std::vector<int64_t> multiples(loop.dims.size(), 0);
  for (const TileDigit& digit : layout.digits) {
    auto& multiple = multiples[static_cast<size_t>(digit.axis)];
    if (digit.level != TileDigit::Level::reg && digit.extent > 1) multiple = std::gcd(multiple, digit.stride);
  }
  return {std::move(base), std::move(multiples)};
}

// The body for one register of the thread, at coordinates beside the origin.
void NvptxEmitter::emit_register(const loop::Loop& loop, int64_t number, const std::vector<llvm::Value*>& origin,
                                 const std::vector<int64_t>& multiples) {
  const loop::TileLayout& layout = *loop.tile->tile;
  std::vector<int64_t> offset(loop.dims.size(), 0);
  int64_t rest = number;
  for (size_t i = layout.digits.size(); i-- > 0;) {
    const TileDigit& digit = layout.digits[i];
    if (digit.level != TileDigit::Level::reg) continue;
    offset[static_cast<size_t>(digit.axis)] += rest % digit.extent * digit.stride;
    rest /= digit.extent;
  }
  for (size_t axis = 0; axis < loop.dims.size(); ++axis) {
    multiples_[loop.dims[axis].var.get()] = std::gcd(multiples[axis], offset[axis]);
    vars_[loop.dims[axis].var.get()] =
        builder_.CreateNUWAdd(origin[axis], llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(offset[axis])));
  }
  tile_register_ = number;
  emit_where(loop.where, [&] { emit_block(loop.body); });
}

// What a thread has of the row, in a few chains that don't wait for each other, then across the lanes that share it.
void NvptxEmitter::emit_tile_reduce(const loop::Reduce& reduce) {
  constexpr size_t kChains = 4;
  const loop::TileLayout& layout = *reduce.tile->tile;
  const loop::TileLayout* outer = tile_layout_;
  const int64_t row = tile_register_;
  const loop::Var* column = reduce.dims[0].var.get();
  llvm::Value* origin =
      builder_.CreateNUWAdd(digit_sum(layout, TileDigit::Level::warp, 1, warp()), digit_sum(layout, TileDigit::Level::lane, 1, lane()));
  tile_layout_ = &layout;
  std::vector<std::vector<llvm::Value*>> chains(kChains);
  size_t number = 0;
  for (int64_t reg = 0, count = loop::registers_of(layout); reg < count; ++reg) {
    if (loop::row_register(layout, reg) != row) continue;
    const int64_t at = loop::coordinates_of(layout, 2, reg, 0, 0)[1];
    vars_[column] = builder_.CreateNUWAdd(origin, llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(at)));
    tile_register_ = reg;
    emit_block(reduce.body);
    std::vector<llvm::Value*> values;
    for (const loop::State& state : reduce.states) values.push_back(emit_expr(state.value));
    std::vector<llvm::Value*>& chain = chains[number++ % kChains];
    chain = chain.empty() ? std::move(values) : combine_states(reduce.states, reduce.combine.get(), chain, values);
  }
  tile_layout_ = outer;
  tile_register_ = row;
  std::vector<llvm::Value*> totals = std::move(chains[0]);
  for (size_t i = 1; i < std::min(kChains, number); ++i) totals = combine_states(reduce.states, reduce.combine.get(), totals, chains[i]);
  int64_t radix = 1;
  for (size_t i = layout.digits.size(); i-- > 0;) {
    const TileDigit& digit = layout.digits[i];
    if (digit.level != TileDigit::Level::lane) continue;
    for (int64_t step = 1; digit.axis == 1 && step < digit.extent; step *= 2) {
      std::vector<llvm::Value*> others;
      for (llvm::Value* total : totals) others.push_back(shuffle_xor(total, static_cast<int>(step * radix)));
      totals = combine_states(reduce.states, reduce.combine.get(), totals, others);
    }
    radix *= digit.extent;
  }
  publish(reduce, std::move(totals));
}

// Where the digits of the accumulator lie among the registers of a thread.
NvptxEmitter::MmaTile NvptxEmitter::mma_tile(const loop::Mma& mma) const {
  MmaTile tile;
  const DType dtype = mma.a->dtype;
  tile.element_bytes = size_bytes(dtype);
  if (mma.shape != "m16n8k" + std::to_string(tile.step()) || mma.k % tile.step() != 0)
    fail("mma " + mma.shape + " on " + std::string(name_of(dtype)));
  const loop::Buffer& accumulator = *mma.accumulator;
  int64_t radix = 1;
  for (size_t i = accumulator.tile->digits.size(); i-- > 0;) {
    const TileDigit& digit = accumulator.tile->digits[i];
    if (digit.level != TileDigit::Level::reg) continue;
    if (digit.axis == 0 && digit.stride == 16) tile.rows = digit.extent, tile.row_stride = radix;
    else if (digit.axis == 1 && digit.stride == 8) tile.columns = digit.extent, tile.column_stride = radix;
    else if (digit.axis == 0 && digit.stride == 8) tile.half_stride = radix;
    else if (digit.axis == 1 && digit.stride == 1) tile.pair_stride = radix;
    else fail("accumulator %" + accumulator.name + " is not a tile of " + mma.shape);
    radix *= digit.extent;
  }
  if (tile.columns % 2 != 0) fail("accumulator %" + accumulator.name + " has an odd number of column blocks a warp");
  return tile;
}

std::pair<llvm::Value*, int64_t> NvptxEmitter::offset_in_matrix(const loop::Buffer& buffer, const std::vector<loop::Index>& origin,
                                                                const MatrixIndex& row, const MatrixIndex& column) {
  const auto constant = [&](int64_t value) { return llvm::ConstantInt::getSigned(index_type_, value); };
  const std::vector<int64_t> strides = buffer.element_strides();
  const int64_t row_stride = strides[strides.size() - 2], column_stride = strides.back();
  int64_t behind = row.constant * row_stride + column.constant * column_stride;
  llvm::Value* offset = emit_terms(flat_index(buffer, origin), &behind);
  if (!offset) offset = constant(0);
  offset = builder_.CreateAdd(offset, builder_.CreateMul(row.thread, constant(row_stride)));
  return {builder_.CreateAdd(offset, builder_.CreateMul(column.thread, constant(column_stride))), behind};
}

// Four 8 x 8 matrices of 16-bit elements (8 x 4 of 32 bits): each lane names one of their rows and holds a word of each.
std::vector<llvm::Value*> NvptxEmitter::load_matrices(const loop::Buffer& buffer, const std::vector<loop::Index>& origin,
                                                      const MatrixIndex& row, const MatrixIndex& column, bool transposed) {
  const auto [offset, behind] = offset_in_matrix(buffer, origin, row, column);
  llvm::Value* pointer = shared_pointer(buffer, offset, behind, false);
  auto id =
      transposed ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16 : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16;
  llvm::Value* four = builder_.CreateIntrinsic(id, {pointer->getType()}, {pointer});
  std::vector<llvm::Value*> words;
  for (unsigned i = 0; i < 4; ++i) {
    llvm::Value* value = builder_.CreateExtractValue(four, i);
    words.push_back(buffer.dtype == DType::f32 ? round_to_tf32(builder_.CreateBitCast(value, builder_.getFloatTy())) : value);
  }
  return words;
}

llvm::Value* NvptxEmitter::round_to_tf32(llvm::Value* value) {
  return builder_.CreateIntrinsic(builder_.getInt32Ty(), llvm::Intrinsic::nvvm_f2tf32_rna, {value});
}

// Four words of 32 bits from [k, other]: of k and k + 4, of other and other + 8, k the slower or the faster. ldmatrix turns only elements of 16 bits.
std::vector<llvm::Value*> NvptxEmitter::load_turned_words(const loop::Buffer& buffer, const std::vector<loop::Index>& origin,
                                                          const MatrixIndex& k, const MatrixIndex& other, bool k_faster) {
  const auto [first, behind] = offset_in_matrix(buffer, origin, k, other);
  const std::vector<int64_t> strides = buffer.element_strides();
  const size_t rank = strides.size();
  const int64_t next_k = 4 * strides[rank - 2], next_other = 8 * strides[rank - 1];
  std::vector<llvm::Value*> words;
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t offset = (k_faster ? i % 2 : i / 2) * next_k + (k_faster ? i / 2 : i % 2) * next_other;
    llvm::Value* pointer = shared_pointer(buffer, first, behind + offset, false);
    words.push_back(round_to_tf32(builder_.CreateAlignedLoad(builder_.getFloatTy(), pointer, llvm::Align(4))));
  }
  return words;
}

static llvm::Intrinsic::ID instruction_for(DType a, DType b) {
  switch (a) {
    case DType::f32: return llvm::Intrinsic::nvvm_mma_m16n8k8_row_col_tf32;
    case DType::f16: return llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32;
    case DType::bf16: return llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16;
    case DType::i8:
      return b == DType::i8 ? llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_s8 : llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_s8_u8;
    case DType::u8:
      return b == DType::u8 ? llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_u8 : llvm::Intrinsic::nvvm_mma_m16n8k32_row_col_u8_s8;
    default: internal_error("mma takes no " + std::string(name_of(a)));
  }
}

// One instruction: a [16, k] times b [k, 8], added to the four cells of the accumulator.
void NvptxEmitter::multiply(const loop::Mma& mma, const MmaTile& tile, int64_t i, int64_t j, const std::vector<llvm::Value*>& a,
                            const std::vector<llvm::Value*>& b) {
  llvm::Type* type = memory_type(mma.accumulator->dtype);
  const DType dtype = mma.a->dtype;
  llvm::Value* cells = buffers_.at(mma.accumulator->id);
  auto cell = [&](int64_t q) {
    return builder_.CreateConstInBoundsGEP1_64(
        type, cells,
        static_cast<uint64_t>(i * tile.row_stride + j * tile.column_stride + q / 2 * tile.half_stride + q % 2 * tile.pair_stride));
  };
  std::vector<llvm::Value*> args;
  auto operand = [&](llvm::Value* value) {
    return dtype == DType::f16 ? builder_.CreateBitCast(value, llvm::FixedVectorType::get(builder_.getHalfTy(), 2)) : value;
  };
  for (llvm::Value* value : a) args.push_back(operand(value));
  for (llvm::Value* value : b) args.push_back(operand(value));
  for (int64_t q = 0; q < 4; ++q) args.push_back(builder_.CreateLoad(type, cell(q)));
  llvm::Value* result = builder_.CreateIntrinsic(instruction_for(dtype, mma.b->dtype), {}, args);
  for (int64_t q = 0; q < 4; ++q) builder_.CreateStore(builder_.CreateExtractValue(result, static_cast<unsigned>(q)), cell(q));
}

void NvptxEmitter::emit(const loop::Mma& mma) {
  if (mma.async) return emit_async(mma);
  const MmaTile tile = mma_tile(mma);
  auto constant = [&](int64_t value) { return llvm::ConstantInt::getSigned(index_type_, value); };
  llvm::Value* this_lane = lane();
  llvm::Value* this_warp = warp();
  llvm::Value* m_base = digit_sum(*mma.accumulator->tile, TileDigit::Level::warp, 0, this_warp);
  llvm::Value* n_base = digit_sum(*mma.accumulator->tile, TileDigit::Level::warp, 1, this_warp);
  llvm::Value* low16 = builder_.CreateAnd(this_lane, constant(15));
  llvm::Value* upper = builder_.CreateLShr(this_lane, constant(4));
  llvm::Value* low8 = builder_.CreateAnd(this_lane, constant(7));
  llvm::Value* octet = builder_.CreateLShr(this_lane, constant(3));
  llvm::Value* quarter = builder_.CreateAnd(this_lane, constant(3));  // of a fragment: the element of k, and of the other side
  llvm::Value* fourth = builder_.CreateLShr(this_lane, constant(2));
  const bool turns = tile.element_bytes == 2;     // ldmatrix turns only elements of 16 bits
  const int64_t chunk = 16 / tile.element_bytes;  // elements in the 16 bytes that one lane names
  for (int64_t k = 0; k < mma.k; k += tile.step()) {
    std::vector<std::vector<llvm::Value*>> a, b;
    for (int64_t i = 0; i < tile.rows; ++i) {
      if (!mma.transpose_a) {  // lanes 0-15: rows at the first half of k; 16-31: at the second
        a.push_back(load_matrices(*mma.a, mma.a_from, {builder_.CreateAdd(m_base, low16), i * 16},
                                  {builder_.CreateMul(upper, constant(chunk)), k}, false));
      } else if (!turns) {
        a.push_back(load_turned_words(*mma.a, mma.a_from, {quarter, k}, {builder_.CreateAdd(m_base, fourth), i * 16}, false));
      } else {  // stored [k, m]: octets of lanes name (k low, m low), (k low, m high), (k high, m low), (k high, m high)
        llvm::Value* kk = builder_.CreateAdd(low8, builder_.CreateShl(builder_.CreateLShr(octet, constant(1)), constant(3)));
        llvm::Value* mm = builder_.CreateAdd(m_base, builder_.CreateShl(builder_.CreateAnd(octet, constant(1)), constant(3)));
        a.push_back(load_matrices(*mma.a, mma.a_from, {kk, k}, {mm, i * 16}, true));
      }
    }
    for (int64_t j = 0; j < tile.columns; j += 2) {
      if (!mma.transpose_b) {  // stored [n, k]: words n low k low, n high k low, n low k high, n high k high
        std::vector<llvm::Value*> w = load_matrices(*mma.b, mma.b_from, {builder_.CreateAdd(n_base, low16), j * 8},
                                                    {builder_.CreateMul(upper, constant(chunk)), k}, false);
        b.push_back({w[0], w[2]});
        b.push_back({w[1], w[3]});
      } else if (!turns) {
        std::vector<llvm::Value*> w =
            load_turned_words(*mma.b, mma.b_from, {quarter, k}, {builder_.CreateAdd(n_base, fourth), j * 8}, true);
        b.push_back({w[0], w[1]});
        b.push_back({w[2], w[3]});
      } else {  // stored [k, n]: words k low n low, k high n low, k low n high, k high n high
        std::vector<llvm::Value*> w = load_matrices(*mma.b, mma.b_from, {low16, k},
                                                    {builder_.CreateAdd(n_base, builder_.CreateShl(upper, constant(3))), j * 8}, true);
        b.push_back({w[0], w[1]});
        b.push_back({w[2], w[3]});
      }
    }
    for (int64_t i = 0; i < tile.rows; ++i) {
      for (int64_t j = 0; j < tile.columns; ++j) multiply(mma, tile, i, j, a[static_cast<size_t>(i)], b[static_cast<size_t>(j)]);
    }
  }
}

}  // namespace tcc::codegen
