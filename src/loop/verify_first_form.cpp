// The first form: says what is computed and nothing about how, and no two iterations of a map write one element.
#include <algorithm>
#include <cstdlib>

#include "loop/verifier.h"
#include "tcc/loop/fields.h"

namespace tcc::loop {
namespace {

class FirstForm : public Verifier {
 public:
  void run(const Unit& unit) {
    verify_params(unit.params);
    verify(unit.body);
  }

 private:
  void on_stmt(const Stmt& stmt) override {
    if (const auto* dims = dims_of(stmt)) {
      for (const Dim& dim : *dims) {
        if (dim.bind != Bind::none) fault("%" + dim.var->name + " is bound to " + std::string(name_of(dim.bind)) + " in the first form");
      }
    }
    if (const auto* loop = as<Loop>(stmt); loop && loop->tile) fault("a loop over a register tile in the first form");
    if (const auto* alloc = as<Alloc>(stmt); alloc && alloc->buffer->space != Space::local && alloc->buffer->space != Space::global) {
      fault("%" + alloc->buffer->name + " has a place in the first form");
    }
    if (together(stmt).team != Team::thread && !dims_of(stmt) && !as<Alloc>(stmt))
      fault("a statement of the scheduled form in the first form");
    if (const auto* store = as<Store>(stmt)) disjoint(*store);
  }

  /// Reports only what certainly collides: an index that leaves out a variable of a map around, or two variables one of which is a step of the other.
  void disjoint(const Store& store) {
    struct Moving {
      VarRef var;
      int64_t step;
      bool conditional;
    };
    std::vector<Moving> moving;
    const Index flat = flatten(store.indices, store.buffer->extents);
    // A condition anywhere around may keep two iterations apart.
    std::vector<ExprPtr> conditions;
    for (const Around& a : around()) conditions.push_back(condition_of(*a.stmt));
    for (const Around& a : around()) {
      const auto* loop = as<Loop>(*a.stmt);
      if (!loop || loop->kind != Loop::Kind::map || !a.buffers_before.count(store.buffer.get()))
        continue;  // one of its own in each iteration
      for (const Dim& dim : loop->dims) {
        if (dim.var->extent <= 1) continue;
        bool inside = false;
        const int64_t step = flat.coefficient_of(dim.var.get(), &inside);
        if (inside || flat.uses_scalars()) continue;
        const bool conditional =
            std::any_of(conditions.begin(), conditions.end(), [&](const ExprPtr& e) { return e && uses_of(e).vars.count(dim.var.get()); });
        if (step == 0 && !conditional) fault("iterations of %" + dim.var->name + " write the same element of %" + store.buffer->name);
        if (step != 0) moving.push_back({dim.var, std::abs(step), conditional});
      }
    }
    for (const Moving& a : moving) {
      for (const Moving& b : moving) {
        if (a.var == b.var || a.conditional || b.conditional || a.step > b.step || (a.step == b.step && a.var->id < b.var->id)) continue;
        if (b.step % a.step == 0 && b.step / a.step < a.var->extent) {
          fault("iterations of %" + a.var->name + " and %" + b.var->name + " write the same element of %" + store.buffer->name);
        }
      }
    }
  }
};

}  // namespace

std::vector<std::string> verify_first_form(const Unit& unit) {
  FirstForm verifier;
  verifier.run(unit);
  return verifier.take();
}

}  // namespace tcc::loop
