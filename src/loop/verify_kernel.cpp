// The scheduled form: every loop bound or serial, binds and spaces that the target has, collective statements where all threads come by, sizes within the
// target. Barriers and pipes are looked at in verify_order.cpp.
#include <algorithm>
#include <bit>
#include <string>

#include "loop/verifier.h"
#include "loop/verify_collective.h"
#include "loop/verify_lanes.h"
#include "loop/verify_order.h"
#include "loop/verify_written.h"
#include "tcc/loop/fields.h"
#include "tcc/loop/shared_memory.h"
#include "tcc/target/target.h"

namespace tcc::loop {
namespace {

int64_t span_bytes(const Buffer& buffer) { return buffer.span() * std::max(size_bytes(buffer.dtype), 1); }

bool is_thread_bind(Bind bind) { return bind == Bind::thread || bind == Bind::warp || bind == Bind::lane; }

class Scheduled : public Verifier {
 public:
  Scheduled(const Kernel& kernel, const Target& target)
      : kernel_(kernel),
        target_(target),
        cuda_(target.is_cuda()),
        digits_(digits_of(kernel.body)),
        team_threads_(kernel.threads),
        written_(kernel.body) {}

  void run() {
    const int64_t grid = nest_extent(kernel_.body, cuda_ ? Bind::block : Bind::parallel);
    if (cuda_ && grid > target_.grid_blocks)
      fault("loops bound to block make " + std::to_string(grid) + ", a launch has at most " + std::to_string(target_.grid_blocks));
    if (grid != kernel_.grid) fault("the grid is " + std::to_string(kernel_.grid) + ", the loops bound to it make " + std::to_string(grid));
    if (!cuda_ && kernel_.threads != 1) fault("a kernel for the CPU has " + std::to_string(kernel_.threads) + " threads, expected 1");
    const int warp = target_.warp_threads;
    if (cuda_ && (kernel_.threads < warp || kernel_.threads > target_.block_threads || kernel_.threads % warp != 0)) {
      fault("a block has " + std::to_string(kernel_.threads) + " threads, expected a multiple of " + std::to_string(warp) + " up to " +
            std::to_string(target_.block_threads));
    }
    for (const auto& [bind, available] :
         {std::pair<Bind, int64_t>{Bind::thread, kernel_.threads}, {Bind::warp, std::max(kernel_.threads / 32, 1)}, {Bind::lane, 32}}) {
      const int64_t extent = nest_extent(kernel_.body, bind);
      if (extent > available)
        fault("loops bound to " + std::string(name_of(bind)) + " make " + std::to_string(extent) + ", there are " +
              std::to_string(available));
    }
    if (nest_extent(kernel_.body, Bind::thread) > 1 &&
        (nest_extent(kernel_.body, Bind::warp) > 1 || nest_extent(kernel_.body, Bind::lane) > 1)) {
      fault("loops are bound both to thread and to warp or lane");
    }
    verify_params(kernel_.params);
    verify(kernel_.body);
    if (const int64_t needed = shared_bytes(kernel_); cuda_ && needed > kernel_.shared_bytes) {
      fault("shared buffers and reductions take " + std::to_string(needed) + " bytes, the kernel has " +
            std::to_string(kernel_.shared_bytes));
    }
    if (kernel_.shared_bytes > target_.shared_bytes) {
      fault("the kernel has " + std::to_string(kernel_.shared_bytes) + " bytes of shared memory, the target " +
            std::to_string(target_.shared_bytes));
    }
    if (cuda_ && register_bytes_ > int64_t{4} * target_.thread_registers) {
      fault("register buffers take " + std::to_string(register_bytes_ / 4) + " registers of a thread, there are " +
            std::to_string(target_.thread_registers));
    }
    if (!cuda_ && stack_bytes_ > target_.stack_bytes) {
      fault("buffers take " + std::to_string(stack_bytes_) + " bytes of a thread's stack, the most is " +
            std::to_string(target_.stack_bytes));
    }
    for (const std::string& message : verify_order(kernel_)) fault(message);
    for (const std::string& message : verify_lanes(kernel_)) fault(message);
  }

 private:
  /// Whether all threads of the block, of the warp, execute what is here.
  struct Reach {
    bool block = true, warp = true;
  };

  void on_stmt(const Stmt& stmt) override {
    if (const auto* dims = dims_of(stmt)) binds(stmt, *dims);
    each_definition(stmt, [&]<class Ref>(const Ref& defined) {
      if constexpr (std::same_as<Ref, BufferRef>) place(*defined);
    });
    const Team team = together(stmt).team;
    if (team != Team::thread && !cuda_ && !as<Alloc>(stmt)) fault("a statement that only CUDA has");
    if (team == Team::block && !reach().block) {
      fault(dims_of(stmt) ? "not all threads of the block reach a reduce across it"
                          : "not all threads of the block reach a statement that needs them all");
    }
    if (team == Team::warp && !reach().warp) fault("not all lanes of a warp reach a reduce across them");
    std::visit([&](const auto& node) { check(node); }, stmt.node);
  }

  // What a target asks of each kind of statement, beside what holds for all.
  void check(const Loop&) {}
  void check(const Reduce& reduce) {
    if (in_role_ && together_across(reduce.dims).team == Team::block) fault("a reduce across the block within a role is not supported");
    for (const Dim& dim : reduce.dims) {
      if (dim.bind == Bind::tile) check_columns(reduce);
      if (dim.bind == Bind::block || dim.bind == Bind::parallel)
        fault("a reduce across blocks or parallel items: split it into two kernels");
    }
  }
  void check(const Scan& scan) {
    for (const Dim& dim : scan.dims) {
      if (dim.bind != Bind::serial && dim.bind != Bind::unroll)
        fault("a scan runs in order, %" + dim.var->name + " is bound to " + std::string(name_of(dim.bind)));
    }
  }
  void check(const Let& let) { uniform_[let.scalar.get()] = uniform_over(let.value); }
  void check(const Store&) {}
  void check(const Scatter&) { check_scatter(); }
  void check(const If&) {}
  void check(const Alloc&) {}
  void check(const Barrier&) {}
  void check(const Copy& copy) {
    for (const std::string& message : faults_of(copy)) fault(message);
    if (copy.kind == Copy::Kind::tma) {
      if (!target_.has_tensor_maps) fault("a copy by the copy engine, which " + kernel_.target + " does not have");
      const bool is_param =
          std::any_of(kernel_.params.begin(), kernel_.params.end(), [&](const Param& p) { return p.buffer == copy.source && !p.written; });
      if (!is_param) fault("the copy engine reads %" + copy.source->name + ", which is not a parameter that is only read");
      if (copy.destination->dtype == DType::f32) check_rounded(*copy.destination);
    } else if (copy.destination->panel != 0) {
      fault("%" + copy.destination->name + " lies in panels, which the copy engine alone fills");
    }
  }
  /// Tensor maps of f32 round to tf32 on the way, which an mma of f32 does to its operands anyway.
  void check_rounded(const Buffer& buffer) {
    bool loaded = false;
    walk_exprs(kernel_.body, [&](const Expr& e) { loaded = loaded || (e.kind == Expr::Kind::load && e.buffer.get() == &buffer); });
    if (loaded) fault("the copy engine rounds %" + buffer.name + " to tf32: an mma may read it, nothing else");
  }
  void check(const PipeDecl& declaration) {
    for (const BufferRef& buffer : declaration.pipe->buffers) {
      if (buffer->space != Space::shared) fault("%" + buffer->name + " belongs to a pipe and is not shared");
    }
    if (declaration.pipe->kind != Pipe::Kind::mbarrier) return;
    if (!target_.has_tensor_maps) fault("a pipe with mbarriers, which " + kernel_.target + " does not have");
    if (!in_blocks_alone()) fault("the mbarriers of %" + declaration.pipe->name + " are made once, outside of all loops of a block");
  }
  void check(const PipeOp&) {}
  void check(const Mma& mma) {
    for (const std::string& message : faults_of(mma, target_, team_threads_)) fault(message);
    if (mma.async && team_first_ % 128 != 0) fault("an mma of warpgroups in a role that begins within one");
  }
  void check(const Roles& roles) {
    if (!target_.has_tensor_maps) fault("roles, whose pipes need mbarriers, which " + kernel_.target + " does not have");
    if (!in_blocks_alone()) fault("roles are taken once, outside of all loops of a block");
    int warps = 0;
    for (const Role& role : roles.roles) warps += role.warps;
    if (warps * 32 != kernel_.threads || roles.roles.size() > kMostRoles)
      fault(std::to_string(roles.roles.size()) + " roles of " + std::to_string(warps) + " warps in a block of " +
            std::to_string(kernel_.threads) + " threads");
    check_registers(roles);
  }
  /// What setmaxnreg asks: registers in eights, handed on by whole warpgroups, no more than there are. Source: PTX ISA.
  void check_registers(const Roles& roles) {
    int64_t all = 0, first = 0;
    bool some = false, each = true;
    for (const Role& role : roles.roles) {
      some = some || role.registers > 0;
      each = each && role.registers >= 24 && role.registers <= 256 && role.registers % 8 == 0 && role.warps % 4 == 0 && first % 4 == 0;
      first += role.warps;
      all += int64_t{32} * role.warps * role.registers;
    }
    if (some && (!each || all > target_.multiprocessor_registers))
      fault("registers of roles are a multiple of 8 from 24 to 256 for each, of whole warpgroups, " +
            std::to_string(target_.multiprocessor_registers) + " for all threads");
  }
  /// Whether all that is around the statement are loops over blocks.
  bool in_blocks_alone() const {
    return std::all_of(around().begin(), around().end() - 1, [](const Around& a) {
      const auto* dims = dims_of(*a.stmt);
      return dims && std::all_of(dims->begin(), dims->end(), [](const Dim& dim) { return dim.bind == Bind::block; });
    });
  }
  void on_role(const Role* role) override {
    team_first_ = role ? next_role_ : 0;
    team_threads_ = role ? 32 * role->warps : kernel_.threads;
    next_role_ = role ? next_role_ + team_threads_ : 0;
    in_role_ = role != nullptr;
  }
  void check(const MmaWait& wait) {
    for (const BufferRef& accumulator : wait.accumulators) {
      if (!accumulator->tile) fault("%" + accumulator->name + " is waited for and not a register tile");
    }
  }

  void binds(const Stmt& stmt, const std::vector<Dim>& dims) {
    const auto* loop = as<Loop>(stmt);
    bool outermost = std::all_of(around().begin(), around().end() - 1, [](const Around& a) {
      const auto* outer = dims_of(*a.stmt);
      return outer &&
             std::all_of(outer->begin(), outer->end(), [](const Dim& d) { return d.bind == Bind::block || d.bind == Bind::parallel; });
    });
    bool in_vector = std::any_of(around().begin(), around().end() - 1, [](const Around& a) {
      const auto* outer = dims_of(*a.stmt);
      return outer && std::any_of(outer->begin(), outer->end(), [](const Dim& d) { return d.bind == Bind::vector; });
    });
    for (const Dim& dim : dims) {
      const std::string name = "%" + dim.var->name, bind(name_of(dim.bind));
      bool known = true;
      switch (dim.bind) {
        case Bind::none: fault(name + " is not bound"); break;
        case Bind::serial:
        case Bind::unroll: break;
        case Bind::vector:
          if (in_vector) fault(name + " is bound to vector within another loop bound to vector");
          in_vector = true;
          break;
        case Bind::block:
        case Bind::parallel:
          known = (dim.bind == Bind::block) == cuda_;
          if (!outermost) fault(name + " is bound to " + bind + " within a loop that is not");
          break;
        case Bind::thread:
        case Bind::warp:
        case Bind::lane:
          known = cuda_;
          if (in_vector) fault(name + " is bound to " + bind + " within a loop bound to vector");
          break;
        case Bind::tile:
          known = cuda_;
          if (as<Reduce>(stmt)) break;  // check_columns
          if (!loop || !loop->tile || !loop->tile->tile) fault(name + " is bound to tile, but its loop names no register tile");
          else check_tile(*loop);
          break;
      }
      if (!known) fault(name + " is bound to " + bind + ", which " + kernel_.target + " does not have");
      if (loop && loop->kind == Loop::Kind::for_ && dim.bind != Bind::serial && dim.bind != Bind::unroll && dim.bind != Bind::none) {
        fault(name + " is a loop in order, bound to " + bind);
      }
      outermost = outermost && (dim.bind == Bind::block || dim.bind == Bind::parallel);
    }
  }

  void check_tile(const Loop& loop) {
    size_t tiled = 0;
    for (const Dim& dim : loop.dims) {
      if (dim.bind != Bind::tile) {
        if (tiled != 0) fault("dims over a register tile are the last of their loop");
        continue;
      }
      if (tiled < loop.tile->extents.size() && dim.var->extent != loop.tile->extents[tiled]) {
        fault("%" + dim.var->name + " has extent " + std::to_string(dim.var->extent) + ", the axis of %" + loop.tile->name + " " +
              std::to_string(loop.tile->extents[tiled]));
      }
      ++tiled;
    }
    if (tiled != loop.tile->extents.size()) fault("a loop over %" + loop.tile->name + " needs a dim for each of its axes");
  }

  /// A thread combines what it has of a row, then the lanes do that share it.
  void check_columns(const Reduce& reduce) {
    const BufferRef& tile = reduce.tile;
    if (!tile || !tile->tile || tile->extents.size() != 2 || reduce.dims.size() != 1 || reduce.dims[0].var->extent != tile->extents[1] ||
        reduce.where)
      return fault("a reduce over the coordinates of a register tile names one of two axes, and runs over all of its columns");
    const Loop* rows = nullptr;
    for (const Around& a : around()) {
      const auto* loop = as<Loop>(*a.stmt);
      if (loop && loop->tile) rows = loop;
    }
    if (!rows || !rows->tile->tile || rows->tile->extents.size() != 1 || !(*rows->tile->tile == row_layout(*tile->tile)))
      fault("a reduce over the columns of %" + tile->name + " stands in no loop over a tile of its rows");
    for (const TileDigit& digit : tile->tile->digits) {
      if (digit.axis == 1 && digit.level == TileDigit::Level::warp)
        fault("a reduce over the columns of %" + tile->name + ", which are spread over warps");
      if (digit.axis == 1 && digit.level == TileDigit::Level::lane && !std::has_single_bit(static_cast<uint64_t>(digit.extent)))
        fault("a reduce over the columns of %" + tile->name + ", which are spread over " + std::to_string(digit.extent) + " lanes");
    }
  }

  void place(const Buffer& buffer) {
    const std::string name = "%" + buffer.name;
    if (buffer.panel != 0 && (buffer.space != Space::shared || buffer.extents.empty() || buffer.extents.back() % buffer.panel != 0))
      fault(name + " lies in panels of " + std::to_string(buffer.panel) + " and is not shared, or its rows are not whole ones");
    if (buffer.swizzle.bits != 0 && buffer.space != Space::shared) fault(name + " is swizzled and not shared");
    if ((buffer.tile || !buffer.distributed.empty()) && buffer.space != Space::registers)
      fault(name + " is spread over threads and not in registers");
    if (buffer.space == Space::registers || buffer.space == Space::scratch)
      stack_bytes_ = std::min(stack_bytes_ + std::min(span_bytes(buffer), kMostIterations), kMostIterations);
    switch (buffer.space) {
      case Space::local: fault(name + " has no place yet"); break;
      case Space::global: fault(name + " is global and no parameter"); break;
      case Space::scratch:
        if (cuda_) fault(name + " is in scratch memory, which only the CPU has");
        break;
      case Space::shared:
        if (!cuda_) fault(name + " is shared, which only CUDA has");
        break;
      case Space::registers: {
        int64_t held = buffer.count();
        if (buffer.tile) {
          held = registers_of(*buffer.tile);
          const int64_t lanes = count_of(*buffer.tile, TileDigit::Level::lane), warps = count_of(*buffer.tile, TileDigit::Level::warp);
          if (lanes > 32 || warps * 32 > team_threads_)
            fault(name + " is spread over " + std::to_string(lanes) + " lanes of " + std::to_string(warps) + " warps");
        }
        for (int axis : buffer.distributed) held /= std::max<int64_t>(buffer.extents[static_cast<size_t>(axis)], 1);
        register_bytes_ += held * std::max(size_bytes(buffer.dtype), 4);
        break;
      }
    }
  }

  /// A scatter that several threads execute alike would add several times.
  void check_scatter() {
    bool block = kernel_.grid == 1, thread = false, warp = kernel_.threads == 32, lane = false;
    for (const Around& a : around()) {
      const auto* dims = dims_of(*a.stmt);
      for (size_t d = 0; dims && d < dims->size(); ++d) {
        const Dim& dim = (*dims)[d];
        const bool numbered = is_thread_bind(dim.bind) || dim.bind == Bind::block || dim.bind == Bind::parallel;
        if (!numbered || digits_.at(dim.var.get()).stride != 1) continue;
        block = block || dim.bind == Bind::block || dim.bind == Bind::parallel;
        thread = thread || dim.bind == Bind::thread;
        warp = warp || dim.bind == Bind::warp;
        lane = lane || dim.bind == Bind::lane;
      }
      const auto* loop = as<Loop>(*a.stmt);
      if (loop && loop->tile && loop->tile->tile) {
        const auto& digits = loop->tile->tile->digits;
        thread = std::none_of(digits.begin(), digits.end(), [](const TileDigit& digit) { return digit.stride == 0; });
      }
    }
    if (!block) fault(std::string("a scatter that several ") + (cuda_ ? "blocks" : "parallel items") + " execute alike");
    if (cuda_ && !thread && !(warp && lane)) fault("a scatter that several threads execute alike");
  }

  // -------------------------------------------------------------------------------------------------- who comes by here

  Reach reach() const { return reach_.empty() ? Reach{} : reach_.back(); }

  void on_enter(const Stmt& stmt) override {
    Reach next = reach();
    if (const auto* dims = dims_of(stmt)) {
      note_coordinates(stmt, *dims);
      for (const Dim& dim : *dims) {
        varying(dim);
        if (!is_thread_bind(dim.bind)) continue;
        const Digit& digit = digits_.at(dim.var.get());
        const int64_t all = dim.bind == Bind::thread ? team_threads_ : dim.bind == Bind::warp ? team_threads_ / 32 : 32;
        const int64_t used = digit.stride * dim.var->extent;
        if (used == (digit.radix == 0 ? all : digit.radix)) continue;
        next.block = false;
        if (dim.bind == Bind::lane || (dim.bind == Bind::thread && used % 32 != 0)) next.warp = false;
      }
    }
    const Team uniform = uniform_over(condition_of(stmt));
    next.block = next.block && uniform == Team::block;
    next.warp = next.warp && uniform != Team::thread;
    reach_.push_back(next);
  }
  void on_leave(const Stmt& stmt) override {
    reach_.pop_back();
    const Team uniform = uniform_result(stmt);
    for (const ScalarRef& scalar : defined_by(stmt)) uniform_[scalar.get()] = uniform;
  }

  /// The threads for which the expression has one value: all of a block or warp, or each its own.
  Team uniform_over(const ExprPtr& expr) const {
    if (!expr) return Team::block;
    const Uses uses = uses_of(expr);
    Team result = Team::block;
    for (const Var* var : uses.vars)
      result = std::min(result, lanes_.count(var) ? Team::thread : warps_.count(var) ? Team::warp : Team::block);
    for (const Scalar* scalar : uses.scalars) {
      const auto known = uniform_.find(scalar);
      result = std::min(result, known == uniform_.end() ? Team::block : known->second);
    }
    for (const Buffer* buffer : uses.reads) result = std::min(result, buffer->space == Space::registers ? Team::thread : Team::block);
    return result;
  }

  /// Of the results of a reduce or scan: what it joins across threads is one for them, the rest depends on what it joins.
  Team uniform_result(const Stmt& stmt) const {
    const auto* dims = dims_of(stmt);
    const Team joined = together(stmt).team;
    if (joined == Team::block) return Team::block;
    if (joined == Team::warp) {
      if (dims->back().bind == Bind::tile) return Team::thread;  // each row has its own
      const bool whole = std::all_of(dims->begin(), dims->end(),
                                     [&](const Dim& dim) { return dim.bind != Bind::lane || digits_.at(dim.var.get()).radix == 0; });
      return whole ? Team::warp : Team::thread;
    }
    Team result = Team::block;
    each_expr(stmt, [&](const ExprPtr& expr) { result = std::min(result, uniform_over(expr)); });
    return result;
  }

  void varying(const Dim& dim) {
    if (dim.bind == Bind::thread || dim.bind == Bind::lane || dim.bind == Bind::tile) lanes_.insert(dim.var.get());
    if (dim.bind == Bind::warp) warps_.insert(dim.var.get());
  }
  /// What the variables of a loop or reduce over a register tile are coordinates of.
  void note_coordinates(const Stmt& stmt, const std::vector<Dim>& dims) {
    const auto* loop = as<Loop>(stmt);
    const auto* reduce = as<Reduce>(stmt);
    const Buffer* tile = loop ? loop->tile.get() : reduce ? reduce->tile.get() : nullptr;
    size_t axis = reduce ? 1 : 0;
    for (const Dim& dim : dims) {
      if (dim.bind == Bind::tile && tile && tile->tile) coordinates_[dim.var.get()] = {tile, axis++};
    }
  }

  void on_access(const BufferRef& buffer, const std::vector<Index>& indices, bool write) override {
    const Stmt& stmt = *around().back().stmt;
    if (buffer->panel != 0 && !as<Copy>(stmt) && !as<Mma>(stmt)) fault("%" + buffer->name + " lies in panels, which only mma reads");
    if (write) check_own(*buffer, indices);
    if (buffer->tile && !as<Mma>(stmt)) check_coordinates(*buffer, indices, write);
    for (int axis : buffer->distributed) {
      if (static_cast<size_t>(axis) < indices.size()) check_distributed(*buffer, axis, indices[static_cast<size_t>(axis)]);
    }
  }

  /// A thread has the elements that the loop over the tile visits; of a tile of rows, those of the elements of a whole tile that it visits.
  void check_coordinates(const Buffer& buffer, const std::vector<Index>& indices, bool write) {
    for (size_t axis = 0; axis < indices.size(); ++axis) {
      std::vector<VarRef> vars;
      collect_vars(indices[axis], vars);
      const auto found = vars.size() == 1 && indices[axis] == Index(vars[0]) ? coordinates_.find(vars[0].get()) : coordinates_.end();
      if (found == coordinates_.end() || found->second.axis != axis)
        return fault("%" + buffer.name + " is a register tile, its indices are the variables of a loop over it");
      const Buffer& tile = *found->second.tile;
      const bool same = *tile.tile == *buffer.tile;
      const bool rows = axis == 0 && buffer.extents.size() == 1 && tile.extents.size() == 2 && row_layout(*tile.tile) == *buffer.tile;
      const bool of_rows = axis == 0 && buffer.extents.size() == 2 && tile.extents.size() == 1 && row_layout(*buffer.tile) == *tile.tile;
      if (!same && !rows && !of_rows) return fault("%" + buffer.name + " does not lie as the tile whose coordinates are its indices");
      if (rows && write) return fault("%" + buffer.name + " is written for each column of %" + tile.name);
    }
  }

  /// What each thread or item has for itself is filled by each of them as a whole, but for the axes that are spread over threads.
  void check_own(const Buffer& buffer, const std::vector<Index>& indices) {
    if ((buffer.space != Space::registers && buffer.space != Space::scratch) || buffer.tile) return;
    for (const Around& a : around()) {
      const auto* dims = dims_of(*a.stmt);
      for (size_t d = 0; dims && d < dims->size() && a.buffers_before.count(&buffer); ++d) {
        const Dim& dim = (*dims)[d];
        if (!digits_.count(dim.var.get()) || dim.var->extent <= 1) continue;
        for (size_t axis = 0; axis < indices.size(); ++axis) {
          const bool spread =
              std::find(buffer.distributed.begin(), buffer.distributed.end(), static_cast<int>(axis)) != buffer.distributed.end();
          if (!spread && indices[axis].uses(dim.var.get()))
            fault("%" + buffer.name + " is not shared, each would fill a part of its own along %" + dim.var->name + ", bound to " +
                  std::string(name_of(dim.bind)));
        }
      }
    }
  }

  void on_load(const Expr& load) override {
    std::vector<ExprPtr> conditions;
    for (const Around& a : around()) conditions.push_back(condition_of(*a.stmt));
    if (const auto wrong = written_.fault(load, bounds(), conditions)) fault(*wrong);
  }

  /// The element that a thread holds is the one that its number says, the same wherever the buffer is named: an index is the digits of that number.
  void check_distributed(const Buffer& buffer, int axis, const Index& index) {
    if (buffer.extents[static_cast<size_t>(axis)] == 1) return;
    const auto wrong = [&] {
      fault("axis " + std::to_string(axis) + " of %" + buffer.name + " is spread over threads, its index is " + to_string(index));
    };
    struct Part {
      Digit digit;
      int64_t extent, coefficient;
    };
    std::vector<Part> parts;
    Holder holder;
    for (const Term& term : index.terms()) {
      const Var* var = term.atom.kind == Atom::Kind::var ? term.atom.var.get() : nullptr;
      const bool is_warp = warps_.count(var) != 0;
      const auto digit = is_warp || lanes_.count(var) ? digits_.find(var) : digits_.end();
      if (digit == digits_.end() || (!parts.empty() && is_warp != holder.is_warp)) return wrong();
      parts.push_back({digit->second, var->extent, term.coefficient});
      holder.is_warp = is_warp;
    }
    if (parts.empty() || index.constant() != 0) return wrong();
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.digit.stride < b.digit.stride; });
    int64_t expected = 1;  // the coefficient of a digit is what those within it make
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].coefficient != expected || parts[i].digit.stride != expected * parts[0].digit.stride) return wrong();
      expected *= std::max<int64_t>(parts[i].extent, 1);
    }
    holder.stride = parts[0].digit.stride;
    holder.radix = parts.back().digit.radix;
    const auto [found, is_new] = holders_.emplace(std::pair(&buffer, axis), holder);
    if (!is_new && !(found->second == holder)) {
      fault("axis " + std::to_string(axis) + " of %" + buffer.name +
            " is held by other threads than where it is named before, its index is " + to_string(index));
    }
  }

  const Kernel& kernel_;
  const Target& target_;
  bool cuda_;
  std::map<const Var*, Digit> digits_;
  int team_threads_;                    ///< of the block, or of the role that is looked at
  int team_first_ = 0, next_role_ = 0;  ///< threads
  bool in_role_ = false;
  static constexpr size_t kMostRoles = 15;  ///< each has a barrier of its own, of 16
  std::vector<Reach> reach_;
  std::set<const Var*> lanes_, warps_;
  struct Coordinate {
    const Buffer* tile;
    size_t axis;
  };
  std::map<const Var*, Coordinate> coordinates_;  ///< variables of loops over register tiles
  std::map<const Scalar*, Team> uniform_;         ///< the threads that have one value of it
  /// Which part of a thread's (lane's, warp's) number is an index: (number mod radix) / stride.
  struct Holder {
    bool is_warp = false;
    int64_t stride = 1, radix = 0;
    bool operator==(const Holder&) const = default;
  };
  std::map<std::pair<const Buffer*, int>, Holder> holders_;
  Written written_;
  int64_t register_bytes_ = 0;
  int64_t stack_bytes_ = 0;  ///< CPU: registers and scratch
};

}  // namespace

std::vector<std::string> verify_kernel(const Kernel& kernel) {
  const Target* target = Target::named(kernel.target);
  if (!target) return {"there is no target `" + kernel.target + "`"};
  Scheduled verifier(kernel, *target);
  verifier.run();
  return verifier.take();
}

}  // namespace tcc::loop
