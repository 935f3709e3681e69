// Scheduled loops to NVPTX. Block dims are digits of blockIdx.x; thread, warp and lane dims digits of threadIdx.x.
#pragma once

#include "codegen/llvm/emitter.h"
#include "tcc/loop/shared_memory.h"
#include "tcc/loop/tensor_map.h"

namespace tcc::codegen {

/// What kernels rely on for the address of each argument, in bytes: the launcher checks tensors of callers (io_alignment), the plan what it places.
inline constexpr uint64_t kParameterAlignment = 16;

class NvptxEmitter final : public Emitter {
 public:
  NvptxEmitter(llvm::Module& module, const loop::Kernel& kernel);
  void emit_function(const std::string& name);

 protected:
  uint64_t parameter_alignment() const override { return kParameterAlignment; }
  bool has_masked_memory() const override { return false; }
  bool has_nan_extremes() const override { return true; }
  llvm::Value* emit_approximate(Op op, const std::vector<llvm::Value*>& args) override;
  bool divides_narrow_vectors() const override { return false; }  // LLVM has no code for them where the divisor of a lane is 1
  bool has_bf16_conversions() const override { return true; }
  bool converts_by_bits() const override { return true; }  // conversions have half the rate of additions
  void emit_parallel_dims(const std::vector<loop::Dim>& dims, const Body& body) override;
  void combine_across(const loop::Reduce& reduce, const std::vector<loop::Dim>& dims, std::vector<llvm::Value*>& states) override;
  void emit_tile_loop(const loop::Loop& loop) override;
  void emit_tile_reduce(const loop::Reduce& reduce) override;
  using Emitter::emit;
  void emit(const loop::Barrier& barrier) override;
  void emit(const loop::Copy& copy) override;  ///< emit_copy.cpp, with the pipes
  void emit(const loop::PipeDecl& declaration) override;
  void emit(const loop::PipeOp& operation) override;
  void emit(const loop::Mma& mma) override;  ///< emit_mma.cpp
  void emit(const loop::MmaWait& wait) override;
  void emit(const loop::Roles& roles) override;  ///< emit_tiles.cpp
  llvm::Value* allocate(const loop::Buffer& buffer) override;
  llvm::Value* tile_slot(const loop::Buffer& buffer, const std::vector<loop::Index>& indices) override;
  llvm::Value* element_pointer(const loop::Buffer& buffer, llvm::Value* offset, int64_t behind) override;

 private:
  // ---- threads
  llvm::Value* special_register(llvm::Intrinsic::ID id, int64_t limit);
  llvm::Value* thread() { return thread_; }
  llvm::Value* lane();
  llvm::Value* warp();
  void barrier();
  llvm::Value* shuffle_xor(llvm::Value* value, int offset);
  /// `lanes`: of neighbours that combine, a power of two.
  void combine_lanes(const loop::Reduce& reduce, std::vector<llvm::Value*>& states, int64_t lanes);

  // ---- shared memory: byte offsets, pipes' stages, swizzles
  llvm::Value* shared_base(const loop::Buffer& buffer, bool producing);
  uint32_t shared_offset(const loop::Buffer& buffer) const;
  llvm::Value* shared_stage(const loop::Buffer& buffer, bool producing);
  llvm::Value* swizzled(const loop::Buffer& buffer, llvm::Value* byte_offset);
  /// Of the element a constant number of them behind `element_offset`.
  llvm::Value* shared_pointer(const loop::Buffer& buffer, llvm::Value* element_offset, int64_t behind, bool producing);

  // ---- emit_copy.cpp: a box in chunks of `vector` elements, numbered along the variables that have several values
  struct CopyShape {
    int64_t vector = 1, chunks = 1;
    std::vector<loop::VarRef> vars;
    std::vector<int64_t> extents;  ///< in chunks
  };
  CopyShape copy_shape(const loop::Copy& copy) const;
  std::vector<llvm::Value*> chunk_coordinates(const CopyShape& shape, llvm::Value* chunk);
  void emit_chunk(const loop::Copy& copy, const CopyShape& shape, const std::vector<llvm::Value*>& coordinates,
                  const std::vector<int64_t>& added);
  llvm::Value* emit_in_box(const loop::Index& index, const CopyShape& shape, const std::vector<llvm::Value*>& coordinates,
                           const std::vector<int64_t>& added, int64_t* behind);
  llvm::Value* is_copied(const loop::Copy& copy, const CopyShape& shape, const std::vector<llvm::Value*>& coordinates,
                         const std::vector<int64_t>& added);
  /// A store of a copy without cp.async into a stage: it may wait for the commit, so that the load before it has time.
  struct LateStore {
    llvm::Value *value, *target;
    llvm::Align alignment;
  };
  std::vector<LateStore> late_stores_;
  bool stores_late_ = false;  ///< of the chunks being emitted
  void place_in_box(const loop::Copy& copy, const CopyShape& shape, const std::vector<llvm::Value*>& coordinates,
                    const std::vector<int64_t>& added);
  llvm::Value* compute_chunk(const loop::Copy& copy, const CopyShape& shape, llvm::Value* loaded, llvm::Value* inside);
  void move_chunk(const loop::Copy& copy, const CopyShape& shape, llvm::Value* origin, llvm::Value* target, llvm::Value* inside);

  // ---- emit_mma.cpp
  struct MmaTile {
    int64_t element_bytes = 2;
    int64_t rows = 1, columns = 1;  ///< instructions of a warp
    int64_t row_stride = 0, column_stride = 0, half_stride = 0, pair_stride = 0;
    int64_t step() const { return 32 / element_bytes; }  ///< k of one instruction
  };
  MmaTile mma_tile(const loop::Mma& mma) const;
  /// A row or a column of an operand: what lane and warp say, and a constant.
  struct MatrixIndex {
    llvm::Value* thread;
    int64_t constant;
  };
  /// Of an operand's matrix that begins at `origin`: the offset in elements, and what is constant in it.
  std::pair<llvm::Value*, int64_t> offset_in_matrix(const loop::Buffer& buffer, const std::vector<loop::Index>& origin,
                                                    const MatrixIndex& row, const MatrixIndex& column);
  std::vector<llvm::Value*> load_matrices(const loop::Buffer& buffer, const std::vector<loop::Index>& origin, const MatrixIndex& row,
                                          const MatrixIndex& column, bool transposed);
  llvm::Value* round_to_tf32(llvm::Value* value);
  std::vector<llvm::Value*> load_turned_words(const loop::Buffer& buffer, const std::vector<loop::Index>& origin, const MatrixIndex& k,
                                              const MatrixIndex& other, bool k_faster);
  void multiply(const loop::Mma& mma, const MmaTile& tile, int64_t i, int64_t j, const std::vector<llvm::Value*>& a,
                const std::vector<llvm::Value*>& b);
  std::pair<std::vector<llvm::Value*>, std::vector<int64_t>> tile_origin(const loop::Loop& loop);
  void emit_register(const loop::Loop& loop, int64_t number, const std::vector<llvm::Value*>& origin,
                     const std::vector<int64_t>& multiples);
  void emit_rolled(const loop::Loop& loop, int64_t iterations, const std::function<void(llvm::Value* iteration)>& body);
  llvm::Value* digit_sum(const loop::TileLayout& layout, loop::TileDigit::Level level, int axis, llvm::Value* number);

  // ---- emit_wgmma.cpp
  struct WarpgroupTile {
    int64_t groups_m = 1, groups_n = 1;
    int64_t rows = 64, columns = 8;  ///< of one group
  };
  void emit_async(const loop::Mma& mma);
  void pin(const loop::Buffer& tile);
  void pin(llvm::Type* type, llvm::Value* held, int64_t registers);
  llvm::Value* descriptor(const loop::Buffer& buffer, bool k_first, int64_t k_extent, llvm::Value* begin);
  void multiply_async(const loop::Mma& mma, int64_t columns, int64_t first_register, const std::vector<llvm::Value*>& a, llvm::Value* b,
                      bool adds);
  /// An operand in registers, as words that instructions take.
  struct Words {
    int64_t count = 0;
    llvm::Value* held = nullptr;
  };
  Words words_of(const loop::Buffer& operand);
  std::vector<Words> read_words_;  ///< by asynchronous mma under way
  // ---- emit_tiles.cpp: pipes with mbarriers and the copy engine
  /// Stages one after the other; which time round the ring it is says the phase of a stage's barriers.
  struct RingCursor {
    llvm::AllocaInst* stage;
    llvm::AllocaInst* phase;
  };
  struct PipeState {
    const loop::Pipe* pipe;
    llvm::AllocaInst* produce;    ///< stage that copies fill next
    llvm::AllocaInst* consume;    ///< stage that mma and loads read
    llvm::AllocaInst* in_flight;  ///< committed and not yet waited for; of groups
    RingCursor fill, wait, free;  ///< of mbarriers: the next to be committed, waited for, released
    int64_t bytes = 0;            ///< of mbarriers: copied since the acquire
  };
  int releasing_warps(const loop::Pipe& pipe) const;
  static int64_t registers_at_start(const loop::Roles& roles);
  int64_t blocks_by_registers() const;
  void declare_barriers(PipeState& state);
  void emit_barrier_op(PipeState& state, loop::PipeOp::Kind kind);
  void advance(const RingCursor& cursor, int stages);
  llvm::Value* barrier_of(const PipeState& state, const RingCursor& cursor, bool empty);
  void wait_barrier(llvm::Value* barrier, llvm::Value* phase);
  void emit_tiles(const loop::Copy& copy);
  bool has_async_statements() const;
  void elect();
  llvm::Value* issuer();  ///< whether this is the one thread of the block that drives the copy engine
  loop::SharedLayout shared_;
  llvm::GlobalVariable* shared_array_ = nullptr;
  llvm::Value* thread_ = nullptr;
  llvm::Value* block_ = nullptr;
  int team_threads_;                               ///< of the block, or of the role that is emitted
  int team_barrier_ = 0;                           ///< number of its barrier
  llvm::Value* uniform_warp_ = nullptr;            ///< one value for the warp; made at the entry when a kernel has asynchronous statements
  llvm::Value* elected_lane_ = nullptr;            ///< the same: one lane of each warp
  std::vector<loop::TensorMap> maps_;              ///< parameters behind the others
  unsigned first_map_ = 0;                         ///< number of the first of them
  std::unordered_map<int, int> pipe_of_buffer_;    ///< Pipe::id by Buffer::id
  std::unordered_map<int, PipeState> pipes_;       ///< by Pipe::id
  const loop::TileLayout* tile_layout_ = nullptr;  ///< inside a tile loop
  int64_t tile_register_ = 0;
  bool reduced_before_ = false;
};

/// Writes integer negations that a minimum or maximum reads so that ptxas keeps them (guard_negations.cpp).
void guard_negations(llvm::Module& module);

}  // namespace tcc::codegen
