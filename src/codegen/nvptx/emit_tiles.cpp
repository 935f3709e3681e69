// The copy engine and the mbarriers that count what it moves.
//
// Each stage of a pipe has two barriers. `full` completes a phase when the bytes of its copies are there; one thread, the issuer, says how many they are (the
// commit). `empty` completes a phase when each warp has released the stage. A stage is used once each time round the ring, so the parity of the round is the
// phase to wait for; the first time round, `empty` is waited for with the other parity, which a new barrier lets through.
#include <llvm/IR/Constants.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>

#include "codegen/nvptx/emitter.h"
#include "tcc/support/diagnostics.h"
#include "tcc/target/target.h"

namespace tcc::codegen {

namespace {

constexpr unsigned kCluster = 7;  // address space of the shared memory of a cluster's blocks, here that of the block itself
constexpr int64_t kBarrierBytes = 8;

llvm::Intrinsic::ID tile_intrinsic(size_t axes) {
  static constexpr llvm::Intrinsic::ID kByAxes[] = {
      llvm::Intrinsic::nvvm_cp_async_bulk_tensor_g2s_tile_1d, llvm::Intrinsic::nvvm_cp_async_bulk_tensor_g2s_tile_2d,
      llvm::Intrinsic::nvvm_cp_async_bulk_tensor_g2s_tile_3d, llvm::Intrinsic::nvvm_cp_async_bulk_tensor_g2s_tile_4d,
      llvm::Intrinsic::nvvm_cp_async_bulk_tensor_g2s_tile_5d};
  return kByAxes[axes - 1];
}

}  // namespace

bool NvptxEmitter::has_async_statements() const {
  bool found = false;
  loop::walk(kernel_.body, [&](const loop::Stmt& stmt) {
    const auto* pipe = std::get_if<loop::PipeDecl>(&stmt.node);
    const auto* mma = std::get_if<loop::Mma>(&stmt.node);
    found = found || std::holds_alternative<loop::Roles>(stmt.node) || (pipe && pipe->pipe->kind == loop::Pipe::Kind::mbarrier) ||
            (mma && mma->async);
  });
  return found;
}

// Once, where all threads are together.
void NvptxEmitter::elect() {
  uniform_warp_ = builder_.CreateIntrinsic(
      builder_.getInt32Ty(), llvm::Intrinsic::nvvm_shfl_sync_idx_i32,
      {builder_.getInt32(0xffffffffu), builder_.CreateTrunc(warp(), builder_.getInt32Ty()), builder_.getInt32(0), builder_.getInt32(31)});
  llvm::Value* elected = builder_.CreateIntrinsic(llvm::StructType::get(builder_.getInt32Ty(), builder_.getInt1Ty()),
                                                  llvm::Intrinsic::nvvm_elect_sync, {builder_.getInt32(0xffffffffu)});
  elected_lane_ = builder_.CreateExtractValue(elected, 1);
}

llvm::Value* NvptxEmitter::issuer() {
  return builder_.CreateAnd(builder_.CreateICmpEQ(uniform_warp_, builder_.getInt32(0)), elected_lane_);
}

// The warps that release the stages of a pipe: those of the role that does, or all.
int NvptxEmitter::releasing_warps(const loop::Pipe& pipe) const {
  int warps = kernel_.threads / 32;
  loop::walk(kernel_.body, [&](const loop::Stmt& stmt) {
    const auto* roles = std::get_if<loop::Roles>(&stmt.node);
    for (size_t i = 0; roles && i < roles->roles.size(); ++i) {
      loop::walk(roles->roles[i].body, [&](const loop::Stmt& inner) {
        const auto* op = std::get_if<loop::PipeOp>(&inner.node);
        if (op && op->pipe.get() == &pipe && op->kind == loop::PipeOp::Kind::release) warps = roles->roles[i].warps;
      });
    }
  });
  return warps;
}

// What the threads of all roles have together.
static int64_t registers_of(const loop::Roles& roles) {
  int64_t registers = 0;
  for (const loop::Role& role : roles.roles) registers += int64_t{32} * role.warps * role.registers;
  return registers;
}

// Registers of a thread when the kernel begins: an equal share, in eights.
int64_t NvptxEmitter::registers_at_start(const loop::Roles& roles) {
  int64_t threads = 0;
  for (const loop::Role& role : roles.roles) threads += 32 * role.warps;
  return registers_of(roles) / threads / 8 * 8;
}

// As many blocks on a multiprocessor as the registers of the roles allow: the assembler then gives a thread no more than its share.
int64_t NvptxEmitter::blocks_by_registers() const {
  int64_t blocks = 1;
  loop::walk(kernel_.body, [&](const loop::Stmt& stmt) {
    const auto* roles = std::get_if<loop::Roles>(&stmt.node);
    const int64_t registers = roles ? registers_of(*roles) : 0;
    if (registers > 0) blocks = std::max<int64_t>(Target::of(kernel_.target).multiprocessor_registers / registers, 1);
  });
  return blocks;
}

void NvptxEmitter::emit(const loop::Roles& roles) {
  const int64_t at_start = registers_at_start(roles);
  llvm::Value* warp_of_block = uniform_warp_;
  llvm::Value* thread_of_block = thread_;
  int first = 0;
  for (size_t i = 0; i < roles.roles.size(); ++i) {
    const loop::Role& role = roles.roles[i];
    llvm::Value* relative = builder_.CreateSub(warp_of_block, builder_.getInt32(static_cast<uint32_t>(first)));
    emit_if(
        builder_.CreateICmpULT(relative, builder_.getInt32(static_cast<uint32_t>(role.warps))),
        [&] {
          uniform_warp_ = relative;
          thread_ = builder_.CreateNUWSub(thread_of_block, llvm::ConstantInt::get(index_type_, static_cast<uint64_t>(32 * first)));
          team_threads_ = 32 * role.warps;
          team_barrier_ = static_cast<int>(i) + 1;
          if (role.registers > 0 && role.registers != at_start) {
            const llvm::Intrinsic::ID id = role.registers > at_start ? llvm::Intrinsic::nvvm_setmaxnreg_inc_sync_aligned_u32
                                                                     : llvm::Intrinsic::nvvm_setmaxnreg_dec_sync_aligned_u32;
            builder_.CreateIntrinsic(builder_.getVoidTy(), id, {builder_.getInt32(static_cast<uint32_t>(role.registers))});
          }
          emit_block(role.body);
        },
        nullptr);
    first += role.warps;
  }
  uniform_warp_ = warp_of_block;
  thread_ = thread_of_block;
  team_threads_ = kernel_.threads;
  team_barrier_ = 0;
}

void NvptxEmitter::declare_barriers(PipeState& state) {
  const auto warps = static_cast<uint32_t>(releasing_warps(*state.pipe));
  emit_if(
      issuer(),
      [&] {
        const int64_t first = shared_.pipe_barriers.at(state.pipe->id);
        for (int64_t i = 0; i < 2 * state.pipe->stages; ++i) {
          llvm::Value* barrier =
              builder_.CreateConstInBoundsGEP1_32(builder_.getInt8Ty(), shared_array_, static_cast<unsigned>(first + i * kBarrierBytes));
          builder_.CreateIntrinsic(builder_.getVoidTy(), llvm::Intrinsic::nvvm_mbarrier_init_shared,
                                   {barrier, builder_.getInt32(i % 2 == 0 ? 1 : warps)});
        }
        builder_.CreateIntrinsic(builder_.getVoidTy(), llvm::Intrinsic::nvvm_fence_mbarrier_init_release_cluster, {});
      },
      nullptr);
  barrier();
}

void NvptxEmitter::advance(const RingCursor& cursor, int stages) {
  llvm::Type* i32 = builder_.getInt32Ty();
  llvm::Value* next = builder_.CreateAdd(builder_.CreateLoad(i32, cursor.stage), builder_.getInt32(1));
  llvm::Value* wrapped = builder_.CreateICmpEQ(next, builder_.getInt32(static_cast<uint32_t>(stages)));
  builder_.CreateStore(builder_.CreateSelect(wrapped, builder_.getInt32(0), next), cursor.stage);
  llvm::Value* phase = builder_.CreateLoad(i32, cursor.phase);
  builder_.CreateStore(builder_.CreateXor(phase, builder_.CreateZExt(wrapped, i32)), cursor.phase);
}

llvm::Value* NvptxEmitter::barrier_of(const PipeState& state, const RingCursor& cursor, bool empty) {
  const int64_t first = shared_.pipe_barriers.at(state.pipe->id) + (empty ? kBarrierBytes : 0);
  llvm::Value* stage = builder_.CreateLoad(builder_.getInt32Ty(), cursor.stage);
  llvm::Value* offset = builder_.CreateAdd(builder_.CreateMul(stage, builder_.getInt32(static_cast<uint32_t>(2 * kBarrierBytes))),
                                           builder_.getInt32(static_cast<uint32_t>(first)));
  return builder_.CreateInBoundsGEP(builder_.getInt8Ty(), shared_array_, offset);
}

void NvptxEmitter::wait_barrier(llvm::Value* barrier, llvm::Value* phase) {
  auto* again = llvm::BasicBlock::Create(context_, "wait", function_);
  auto* done = llvm::BasicBlock::Create(context_, "there", function_);
  builder_.CreateBr(again);
  builder_.SetInsertPoint(again);
  llvm::Value* complete =
      builder_.CreateIntrinsic(builder_.getInt1Ty(), llvm::Intrinsic::nvvm_mbarrier_try_wait_parity_scope_cta_space_cta, {barrier, phase});
  builder_.CreateCondBr(complete, done, again);
  builder_.SetInsertPoint(done);
}

void NvptxEmitter::emit_barrier_op(PipeState& state, loop::PipeOp::Kind kind) {
  llvm::Type* i32 = builder_.getInt32Ty();
  const int stages = state.pipe->stages;
  switch (kind) {
    case loop::PipeOp::Kind::acquire:
      state.bytes = 0;
      emit_if(
          issuer(),
          [&] {
            llvm::Value* phase = builder_.CreateXor(builder_.CreateLoad(i32, state.fill.phase), builder_.getInt32(1));
            wait_barrier(barrier_of(state, state.fill, true), phase);
          },
          nullptr);
      return;
    case loop::PipeOp::Kind::commit:
      emit_if(
          issuer(),
          [&] {
            builder_.CreateIntrinsic(builder_.getInt64Ty(), llvm::Intrinsic::nvvm_mbarrier_arrive_expect_tx_scope_cta_space_cta,
                                     {barrier_of(state, state.fill, false), builder_.getInt32(static_cast<uint32_t>(state.bytes))});
          },
          nullptr);
      // What follows may be of all threads of a warp together.
      builder_.CreateIntrinsic(builder_.getVoidTy(), llvm::Intrinsic::nvvm_bar_warp_sync, {builder_.getInt32(0xffffffffu)});
      advance(state.fill, stages);
      return;
    case loop::PipeOp::Kind::wait:
      wait_barrier(barrier_of(state, state.wait, false), builder_.CreateLoad(i32, state.wait.phase));
      builder_.CreateStore(builder_.CreateLoad(i32, state.wait.stage), state.consume);
      advance(state.wait, stages);
      return;
    case loop::PipeOp::Kind::release:
      emit_if(
          elected_lane_,
          [&] {
            builder_.CreateIntrinsic(builder_.getInt64Ty(), llvm::Intrinsic::nvvm_mbarrier_arrive_scope_cta_space_cta,
                                     {barrier_of(state, state.free, true), builder_.getInt32(1)});
          },
          nullptr);
      advance(state.free, stages);
      return;
  }
}

void NvptxEmitter::emit_tiles(const loop::Copy& copy) {
  const loop::TensorCopy tiles = loop::tensor_copy(copy);
  PipeState& state = pipes_.at(pipe_of_buffer_.at(copy.destination->id));
  const auto number = std::find(maps_.begin(), maps_.end(), loop::tensor_map(kernel_, copy)) - maps_.begin();
  llvm::Value* of = function_->getArg(first_map_ + static_cast<unsigned>(number));
  llvm::Type* cluster = llvm::PointerType::get(context_, kCluster);
  emit_if(
      issuer(),
      [&] {
        for (int64_t panel = 0; panel < tiles.panels; ++panel) {
          llvm::Value* to = shared_pointer(*copy.destination, llvm::ConstantInt::get(index_type_, 0), 0, true);
          to = builder_.CreateConstInBoundsGEP1_32(builder_.getInt8Ty(), to, static_cast<unsigned>(panel * tiles.panel_bytes));
          std::vector<llvm::Value*> arguments{builder_.CreateAddrSpaceCast(to, cluster), barrier_of(state, state.fill, false), of};
          for (size_t axis = tiles.coordinates.size(); axis-- > 0;) {  // the innermost first
            const bool last = axis + 1 == tiles.coordinates.size();
            const loop::Index at = last ? tiles.coordinates[axis] + loop::Index(panel * tiles.map.box.back()) : tiles.coordinates[axis];
            arguments.push_back(builder_.CreateTrunc(emit_index(at), builder_.getInt32Ty()));
          }
          arguments.insert(arguments.end(), {builder_.getInt16(0), builder_.getInt64(0), builder_.getInt1(false), builder_.getInt1(false),
                                             builder_.getInt32(0)});
          builder_.CreateIntrinsic(builder_.getVoidTy(), tile_intrinsic(tiles.coordinates.size()), arguments);
        }
      },
      nullptr);
  state.bytes += tiles.panels * tiles.panel_bytes;
}

}  // namespace tcc::codegen
