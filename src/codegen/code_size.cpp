// About how many instructions a kernel becomes: what is written out several times counts as often. Only compared with that of other kernels.

#include "tcc/codegen/codegen.h"
#include "tcc/loop/fields.h"
#include "tcc/loop/rewrite.h"

namespace tcc::codegen {
namespace {

constexpr int64_t kMma = 64;  // the instructions of a warp, and the loads before them

int64_t size_of(const loop::Expr& expr) {
  int64_t size = expr.kind == loop::Expr::Kind::op ? std::max(arithmetic_cost(expr.op), 1) : 1;
  for (const loop::ExprPtr& arg : expr.args) size += size_of(*arg);
  return size;
}

int64_t size_of(const loop::Block& block);

struct Sizer : loop::NoFields {
  int64_t size = 1, times = 1;
  void dims(const std::vector<loop::Dim>& dims) {
    for (const loop::Dim& dim : dims) {
      if (dim.bind == loop::Bind::unroll || dim.bind == loop::Bind::vector) times *= std::max<int64_t>(dim.var->extent, 1);
    }
  }
  void buffer(loop::Effect effect, const loop::BufferRef& buffer) {
    if (effect == loop::Effect::names && buffer && buffer->tile) times *= loop::registers_of(*buffer->tile);
    if (effect == loop::Effect::updates) size += kMma;
  }
  void expr(const loop::ExprPtr& expr) { size += expr ? times * size_of(*expr) : 0; }
  void condition(const loop::ExprPtr& condition) { expr(condition); }
  void yields(const loop::ExprPtr& value, const loop::Block&) { expr(value); }
  void block(const loop::Block& block) { size += times * size_of(block); }
};

int64_t size_of(const loop::Block& block) {
  int64_t size = 0;
  for (const loop::Stmt& stmt : block) {
    Sizer sizer;
    loop::fields_of(stmt, sizer);
    size += sizer.size;
  }
  return size;
}

}  // namespace

int64_t estimate_code_size(const loop::Kernel& kernel) { return size_of(kernel.body); }

}  // namespace tcc::codegen
