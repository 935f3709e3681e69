// stage(a, shared, at=k_0, by=loops): a shared copy with an axis for each loop inside that the reads of a buffer follow, whatever the axes of the buffer are.
//
//   map %p_0 in 49 { for %k_0 in 4 { for %k_1 in 32 { map %p_1 in 64, %n_1 in 128 {
//     ... load %a[(%p_0 * 64 + %p_1) / 196, %k_0 * 32 + %k_1, (%p_0 * 64 + %p_1) mod 196] ...
// becomes
//   map %p_0 in 49 { for %k_0 in 4 {
//     alloc %a.staged: bf16[32, 64] shared
//     barrier
//     copy (%a_k_1 in 32, %a_p_1 in 64) %a[(%p_0 * 64 + %a_p_1) / 196, %k_0 * 32 + %a_k_1, (%p_0 * 64 + %a_p_1) mod 196] -> %a.staged[%a_k_1, %a_p_1] bytes 8
//     barrier
//     for %k_1 in 32 { map %p_1 in 64, %n_1 in 128 { ... load %a.staged[%k_1, %p_1] ...
//
// Dims that were fused, windows of images and axes in any order become operands of two axes in this way. The loop along which the widest accesses are possible,
// of several the one whose neighbours are the nearest, is the last axis; the others keep their order. Masks of the loops mask the copy, which then gives zeros,
// unless the buffer ends there.
//
// `masks=sum`: masks of rows and columns don't mask the copy, which then brings what nobody reads. Those of a sum have to give zeros.
//
// Zeros that a select puts between the elements of the buffer are copied as zeros.
//
// `as=bf16`: what is cast to bf16 as it is read is copied as bf16. What has 8 bits is copied as bf16 or f16 whatever it is cast to: they hold all of its values.
// Where more than the element is cast to bf16, such as weights of 4 bits less a zero point, times a scale, the copy computes it:
//
//   copy (%a_n in 128, %a_k in 64) %a[...] -> %a.staged[%a_n, %a_k] bytes 4 as cast<bf16>(mul(cast<f32>(load %a[...]), load %s[..., (... + %a_k) / 32]))
#include "loop/primitives/stage.h"

#include <algorithm>
#include <map>
#include <utility>

#include "loop/verify_collective.h"
#include "tcc/loop/fields.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"

namespace tcc::loop {

namespace {

/// A value that is zero, where nothing is.
bool is_zero(const ExprPtr& expr) {
  return !expr || (expr->kind == Expr::Kind::constant && expr->float_value == 0 && expr->int_value == 0);
}

class LoopStager {
 public:
  LoopStager(const Unit& unit, const std::string& buffer, std::string at, std::optional<DType> dtype, bool of_sums_alone)
      : names_(unit), buffer_(find_buffer(unit, buffer)), at_(std::move(at)), dtype_(dtype), of_sums_alone_(of_sums_alone) {
    if (!buffer_) no_such_buffer(unit, buffer);
  }

  bool edit(Block& block) {
    return edit_inside(block, at_, [&](Block& body, const std::set<const Var*>& threads) { stage(body, threads); });
  }

 private:
  /// The reads of the buffer, all alike, and under which conditions they stand.
  struct Read {
    const Expr* load = nullptr;
    std::vector<ExprPtr> conditions;
  };

  void stage(Block& inner, const std::set<const Var*>& threads) {
    const Uses uses = uses_of(inner);
    if (uses.writes.contains(buffer_.get())) unfit("`" + buffer_->name + "` is written inside `" + at_ + "`");
    inside_ = uses.loops;
    inside_.insert(threads.begin(), threads.end());
    defined_ = uses.defines;
    walk(inner, [&](const Stmt& stmt) {
      const auto* loop = as<Loop>(stmt);
      if (!loop || loop->kind != Loop::Kind::map) return;
      for (const Dim& dim : loop->dims) results_.insert(dim.var.get());
    });
    inline_loads(inner);
    const std::vector<ExprPtr> selected = absorb_selects(inner);
    const ExprPtr computed = dtype_ ? find_computed(inner) : nullptr;
    Read read;
    look(inner, {}, read);
    if (!read.load) unfit("nothing inside `" + at_ + "` reads `" + buffer_->name + "`");

    const std::vector<Index> indices = read.load->indices;
    const std::vector<VarRef> loops = loops_of(indices, inner);
    Copy copy = copy_of(indices, loops, read.conditions, selected, computed);
    Buffer prototype;
    prototype.name = names_.fresh(buffer_->name + ".staged");
    prototype.dtype = dtype_.value_or(buffer_->dtype);
    prototype.space = Space::shared;
    for (const VarRef& var : copy.box) prototype.extents.push_back(var->extent);
    copy.destination = make_buffer(std::move(prototype));
    std::vector<Index> at;
    for (const VarRef& var : copy.box) at.emplace_back(loop_of_.at(var.get()));
    rewrite_exprs(inner, [&](const ExprPtr& expr) -> ExprPtr {
      if (computed) return equal(expr, computed) ? load(copy.destination, at) : expr;
      const bool cast = dtype_ && expr->kind == Expr::Kind::op && expr->op == Op::cast_ && (expr->dtype == *dtype_ || widens());
      const ExprPtr& loaded = cast ? expr->args[0] : expr;
      if (cast != dtype_.has_value() || loaded->kind != Expr::Kind::load || loaded->buffer != buffer_) return expr;
      return cast ? cast_to(load(copy.destination, at), expr->dtype) : load(copy.destination, at);
    });
    if (uses_of(inner).reads.contains(buffer_.get()))
      unfit("`" + buffer_->name + "` is not cast to " + std::string(name_of(*dtype_)) + " wherever it is read inside `" + at_ + "`");
    Block body;
    body.push_back({Alloc{copy.destination}});
    body.push_back({Barrier{}});  // the last round's readers are done
    body.push_back({std::move(copy)});
    body.push_back({Barrier{}});
    append(body, std::move(inner));
    inner = std::move(body);
  }

  /// Whether the copy holds each value of the buffer, in more bits.
  bool widens() const { return size_bits(buffer_->dtype) <= 8 && size_bits(*dtype_) >= 16; }

  static const Expr& without_casts(const ExprPtr& expr) {
    const Expr* inner = expr.get();
    while (inner->kind == Expr::Kind::op && inner->op == Op::cast_) inner = inner->args[0].get();
    return *inner;
  }
  bool reads_buffer(const Expr& expr) const { return expr.kind == Expr::Kind::load && expr.buffer == buffer_; }

  /// What stands in a `select(condition, load, 0)` is copied under its condition, where all reads do. Returns the condition's parts.
  std::vector<ExprPtr> absorb_selects(Block& block) const {
    ExprPtr condition;
    int reads = 0, selected = 0;
    Block changed = block;
    rewrite_exprs(changed, [&](const ExprPtr& expr) -> ExprPtr {
      reads += reads_buffer(*expr);
      if (expr->kind != Expr::Kind::op || expr->op != Op::select_ || !reads_buffer(without_casts(expr->args[1])) || !is_zero(expr->args[2]))
        return expr;
      if (condition && !equal(condition, expr->args[0])) return expr;
      condition = expr->args[0];
      selected++;
      return expr->args[1];
    });
    if (selected == 0 || selected != reads) return {};
    block = std::move(changed);
    return conjuncts(condition);
  }

  /// The outermost cast to the dtype of the copy that is around a read of the buffer, but for one of the element alone; null.
  ExprPtr computed_in(const ExprPtr& expr) const {
    if (!expr || expr->kind != Expr::Kind::op) return nullptr;
    bool reads = false;
    visit(expr, [&](const Expr& e) { reads = reads || reads_buffer(e); });
    if (!reads) return nullptr;
    if (expr->op == Op::cast_ && expr->dtype == *dtype_) return reads_buffer(*expr->args[0]) ? nullptr : expr;
    for (const ExprPtr& arg : expr->args) {
      if (ExprPtr found = computed_in(arg)) return found;
    }
    return nullptr;
  }

  /// What the copy has to compute, made of loads alone: the lets that it reads stand in it from now on. Null where it is the element, cast.
  ExprPtr find_computed(Block& block) const {
    std::map<const Scalar*, ExprPtr> lets;
    walk(block, [&](const Stmt& stmt) {
      if (const auto* let = as<Let>(stmt)) lets[let->scalar.get()] = let->value;
    });
    ExprPtr found;
    walk(block, [&](const Stmt& stmt) {
      each_expr(stmt, [&](const ExprPtr& expr) {
        if (!found) found = computed_in(expr);
      });
    });
    if (!found) return nullptr;
    const ExprPtr before = found;
    std::set<const Scalar*> scalars;
    for (collect_scalars(found, scalars); !scalars.empty(); scalars.clear(), collect_scalars(found, scalars)) {
      Substitution values;
      values.scalar = [&](const ScalarRef& scalar) {
        const auto at = lets.find(scalar.get());
        if (at == lets.end())
          unfit("what `" + buffer_->name + "` is read for depends on %" + scalar->name + ", which is computed outside of `" + at_ + "`");
        return at->second;
      };
      found = substitute(found, values);
    }
    rewrite_exprs(block, [&](const ExprPtr& expr) { return equal(expr, before) ? found : expr; });
    std::set<const Scalar*> used;
    collect_scalars(block, used);
    for_each_block(block, [&](Block& inner) {
      std::erase_if(inner, [&](const Stmt& stmt) {
        return as<Let>(stmt) && lets.contains(as<Let>(stmt)->scalar.get()) && !used.contains(as<Let>(stmt)->scalar.get());
      });
    });
    return found;
  }

  /// The computed value in terms of the box. Outside of the source the copy gives zeros and computes nothing: no load needs a value there.
  ExprPtr boxed_value(const ExprPtr& computed, const Substitution& boxed, const Copy& copy) const {
    const ExprPtr value = rewrite_expr(computed, [&](const ExprPtr& expr) {
      if (expr->kind != Expr::Kind::load || !expr->otherwise) return expr;
      if (!is_zero(expr->otherwise)) unfit("what is read outside of `" + expr->buffer->name + "` is not zero");
      return load(expr->buffer, expr->indices);
    });
    const Uses uses = uses_of(substitute(value, boxed));
    for (const Var* var : uses.vars) {
      if (inside_.contains(var) && std::none_of(copy.box.begin(), copy.box.end(), [&](const VarRef& own) { return own.get() == var; }))
        unfit("what `" + buffer_->name + "` is read for changes along %" + var->name + ", and it does not");
    }
    return substitute(value, boxed);
  }

  /// Loads of the buffer stand where their values are used, so that casts and selects are around them.
  void inline_loads(Block& block) const {
    std::map<const Scalar*, ExprPtr> loads;
    walk(block, [&](const Stmt& stmt) {
      const auto* let = as<Let>(stmt);
      if (let && let->value->kind == Expr::Kind::load && let->value->buffer == buffer_) loads[let->scalar.get()] = let->value;
    });
    Substitution values;
    values.scalar = [&](const ScalarRef& scalar) {
      const auto at = loads.find(scalar.get());
      return at == loads.end() ? nullptr : at->second;
    };
    block = substitute(block, values);
    for_each_block(block, [&](Block& inner) {
      std::erase_if(inner, [&](const Stmt& stmt) { return as<Let>(stmt) && loads.contains(as<Let>(stmt)->scalar.get()); });
    });
  }

  void look(const Block& block, const std::vector<ExprPtr>& conditions, Read& read) {
    for (const Stmt& stmt : block) {
      each_expr(stmt, [&](const ExprPtr& expr) {
        visit(expr, [&](const Expr& e) {
          if (e.kind == Expr::Kind::load && e.buffer == buffer_) add(e, conditions, read);
        });
      });
      std::vector<ExprPtr> all = conditions;
      for (const ExprPtr& condition : conjuncts(condition_of(stmt))) all.push_back(condition);
      for (const Block* inner : blocks_of(stmt)) look(*inner, all, read);
    }
  }

  void add(const Expr& load, const std::vector<ExprPtr>& conditions, Read& read) const {
    if (!is_zero(load.otherwise)) unfit("what is read outside of `" + buffer_->name + "` is not zero");
    if (!read.load) {
      read = {&load, conditions};
      return;
    }
    const bool alike = std::equal(conditions.begin(), conditions.end(), read.conditions.begin(), read.conditions.end(),
                                  [](const ExprPtr& a, const ExprPtr& b) { return equal(a, b); });
    if (!alike || !(load.indices == read.load->indices)) unfit("`" + buffer_->name + "` is read at several places inside `" + at_ + "`");
  }

  /// The loops inside that the indices follow, those of threads around first, the others as they stand.
  std::vector<VarRef> loops_of(const std::vector<Index>& indices, const Block& inner) const {
    std::vector<VarRef> used, ordered;
    for (const Index& index : indices) {
      collect_vars(index, used);
      std::set<const Scalar*> scalars;
      collect_scalars(index_value(index), scalars);
      for (const Scalar* scalar : scalars) {
        if (defined_.contains(scalar)) unfit("`" + buffer_->name + "` is read at an index that is computed inside `" + at_ + "`");
      }
    }
    std::erase_if(used, [&](const VarRef& var) { return !inside_.contains(var.get()); });
    walk(inner, [&](const Stmt& stmt) {
      each_definition(stmt, [&]<class Ref>(const Ref& defined) {
        if constexpr (std::same_as<Ref, VarRef>) {
          if (std::erase(used, defined) > 0) ordered.push_back(defined);
        }
      });
    });
    ordered.insert(ordered.begin(), used.begin(), used.end());
    return ordered;
  }

  /// The copy, all but its destination. Of masks it has those that it can; what was in selects it has to.
  Copy copy_of(const std::vector<Index>& indices, const std::vector<VarRef>& loops, const std::vector<ExprPtr>& conditions,
               const std::vector<ExprPtr>& selected, const ExprPtr& computed) {
    if (loops.empty()) unfit("`" + buffer_->name + "` is read at one place inside `" + at_ + "`");
    Copy copy;
    copy.source = buffer_;
    Substitution boxed;
    std::map<const Var*, VarRef> box;
    for (const VarRef& loop : loops) {
      const VarRef var = make_var(names_.fresh(buffer_->name + "_" + loop->name), loop->extent);
      box[loop.get()] = var;
      loop_of_[var.get()] = loop;
      copy.box.push_back(var);
    }
    boxed.var = [&](const VarRef& var) -> std::optional<Index> {
      const auto at = box.find(var.get());
      return at == box.end() ? std::nullopt : std::optional<Index>(at->second);
    };
    for (const Index& index : indices) copy.from.push_back(substitute(index, boxed.var));
    if (computed) copy.value = boxed_value(computed, boxed, copy);
    std::vector<ExprPtr> masks;
    const auto is_known = [&](const ExprPtr& condition) {
      const Uses uses = uses_of(condition);
      const auto is_inside = [&](const Var* var) { return inside_.contains(var) && !box.contains(var); };
      const auto is_defined = [&](const Scalar* scalar) { return defined_.contains(scalar); };
      return std::none_of(uses.vars.begin(), uses.vars.end(), is_inside) &&
             std::none_of(uses.scalars.begin(), uses.scalars.end(), is_defined) && uses.reads.empty();
    };
    const auto is_of_results = [&](const ExprPtr& condition) {
      const std::set<const Var*> vars = uses_of(condition).vars;
      return std::ranges::any_of(vars, [&](const Var* var) { return results_.contains(var); }) &&
             std::ranges::all_of(vars, [&](const Var* var) { return !inside_.contains(var) || results_.contains(var); });
    };
    for (const ExprPtr& condition : conditions) {
      if (!is_known(condition) || (of_sums_alone_ && is_of_results(condition))) continue;
      const ExprPtr mask = substitute(condition, boxed);
      if (!ends_there(mask, copy)) masks.push_back(mask);
    }
    for (const ExprPtr& condition : selected) {
      if (!is_known(condition)) unfit("which elements of `" + buffer_->name + "` are zeros is computed inside `" + at_ + "`");
      masks.push_back(substitute(condition, boxed));
    }
    copy.where = conjunction(masks);
    choose_rows(copy);
    return copy;
  }

  /// Whether all that the mask leaves out is outside of the source.
  static bool ends_there(const ExprPtr& mask, const Copy& copy) {
    const std::optional<UpperBound> condition = as_upper_bound(mask);
    if (!condition) return false;
    const UpperBound bound = without_divisions(condition->index, condition->high);
    for (size_t axis = 0; axis < copy.from.size(); axis++) {
      const UpperBound end = without_divisions(copy.from[axis], copy.source->extents[axis]);
      if (end.index == bound.index && end.high <= bound.high) return true;
    }
    return false;
  }

  /// How far apart the first few neighbours along a variable are, all others zero.
  static int64_t distance_along(const Index& flat, const VarRef& along) {
    constexpr int64_t kNeighbours = 8;
    int64_t distance = 0, last = 0;
    for (int64_t i = 0; i <= std::min(kNeighbours, along->extent - 1); i++) {
      const int64_t at = substitute(flat, [&](const VarRef& var) { return std::optional(Index(var == along ? i : 0)); }).constant();
      if (i > 0) distance += std::abs(at - last);
      last = at;
    }
    return distance;
  }

  /// The last variable of the box is the one along which accesses are the widest, and where that leaves a choice the nearest in memory.
  void choose_rows(Copy& copy) const {
    const std::vector<VarRef> given = copy.box;
    const std::vector<int64_t> strides = buffer_->element_strides();
    Index flat;
    for (size_t axis = 0; axis < strides.size(); axis++) flat = flat + copy.from[axis] * strides[axis];
    std::pair<int, int64_t> best{0, 0};  // bytes of an access, less the distance of neighbours
    for (const VarRef& row : given) {
      Copy candidate = copy;
      candidate.box = given;
      std::erase(candidate.box, row);
      candidate.box.push_back(row);
      candidate.to.assign(candidate.box.begin(), candidate.box.end());
      Buffer rows;
      rows.dtype = dtype_.value_or(buffer_->dtype);
      rows.space = Space::shared;
      for (const VarRef& var : candidate.box) rows.extents.push_back(var->extent);
      candidate.destination = make_buffer(std::move(rows));
      candidate.vector_bytes = widest_access(candidate);
      const std::pair<int, int64_t> width{candidate.vector_bytes, -distance_along(flat, row)};
      if (best.first > 0 && width < best) continue;
      best = width;
      copy = std::move(candidate);
    }
  }

  NameTable names_;
  BufferRef buffer_;
  std::string at_;
  std::optional<DType> dtype_;
  bool of_sums_alone_;
  std::set<const Var*> inside_;
  std::set<const Var*> results_;  ///< of `inside_`, those of maps
  std::set<const Scalar*> defined_;
  std::map<const Var*, VarRef> loop_of_;  ///< by variable of the box
};

}  // namespace

Unit stage_by_loops(const Unit& unit, const std::string& buffer, const std::string& at, std::optional<DType> dtype, bool of_sums_alone) {
  Unit result = unit;
  if (!LoopStager(unit, buffer, at, dtype, of_sums_alone).edit(result.body)) no_such_loop(unit, at);
  return result;
}

}  // namespace tcc::loop
