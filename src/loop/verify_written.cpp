// Reads of what is never written.
//
//   map %j_0.keep in 11, %j_1.keep in 8 where lt(index(%j_0.keep * 8 + %j_1.keep), 82) { store ..., %x.kept[%j_0.keep, %j_1.keep] }
//   map %k_0 in 11, %k_1 in 8 where lt(index(%k_0 * 8 + %k_1), 83) { ... load %x.kept[%k_0, %k_1] ... }        // element 82 was never written
//
// The element at the indices of a load was written if the mask of the store holds there, with the load's indices in place of the store's variables.
#include "loop/verify_written.h"

#include <algorithm>
#include <set>

#include "tcc/loop/fields.h"
#include "tcc/loop/rewrite.h"

namespace tcc::loop {
namespace {

/// Where a buffer is written, and how often.
struct Stores {
  int count = 0;
  const Store* store = nullptr;
  std::vector<Dim> dims;       ///< around the store, inside the alloc's block
  std::vector<ExprPtr> masks;  ///< of those loops
  bool plain = true;           ///< there are only loops around it
};

class Collector {
 public:
  void visit(const Block& block) {
    for (const Stmt& stmt : block) visit(stmt);
  }
  std::map<const Buffer*, Stores> stores;

 private:
  void visit(const Stmt& stmt) {
    if (const auto* alloc = as<Alloc>(stmt)) {
      depth_[alloc->buffer.get()] = around_.size();
      stores[alloc->buffer.get()];
    }
    if (const auto* store = as<Store>(stmt)) {
      note(store->buffer.get(), store);
    } else {
      const auto note_other = [&](Effect effect, const BufferRef& buffer) {
        if (effect == Effect::writes || effect == Effect::updates) note(buffer.get(), nullptr);
      };
      each_buffer(stmt, note_other);
      each_place(stmt, [&](Effect effect, const BufferRef& buffer, const std::vector<Index>&) { note_other(effect, buffer); });
    }
    around_.push_back(&stmt);
    for (const Block* inner : blocks_of(stmt)) visit(*inner);
    around_.pop_back();
  }

  void note(const Buffer* buffer, const Store* store) {
    const auto found = stores.find(buffer);
    if (found == stores.end()) return;
    Stores& entry = found->second;
    entry.count += store ? 1 : 2;
    entry.store = store;
    for (size_t i = depth_[buffer]; i < around_.size(); ++i) {
      if (const auto* dims = dims_of(*around_[i])) {
        entry.dims.insert(entry.dims.end(), dims->begin(), dims->end());
        entry.masks.push_back(condition_of(*around_[i]));
      } else {
        entry.plain = false;
      }
    }
  }

  std::vector<const Stmt*> around_;
  std::map<const Buffer*, size_t> depth_;
};

}  // namespace

Written::Written(const Block& body) {
  Collector collector;
  collector.visit(body);
  for (const auto& [buffer, entry] : collector.stores) {
    if (entry.count != 1 || !entry.plain || buffer->tile) continue;
    Writer writer;
    std::set<const Var*> used;
    bool simple = true;
    for (const Index& index : entry.store->indices) {
      std::vector<VarRef> vars;
      collect_vars(index, vars);
      const bool is_var = vars.size() == 1 && index == Index(vars[0]) && used.insert(vars[0].get()).second;
      simple = simple && (index.is_constant() || is_var);
      writer.indices.push_back(index);
    }
    for (const ExprPtr& mask : entry.masks) writer.mask = logical_and(writer.mask, mask);
    if (writer.mask) {  // of the store's own variables, its loops' that are no index say nothing
      const Uses uses = uses_of(writer.mask);
      const auto is_free = [&](const Dim& dim) { return uses.vars.count(dim.var.get()) && !used.count(dim.var.get()); };
      simple = simple && !std::any_of(entry.dims.begin(), entry.dims.end(), is_free);
    }
    if (simple) writers_.emplace(buffer, std::move(writer));
  }
}

std::optional<std::string> Written::fault(const Expr& load, const IndexBounds& bounds, const std::vector<ExprPtr>& conditions) const {
  const auto found = writers_.find(load.buffer.get());
  if (found == writers_.end() || load.indices.size() != found->second.indices.size()) return std::nullopt;
  const Writer& writer = found->second;
  const auto never = [&](const std::string& why) { return "%" + load.buffer->name + " is read where it is not written: " + why; };
  std::map<const Var*, Index> at;
  for (size_t axis = 0; axis < writer.indices.size(); ++axis) {
    const Index &written = writer.indices[axis], &read = load.indices[axis];
    std::vector<VarRef> vars;
    collect_vars(written, vars);
    const int64_t low = written.constant(), count = vars.empty() ? 1 : vars[0]->extent;
    if (!vars.empty()) at.emplace(vars[0].get(), read);
    if (read.uses_scalars() || (low == 0 && count >= load.buffer->extents[axis])) continue;
    if (!bounds.proves(read, low, low + count))
      return never("axis " + std::to_string(axis) + " is filled for " + std::to_string(count) + " elements, read at " + to_string(read));
  }
  if (!writer.mask) return std::nullopt;
  Substitution moved;
  moved.var = [&](const VarRef& var) -> std::optional<Index> {
    const auto index = at.find(var.get());
    return index == at.end() ? std::nullopt : std::optional(index->second);
  };
  moved.scalar = [](const ScalarRef&) { return ExprPtr(); };
  moved.buffer = [](const BufferRef&) { return BufferRef(); };
  const ExprPtr needed = substitute(writer.mask, moved);
  if (bounds.proves(needed)) return std::nullopt;
  ExprPtr known;
  for (const ExprPtr& condition : conditions) known = logical_and(known, condition);
  if (implies(known, needed)) return std::nullopt;
  return never("it is filled where " + print(needed));
}

}  // namespace tcc::loop
