// What has to come between what: a barrier (or the wait of a pipe, or a reduce across the block) between accesses of a shared buffer by different threads, and
// acquire, copies, commit, wait, reads, release in this order for each pipe.
//
// By text, without values: a thread that reads with the very indices that it wrote with is taken to read its own elements. The interpreter knows the rest.
#include "loop/verify_order.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tcc/loop/fields.h"
#include "tcc/loop/rewrite.h"

namespace tcc::loop {
namespace {

class Order {
 public:
  std::vector<std::string> run(const Block& body) {
    find_pipes(body);
    visit(body);
    for (const auto& [pipe, state] : pipes_) {
      if (state.filling) fault("a stage of %" + pipe->name + " is acquired and never committed");
      if (state.waits > state.releases) fault("a stage of %" + pipe->name + " is waited for and never released");
      if (state.commits == 0 || state.releases == 0) fault("%" + pipe->name + " is never filled or never read");
    }
    return std::move(faults_);
  }

 private:
  struct Access {
    std::vector<Index> indices;
    bool collective;
  };
  struct PipeState {
    bool filling = false;
    int commits = 0, waits = 0, releases = 0;
    std::optional<int> producer, consumer;  ///< roles
    bool reading() const { return waits > releases; }
  };
  /// An asynchronous mma that no wait has ended yet.
  struct Flight {
    const Buffer* accumulator;
    std::vector<std::pair<const Pipe*, int>> stages;  ///< that it reads: of which wait
    std::vector<const Buffer*> registers;             ///< operands in registers
  };

  void fault(const std::string& message) {
    if (reported_.insert(message).second) faults_.push_back(message);
  }

  void find_pipes(const Block& body) {
    walk(body, [&](const Stmt& stmt) {
      if (const auto* decl = as<PipeDecl>(stmt)) {
        pipes_[decl->pipe.get()];
        for (const BufferRef& buffer : decl->pipe->buffers) owner_[buffer.get()] = decl->pipe.get();
      }
    });
  }

  void visit(const Block& block) {
    for (const Stmt& stmt : block) visit(stmt);
  }

  void visit(const Stmt& stmt) {
    if (const auto* dims = dims_of(stmt)) {
      // A loop in time twice, so that the end of an iteration meets the start of the next; pipes count once.
      const bool repeats = std::any_of(dims->begin(), dims->end(), [](const Dim& d) {
        return d.var->extent > 1 && (d.bind == Bind::serial || d.bind == Bind::unroll || d.bind == Bind::vector || d.bind == Bind::tile);
      });
      for (int round = 0; round < (repeats ? 2 : 1); ++round) {
        const bool counting = std::exchange(counting_, counting_ && round == 0);
        reads_of(stmt);
        for (const Block* inner : blocks_of(stmt)) visit(*inner);
        counting_ = counting;
      }
    } else if (const auto* roles = as<Roles>(stmt)) {
      for (size_t i = 0; i < roles->roles.size(); ++i) {
        role_ = static_cast<int>(i);
        visit(roles->roles[i].body);
        barrier();
      }
      role_ = -1;
    } else {
      reads_of(stmt);
      for (const Block* inner : blocks_of(stmt)) visit(*inner);
    }
    const Together threads = together(stmt);
    each_place(stmt, [&](Effect effect, const BufferRef& buffer, const std::vector<Index>& indices) {
      const Access access{indices, threads.team != Team::thread || effect == Effect::updates};
      if (effect == Effect::reads) read(buffer, access);
      else write(buffer, access);
    });
    if (const auto* copy = as<Copy>(stmt)) step(*copy);
    if (threads.synchronizes) barrier();
    if (const auto* op = as<PipeOp>(stmt)) step(*op);
    if (const auto* mma = as<Mma>(stmt)) step(*mma);
    if (const auto* wait = as<MmaWait>(stmt)) step(*wait);
  }

  void reads_of(const Stmt& stmt) {
    each_expr(stmt, [&](const ExprPtr& expr) { loads(expr); });
  }
  void loads(const ExprPtr& expr) {
    if (!expr) return;
    if (expr->kind == Expr::Kind::load) read(expr->buffer, {expr->indices, false});
    for (const ExprPtr& arg : expr->args) loads(arg);
    loads(expr->otherwise);
  }

  static bool own(const Access& a, const Access& b) { return !a.collective && !b.collective && a.indices == b.indices; }

  void read(const BufferRef& buffer, Access access) {
    if (const auto owner = owner_.find(buffer.get()); owner != owner_.end()) {
      if (counting_ && !pipes_[owner->second].reading())
        fault("%" + buffer->name + " is read outside of a wait and a release of %" + owner->second->name);
      return;
    }
    if (buffer->space == Space::registers) touch(buffer);
    if (buffer->space != Space::shared) return;
    take(buffer);
    for (const Access& write : written_[buffer.get()]) {
      if (!own(write, access)) fault("%" + buffer->name + " is written and then read without a barrier between");
    }
    read_[buffer.get()].push_back(std::move(access));
  }

  void write(const BufferRef& buffer, Access access) {
    if (const auto owner = owner_.find(buffer.get()); owner != owner_.end()) {
      if (counting_ && !pipes_[owner->second].filling)
        fault("%" + buffer->name + " is written outside of an acquire and a commit of %" + owner->second->name);
      return;
    }
    if (buffer->space == Space::registers) {
      touch(buffer);
      for (const Flight& flight : flights_) {
        if (std::find(flight.registers.begin(), flight.registers.end(), buffer.get()) != flight.registers.end())
          fault("%" + buffer->name + " is written while an asynchronous mma may still read it");
      }
    }
    if (buffer->space != Space::shared) return;
    take(buffer);
    for (const Access& read : read_[buffer.get()]) {
      if (!own(read, access)) fault("%" + buffer->name + " is read and then written without a barrier between");
    }
    written_[buffer.get()].push_back(std::move(access));
  }

  /// Roles meet in pipes alone.
  void take(const BufferRef& buffer) {
    const auto [at, is_new] = role_of_.emplace(buffer.get(), role_);
    if (!is_new && at->second != role_) fault("%" + buffer->name + " is used by several roles and is not of a pipe");
  }

  void barrier() {
    written_.clear();
    read_.clear();
  }

  /// Groups are of cp.async, the bytes that an mbarrier counts are those of tensor maps.
  void step(const Copy& copy) {
    if (copy.kind == Copy::Kind::plain) return;
    const auto owner = owner_.find(copy.destination.get());
    if (owner == owner_.end()) {
      fault("an asynchronous copy to %" + copy.destination->name + ", which belongs to no pipe");
    } else if ((copy.kind == Copy::Kind::tma) != (owner->second->kind == Pipe::Kind::mbarrier)) {
      fault("a copy of this kind does not go to %" + copy.destination->name +
            ": a tma fills pipes with mbarriers, an async copy the others");
    }
  }

  void step(const PipeOp& op) {
    if (!counting_) return;
    PipeState& state = pipes_[op.pipe.get()];
    const std::string name = "%" + op.pipe->name;
    const bool fills = op.kind == PipeOp::Kind::acquire || op.kind == PipeOp::Kind::commit;
    std::optional<int>& side = fills ? state.producer : state.consumer;
    if (side.value_or(role_) != role_) fault(name + (fills ? " is filled by several roles" : " is read by several roles"));
    side = role_;
    switch (op.kind) {
      case PipeOp::Kind::acquire:
        if (state.filling) fault("two acquires of " + name + " without a commit between");
        state.filling = true;
        break;
      case PipeOp::Kind::commit:
        if (!state.filling) fault("a commit of " + name + " without an acquire");
        state.filling = false;
        ++state.commits;
        break;
      case PipeOp::Kind::wait:
        if (state.reading() && op.pipe->kind == Pipe::Kind::group) fault("two waits for " + name + " without a release between");
        ++state.waits;
        break;
      case PipeOp::Kind::release:
        if (!state.reading()) fault("a release of " + name + " without a wait");
        for (const Flight& flight : flights_) {
          const auto oldest = std::pair(static_cast<const Pipe*>(op.pipe.get()), state.releases + 1);
          if (std::find(flight.stages.begin(), flight.stages.end(), oldest) != flight.stages.end())
            fault("a stage of " + name + " is released while an asynchronous mma may still read it");
        }
        ++state.releases;
        break;
    }
  }

  // ---------------------------------------------------------------------------------------------- asynchronous mma

  void step(const Mma& mma) {
    if (!mma.async) {
      touch(mma.accumulator);
      return;
    }
    Flight flight{mma.accumulator.get(), {}, {}};
    for (const BufferRef& operand : {mma.a, mma.b}) {
      const auto owner = owner_.find(operand.get());
      if (operand->tile) flight.registers.push_back(operand.get());
      else if (owner == owner_.end()) fault("an asynchronous mma reads %" + operand->name + ", which belongs to no pipe");
      else flight.stages.emplace_back(owner->second, pipes_[owner->second].waits);
    }
    flights_.push_back(std::move(flight));
    async_.insert(mma.accumulator.get());
    settled_.erase(mma.accumulator.get());
  }

  void step(const MmaWait& wait) {
    const auto pending = static_cast<size_t>(wait.pending);
    if (flights_.size() > pending) flights_.erase(flights_.begin(), flights_.end() - static_cast<std::ptrdiff_t>(pending));
    for (const BufferRef& accumulator : wait.accumulators) {
      if (std::any_of(flights_.begin(), flights_.end(), [&](const Flight& flight) { return flight.accumulator == accumulator.get(); }))
        fault("%" + accumulator->name + " may not be touched behind a wait that leaves an asynchronous mma on it under way");
      settled_.insert(accumulator.get());
    }
  }

  /// Only a wait that names the accumulator says from where on it may be touched.
  void touch(const BufferRef& buffer) {
    for (const Flight& flight : flights_) {
      if (flight.accumulator == buffer.get()) fault("%" + buffer->name + " is touched while an asynchronous mma may still add to it");
    }
    if (async_.contains(buffer.get()) && !settled_.contains(buffer.get()))
      fault("%" + buffer->name + " is touched behind an asynchronous mma without a wait that names it");
  }

  std::vector<std::string> faults_;
  std::set<std::string> reported_;
  std::vector<Flight> flights_;              ///< the oldest first
  std::set<const Buffer*> async_, settled_;  ///< accumulators: of asynchronous mma so far, named by a wait behind the last of them
  std::map<const Buffer*, std::vector<Access>> written_, read_;
  std::map<const Buffer*, const Pipe*> owner_;
  std::map<const Pipe*, PipeState> pipes_;
  std::map<const Buffer*, int> role_of_;  ///< of shared buffers of no pipe
  int role_ = -1;                         ///< that is looked at; -1: all of the block
  bool counting_ = true;
};

}  // namespace

std::vector<std::string> verify_order(const Kernel& kernel) { return Order().run(kernel.body); }

}  // namespace tcc::loop
