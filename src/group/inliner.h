// Builds first-form loops by pulling: to get a value at an index, get its operands at the indices they are read at, down to what is materialised.
//
//   value_at(%y, [%i, %j])    with  %y = sub(%x, broadcast_in_dim(%m)),  %m = reduce_max(%x) {axes=[1]}
//     -> sub(load %x[%i, %j], %m)      and, in the scope of %i:  %m: f32 = reduce max %k in C { load %x[%i, %k] }
//
// A pulled value lives in the outermost scope that has all variables of its index, so what does not change in a loop is computed in front of it, and is
// remembered there: the same value at the same index is one scalar. Everything becomes a `let` at first; tidy() then puts those used once where they are used.
//
// Values of f16, bf16 and the 8-bit floats are pulled as f32 (arithmetic in f32, rounded where stored); all others as they are. What the unit stores is
// rounded for its readers in the unit, too.
// An index that may be outside a buffer makes a load that reads 0 there: who asks for such an index (pad, concat, padded windows) selects it away.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "group/index_maps.h"
#include "tcc/group/group.h"
#include "tcc/loop/loop.h"

namespace tcc::group {

/// A block under construction.
struct Scope {
  Scope* parent = nullptr;  ///< null: the outermost of a nest
  loop::Block block;
  std::vector<loop::VarRef> vars;  ///< of the loop whose body this is
  std::unordered_map<const Value*, std::vector<std::pair<Indices, loop::ExprPtr>>> memo;
  struct ReadIndex {
    const Value* indices;
    Indices at;
    int64_t extent;
    loop::Index index;
  };
  std::vector<ReadIndex> read_indices;
  int depth = 0;  ///< loops around a statement of this block
};

class Inliner {
 public:
  /// Parameters: unit.inputs, then unit.outputs.
  explicit Inliner(const Unit& unit);
  const std::vector<loop::Param>& params() const { return params_; }
  const loop::BufferRef& buffer_of(const Value* value) const { return buffers_.at(value); }

  /// `value` at `at`, in the dtype it is computed in.
  loop::ExprPtr value_at(const Value* value, const Indices& at);
  /// The same where some axes of `at` may be outside the value's extents; `fallback` (of the dtype it is computed in) there.
  loop::ExprPtr value_or(const Value* value, const Indices& at, const loop::ExprPtr& fallback);
  /// Stores a value at an index of its buffer.
  void store(const Value* value, const Indices& inline_at);
  /// The value in the dtype it is stored in; undoes a cast that pulling added.
  static loop::ExprPtr as_stored(const loop::ExprPtr& value, DType dtype);
  /// An element of the indices that a gather or scatter reads: wrapped once when negative, as an index. Checked, unless it is known to be in range.
  loop::Index index_read(const Node& node, const Indices& at, int64_t extent);
  const std::vector<IndexCheck>& checks() const { return checks_; }

  /// Runs `body` in a new scope below the current one and appends `make(block)` to where it was.
  template <class Body, class Make> void in_scope(std::vector<loop::VarRef> vars, Body body, Make make) {
    Scope scope = open(std::move(vars));
    Scope* before = current_;
    current_ = &scope;
    body();
    current_ = before;
    append(make(std::move(scope.block)));
  }
  /// `map vars { body }` in the current scope; without variables above extent 1 at the top of a unit, a loop of one iteration.
  template <class Body> void map(const std::vector<loop::VarRef>& vars, Body body) {
    in_scope(vars, body, [&](loop::Block block) { return loop_of(vars, std::move(block)); });
  }
  /// The same, the outermost loop of a nest: nothing pulled before is seen.
  template <class Body> void nest(std::vector<loop::VarRef> vars, Body body) {
    if (vars.empty()) vars.push_back(fresh_var(0, 1));
    Scope scope;
    scope.vars = vars;
    scope.depth = static_cast<int>(vars.size());
    current_ = &scope;
    body();
    current_ = nullptr;
    unit_.push_back(loop_of(vars, std::move(scope.block)));
  }
  loop::Block take_block() { return std::move(unit_); }

  /// A variable named after the loops around it.
  loop::VarRef fresh_var(int depth, int64_t extent);
  loop::VarRef fresh_var(int64_t extent) { return fresh_var(current_ ? current_->depth : 0, extent); }
  /// Says that a name of a variable made elsewhere is taken.
  void take_name(const std::string& name) { names_.insert(name); }
  loop::ScalarRef fresh_scalar(DType dtype);
  void append(loop::Stmt stmt) { current_->block.push_back(std::move(stmt)); }
  /// Makes a scalar known in the current scope, as the value of `value` at `at`.
  void define(const loop::ScalarRef& scalar, const Value* value, const Indices& at);
  /// The expression as a scalar of the current scope (constants and scalars stay).
  loop::ExprPtr bind(const loop::ExprPtr& expr);
  Scope* current() const { return current_; }

 private:
  Scope open(std::vector<loop::VarRef> vars) const;
  static loop::Stmt loop_of(const std::vector<loop::VarRef>& vars, loop::Block block);
  bool defines(const Scope& scope, const std::vector<loop::VarRef>& vars, const std::vector<const loop::Scalar*>& scalars) const;
  Scope* scope_of(const Indices& at) const;
  loop::ExprPtr value_here(const Value* value, const Indices& at);
  loop::ExprPtr as_read(const Value* value, const loop::ExprPtr& expr);
  /// The index of the element in the memory of a parameter.
  Indices place_of(const Value* value, const Indices& at) const;
  loop::ExprPtr load_from(const loop::BufferRef& buffer, const Indices& at, loop::ExprPtr otherwise);
  loop::ExprPtr inline_pointwise(const Node& node, const Indices& at);
  loop::ExprPtr inline_create(const Node& node, const Indices& at);
  loop::ExprPtr inline_check(const Node& node, const Indices& at);
  /// The number of the check that `index` (the operand of `node`) is in [low, high]: one for each index and range.
  int number_of_check(const Node& node, const Value* index, int64_t low, int64_t high);
  loop::ExprPtr inline_pad(const Node& node, const Indices& at);
  loop::ExprPtr inline_concat(const Node& node, const Indices& at);
  loop::ExprPtr inline_reduce(const Node& node, const Indices& at);
  loop::ExprPtr inline_arg_reduce(const Node& node, const Indices& at);
  loop::ExprPtr inline_dot(const Node& node, const Indices& at);
  loop::ExprPtr inline_conv(const Node& node, const Indices& at);
  loop::ExprPtr inline_window(const Node& node, const Indices& at);
  loop::ExprPtr inline_gather(const Node& node, const Indices& at);
  loop::ExprPtr inline_gather_elements(const Node& node, const Indices& at);
  loop::ExprPtr inline_gather_nd(const Node& node, const Indices& at);
  /// `reduce combiner over vars of value()` in the current scope.
  template <class F> loop::ExprPtr reduce(Combiner combiner, DType dtype, const std::vector<loop::VarRef>& vars, F value);
  /// Variables for extents, in the scope that a loop in the current scope makes.
  std::vector<loop::VarRef> loop_vars(const Shape& extents, Indices* at);
  /// The other reductions of the unit that run over the same elements as `node` and neither read it nor are read by it.
  std::vector<const Node*> siblings_of(const Node& node) const;

  const Unit& unit_of_;
  std::vector<loop::Param> params_;
  std::unordered_map<const Value*, loop::BufferRef> buffers_;
  std::unordered_map<const Value*, loop::BufferRef> second_buffers_;  ///< of inputs that are there twice
  std::unordered_map<const Value*, std::vector<int64_t>> orders_;     ///< of parameters whose axes lie in another order
  bool in_second_factor_ = false;
  std::unordered_set<const Value*> inputs_, outputs_;
  std::unordered_map<const Value*, int> reduce_level_;  ///< reductions on the longest way from the inputs
  loop::Block unit_;
  Scope* current_ = nullptr;
  std::unordered_map<const loop::Scalar*, const Scope*> scalar_scope_;
  std::unordered_set<std::string> names_;
  int next_scalar_ = 0;
  std::vector<IndexCheck> checks_;
};

/// The identity of a reduction in a dtype.
Combiner combiner_in(const Attrs& attrs, const std::string& name);  ///< that the attribute names

/// Puts lets that are used once, in their own block, where they are used; then numbers the scalars in order.
void tidy(loop::Block& block);

}  // namespace tcc::group
