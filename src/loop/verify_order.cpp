// What has to come between what: a barrier (or the wait of a pipe, or a reduce across the block) between accesses of a shared buffer by different threads, and
// acquire, copies, commit, wait, reads, release in this order for each pipe.
//
// By text, without values: a thread that reads with the very indices that it wrote with is taken to read its own elements. The interpreter knows the rest.
#include "loop/verify_order.h"

#include <algorithm>
#include <map>
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
      if (state.reading) fault("a stage of %" + pipe->name + " is waited for and never released");
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
    bool filling = false, reading = false;
    int commits = 0, releases = 0;
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
    if (const auto* copy = as<Copy>(stmt); copy && copy->kind == Copy::Kind::async && !owner_.count(copy->destination.get()))
      fault("an asynchronous copy to %" + copy->destination->name + ", which belongs to no pipe");
    if (threads.synchronizes) barrier();
    if (const auto* op = as<PipeOp>(stmt)) step(*op);
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
      if (counting_ && !pipes_[owner->second].reading)
        fault("%" + buffer->name + " is read outside of a wait and a release of %" + owner->second->name);
      return;
    }
    if (buffer->space != Space::shared) return;
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
    if (buffer->space != Space::shared) return;
    for (const Access& read : read_[buffer.get()]) {
      if (!own(read, access)) fault("%" + buffer->name + " is read and then written without a barrier between");
    }
    written_[buffer.get()].push_back(std::move(access));
  }

  void barrier() {
    written_.clear();
    read_.clear();
  }

  void step(const PipeOp& op) {
    if (!counting_) return;
    PipeState& state = pipes_[op.pipe.get()];
    const std::string name = "%" + op.pipe->name;
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
        if (state.reading) fault("two waits for " + name + " without a release between");
        state.reading = true;
        break;
      case PipeOp::Kind::release:
        if (!state.reading) fault("a release of " + name + " without a wait");
        state.reading = false;
        ++state.releases;
        break;
    }
  }

  std::vector<std::string> faults_;
  std::set<std::string> reported_;
  std::map<const Buffer*, std::vector<Access>> written_, read_;
  std::map<const Buffer*, const Pipe*> owner_;
  std::map<const Pipe*, PipeState> pipes_;
  bool counting_ = true;
};

}  // namespace

std::vector<std::string> verify_order(const Kernel& kernel) { return Order().run(kernel.body); }

}  // namespace tcc::loop
