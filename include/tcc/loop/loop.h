// The loop IR, in both forms. The first form says what a unit computes; the scheduled form says where each loop runs and where each buffer lives.
//
//   unit (%a: f32[R=8192, 8192]) -> (%b: f32[8192, 8192]) {          // first form: softmax
//     map %i in 8192 {
//       %m: f32 = reduce max %j in 8192 { %x: f32 = load %a[%i, %j];  yield %x }
//       %s: f32 = reduce sum %j1 in 8192 { %x1: f32 = load %a[%i, %j1];  yield exp(sub(%x1, %m)) }
//       map %j2 in 8192 { %x2: f32 = load %a[%i, %j2];  store div(exp(sub(%x2, %m)), %s), %b[%i, %j2] }
//     }
//   }
//
// Rules for all statements
// - Loops say what they are. `map`: iterations are independent and each element of a buffer is written by one iteration only. `for`: in order, with
//   state in buffers. `reduce`: state = combine(state, value), a monoid, any order (re-association is allowed for floats). `scan`: as reduce in order,
//   the running state visible in `after`.
// - A loop may have several dims: a perfect nest, the first outermost. `where`: iterations for which it is false are skipped (a reduce
//   skips the combine, whose value is then the identity).
// - Scalars are assigned once and seen by the statements after them in their block and by inner blocks.
// - Loads and stores are in bounds, except `load ... else c`, which gives c when any index is outside the buffer's extents (nothing is read then).
// - Arithmetic: each op works in the dtype of its operands (16-bit floats are cast to f32 by lowering before arithmetic, and back for stores), as in graph.h.
// - Buffers never alias, except parameters that the plan proves equal in place (same index read before written by the same iteration).
// - First form: every bind is `none`, spaces are `global` or (for allocs) `local`. Scheduled: every dim is bound, every alloc has a space.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tcc/loop/index.h"
#include "tcc/ops/combiner.h"
#include "tcc/ops/op.h"
#include "tcc/support/dtype.h"
#include "tcc/support/tensor.h"

namespace tcc::loop {

// ------------------------------------------------------------------------------------------------------------ buffers

/// Where a buffer lives. `local`: per iteration of the enclosing loops, place not chosen yet (first form). `registers`: per thread (CUDA) or stack
/// that LLVM promotes (CPU). `scratch`: host memory of one pool thread (CPU packing panels). `shared`: of a block.
enum class Space : uint8_t { global, local, registers, scratch, shared };

/// Byte-address permutation of a shared buffer: offset ^ (((offset >> (base + shift)) & (2^bits - 1)) << base). bits 0: none.
/// {3, 4, 3} is the 128-byte swizzle; {2, 4, 3} suits rows of 64 bytes.
struct Swizzle {
  int bits = 0, base = 4, shift = 3;
  bool operator==(const Swizzle&) const = default;
};

/// Layout of a register tile: a coordinate along an axis is the sum of digit * stride over the digits of that axis. Digits of one level are mixed-radix,
/// the last the fastest: register number, lane of the warp, warp of the block (later: warpgroup).
///   mma_d for m16n8: registers {axis 0 extent 2 stride 8}, {axis 1 extent 2 stride 1}; lanes {axis 0 extent 8 stride 1}, {axis 1 extent 4 stride 2}
struct TileDigit {
  enum class Level : uint8_t { reg, lane, warp };
  Level level;
  int axis;
  int64_t extent, stride;
  bool operator==(const TileDigit&) const = default;
};
struct TileLayout {
  std::vector<TileDigit> digits;
  bool operator==(const TileLayout&) const = default;
};

struct Buffer {
  int id = 0;
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;  ///< in elements; empty: row-major
  Space space = Space::global;
  Swizzle swizzle;  ///< shared only
  int64_t panel =
      0;  ///< shared only: that many elements of a row lie together, and the same part of all rows behind each other; 0: whole rows
  std::shared_ptr<const TileLayout> tile;  ///< registers only: a tile spread over the threads of a block; null: each thread its own copy...
  /// ...except that along these axes element k belongs to thread (lane) k: the index there is the variable bound to thread (lane, warp).
  std::vector<int> distributed;
  int64_t count() const;
  std::vector<int64_t> element_strides() const;  ///< strides, or row-major ones
  int64_t span() const;                          ///< elements from the first to the last one
  /// Elements behind the end of each row that belong to the buffer and hold nothing: a kernel may read and write anything there. Of parameters alone.
  int64_t row_padding() const;
  std::vector<int64_t> padded_extents() const;  ///< with the padding, as if it were elements
};
using BufferRef = std::shared_ptr<const Buffer>;
BufferRef make_buffer(std::string name, DType dtype, std::vector<int64_t> extents, Space space);
BufferRef make_buffer(Buffer prototype);  ///< fresh id
/// Of a kernel or unit, in global memory; `row_padding` as in Buffer.
BufferRef make_parameter(std::string name, DType dtype, std::vector<int64_t> extents, int64_t row_padding);

// -------------------------------------------------------------------------------------------------------- expressions

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;

struct Expr {
  enum class Kind : uint8_t { constant, index, scalar, load, op };
  Kind kind = Kind::constant;
  DType dtype = DType::f32;
  double float_value = 0;  ///< constant of float dtype
  int64_t int_value = 0;   ///< constant of integer or bool dtype
  Index index;             ///< index: its value as i64
  ScalarRef scalar;
  BufferRef buffer;  ///< load
  std::vector<Index> indices;
  ExprPtr otherwise;         ///< load ... else (null: in bounds always)
  Op op = Op::add_;          ///< op: a pointwise prim (cast and bitcast: to `dtype`; compares give boolean)
  bool approximate = false;  ///< op: an error of 2^-14 of the result is allowed, `approx.exp(...)` in the text
  std::vector<ExprPtr> args;
};
ExprPtr constant_float(DType dtype, double value);
ExprPtr constant_int(DType dtype, int64_t value);
ExprPtr zero_of(DType dtype);
ExprPtr index_value(const Index& index);  ///< i64
ExprPtr scalar_value(const ScalarRef& scalar);
ExprPtr load(const BufferRef& buffer, std::vector<Index> indices, ExprPtr otherwise = nullptr);
/// Checked: operand count and dtypes; result dtype derived. Folds constants of index and integer arithmetic only.
ExprPtr apply(Op op, std::vector<ExprPtr> args);
/// The op expression with other operands; a mark stays.
ExprPtr with_args(const Expr& op, std::vector<ExprPtr> args);
/// Functions with a form of less digits, good enough for a result that is rounded to 16 bits: exp, exp2, tanh, erf, rsqrt, computed in f32.
bool has_approximation(Op op);
ExprPtr approximated(const ExprPtr& op);                ///< marked; what has no approximation as it is
ExprPtr cast_to(const ExprPtr& value, DType dtype);     ///< value itself when it has that dtype
ExprPtr bitcast_to(const ExprPtr& value, DType dtype);  ///< the same bits; widths are equal
/// x, after a check: where `index` is not in [0, extent), `reported` (what the caller gave, before it was wrapped) becomes the bad index of check number
/// `site` of the unit, unless it has one; never 0, which is valid everywhere. Nothing else happens, so it may be done twice, early, or by several threads.
/// Where all is well it costs a branch that is not taken. All but x are i64.
ExprPtr check_index(const ExprPtr& x, const ExprPtr& index, const ExprPtr& reported, int64_t extent, int site);
/// low <= index < high as bool, `true` left out where ranges prove it; null when nothing is left to test.
ExprPtr in_range(const Index& index, int64_t low, int64_t high);
ExprPtr logical_and(const ExprPtr& a, const ExprPtr& b);  ///< null operands mean true
bool equal(const ExprPtr& a, const ExprPtr& b);

// --------------------------------------------------------------------------------------------------------- statements

/// Where the iterations of a dim run.
///   none     not chosen (first form)
///   serial, unroll, vector   one thread; vector: the lanes of SIMD registers (CPU) or one wide access (CUDA)
///   block    CUDA: digits of blockIdx.x, first dim slowest         parallel CPU: digits of the parallel item number, first dim slowest
///   thread   digits of threadIdx.x (all threads of the block); nested thread dims are mixed-radix, outermost slowest
///   warp, lane   digits of threadIdx.x / 32 and of threadIdx.x % 32. A kernel uses `thread` or `warp`/`lane`, not both
///   tile     the coordinates of the register tile named by Loop::tile
/// A thread (warp, lane) dim with an extent below the number available idles the rest. What stands outside of thread dims is executed by every thread alike.
/// digits_of (rewrite.h) says which part of the number each dim is.
enum class Bind : uint8_t { none, serial, unroll, vector, block, parallel, thread, warp, lane, tile };
std::string_view name_of(Bind bind);

struct Dim {
  VarRef var;
  Bind bind = Bind::none;
};

struct Stmt;
using Block = std::vector<Stmt>;

struct Loop {
  enum class Kind : uint8_t { map, for_ };
  Kind kind = Kind::map;
  std::vector<Dim> dims;
  ExprPtr where;
  BufferRef tile;  ///< with bind tile
  Block body;
};

/// How the states of a tuple combine when they are not independent (argmax, online softmax). `left` and `right` are bound in `body` and `results`.
struct Combine {
  std::vector<ScalarRef> left, right;
  Block body;  ///< lets only
  std::vector<ExprPtr> results;
};

struct State {
  ScalarRef result;                   ///< visible after the statement (in scans also within `after`)
  Combiner combiner = Combiner::sum;  ///< of independent states; not `assign`
  ExprPtr init;                       ///< null: the identity of the combiner; required with a custom Combine, whose identity it is
  ExprPtr value;                      ///< of one iteration, may use scalars of `body`
};

struct Reduce {
  std::vector<Dim> dims;
  ExprPtr where;
  BufferRef tile;  ///< with bind tile: the register tile whose columns the dim runs over, in a loop over a tile of its rows
  Block body;      ///< lets (and inner reduces) that the values use
  std::vector<State> states;
  std::shared_ptr<const Combine> combine;  ///< null: each state by its combiner
  /// Dims bound to lane/thread: the result is combined across them and every thread of the block (lane: of the warp) has it, idle ones too; within
  /// thread (lane) dims around, the threads that share their values have theirs. All threads of the block (warp) must come by.
};

struct Scan {
  std::vector<Dim> dims;
  Block body;
  std::vector<State> states;
  std::shared_ptr<const Combine> combine;
  bool exclusive = false;  ///< `after` sees the state before this iteration's value
  Block after;
};

struct Let {
  ScalarRef scalar;
  ExprPtr value;
};
struct Store {
  BufferRef buffer;
  std::vector<Index> indices;
  ExprPtr value;
};
/// buffer[indices] = combine(buffer[indices], value); iterations may collide (then in any order). combiner: sum, prod, max, min or assign.
/// Outside the extents nothing is written.
struct Scatter {
  BufferRef buffer;
  std::vector<Index> indices;
  Combiner combiner;
  ExprPtr value;
};
struct If {
  ExprPtr condition;
  Block then;
  Block otherwise;
};
/// Makes a buffer for the rest of the block. In first form at the top of a unit: a temporary between nests.
struct Alloc {
  BufferRef buffer;
};
struct Barrier {};  ///< all threads of the block

/// Elements moved by all threads of the block together, or by the copy engine: destination[to] = source[from] for all values of the variables of the box,
/// which `where`, `from` and `to` see. Where an index is outside the source's extents, or `where` is false, zero is written; the destination has room for
/// everything.
/// No element may be read by others before a barrier (of a pipe's buffer: the wait).
/// What a kind can do is asked by the verifier (faults_of in verify_collective.h), its meaning is the same.
struct Copy {
  /// plain: may convert, as a cast does, or compute `value`; async: cp.async; tma: one thread has the copy engine move a tile, by a tensor map. The last two are complete after
  /// the commit and wait of their pipe.
  enum class Kind : uint8_t { plain, async, tma };
  Kind kind = Kind::plain;
  std::vector<VarRef> box;  ///< the last one: neighbours of it are neighbours in both buffers where an access moves several
  ExprPtr where;            ///< null: always
  BufferRef source, destination;
  std::vector<Index> from, to;
  int vector_bytes = 4;  ///< of one access to the source, 4, 8 or 16 (async), 1 and 2 too (plain)
  ExprPtr
      value;  ///< what is stored, of the dtype of the destination, made of the load of `source` at `from` and others; null: that element
};

/// A ring of `stages` copies of each buffer, filled by copies and read by mma.
///   group     cp.async groups: a wait synchronises the block; at most one stage is held
///   mbarrier  two barriers in shared memory for each stage, `full` and `empty`: a wait is for the bytes of the stage alone, an acquire for its release by
///             all warps. Several stages may be held: reads are of the newest, a release gives back the oldest
struct Pipe {
  enum class Kind : uint8_t { group, mbarrier };
  int id = 0;
  std::string name;
  Kind kind = Kind::group;
  int stages = 1;
  std::vector<BufferRef> buffers;  ///< one stage of each; shared. A Copy or Mma that names one means the current stage of its side
};
using PipeRef = std::shared_ptr<const Pipe>;
PipeRef make_pipe(std::string name, Pipe::Kind kind, int stages, std::vector<BufferRef> buffers);
struct PipeDecl {
  PipeRef pipe;
};
/// acquire: the producer waits for a free stage; commit: its copies are grouped, producer moves on; wait: the consumer waits for the oldest
/// committed stage to be filled (for the whole block, which it synchronises like a barrier); release: the consumer gives it back and moves on.
/// An acquire of a `group` pipe does not synchronise: a wait or barrier stands between the release of a stage and its next acquire.
struct PipeOp {
  enum class Kind : uint8_t { acquire, commit, wait, release };
  Kind kind = Kind::acquire;
  PipeRef pipe;
};

/// accumulator[m, n] += sum over k of a[m, k] * b[k, n], by all warps of the block as the accumulator's tile layout says.
/// a: rows m, columns k of a shared buffer at `a_from` (transpose_a: stored [k, m]); b: stored [n, k] unless transpose_b says [k, n].
/// An asynchronous one is under way until an mma.wait says otherwise: nobody touches its accumulator or overwrites its operands before.
struct Mma {
  BufferRef accumulator, a, b;
  std::vector<Index> a_from, b_from;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool async = false;
  bool zero_first = false;         ///< asynchronous: the accumulator becomes the sum, whatever it held
  std::string shape = "m16n8k16";  ///< instruction, a row of Target::tensor_cores: m16n8k16 (f16, bf16), m64nNk16 (asynchronous)
};
/// Waits until at most `pending` asynchronous mma are under way, the newest ones. `accumulators`: those that may be touched from here on.
struct MmaWait {
  int pending = 0;
  std::vector<BufferRef> accumulators;
};

/// Warps of the block that do something of their own, beside the others.
struct Role {
  std::string name;
  int warps = 1;
  int registers = 0;  ///< of each thread, which the roles hand each other when they begin; 0: as many as the others
  Block body;
};
/// All warps of the block, in parts: the first `warps` of them are those of the first role, and so on. Within a role, `the block` of binds, layouts, barriers and
/// collective statements is its warps. Roles meet in pipes: one acquires and commits, one waits and releases.
struct Roles {
  std::vector<Role> roles;
};

struct Stmt {
  std::variant<Loop, Reduce, Scan, Let, Store, Scatter, If, Alloc, Barrier, Copy, PipeDecl, PipeOp, Mma, MmaWait, Roles> node;
};

// -------------------------------------------------------------------------------------------------------------- units

struct Param {
  BufferRef buffer;       ///< space global
  bool written = false;   ///< result; otherwise only read
  bool constant = false;  ///< of a unit: a weight that nothing changes and no other unit reads
};

/// One unit. Parameters: what is read, then what is written; names are canonical (%a0, %a1, ... %r0, ...), loops %i, %j, ..., so that units that compute
/// the same have the same text, whatever model they come from.
struct Unit {
  std::vector<Param> params;
  Block body;
};

/// One more than the largest number of a check_index; 0 when there is none. A kernel that has checks takes, behind its parameters, the address of that
/// many i64, the bad indices of its unit's checks: 0 where there is none.
int num_index_checks(const Block& body);

/// One launch's code: a top-level statement of a scheduled unit (with the allocs and lets it needs).
struct Kernel {
  std::string target;         ///< "sm_80", "sm_90a", "x86-64-v3", ...
  std::vector<Param> params;  ///< in the order of the launch's arguments; temporaries between kernels of a unit are among them
  int64_t grid = 1;           ///< product of the block (parallel) dims
  int threads = 1;            ///< CUDA: threads of a block
  int64_t shared_bytes = 0;
  Block body;
};

// --------------------------------------------------------------------------------------------------- text, checks, runs

std::string print(const Unit& unit);
std::string print(const Kernel& kernel, const std::string& name);  ///< `kernel #name target ... {`
std::string print(const Block& block, int indent);
std::string print(const Stmt& stmt);
std::string print(const ExprPtr& expr);
Unit parse_unit(std::string_view text, const std::string& file);
/// Parses what print(Kernel) wrote; the name goes to *name.
Kernel parse_kernel(std::string_view text, const std::string& file, std::string* name = nullptr);
bool equal(const Unit& a, const Unit& b, std::string* why = nullptr);  ///< by structure: names don't matter
bool equal(const Kernel& a, const Kernel& b, std::string* why = nullptr);

/// First form: scalars and buffers defined before use, dtypes agree, indices in bounds by range (or `else`/where), writes of a map disjoint where
/// that can be decided, nothing bound. Scheduled: every dim bound, binds legal for the target and nested rightly, extents of thread dims within the block,
/// spaces chosen, distributed axes indexed by their variable, barriers between shared writes and reads, pipes balanced, register and shared estimates.
std::vector<std::string> verify_first_form(const Unit& unit);
std::vector<std::string> verify_kernel(const Kernel& kernel);

/// Runs a unit: tensors for each parameter, in order; the written ones are filled (made when undefined, otherwise replaced by a written copy). Plain loops.
/// A scheduled unit runs with every bind a plain loop; barriers and mma within thread dims need a kernel.
/// Error (internal) on reads outside a buffer or of elements never written. `bad_indices` (null: not asked for): for each check the first bad index, or 0.
void interpret(const Unit& unit, std::vector<Tensor>& params, std::vector<int64_t>* bad_indices = nullptr);
/// Runs a scheduled kernel, all blocks and threads (in lock step, statement by statement), with a check of pipe states and of races on shared memory and between
/// blocks. Kernels with pipes run twice, the copies as early and as late as the pipe allows, and must give the same bits.
void interpret(const Kernel& kernel, std::vector<Tensor>& params, std::vector<int64_t>* bad_indices = nullptr);

// ------------------------------------------------------------------------------------------------------ rewriting help

/// Renames: replaces variables by indices, scalars by scalars or expressions, buffers by buffers, everywhere in a copy.
struct Substitution {
  std::function<std::optional<Index>(const VarRef&)> var;
  std::function<ExprPtr(const ScalarRef&)> scalar;    ///< null result: keep
  std::function<BufferRef(const BufferRef&)> buffer;  ///< null result: keep
};
ExprPtr substitute(const ExprPtr& expr, const Substitution& substitution);
Block substitute(const Block& block, const Substitution& substitution);
/// A copy of the block with fresh scalars, variables and local buffers for all that it defines. `names` gives suffixes that keep names unique.
Block clone_fresh(const Block& block, const std::function<std::string(const std::string&)>& rename);
/// Calls f on every statement (pre-order), on every expression.
void walk(const Block& block, const std::function<void(const Stmt&)>& f);
void walk_exprs(const Block& block, const std::function<void(const Expr&)>& f);

}  // namespace tcc::loop
