#include "loop/self_stores.h"

#include <algorithm>
#include <set>

#include "tcc/loop/rewrite.h"

namespace tcc::loop {
namespace {

bool loads(const ExprPtr& value, const Store& store) {
  return value->kind == Expr::Kind::load && value->buffer == store.buffer && !value->otherwise && value->indices == store.indices;
}

/// Whether the statement stores what its element holds.
bool is_self_store(const Block& block, size_t at, const BufferRef& buffer) {
  const auto* store = as<Store>(block[at]);
  if (!store || store->buffer != buffer) return false;
  if (loads(store->value, *store)) return true;
  if (store->value->kind != Expr::Kind::scalar) return false;
  for (size_t i = at; i-- > 0;) {
    const auto* let = as<Let>(block[i]);
    if (let && let->scalar == store->value->scalar) return loads(let->value, *store);
    const Uses uses = uses_of(block[i]);
    if (uses.barrier || uses.writes.count(buffer.get())) return false;
  }
  return false;
}

bool drop_stores(Block& block, const BufferRef& buffer) {
  bool changed = false;
  for (size_t i = block.size(); i-- > 0;) {
    for (Block* inner : blocks_of(block[i])) changed |= drop_stores(*inner, buffer);
    if (!is_self_store(block, i, buffer)) continue;
    block.erase(block.begin() + static_cast<ptrdiff_t>(i));
    changed = true;
  }
  return changed;
}

/// Definitions that nothing reads and loops around nothing; those that check an index stay.
bool drop_unused(Block& block, const std::set<const Scalar*>& used) {
  const size_t before = block.size();
  bool changed = false;
  for (Stmt& stmt : block) {
    for (Block* inner : blocks_of(stmt)) changed |= drop_unused(*inner, used);
  }
  std::erase_if(block, [&](const Stmt& stmt) {
    if (const auto* loop = as<Loop>(stmt)) return loop->body.empty();
    const auto* let = as<Let>(stmt);
    return let && !used.count(let->scalar.get()) && num_index_checks(Block{stmt}) == 0;
  });
  return changed || block.size() != before;
}

}  // namespace

void drop_self_stores(Kernel& kernel, const BufferRef& buffer) {
  if (!drop_stores(kernel.body, buffer)) return;
  while (drop_unused(kernel.body, uses_of(kernel.body).scalars)) {}
  const Uses uses = uses_of(kernel.body);
  std::erase_if(kernel.params,
                [&](const Param& param) { return !uses.reads.count(param.buffer.get()) && !uses.writes.count(param.buffer.get()); });
}

}  // namespace tcc::loop
