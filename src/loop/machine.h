// The machine that both interpreters run on: threads in lock step, each statement executed for all of them before the next. The first form is a machine of one
// thread on which every bind is a plain loop.
//
// What it checks while it runs: indices in bounds, no read of what was never written, no race on shared memory between two barriers or on global memory
// between two blocks, collective statements reached by all threads, and the state of every stage of every pipe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"
#include "tcc/ops/scalar.h"
#include "tcc/support/tensor.h"

namespace tcc::loop {

/// Elements with what is needed to check their use.
struct Memory {
  Tensor data;
  std::vector<uint8_t> defined;  ///< empty: all are
  struct Access {
    int64_t write_epoch = 0, write_tick = 0, read_epoch = 0;
    int writer = 0, reader = 0;  ///< thread, or kEveryone
    int64_t block = -1;          ///< that wrote it last
    /// Reads in reduces across lanes, which are done when the reduce ends: since which barrier, by which warp alone (-1: several), in which of its reduces last.
    int64_t exchange_epoch = 0, exchange = 0;
    int exchange_warp = -1;
  };
  std::vector<Access> accesses;  ///< empty: not checked
};

/// What a copy does to one element.
struct Move {
  bool zero = false;  ///< nothing is read
  std::vector<int64_t> from, to;
  ScalarValue value;  ///< of a copy that computes
};

/// One ring of stages. A stage goes free -> filling (acquire) -> committed (commit) -> ready (wait) -> free (release). Those of a pipe with mbarriers may be
/// ready side by side: the newest is read, the oldest is released.
struct Ring {
  enum class State { free, filling, committed, ready };
  struct Stage {
    State state = State::free;
    int64_t released_epoch = 0;
    std::vector<Memory> buffers;
    /// An async copy that has not landed.
    struct Pending {
      const Copy* copy;
      std::vector<Move> moves;
    };
    std::vector<Pending> pending;
  };
  PipeRef pipe;
  std::vector<Stage> stages;
  int64_t produced = 0, waited = 0, released = 0;  ///< how many stages have been committed, waited for, released
  Stage& at(int64_t number) { return stages[static_cast<size_t>(number) % stages.size()]; }
  Stage& producer() { return at(produced); }
  Stage& newest() { return at(waited - 1); }  ///< there is one when waited > released
};

/// An asynchronous mma that no wait has ended yet.
struct Flight {
  int team;  ///< first thread of the block or role that issued it
  const Buffer* accumulator;
  std::vector<const Buffer*> operands;     ///< those of no pipe
  std::vector<const Ring::Stage*> stages;  ///< that it reads
};

class RoleRunner;

/// The coordinates of a register tile, both ways, for one number of threads.
struct TilePlaces {
  int64_t registers = 0;
  std::vector<std::vector<std::vector<int64_t>>> coordinates;      ///< [thread][register]; threads beyond the layout hold nothing
  std::vector<std::unordered_map<int64_t, int64_t>> registers_at;  ///< [thread]: flat coordinate -> register
};

class Machine {
 public:
  struct Options {
    int threads = 1;
    bool lockstep = false;          ///< binds mean block, thread, ...; otherwise every dim is a plain loop
    bool copies_land_late = false;  ///< async copies arrive at the wait; otherwise at once
    bool last_role_first = false;   ///< of roles that can go on, the last one does; otherwise the first
    int64_t grid = 1;
    std::vector<int64_t>* bad_indices = nullptr;  ///< by the number of the check; null: not asked for
  };
  Machine(const Block& body, const std::vector<Param>& params, std::vector<Tensor>& tensors, Options options);
  void run();  ///< all blocks, one after the other

 private:
  friend class RoleRunner;
  using Threads = std::vector<int>;  ///< those that execute, increasing
  static constexpr int kEveryone = -2;

  void run(const Block& block, const Threads& active);
  void run(const Stmt& stmt, const Threads& active);
  void execute(const Loop& loop, const Threads& active);
  void execute(const Reduce& reduce, const Threads& active);
  void reduce_columns(const Reduce& reduce, const Threads& active);  ///< of a register tile
  /// What these threads have so far, each its own (empty: nothing), becomes the result of all of them.
  void join_partials(const Reduce& reduce, const Threads& threads, const std::vector<std::vector<ScalarValue>>& partials);
  void execute(const Scan& scan, const Threads& active);
  void execute(const Let& let, const Threads& active);
  void execute(const Store& store, const Threads& active);
  void execute(const Scatter& scatter, const Threads& active);
  void execute(const If& branch, const Threads& active);
  void execute(const Alloc& alloc, const Threads& active);
  void execute(const Barrier& barrier, const Threads& active);
  void execute(const Copy& copy, const Threads& active);
  void execute(const PipeDecl& decl, const Threads& active);
  void execute(const PipeOp& op, const Threads& active);
  void execute(const Mma& mma, const Threads& active);
  void execute(const MmaWait& wait, const Threads& active);
  void execute(const Roles& roles, const Threads& active);  ///< machine_roles.cpp

  /// Calls leaf(threads) for each iteration of dims[at...], with the variables set.
  template <class F> void iterate(const std::vector<Dim>& dims, size_t at, const BufferRef& tile, const Threads& active, F leaf);
  /// Calls f with the threads for which the condition holds.
  template <class F> void where(const ExprPtr& condition, const Threads& active, F f) {
    if (condition) f(filter(condition, active));
    else f(active);
  }
  Threads filter(const ExprPtr& condition, const Threads& active);
  void collective(const Threads& active, const char* what);
  int number(Bind bind, int thread) const;

  // Values.
  int64_t& var(const Var* v, int thread) { return vars_[slot(v->id) * width_ + static_cast<size_t>(thread)]; }
  ScalarValue& scalar(const Scalar* s, int thread) { return scalars_[slot(s->id) * width_ + static_cast<size_t>(thread)]; }
  static constexpr size_t kNowhere = static_cast<size_t>(-1);
  /// Ids are numbered densely. What the body does not define has no slot: that is a fault of the pass that made the body.
  size_t slot(int id) const {
    const size_t at = static_cast<size_t>(id - first_id_);
    if (at >= slots_.size() || slots_[at] == kNowhere) fail("a variable or scalar that nothing defines");
    return slots_[at];
  }
  size_t slot(const Buffer& buffer) const {
    const size_t at = static_cast<size_t>(buffer.id - first_buffer_id_);
    if (at >= buffer_slots_.size() || buffer_slots_[at] == kNowhere) fail("%" + buffer.name + " is neither a parameter nor allocated");
    return buffer_slots_[at];
  }
  int64_t evaluate(const Index& index, int thread);
  ScalarValue evaluate(const ExprPtr& expr, int thread);
  ScalarValue check_index(const Expr& check, int thread);
  /// left = left and right joined.
  void combine(const std::vector<State>& states, const Combine* combine, std::vector<ScalarValue>& left,
               const std::vector<ScalarValue>& right, int thread);
  std::vector<ScalarValue> initial(const std::vector<State>& states, int thread);

  // Memory.
  Memory make_memory(const Buffer& buffer, int64_t elements, bool checked) const;
  Memory& memory(const BufferRef& buffer, int thread, bool write);
  /// The element's offset in its memory; -1 when outside the extents.
  int64_t offset(const Buffer& buffer, const int64_t* indices, int thread);
  ScalarValue read(const BufferRef& buffer, const int64_t* indices, int thread);
  void write(const BufferRef& buffer, const int64_t* indices, ScalarValue value, int thread);
  ScalarValue get(const Memory& memory, int64_t at, DType dtype) const;
  void set(Memory& memory, int64_t at, DType dtype, ScalarValue value);
  void note_read(const BufferRef& buffer, Memory& memory, int64_t at, int thread);
  void note_write(const BufferRef& buffer, Memory& memory, int64_t at, int thread, bool same_value);
  std::vector<Move> moves_of(const Copy& copy, int thread);
  void move(const Copy& copy, const std::vector<Move>& moves, Memory& source, Memory& destination);
  /// Lets other roles go on until the condition holds; fails with the message when none can, or there are no roles.
  void until(const std::function<bool()>& holds, const std::string& message);
  void acquire(Ring& ring);
  void wait(Ring& ring);
  void release(Ring& ring);
  /// No asynchronous mma may be under way that adds to the buffer, or reads it where it is written now.
  void require_landed(const Buffer& buffer, bool write) const;
  Memory gathered(const BufferRef& tile, const Threads& active);  ///< a register tile as a whole, row by row
  void take_off(const Mma& mma);                                  ///< the asynchronous mma is under way from here on
  const TilePlaces& places(const Buffer& buffer);

  [[noreturn]] void fail(const std::string& message) const;
  static std::string element(const Buffer& buffer, const int64_t* indices);

  const Block& body_;
  Options options_;
  size_t width_;
  /// The threads that are `the block` for the statements that are executed: all, or those of a role.
  size_t team_width_;
  int team_first_ = 0;
  int first_id_ = 0;
  std::vector<size_t> slots_;
  std::vector<int64_t> vars_;
  std::vector<ScalarValue> scalars_;
  std::map<const Var*, Digit> digits_;
  struct Home {
    std::vector<Memory> memories;  ///< one, or one for each thread
    Ring* ring = nullptr;          ///< or a buffer of a pipe: which
    size_t index = 0;
  };
  int first_buffer_id_ = 0;
  std::vector<size_t> buffer_slots_;
  std::vector<Home> homes_;
  std::map<const Pipe*, Ring> rings_;
  std::vector<Flight> flights_;                                     ///< the oldest first
  const Var* row_ = nullptr;                                        ///< of the loop over the rows of a tile that is executed
  RoleRunner* runner_ = nullptr;                                    ///< within roles
  int64_t progress_ = 0;                                            ///< counts what others may have waited for
  std::map<std::pair<const TileLayout*, int>, TilePlaces> places_;  ///< for the team that begins at a thread
  const std::vector<Param>& params_;
  std::vector<Tensor>& tensors_;
  const Stmt* current_ = nullptr;
  int64_t block_ = 0, epoch_ = 1, tick_ = 0;
  bool in_exchange_ = false;        ///< in a reduce across lanes
  std::vector<int64_t> exchanges_;  ///< of each warp: how many of them have ended
  int bound_depth_ = 0;             ///< plain loops around that stand for threads
};

}  // namespace tcc::loop
