// The scheduled form: every loop bound or serial, binds and spaces that the target has, collective statements where all threads come by, sizes within the
// target. Barriers and pipes are looked at in verify_order.cpp.
#include <algorithm>
#include <string>

#include "loop/verifier.h"
#include "loop/verify_order.h"
#include "tcc/loop/shared_memory.h"

namespace tcc::loop {
namespace {

bool is_thread_bind(Bind bind) { return bind == Bind::thread || bind == Bind::warp || bind == Bind::lane; }

class Scheduled : public Verifier {
 public:
  explicit Scheduled(const Kernel& kernel) : kernel_(kernel), cuda_(kernel.target.starts_with("sm_")), digits_(digits_of(kernel.body)) {}

  void run() {
    if (!cuda_ && !kernel_.target.starts_with("x86-64")) fault("unknown target `" + kernel_.target + "`");
    const int64_t grid = nest_extent(kernel_.body, cuda_ ? Bind::block : Bind::threads);
    if (grid != kernel_.grid) fault("the grid is " + std::to_string(kernel_.grid) + ", the loops bound to it make " + std::to_string(grid));
    if (!cuda_ && kernel_.threads != 1) fault("a kernel for the CPU has " + std::to_string(kernel_.threads) + " threads, expected 1");
    if (cuda_ && (kernel_.threads < 32 || kernel_.threads > 1024 || kernel_.threads % 32 != 0)) {
      fault("a block has " + std::to_string(kernel_.threads) + " threads, expected a multiple of 32 up to 1024");
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
    const int64_t limit = kernel_.target == "sm_80" ? 166912 : 232448;
    if (const int64_t needed = shared_bytes(kernel_); cuda_ && needed > kernel_.shared_bytes) {
      fault("shared buffers and reductions take " + std::to_string(needed) + " bytes, the kernel has " +
            std::to_string(kernel_.shared_bytes));
    }
    if (kernel_.shared_bytes > limit)
      fault("the kernel has " + std::to_string(kernel_.shared_bytes) + " bytes of shared memory, the target " + std::to_string(limit));
    if (cuda_ && register_bytes_ > 255 * 4)
      fault("register buffers take " + std::to_string(register_bytes_ / 4) + " registers of a thread, there are 255");
    for (const std::string& message : verify_order(kernel_)) fault(message);
  }

 private:
  /// Whether all threads of the block, of the warp, execute what is here.
  struct Reach {
    bool block = true, warp = true;
  };

  void on_stmt(const Stmt& stmt) override {
    if (const auto* dims = dims_of(stmt)) binds(stmt, *dims);
    if (const auto* alloc = as<Alloc>(stmt)) place(*alloc->buffer);
    if (const auto* decl = as<PipeDecl>(stmt)) {
      for (const BufferRef& buffer : decl->pipe->buffers) {
        if (buffer->space != Space::shared) fault("%" + buffer->name + " belongs to a pipe and is not shared");
        place(*buffer);
      }
    }
    if (const auto* copy = as<Copy>(stmt)) check_copy(*copy);
    if (const auto* mma = as<Mma>(stmt)) check_mma(*mma);
    if (as<Scatter>(stmt)) check_scatter();
    const bool collective = as<Barrier>(stmt) || as<Copy>(stmt) || as<PipeDecl>(stmt) || as<PipeOp>(stmt) || as<Mma>(stmt);
    if (collective && !cuda_) fault("a statement that only CUDA has");
    if (collective && !reach().block) fault("not all threads of the block reach a statement that needs them all");
    if (const auto* reduce = as<Reduce>(stmt)) {
      for (const Dim& dim : reduce->dims) {
        if (dim.bind == Bind::tile) fault("a reduce over the coordinates of a register tile is not supported");
        if ((dim.bind == Bind::thread || dim.bind == Bind::warp) && !reach().block)
          fault("not all threads of the block reach a reduce across it");
        if (dim.bind == Bind::lane && !reach().warp) fault("not all lanes of a warp reach a reduce across them");
        if (dim.bind == Bind::block || dim.bind == Bind::threads)
          fault("a reduce across blocks or parallel items: split it into two kernels");
      }
    }
    if (const auto* scan = as<Scan>(stmt)) {
      for (const Dim& dim : scan->dims) {
        if (dim.bind != Bind::serial && dim.bind != Bind::unroll)
          fault("a scan runs in order, %" + dim.var->name + " is bound to " + std::string(name_of(dim.bind)));
      }
    }
  }

  void binds(const Stmt& stmt, const std::vector<Dim>& dims) {
    const auto* loop = as<Loop>(stmt);
    bool outermost = std::all_of(around().begin(), around().end() - 1, [](const Around& a) {
      const auto* outer = dims_of(*a.stmt);
      return outer &&
             std::all_of(outer->begin(), outer->end(), [](const Dim& d) { return d.bind == Bind::block || d.bind == Bind::threads; });
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
        case Bind::threads:
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
          if (!loop || !loop->tile || !loop->tile->tile) fault(name + " is bound to tile, but its loop names no register tile");
          else check_tile(*loop);
          break;
      }
      if (!known) fault(name + " is bound to " + bind + ", which " + kernel_.target + " does not have");
      if (loop && loop->kind == Loop::Kind::for_ && dim.bind != Bind::serial && dim.bind != Bind::unroll && dim.bind != Bind::none) {
        fault(name + " is a loop in order, bound to " + bind);
      }
      outermost = outermost && (dim.bind == Bind::block || dim.bind == Bind::threads);
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

  void place(const Buffer& buffer) {
    const std::string name = "%" + buffer.name;
    if (buffer.swizzle.bits != 0 && buffer.space != Space::shared) fault(name + " is swizzled and not shared");
    if ((buffer.tile || !buffer.distributed.empty()) && buffer.space != Space::registers)
      fault(name + " is spread over threads and not in registers");
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
          if (lanes > 32 || warps * 32 > kernel_.threads)
            fault(name + " is spread over " + std::to_string(lanes) + " lanes of " + std::to_string(warps) + " warps");
        }
        for (int axis : buffer.distributed) held /= std::max<int64_t>(buffer.extents[static_cast<size_t>(axis)], 1);
        register_bytes_ += held * std::max(size_bytes(buffer.dtype), 4);
        break;
      }
    }
  }

  void check_copy(const Copy& copy) {
    const bool async = copy.kind == Copy::Kind::async;
    const int bytes = copy.vector_bytes, element = size_bytes(copy.source->dtype);
    if (!(bytes == 4 || bytes == 8 || bytes == 16 || (!async && (bytes == 2 || bytes == 1))))
      fault("a copy in steps of " + std::to_string(bytes) + " bytes");
    if (!copy.extents.empty() && copy.extents.back() * element % bytes != 0) {
      fault("rows of " + std::to_string(copy.extents.back() * element) + " bytes are no multiple of the " + std::to_string(bytes) +
            " that a copy moves at once");
    }
    if (async && (copy.source->space != Space::global || copy.destination->space != Space::shared))
      fault("an asynchronous copy goes from global to shared memory");
    if (copy.destination->space == Space::registers || copy.source->space == Space::registers) fault("a copy moves no registers");
  }

  void check_mma(const Mma& mma) {
    const Buffer& d = *mma.accumulator;
    if (!d.tile || d.dtype != DType::f32 || d.extents != std::vector<int64_t>{mma.m, mma.n}) {
      fault("the accumulator of an mma is an f32 register tile of [" + std::to_string(mma.m) + ", " + std::to_string(mma.n) + "]");
    }
    const bool tf32 = mma.shape == "m16n8k8";
    if (!tf32 && mma.shape != "m16n8k16") fault("no mma of shape `" + mma.shape + "`");
    if (mma.m % 16 != 0 || mma.n % 8 != 0 || mma.k % (tf32 ? 8 : 16) != 0)
      fault("an mma of " + std::to_string(mma.m) + " x " + std::to_string(mma.n) + " x " + std::to_string(mma.k) + " by " + mma.shape);
    for (const BufferRef& operand : {mma.a, mma.b}) {
      if (operand->space != Space::shared) fault("%" + operand->name + " is read by mma and not shared");
      const bool fits = tf32 ? operand->dtype == DType::f32 : operand->dtype == DType::f16 || operand->dtype == DType::bf16;
      if (!fits || operand->dtype != mma.a->dtype) fault("mma " + mma.shape + " does not take " + std::string(name_of(operand->dtype)));
    }
  }

  /// A scatter that several threads execute alike would add several times.
  void check_scatter() {
    if (!cuda_) return;
    bool thread = false, warp = kernel_.threads == 32, lane = false;
    for (const Around& a : around()) {
      const auto* dims = dims_of(*a.stmt);
      for (size_t d = 0; dims && d < dims->size(); ++d) {
        const Dim& dim = (*dims)[d];
        if (!is_thread_bind(dim.bind) || digits_.at(dim.var.get()).stride != 1) continue;
        thread = thread || dim.bind == Bind::thread;
        warp = warp || dim.bind == Bind::warp;
        lane = lane || dim.bind == Bind::lane;
      }
      if (const auto* loop = as<Loop>(*a.stmt); loop && loop->tile) thread = true;
    }
    if (!thread && !(warp && lane)) fault("a scatter that several threads execute alike");
  }

  // -------------------------------------------------------------------------------------------------- who comes by here

  Reach reach() const { return reach_.empty() ? Reach{} : reach_.back(); }

  void on_enter(const Stmt& stmt) override {
    Reach next = reach();
    if (const auto* dims = dims_of(stmt)) {
      for (const Dim& dim : *dims) {
        varying(dim);
        if (!is_thread_bind(dim.bind)) continue;
        const Digit& digit = digits_.at(dim.var.get());
        const int64_t all = dim.bind == Bind::thread ? kernel_.threads : dim.bind == Bind::warp ? kernel_.threads / 32 : 32;
        const int64_t used = digit.stride * dim.var->extent;
        if (used == (digit.radix == 0 ? all : digit.radix)) continue;
        next.block = false;
        if (dim.bind == Bind::lane || (dim.bind == Bind::thread && used % 32 != 0)) next.warp = false;
      }
    }
    ExprPtr condition;
    if (const auto* loop = as<Loop>(stmt)) condition = loop->where;
    if (const auto* branch = as<If>(stmt)) condition = branch->condition;
    if (condition) {
      for (const Var* var : uses_of(condition).vars) {
        if (!lanes_.count(var) && !warps_.count(var)) continue;
        next.block = false;
        if (lanes_.count(var)) next.warp = false;
      }
    }
    reach_.push_back(next);
  }
  void on_leave(const Stmt&) override { reach_.pop_back(); }

  void varying(const Dim& dim) {
    if (dim.bind == Bind::thread || dim.bind == Bind::lane || dim.bind == Bind::tile) lanes_.insert(dim.var.get());
    if (dim.bind == Bind::warp) warps_.insert(dim.var.get());
    if (dim.bind == Bind::tile) tiles_.insert(dim.var.get());
  }

  void on_access(const BufferRef& buffer, const std::vector<Index>& indices, bool) override {
    if (buffer->tile) {
      for (const Index& index : indices) {
        std::vector<VarRef> vars;
        collect_vars(index, vars);
        if (vars.size() != 1 || !(index == Index(vars[0])) || !tiles_.count(vars[0].get())) {
          fault("%" + buffer->name + " is a register tile, its indices are the variables of a loop over it");
          return;
        }
      }
    }
    for (int axis : buffer->distributed) {
      if (static_cast<size_t>(axis) >= indices.size()) continue;
      const Index& index = indices[static_cast<size_t>(axis)];
      std::vector<VarRef> vars;
      collect_vars(index, vars);
      const bool bound =
          std::all_of(vars.begin(), vars.end(), [&](const VarRef& v) { return lanes_.count(v.get()) || warps_.count(v.get()); });
      if (!bound || (vars.empty() && buffer->extents[static_cast<size_t>(axis)] > 1)) {
        fault("axis " + std::to_string(axis) + " of %" + buffer->name + " is spread over threads, its index is " + to_string(index));
      }
    }
  }

  const Kernel& kernel_;
  bool cuda_;
  std::map<const Var*, Digit> digits_;
  std::vector<Reach> reach_;
  std::set<const Var*> lanes_, warps_, tiles_;
  int64_t register_bytes_ = 0;
};

}  // namespace

std::vector<std::string> verify_kernel(const Kernel& kernel) {
  Scheduled verifier(kernel);
  verifier.run();
  return verifier.take();
}

}  // namespace tcc::loop
