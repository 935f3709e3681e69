#include "loop/verifier.h"

#include <algorithm>
#include <utility>

#include "tcc/loop/edit.h"
#include "tcc/loop/fields.h"
#include "tcc/ops/scalar.h"
#include "tcc/support/tensor.h"

namespace tcc::loop {

namespace {

constexpr int64_t kMostOfDigit = int64_t{1} << 20;

}  // namespace

void Verifier::fault(const std::string& message) {
  std::string line = current_ ? print(*current_) : "";
  line = line.substr(0, line.find('\n'));
  faults_.push_back(message + (line.empty() ? "" : "\n  " + line));
}

void Verifier::define(const void* key, const std::string& name) {
  if (!ever_.insert(key).second) fault("%" + name + " is defined twice");
  if (!names_.insert(name).second) fault("two definitions have the name %" + name);
  visible_.insert(key);
}

namespace {

/// The bytes of a buffer, from its first element to its last, fit what indices can count; no two elements lie in one place.
std::optional<std::string> wrong_size(const Buffer& buffer) {
  if (std::any_of(buffer.extents.begin(), buffer.extents.end(), [](int64_t extent) { return extent <= 0; })) return std::nullopt;
  const std::string too_large = "has more than " + std::to_string(kMostIterations) + " bytes";
  int64_t bytes = std::max(size_bytes(buffer.dtype), 1);
  for (int64_t extent : buffer.extents) {
    if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > kMostIterations) return too_large;
  }
  if (buffer.strides.size() != buffer.extents.size()) return std::nullopt;
  std::vector<std::pair<int64_t, int64_t>> axes;  // by stride
  for (size_t i = 0; i < buffer.extents.size(); ++i) {
    if (buffer.extents[i] > 1) axes.emplace_back(buffer.strides[i], buffer.extents[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t span = 1;
  for (const auto& [stride, extent] : axes) {
    if (stride < span) return "has a stride of " + std::to_string(stride) + ", so that elements lie in one place";
    int64_t reach = 0;
    if (__builtin_mul_overflow(stride, extent - 1, &reach) || __builtin_add_overflow(span, reach, &span) || span > kMostIterations)
      return too_large;
  }
  return std::nullopt;
}

/// Rows may have padding behind them; nothing else lies between the elements.
bool is_row_major_but_for_padding(const Buffer& buffer) {
  const size_t rank = buffer.extents.size();
  if (buffer.strides.empty()) return true;
  if (buffer.strides.size() != rank || (rank > 0 && buffer.strides.back() != 1)) return false;
  std::vector<int64_t> rows = buffer.extents;
  if (rank > 1) rows.back() = buffer.strides[rank - 2];
  return buffer.strides == row_major_strides(rows) && rows.back() >= buffer.extents.back();
}

}  // namespace

void Verifier::buffer_shape(const BufferRef& buffer) {
  for (int64_t extent : buffer->extents) {
    if (extent < 0) fault("%" + buffer->name + " has extent " + std::to_string(extent));
  }
  if (const auto wrong = wrong_size(*buffer)) {
    fault("%" + buffer->name + " " + *wrong);
    return;
  }
  for (int axis : buffer->distributed) {
    if (axis < 0 || axis >= static_cast<int>(buffer->extents.size()))
      fault("%" + buffer->name + " has no axis " + std::to_string(axis) + " to distribute");
  }
  if (buffer->tile) {
    for (const TileDigit& digit : buffer->tile->digits) {
      if (digit.axis < 0 || digit.axis >= static_cast<int>(buffer->extents.size()))
        fault("the tile of %" + buffer->name + " has no axis " + std::to_string(digit.axis));
      if (digit.extent < 1 || digit.stride < 0 || digit.extent > kMostOfDigit || digit.stride > kMostOfDigit) {
        fault("the tile of %" + buffer->name + " has a digit of extent " + std::to_string(digit.extent) + " and stride " +
              std::to_string(digit.stride));
        return;
      }
    }
    for (size_t axis = 0; axis < buffer->extents.size(); ++axis) {
      __int128 count = 1, last = 0;
      for (const TileDigit& digit : buffer->tile->digits) {
        if (digit.axis != static_cast<int>(axis)) continue;
        if (digit.stride == 0 && digit.level != TileDigit::Level::reg) continue;  // these lanes hold the same
        count = std::min<__int128>(count * digit.extent, kMostIterations);
        last += static_cast<__int128>(digit.extent - 1) * digit.stride;
      }
      if (count != buffer->extents[axis] || last != buffer->extents[axis] - 1)
        fault("the tile of %" + buffer->name + " does not hold each element of axis " + std::to_string(axis) + " once");
    }
  }
}

void Verifier::verify_params(const std::vector<Param>& params) {
  for (const Param& param : params) {
    define(param.buffer.get(), param.buffer->name);
    buffers_.insert(param.buffer.get());
    (param.written ? written_params_ : read_params_).insert(param.buffer.get());
    if (param.buffer->space != Space::global) fault("parameter %" + param.buffer->name + " is not global");
    if (!is_row_major_but_for_padding(*param.buffer)) fault("parameter %" + param.buffer->name + " is not row-major");
    buffer_shape(param.buffer);
  }
}

void Verifier::verify(const Block& block) {
  const auto visible = visible_;
  const auto buffers = buffers_;
  for (const Stmt& stmt : block) verify(stmt);
  visible_ = visible;
  buffers_ = buffers;
}

void Verifier::verify(const Stmt& stmt) {
  const Stmt* outer = std::exchange(current_, &stmt);
  around_.push_back({&stmt, buffers_});
  on_stmt(stmt);
  std::visit([&](const auto& node) { statement(node); }, stmt.node);
  around_.pop_back();
  current_ = outer;
}

void Verifier::inner(const Block& block, const ExprPtr& holds, const ExprPtr& fails) {
  const IndexBounds bounds = bounds_;
  bounds_.assume(holds);
  bounds_.assume_not(fails);
  verify(block);
  bounds_ = bounds;
}

// -------------------------------------------------------------------------------------------------------- expressions

void Verifier::index(const Index& index) {
  for (const Term& term : index.terms()) {
    if (term.atom.var && !visible_.count(term.atom.var.get())) fault("%" + term.atom.var->name + " is used outside of its loop");
    if (term.atom.scalar && !visible_.count(term.atom.scalar.get())) fault("%" + term.atom.scalar->name + " is used before it is defined");
    if (term.atom.scalar && is_float(term.atom.scalar->dtype))
      fault("%" + term.atom.scalar->name + " is " + std::string(name_of(term.atom.scalar->dtype)) + ", an index needs an integer");
    if (term.atom.operand) this->index(*term.atom.operand);
  }
}

void Verifier::indices(const std::vector<Index>& list) {
  for (const Index& i : list) index(i);
}

void Verifier::use(const BufferRef& buffer) {
  if (!buffers_.count(buffer.get())) fault("%" + buffer->name + " is used before its alloc");
}

void Verifier::in_bounds(const BufferRef& buffer, const std::vector<Index>& at, const char* what) {
  if (at.size() != buffer->extents.size()) {
    fault(std::string(what) + " with " + std::to_string(at.size()) + " indices, %" + buffer->name + " has " +
          std::to_string(buffer->extents.size()) + " axes");
    return;
  }
  for (size_t i = 0; i < at.size(); ++i) {
    const int64_t extent = buffer->extents[i];
    if (bounds_.proves(at[i], 0, extent)) continue;
    const auto range = bounds_.bounds(at[i]);
    if (!range && at[i].uses_scalars()) continue;  // depends on values: the interpreter and `else` see to it
    if (range && range->low < extent && range->high >= 0 && bounds_.mentions(at[i]))
      continue;  // a mask over divisions: the interpreter sees to it
    fault(std::string(what) + " may be out of bounds: " + to_string(at[i]) +
          (range ? " is in [" + std::to_string(range->low) + ", " + std::to_string(range->high) + "]" : "") + ", axis " +
          std::to_string(i) + " of %" + buffer->name + " has extent " + std::to_string(extent));
  }
}

void Verifier::expr(const ExprPtr& e) {
  if (!e) {
    fault("an expression is missing");
    return;
  }
  switch (e->kind) {
    case Expr::Kind::constant: return;
    case Expr::Kind::index: index(e->index); return;
    case Expr::Kind::scalar:
      if (!visible_.count(e->scalar.get())) fault("%" + e->scalar->name + " is used before it is defined");
      return;
    case Expr::Kind::load:
      use(e->buffer);
      indices(e->indices);
      if (e->otherwise) expr(e->otherwise);
      else in_bounds(e->buffer, e->indices, "a load");
      if (!e->otherwise) on_load(*e);
      on_access(e->buffer, e->indices, false);
      return;
    case Expr::Kind::op: {
      std::vector<DType> dtypes;
      for (const ExprPtr& arg : e->args) {
        expr(arg);
        dtypes.push_back(arg->dtype);
      }
      const bool converts = e->op == Op::cast_ || e->op == Op::bitcast_;
      if (converts ? e->args.size() != 1 : result_dtype(e->op, dtypes) != e->dtype)
        fault("`" + std::string(tcc::name_of(e->op)) + "` does not take these operands");
      if (e->approximate && (!has_approximation(e->op) || compute_dtype(e->dtype) != DType::f32))
        fault("`" + std::string(tcc::name_of(e->op)) + "` has no approximation");
      if (e->op == Op::check_index_ && e->args.size() == 5) {
        constexpr int64_t kMostChecks = 1 << 20;
        const Expr &extent = *e->args[3], &site = *e->args[4];
        if (extent.kind != Expr::Kind::constant || extent.int_value < 1)
          fault("the extent of a check_index is not a constant of 1 or more");
        if (site.kind != Expr::Kind::constant || site.int_value < 0 || site.int_value >= kMostChecks)
          fault("the number of a check_index is not a constant of 0 or more");
      }
      return;
    }
  }
}

void Verifier::condition(const ExprPtr& e) {
  if (!e) return;
  expr(e);
  if (e->dtype != DType::boolean) fault("a condition is " + std::string(name_of(e->dtype)) + ", expected bool");
}

// --------------------------------------------------------------------------------------------------------- statements

void Verifier::loop_variable(const VarRef& var) {
  define(var.get(), var->name);
  // What would run no iteration is left out, so that extents can be divided by.
  if (var->extent < 1 || var->extent > kMostIterations)
    fault("%" + var->name + " has " + std::to_string(var->extent) + " iterations, a loop has 1 to " + std::to_string(kMostIterations));
}

void Verifier::dims(const std::vector<Dim>& dims) {
  for (const Dim& dim : dims) loop_variable(dim.var);
}

void Verifier::statement(const Loop& loop) {
  const auto visible = visible_;
  dims(loop.dims);
  if (loop.tile) use(loop.tile);
  condition(loop.where);
  on_enter(*current_);
  inner(loop.body, loop.where);
  on_leave(*current_);
  visible_ = visible;
}

void Verifier::states(const std::vector<State>& states, const Combine* combine) {
  if (states.empty()) fault("a reduce or scan without a state");
  for (const State& state : states) {
    expr(state.value);
    const DType dtype = state.result->dtype;
    if (state.value && state.value->dtype != dtype) {
      fault("%" + state.result->name + " is " + std::string(name_of(dtype)) + ", its value " + std::string(name_of(state.value->dtype)));
    }
    if (state.init && state.init->dtype != dtype) {
      fault("%" + state.result->name + " is " + std::string(name_of(dtype)) + ", its initial value " +
            std::string(name_of(state.init->dtype)));
    }
    if (combine && !state.init) fault("%" + state.result->name + " has a combine of its own and needs an initial value");
  }
  if (!combine) return;
  if (combine->left.size() != states.size() || combine->right.size() != states.size() || combine->results.size() != states.size()) {
    fault("a combine needs as many scalars and results as there are states");
    return;
  }
  const auto visible = visible_;
  for (const auto* side : {&combine->left, &combine->right}) {
    for (size_t i = 0; i < side->size(); ++i) {
      define((*side)[i].get(), (*side)[i]->name);
      if ((*side)[i]->dtype != states[i].result->dtype) fault("%" + (*side)[i]->name + " has another dtype than its state");
    }
  }
  for (const Stmt& stmt : combine->body) {
    if (!as<Let>(stmt)) fault("a combine holds lets only");
    verify(stmt);
  }
  for (size_t i = 0; i < states.size(); ++i) {
    expr(combine->results[i]);
    if (combine->results[i]->dtype != states[i].result->dtype)
      fault("result " + std::to_string(i) + " of a combine has another dtype than its state");
  }
  visible_ = visible;
}

void Verifier::statement(const Reduce& reduce) {
  for (const State& state : reduce.states) {
    if (state.init) expr(state.init);
  }
  const auto visible = visible_;
  const auto buffers = buffers_;
  dims(reduce.dims);
  condition(reduce.where);
  on_enter(*current_);
  const IndexBounds bounds = bounds_;
  bounds_.assume(reduce.where);
  for (const Stmt& stmt : reduce.body) verify(stmt);  // the values see what the body defines
  states(reduce.states, reduce.combine.get());
  bounds_ = bounds;
  on_leave(*current_);
  visible_ = visible;
  buffers_ = buffers;
  for (const State& state : reduce.states) define(state.result.get(), state.result->name);
}

void Verifier::statement(const Scan& scan) {
  for (const State& state : scan.states) {
    if (state.init) expr(state.init);
  }
  const auto visible = visible_;
  const auto buffers = buffers_;
  dims(scan.dims);
  on_enter(*current_);
  for (const Stmt& stmt : scan.body) verify(stmt);
  states(scan.states, scan.combine.get());
  for (const State& state : scan.states) define(state.result.get(), state.result->name);
  verify(scan.after);
  on_leave(*current_);
  visible_ = visible;
  buffers_ = buffers;
  for (const State& state : scan.states) visible_.insert(state.result.get());
}

void Verifier::statement(const Let& let) {
  expr(let.value);
  if (let.value && let.value->dtype != let.scalar->dtype) {
    fault("%" + let.scalar->name + " is " + std::string(name_of(let.scalar->dtype)) + ", its value " +
          std::string(name_of(let.value->dtype)));
  }
  define(let.scalar.get(), let.scalar->name);
}

void Verifier::statement(const Store& store) {
  expr(store.value);
  use(store.buffer);
  indices(store.indices);
  if (store.value && store.value->dtype != store.buffer->dtype) {
    fault("the value is " + std::string(name_of(store.value->dtype)) + ", %" + store.buffer->name + " " +
          std::string(name_of(store.buffer->dtype)));
  }
  if (is_read_param(store.buffer.get())) fault("%" + store.buffer->name + " is only read, but stored to");
  in_bounds(store.buffer, store.indices, "a store");
  on_access(store.buffer, store.indices, true);
}

void Verifier::statement(const Scatter& scatter) {
  expr(scatter.value);
  use(scatter.buffer);
  indices(scatter.indices);
  if (scatter.value && scatter.value->dtype != scatter.buffer->dtype) fault("the value has another dtype than %" + scatter.buffer->name);
  if (is_read_param(scatter.buffer.get())) fault("%" + scatter.buffer->name + " is only read, but scattered to");
  if (scatter.indices.size() != scatter.buffer->extents.size())
    fault("a scatter with " + std::to_string(scatter.indices.size()) + " indices");
}

void Verifier::statement(const If& branch) {
  condition(branch.condition);
  on_enter(*current_);
  inner(branch.then, branch.condition);
  inner(branch.otherwise, nullptr, branch.condition);
  on_leave(*current_);
}

void Verifier::statement(const Alloc& alloc) {
  define(alloc.buffer.get(), alloc.buffer->name);
  buffers_.insert(alloc.buffer.get());
  buffer_shape(alloc.buffer);
}

/// Where the source ends nothing is computed: what else the value reads ends there, too.
void Verifier::value_of_copy(const Copy& copy) {
  const IndexBounds bounds = bounds_;
  bounds_.assume(copy.where);
  for (size_t axis = 0; axis < std::min(copy.from.size(), copy.source->extents.size()); ++axis)
    bounds_.assume(in_range(copy.from[axis], 0, copy.source->extents[axis]));
  expr(copy.value);
  bounds_ = bounds;
  if (copy.kind != Copy::Kind::plain) fault("an asynchronous copy computes nothing");
  int elements = 0;
  visit(copy.value, [&](const Expr& e) {
    if (e.kind == Expr::Kind::scalar) fault("a copy computes its value from loads alone, not from %" + e.scalar->name);
    if (e.kind != Expr::Kind::load || e.buffer != copy.source) return;
    elements++;
    if (!(e.indices == copy.from) || e.otherwise)
      fault("a copy computes its value from another element of %" + copy.source->name + " than it reads");
  });
  if (elements != 1) fault("a copy computes its value from one element of %" + copy.source->name);
}

void Verifier::statement(const Copy& copy) {
  use(copy.source);
  use(copy.destination);
  const auto visible = visible_;
  for (const VarRef& var : copy.box) loop_variable(var);
  condition(copy.where);
  indices(copy.from);
  indices(copy.to);
  if (copy.value) value_of_copy(copy);
  visible_ = visible;
  const DType from = copy.value ? copy.value->dtype : copy.source->dtype, to = copy.destination->dtype;
  const bool converts = copy.kind == Copy::Kind::plain && !copy.value && (is_float(from) || is_integer(from)) && is_float(to);
  if (from != to && !converts) fault("a copy from " + std::string(name_of(from)) + " to " + std::string(name_of(to)));
  if (is_read_param(copy.destination.get())) fault("%" + copy.destination->name + " is only read, but copied to");
  if (copy.from.size() != copy.source->extents.size() || copy.to.size() != copy.destination->extents.size()) {
    fault("a copy needs an index for each axis of both buffers");
    return;
  }
  for (size_t i = 0; i < copy.to.size(); ++i) {
    if (!bounds_.proves(copy.to[i], 0, copy.destination->extents[i]))
      fault("a copy may leave axis " + std::to_string(i) + " of %" + copy.destination->name);
  }
  on_access(copy.source, copy.from, false);
  on_access(copy.destination, copy.to, true);
}

void Verifier::statement(const PipeDecl& decl) {
  define(decl.pipe.get(), decl.pipe->name);
  for (const BufferRef& buffer : decl.pipe->buffers) {
    define(buffer.get(), buffer->name);
    buffers_.insert(buffer.get());
    buffer_shape(buffer);
  }
}

void Verifier::statement(const PipeOp& op) {
  if (!visible_.count(op.pipe.get())) fault("%" + op.pipe->name + " is used before it is declared");
}

void Verifier::statement(const Mma& mma) {
  for (const BufferRef& buffer : {mma.accumulator, mma.a, mma.b}) use(buffer);
  indices(mma.a_from);
  indices(mma.b_from);
  if (mma.a_from.size() != mma.a->extents.size() || mma.b_from.size() != mma.b->extents.size() || mma.a_from.size() < 2 ||
      mma.b_from.size() < 2) {
    fault("mma needs an index for each axis of its operands");
    return;
  }
  auto operand = [&](const BufferRef& buffer, const std::vector<Index>& from, int64_t rows, bool k_first) {
    const size_t rank = from.size();
    for (size_t i = 0; i < rank; ++i) {
      const int64_t box = i + 2 < rank ? 1 : (i + 2 == rank) == k_first ? mma.k : rows;
      if (!bounds_.proves(from[i], 0, buffer->extents[i] - box + 1))
        fault("mma may leave axis " + std::to_string(i) + " of %" + buffer->name);
    }
    on_access(buffer, from, false);
  };
  operand(mma.a, mma.a_from, mma.m, mma.transpose_a);
  operand(mma.b, mma.b_from, mma.n, mma.transpose_b);
}

void Verifier::statement(const MmaWait& wait) {
  for (const BufferRef& accumulator : wait.accumulators) use(accumulator);
}

void Verifier::statement(const Roles& roles) {
  on_enter(*current_);
  for (const Role& role : roles.roles) {
    on_role(&role);
    inner(role.body, nullptr);
  }
  on_role(nullptr);
  on_leave(*current_);
}

}  // namespace tcc::loop
