// Cuts a scheduled unit into kernels, one launch each.
//
// Each top-level loop is a kernel. What stands between loops (reduces to a single value, their stores) makes kernels of one item. A scalar that one kernel
// computes and another reads goes through a temporary of rank 0; lets that need no reduce are computed again instead.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/shared_memory.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/integer_math.h"

namespace tcc::schedule {

namespace {

using namespace tcc::loop;

/// Parallel items and threads of the statements of a block, over all nests in it.
struct Sizes {
  int64_t items = 1, threads = 1, warps = 1;
  bool lanes = false;
};

void measure(const Block& block, Sizes outer, Sizes& widest) {
  for (const Stmt& stmt : block) {
    Sizes sizes = outer;
    if (const auto* dims = dims_of(stmt)) {
      for (const auto& dim : *dims) {
        const int64_t extent = dim.var->extent;
        if (dim.bind == Bind::block || dim.bind == Bind::parallel) sizes.items = capped_product(sizes.items, extent);
        if (dim.bind == Bind::thread) sizes.threads = capped_product(sizes.threads, extent);
        if (dim.bind == Bind::warp) sizes.warps = std::min<int64_t>(capped_product(sizes.warps, extent), 1 << 20);
        if (dim.bind == Bind::lane) sizes.lanes = true;
      }
    }
    const auto* loop = std::get_if<Loop>(&stmt.node);
    if (loop && loop->tile && loop->tile->tile) {
      int64_t warps = 1;
      for (const TileDigit& digit : loop->tile->tile->digits) {
        if (digit.level == TileDigit::Level::warp) warps *= digit.extent;
      }
      sizes.warps = std::max(sizes.warps, warps);
      sizes.lanes = true;
    }
    if (const auto* roles = std::get_if<Roles>(&stmt.node)) {
      sizes.warps = 0;
      for (const Role& role : roles->roles) sizes.warps += role.warps;
      sizes.lanes = true;
    }
    widest.items = std::max(widest.items, sizes.items);
    widest.threads = std::max(widest.threads, sizes.threads);
    widest.warps = std::max(widest.warps, sizes.warps);
    widest.lanes |= sizes.lanes || sizes.warps > 1;
    // Loops within a role are over its own warps.
    const Sizes around = std::holds_alternative<Roles>(stmt.node) ? Sizes{sizes.items, sizes.threads, 1, true} : sizes;
    for (const Block* inner : blocks_of(stmt)) measure(*inner, around, widest);
  }
}

class Cutter {
 public:
  Cutter(const loop::Unit& unit, const Target& target) : unit_(unit), target_(target), names_(unit) {}

  std::vector<Kernel> run(std::vector<BufferRef>* temporaries) {
    std::vector<Block> bodies;
    bool open = false;  // the last body takes more statements that are no loops
    for (const Stmt& stmt : unit_.body) {
      if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) {
        if (alloc->buffer->space != Space::global)
          unfit("`" + alloc->buffer->name + "` is a thread's own, but no loop is around it any more");
        temporaries_.push_back(alloc->buffer);
        continue;
      }
      const bool is_loop = std::holds_alternative<Loop>(stmt.node) || std::holds_alternative<Scan>(stmt.node);
      if (is_loop || !open) bodies.emplace_back();
      bodies.back().push_back(stmt);
      open = !is_loop;
    }
    drop_lets_alone(bodies);
    pass_scalars(bodies);
    std::vector<Kernel> kernels;
    for (Block& body : bodies) kernels.push_back(make_kernel(std::move(body)));
    if (temporaries) *temporaries = temporaries_;
    return kernels;
  }

 private:
  /// A body of lets alone has no effect of its own: who reads them computes them again.
  static void drop_lets_alone(std::vector<Block>& bodies) {
    std::erase_if(bodies, [](const Block& body) {
      return std::all_of(body.begin(), body.end(), [](const Stmt& stmt) { return std::holds_alternative<Let>(stmt.node); });
    });
  }

  void pass_scalars(std::vector<Block>& bodies) {
    std::map<const Scalar*, BufferRef> passed;
    // Later bodies first asks for what earlier ones must store; lets in front may ask for more, so their needs count too.
    for (Block& body : bodies) {
      std::set<const Scalar*> used;
      collect_scalars(body, used);
      for (const Stmt& stmt : body) {
        for (const ScalarRef& scalar : defined_by(stmt)) used.erase(scalar.get());
      }
      Block before;
      for (auto stmt = unit_.body.rbegin(); stmt != unit_.body.rend(); ++stmt) {
        if (const auto* let = std::get_if<Let>(&stmt->node)) {
          if (!used.contains(let->scalar.get())) continue;
          collect_scalars(let->value, used);
          before.insert(before.begin(), *stmt);
        } else if (const auto* reduce = std::get_if<Reduce>(&stmt->node)) {
          for (const State& state : reduce->states) {
            if (!used.contains(state.result.get())) continue;
            BufferRef& buffer = passed[state.result.get()];
            if (!buffer) {
              buffer = make_buffer(names_.fresh(state.result->name + ".passed"), state.result->dtype, {}, Space::global);
              temporaries_.push_back(buffer);
            }
            before.insert(before.begin(), Stmt{Let{state.result, load(buffer, {})}});
          }
        }
      }
      body.insert(body.begin(), before.begin(), before.end());
    }
    for (Block& body : bodies) {
      for (size_t i = 0; i < body.size(); i++) {
        const auto* reduce = std::get_if<Reduce>(&body[i].node);
        if (!reduce) continue;
        Block stores;
        for (const State& state : reduce->states) {
          const auto found = passed.find(state.result.get());
          if (found != passed.end()) stores.push_back({Store{found->second, {}, scalar_value(state.result)}});
        }
        body.insert(body.begin() + static_cast<std::ptrdiff_t>(i) + 1, stores.begin(), stores.end());
      }
    }
  }

  /// A kernel without instructions of its target alone is one for the target's base: both have the same code.
  void use_base(Kernel& kernel) const {
    if (target_.base.empty()) return;
    bool specific = kernel.shared_bytes > Target::of(target_.base).shared_bytes;
    walk(kernel.body, [&](const Stmt& stmt) {
      const auto* mma = std::get_if<Mma>(&stmt.node);
      const auto* copy = std::get_if<Copy>(&stmt.node);
      specific = specific || (mma && mma->async) || (copy && copy->kind == Copy::Kind::tma) || std::holds_alternative<Roles>(stmt.node);
    });
    if (!specific) kernel.target = target_.base;
  }

  Kernel make_kernel(Block body) {
    Kernel kernel;
    kernel.target = target_.name;
    const Uses uses = uses_of(body);
    std::vector<BufferRef> buffers;
    for (const Param& param : unit_.params) buffers.push_back(param.buffer);
    buffers.insert(buffers.end(), temporaries_.begin(), temporaries_.end());
    for (const BufferRef& buffer : buffers) {
      if (uses.reads.contains(buffer.get()) && !uses.writes.contains(buffer.get())) kernel.params.push_back({buffer, false});
    }
    for (const BufferRef& buffer : buffers) {
      if (uses.writes.contains(buffer.get())) kernel.params.push_back({buffer, true});
    }
    Sizes sizes;
    measure(body, {}, sizes);
    kernel.grid = sizes.items;
    if (sizes.lanes && sizes.threads > 1) unfit("a kernel uses threads and lanes of warps together");
    kernel.threads = static_cast<int>(std::min<int64_t>(sizes.lanes ? sizes.warps * target_.warp_threads : sizes.threads, 1 << 20));
    kernel.body = std::move(body);
    if (target_.is_cuda()) {
      kernel.threads = align_up(kernel.threads, target_.warp_threads);  // whole warps; what is beyond the loops idles
      kernel.shared_bytes = shared_bytes(kernel);
      use_base(kernel);
    }
    return kernel;
  }

  const loop::Unit& unit_;
  const Target& target_;
  NameTable names_;
  std::vector<BufferRef> temporaries_;
};

}  // namespace

std::vector<Kernel> split_kernels(const loop::Unit& unit, const Target& target, std::vector<BufferRef>* temporaries) {
  return Cutter(unit, target).run(temporaries);
}

}  // namespace tcc::schedule
