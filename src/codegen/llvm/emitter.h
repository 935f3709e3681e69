// Scheduled loop IR to LLVM IR: what both targets share. A target adds where loops run (block and thread numbers, the pool's items), how states
// combine across threads, and its own statements (copies, pipes, mma).
//
// Lanes. Inside a dim bound to `vector` of extent W every expression is either uniform (a scalar) or varies by lane (a vector of W); operands are splatted
// where the two meet. Where a condition varies by lane, `mask_` holds it and loads, stores and reduces obey it; a uniform condition is a branch.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "tcc/codegen/codegen.h"
#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"

namespace tcc::codegen {

class Emitter {
 public:
  Emitter(llvm::Module& module, const loop::Kernel& kernel, unsigned index_bits);
  virtual ~Emitter() = default;

 protected:
  using Body = std::function<void()>;

  // ---- what a target provides
  /// Digits of the dims bound to block, threads, thread, warp and lane: binds their variables, then calls body (guarded where threads idle).
  virtual void emit_parallel_dims(const std::vector<loop::Dim>& dims, const Body& body) = 0;
  /// Binds dims of one level as the digits of the number of the block, item or thread that loop::digits_of says; gives whether this number has an
  /// iteration here, null where all of the `available` ones do.
  llvm::Value* bind_digits(const std::vector<loop::Dim>& dims, llvm::Value* number, int64_t available);
  /// Combines per-thread partial states across the lanes or threads that `dims` name; every participating thread gets the results.
  virtual void combine_across(const loop::Reduce& reduce, const std::vector<loop::Dim>& dims, std::vector<llvm::Value*>& states) = 0;
  virtual void emit_tile_loop(const loop::Loop& loop) = 0;
  virtual void emit_tile_reduce(const loop::Reduce& reduce) = 0;  ///< over the columns of a register tile
  // Statements of all threads of a block.
  virtual void emit(const loop::Barrier& barrier) = 0;
  virtual void emit(const loop::Copy& copy) = 0;
  virtual void emit(const loop::PipeDecl& declaration) = 0;
  virtual void emit(const loop::PipeOp& operation) = 0;
  virtual void emit(const loop::Mma& mma) = 0;
  virtual void emit(const loop::MmaWait& wait) = 0;
  virtual void emit(const loop::Roles& roles) = 0;
  virtual llvm::Value* allocate(const loop::Buffer& buffer) = 0;  ///< shared and scratch
  /// The register slot of a tile buffer inside a tile loop.
  virtual llvm::Value* tile_slot(const loop::Buffer& buffer, const std::vector<loop::Index>& indices);
  /// What the addresses of parameters are multiples of, in bytes, where that is more than the size of their elements.
  virtual uint64_t parameter_alignment() const = 0;
  virtual bool has_masked_memory() const = 0;
  virtual bool has_nan_extremes() const = 0;  ///< one instruction for the larger of two f32 that keeps NaN and orders the zeros
  /// A function of f32 that the kernel marks as approximate. Null: the target has nothing better than the exact form.
  virtual llvm::Value* emit_approximate(Op, const std::vector<llvm::Value*>&) { return nullptr; }
  virtual bool divides_narrow_vectors() const { return true; }  ///< vectors of integers of 16 bits and less
  virtual bool converts_by_bits() const { return false; }  ///< integers of 4 bits become floats faster by their bits than by a conversion
  virtual bool has_bf16_conversions() const = 0;           ///< else bf16 is rounded by integer arithmetic

  // ---- statements
  void emit_block(const loop::Block& block);
  void emit_stmt(const loop::Stmt& stmt);
  void emit(const loop::Loop& loop);
  void emit(const loop::Reduce& reduce);
  void emit(const loop::Scan& scan);
  void emit(const loop::Let& let);
  void emit(const loop::Store& store);
  void emit(const loop::Scatter& scatter);
  void emit(const loop::If& branch);
  void emit(const loop::Alloc& alloc);
  llvm::Value* emit_check_index(const loop::Expr& expr);
  llvm::Value* in_bounds(const loop::Buffer& buffer, const std::vector<loop::Index>& indices);       ///< null: always
  void emit_if(llvm::Value* condition, const Body& then, const Body& otherwise, bool rare = false);  ///< rare: `then` is hardly ever run
  /// serial, unroll and vector dims from `first` on; then body.
  void emit_dims(const std::vector<loop::Dim>& dims, size_t first, const Body& body);
  /// The body under one more mask. `expr`: what the condition was, null for its opposite.
  void emit_masked(llvm::Value* condition, const loop::ExprPtr& expr, const Body& body);
  void emit_where(const loop::ExprPtr& where, const Body& body);
  void emit_counted_loop(int64_t extent, const std::function<void(llvm::Value*)>& body);

  // ---- reductions
  llvm::Value* identity(Combiner combiner, llvm::Type* type, DType dtype);
  llvm::Value* combine(Combiner combiner, DType dtype, llvm::Value* a, llvm::Value* b);
  struct Partials {
    int64_t lanes = 1;
    std::vector<llvm::Type*> types;                     ///< of each state
    std::vector<std::vector<llvm::AllocaInst*>> cells;  ///< of each copy, for each state
  };
  Partials make_partials(const loop::Reduce& reduce, const std::vector<loop::Dim>& dims);
  void accumulate(const loop::Reduce& reduce, const std::vector<loop::Dim>& dims, const Partials& partials);
  void join_lanes(const loop::Reduce& reduce, std::vector<llvm::Value*>& totals, int64_t lanes);
  void publish(const loop::Reduce& reduce, std::vector<llvm::Value*> totals);  ///< as the results, with the initial values
  /// The states of `left` and `right` combined, by the custom Combine or each by its combiner.
  std::vector<llvm::Value*> combine_states(const std::vector<loop::State>& states, const loop::Combine* custom,
                                           const std::vector<llvm::Value*>& left, const std::vector<llvm::Value*>& right);

  // ---- expressions
  static bool is_float8(DType dtype) { return is_float(dtype) && size_bits(dtype) == 8; }
  llvm::Value* emit_expr(const loop::ExprPtr& expr);
  llvm::Value* emit_load(const loop::Expr& expr);
  llvm::Value* emit_op(const loop::Expr& expr);
  llvm::Value* emit_cast(llvm::Value* value, DType from, DType to);
  llvm::Value* float8_to_float(llvm::Value* value, DType from);  ///< emit_float8.cpp; 8-bit floats are integers in registers
  llvm::Value* float_to_float8(llvm::Value* value, DType to);
  llvm::Value* emit_marked(const loop::Expr& expr, DType dtype, const std::vector<llvm::Value*>& args);
  llvm::Value* emit_arithmetic(Op op, DType dtype, const std::vector<llvm::Value*>& args);
  llvm::Value* emit_integer_arithmetic(Op op, DType dtype, const std::vector<llvm::Value*>& args);
  llvm::Value* emit_division(bool remainder, bool is_signed, llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_integer_pow(llvm::Value* a, llvm::Value* b, bool is_signed);
  llvm::Value* emit_shift(bool left, llvm::Value* a, llvm::Value* b, bool is_signed);
  llvm::Value* emit_float_arithmetic(Op op, const std::vector<llvm::Value*>& args);
  llvm::Value* emit_extreme(bool largest, llvm::Value* a, llvm::Value* b);  ///< of floats

  // ---- indices
  llvm::Value* emit_index(const loop::Index& index);
  /// An index without its constant part, which is added to `behind`; null where that is all.
  llvm::Value* emit_terms(const loop::Index& index, int64_t* behind);
  loop::Index flat_index(const loop::Buffer& buffer, const std::vector<loop::Index>& indices) const;
  /// A reference to memory: scalar base offset plus a stride per lane, or a vector of offsets.
  struct Address {
    llvm::Value* base = nullptr;  ///< scalar offset in elements, lane 0
    int64_t behind = 0;           ///< and a constant number of elements more
    int64_t lane_stride = 0;
    llvm::Value* offsets = nullptr;  ///< vector of offsets instead
    int64_t alignment = 1;           ///< of the base, in elements (a power of two)
  };
  Address address_of(const loop::Buffer& buffer, const std::vector<loop::Index>& indices);
  int64_t alignment_of(const loop::Index& index) const;
  llvm::Align alignment_at(const loop::Buffer& buffer, const Address& address) const;
  /// Of the element a constant number of them behind `offset`.
  virtual llvm::Value* element_pointer(const loop::Buffer& buffer, llvm::Value* offset, int64_t behind);
  /// Where `active` doesn't hold, some element of the buffer.
  llvm::Value* lane_pointer(const loop::Buffer& buffer, const Address& address, unsigned lane, llvm::Value* active = nullptr);
  llvm::Value* load_from(const loop::Buffer& buffer, const Address& address, llvm::Value* mask, llvm::Value* passthrough);
  llvm::Value* lane_offset(const Address& address, unsigned lane);  ///< in elements
  /// Whether the lanes are a piece of one row, the padding behind it included: where one of them exists, all of them may be touched.
  bool is_piece_of_row(const loop::Buffer& buffer, const Address& address) const;
  /// Whether all lanes for which the mask does not hold, where it holds for the first one, lie in the padding behind a row.
  bool masks_padding_alone(const loop::Buffer& buffer, const std::vector<loop::Index>& indices);

  // ---- emit_packed.cpp: two 4-bit elements a byte, in buffers that others see
  static bool is_packed(const loop::Buffer& buffer) { return size_bits(buffer.dtype) < 8 && buffer.space == loop::Space::global; }
  llvm::Value* unpack_words(llvm::Value* words, unsigned lanes, DType dtype);
  llvm::Value* nibbles_to_float(llvm::Value* value, DType dtype);
  llvm::Value* load_neighbours(const loop::Buffer& buffer, const Address& address, unsigned each, llvm::Value* mask);
  llvm::Value* load_packed(const loop::Buffer& buffer, const Address& address, llvm::Value* mask);
  llvm::Value* load_every_second(const loop::Buffer& buffer, const Address& address, llvm::Value* mask);
  void store_packed(const loop::Buffer& buffer, const Address& address, llvm::Value* value);

  // ---- types and lanes
  llvm::Type* register_type(
      DType dtype);                      ///< of a scalar in a register: bool is i1; 8-bit floats, and bf16 on some targets, are their bits
  llvm::Type* memory_type(DType dtype);  ///< bool and 4-bit integers are i8
  llvm::Value* from_memory(llvm::Value* value, DType dtype);
  llvm::Value* to_memory(llvm::Value* value, DType dtype);
  static bool varies(const llvm::Value* value) { return value->getType()->isVectorTy(); }
  llvm::Value* splat(llvm::Value* value, llvm::ElementCount lanes);
  llvm::Value* widen(llvm::Value* value);  ///< to the current number of lanes
  void unify(std::vector<llvm::Value*>& values);
  llvm::AllocaInst* make_alloca(llvm::Type* type, int64_t count, unsigned alignment);
  [[noreturn]] void fail(const std::string& message) const;

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> builder_;
  const loop::Kernel& kernel_;
  const std::map<const loop::Var*, loop::Digit> digits_;
  llvm::Function* function_ = nullptr;
  llvm::Type* index_type_;
  unsigned loop_depth_ = 0;  ///< serial loops around this point

  std::unordered_map<const loop::Var*, llvm::Value*> vars_;
  std::unordered_map<const loop::Var*, int64_t>
      multiples_;  ///< what the value of a variable is a multiple of, where that is known here (0: it is 0)
  std::unordered_map<const loop::Scalar*, llvm::Value*> scalars_;
  std::unordered_map<int, llvm::Value*> buffers_;  ///< by Buffer::id: base pointer
  const loop::Var* lane_var_ = nullptr;
  unsigned lanes_ = 1;
  llvm::Value* mask_ = nullptr;
  std::vector<loop::ExprPtr> mask_conditions_;  ///< what mask_ says, all of it; null: something that is no expression
  llvm::Value* check_slots_ = nullptr;          ///< where bad indices are reported; null in a kernel without checks
};

}  // namespace tcc::codegen
