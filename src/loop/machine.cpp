// Statements that compute: loops, reductions, lets, stores. Memory and its checks are in machine_memory.cpp, copies, pipes and mma in machine_collective.cpp.
#include "loop/machine.h"

#include <algorithm>
#include <utility>

#include "loop/machine_iterate.h"
#include "tcc/loop/fields.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {

Machine::Machine(const Block& body, const std::vector<Param>& params, std::vector<Tensor>& tensors, Options options)
    : body_(body),
      options_(options),
      width_(static_cast<size_t>(options.threads)),
      team_width_(width_),
      params_(params),
      tensors_(tensors) {
  std::vector<int> ids, buffer_ids;
  for (const Param& param : params) buffer_ids.push_back(param.buffer->id);
  walk(body, [&](const Stmt& stmt) {
    each_definition(stmt, [&]<class Ref>(const Ref& defined) {
      if constexpr (std::same_as<Ref, BufferRef>) buffer_ids.push_back(defined->id);
      else if constexpr (!std::same_as<Ref, PipeRef>) ids.push_back(defined->id);
    });
  });
  auto number = [](const std::vector<int>& ids, int& first, std::vector<size_t>& slots) {
    if (ids.empty()) return;
    first = *std::min_element(ids.begin(), ids.end());
    slots.resize(static_cast<size_t>(*std::max_element(ids.begin(), ids.end()) - first + 1), kNowhere);
    for (size_t i = 0; i < ids.size(); ++i) slots[static_cast<size_t>(ids[i] - first)] = i;
  };
  number(ids, first_id_, slots_);
  number(buffer_ids, first_buffer_id_, buffer_slots_);
  homes_.resize(buffer_ids.size());
  vars_.resize(ids.size() * width_);
  scalars_.resize(ids.size() * width_);
  digits_ = digits_of(body);
  exchanges_.resize(width_ / 32 + 1);
}

void Machine::run() {
  for (size_t i = 0; i < params_.size(); ++i) {
    Memory whole;
    whole.data = tensors_[i];
    if (options_.lockstep && params_[i].written) whole.accesses.resize(static_cast<size_t>(whole.data.count()));
    homes_[slot(*params_[i].buffer)].memories.push_back(std::move(whole));
  }
  Threads all;
  for (int t = 0; t < options_.threads; ++t) all.push_back(t);
  for (block_ = 0; block_ < options_.grid; ++block_) {
    ++epoch_;
    run(body_, all);
    if (!flights_.empty()) fail("an asynchronous mma is never waited for");
  }
}

void Machine::run(const Block& block, const Threads& active) {
  std::vector<const Pipe*> declared;
  for (const Stmt& stmt : block) {
    run(stmt, active);
    if (const auto* decl = as<PipeDecl>(stmt)) declared.push_back(decl->pipe.get());
  }
  for (const Pipe* pipe : declared) {
    for (const Flight& flight : flights_) {
      for (const Ring::Stage& stage : rings_.at(pipe).stages) {
        if (std::find(flight.stages.begin(), flight.stages.end(), &stage) != flight.stages.end())
          fail("%" + pipe->name + " ends while an asynchronous mma may still read it");
      }
    }
    for (Ring::Stage& stage : rings_.at(pipe).stages) {
      if (stage.state == Ring::State::ready) fail("a stage of %" + pipe->name + " is never released");
      if (stage.state == Ring::State::filling) fail("a stage of %" + pipe->name + " is never committed");
      if (!stage.pending.empty()) fail("a stage of %" + pipe->name + " is never waited for, its copies are under way at the end");
    }
  }
}

void Machine::run(const Stmt& stmt, const Threads& active) {
  if (active.empty()) return;
  const Stmt* outer = std::exchange(current_, &stmt);
  std::visit([&](const auto& node) { execute(node, active); }, stmt.node);
  current_ = outer;
}

void Machine::fail(const std::string& message) const {
  std::string line = current_ ? print(*current_) : "";
  line = line.substr(0, line.find('\n'));
  throw Error(ExitCode::internal, "internal-error", "interpreting loops", message + (line.empty() ? "" : ", at `" + line + "`"));
}

void Machine::collective(const Threads& active, const char* what) {
  if (bound_depth_ > 0) fail(std::string(what) + " within a loop over threads needs them side by side: interpret it as a kernel");
  if (active.size() != team_width_) {
    fail(std::string(what) + " is reached by " + std::to_string(active.size()) + " of " + std::to_string(team_width_) + " threads");
  }
}

int Machine::number(Bind bind, int thread) const {
  switch (bind) {
    case Bind::block:
    case Bind::parallel: return static_cast<int>(block_);
    case Bind::thread: return thread - team_first_;
    case Bind::warp: return (thread - team_first_) / 32;
    case Bind::lane: return thread % 32;
    default: internal_error("this bind has no number");
  }
}

Machine::Threads Machine::filter(const ExprPtr& condition, const Threads& active) {
  Threads result;
  for (int t : active) {
    if (evaluate(condition, t).i) result.push_back(t);
  }
  return result;
}

void Machine::execute(const Loop& loop, const Threads& active) {
  const Var* outer_row = row_;
  if (loop.tile && loop.tile->extents.size() == 1) row_ = loop.dims.back().var.get();
  iterate(loop.dims, 0, loop.tile, active,
          [&](const Threads& reached) { where(loop.where, reached, [&](const Threads& threads) { run(loop.body, threads); }); });
  row_ = outer_row;
}

std::vector<ScalarValue> Machine::initial(const std::vector<State>& states, int thread) {
  std::vector<ScalarValue> values;
  for (const State& state : states) {
    values.push_back(evaluate(state.init ? state.init : identity_value(state.combiner, state.result->dtype), thread));
  }
  return values;
}

void Machine::combine(const std::vector<State>& states, const Combine* custom, std::vector<ScalarValue>& left,
                      const std::vector<ScalarValue>& right, int thread) {
  if (!custom) {
    for (size_t i = 0; i < states.size(); ++i) {
      const DType dtype = states[i].result->dtype;
      const ScalarValue pair[] = {left[i], right[i]};
      left[i] = evaluate_scalar(pointwise_of(states[i].combiner), dtype, dtype, pair);
    }
    return;
  }
  for (size_t i = 0; i < states.size(); ++i) {
    scalar(custom->left[i].get(), thread) = left[i];
    scalar(custom->right[i].get(), thread) = right[i];
  }
  run(custom->body, {thread});
  for (size_t i = 0; i < states.size(); ++i) left[i] = evaluate(custom->results[i], thread);
}

void Machine::execute(const Reduce& reduce, const Threads& active) {
  const Combine* custom = reduce.combine.get();
  std::vector<std::vector<ScalarValue>> partials(width_);  // of each thread; empty until it has an element
  // Which levels of threads the reduce runs across, and the first dim of each.
  std::map<Bind, const Var*> across;
  for (const Dim& dim : reduce.dims) {
    if (options_.lockstep && (dim.bind == Bind::thread || dim.bind == Bind::warp || dim.bind == Bind::lane))
      across.emplace(dim.bind, dim.var.get());
    if (options_.lockstep && dim.bind == Bind::tile) return reduce_columns(reduce, active);
  }
  for (int t : active) {
    if (across.empty()) partials[static_cast<size_t>(t)] = initial(reduce.states, t);
  }
  std::vector<ScalarValue> values(reduce.states.size());
  auto step = [&](const Threads& threads) {
    run(reduce.body, threads);
    for (int t : threads) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = evaluate(reduce.states[i].value, t);
      std::vector<ScalarValue>& partial = partials[static_cast<size_t>(t)];
      if (partial.empty()) partial = values;
      else combine(reduce.states, custom, partial, values, t);
    }
  };
  const bool outer_exchange = std::exchange(in_exchange_, in_exchange_ || across.count(Bind::lane) != 0);
  iterate(reduce.dims, 0, nullptr, active, [&](const Threads& reached) { where(reduce.where, reached, step); });
  in_exchange_ = outer_exchange;
  if (across.empty()) {
    for (int t : active) {
      for (size_t i = 0; i < reduce.states.size(); ++i) scalar(reduce.states[i].result.get(), t) = partials[static_cast<size_t>(t)][i];
    }
    return;
  }
  // Threads that differ only in what the reduce runs across share its result.
  std::map<std::vector<int64_t>, Threads> groups;
  for (int t : active) {
    std::vector<int64_t> key;
    for (Bind level : {Bind::thread, Bind::warp, Bind::lane}) {
      if (level == Bind::thread && !across.count(level)) continue;  // a kernel has either threads or warps and lanes
      const auto at = across.find(level);
      const int64_t n = number(level, t);
      key.push_back(at == across.end()                  ? (across.count(Bind::thread) ? 0 : n)
                    : digits_.at(at->second).radix == 0 ? 0
                                                        : n / digits_.at(at->second).radix);
    }
    groups[key].push_back(t);
  }
  if (across.count(Bind::lane)) {
    std::map<int, int> reached;  // of each warp
    for (int t : active) ++reached[t / 32];
    for (const auto& [warp, lanes] : reached) {
      ++exchanges_[static_cast<size_t>(warp)];
      if (lanes != 32) fail("a reduce across lanes is reached by " + std::to_string(lanes) + " lanes of warp " + std::to_string(warp));
    }
  }
  for (const auto& [key, threads] : groups) join_partials(reduce, threads, partials);
  if (across.count(Bind::thread) || across.count(Bind::warp)) {
    if (runner_) fail("a reduce across the block within a role is not supported");
    collective(active, "a reduce across the block");
    ++epoch_;  // the exchange has barriers
  }
}

void Machine::reduce_columns(const Reduce& reduce, const Threads& active) {
  if (!row_ || !reduce.tile) fail("a reduce over the columns of a tile stands in a loop over its rows");
  const TilePlaces& held = places(*reduce.tile);
  const Combine* custom = reduce.combine.get();
  std::vector<std::vector<ScalarValue>> partials(width_);
  std::vector<int64_t> next(width_);  // of each thread: the register that comes next
  const Threads all = active;
  while (true) {
    Threads threads;
    for (int t : all) {
      const auto& coordinates = held.coordinates[static_cast<size_t>(t)];
      int64_t& reg = next[static_cast<size_t>(t)];
      while (reg < static_cast<int64_t>(coordinates.size()) && coordinates[static_cast<size_t>(reg)][0] != var(row_, t)) ++reg;
      if (reg == static_cast<int64_t>(coordinates.size())) continue;
      var(reduce.dims[0].var.get(), t) = coordinates[static_cast<size_t>(reg)][1];
      ++reg;
      threads.push_back(t);
    }
    if (threads.empty()) break;
    run(reduce.body, threads);
    for (int t : threads) {
      std::vector<ScalarValue> values;
      for (const State& state : reduce.states) values.push_back(evaluate(state.value, t));
      std::vector<ScalarValue>& partial = partials[static_cast<size_t>(t)];
      if (partial.empty()) partial = std::move(values);
      else combine(reduce.states, custom, partial, values, t);
    }
  }
  // The lanes of a warp that hold the same row.
  std::map<std::pair<int, int64_t>, Threads> groups;
  for (int t : all) groups[{t / 32, var(row_, t)}].push_back(t);
  for (const auto& [where, threads] : groups) join_partials(reduce, threads, partials);
}

void Machine::join_partials(const Reduce& reduce, const Threads& threads, const std::vector<std::vector<ScalarValue>>& partials) {
  std::vector<ScalarValue> total = initial(reduce.states, threads[0]);
  for (int t : threads) {
    const std::vector<ScalarValue>& partial = partials[static_cast<size_t>(t)];
    if (!partial.empty()) combine(reduce.states, reduce.combine.get(), total, partial, threads[0]);
  }
  for (int t : threads) {
    for (size_t i = 0; i < reduce.states.size(); ++i) scalar(reduce.states[i].result.get(), t) = total[i];
  }
}

void Machine::execute(const Scan& scan, const Threads& active) {
  for (const Dim& dim : scan.dims) {
    if (options_.lockstep && digits_.count(dim.var.get())) fail("a scan runs in order, its loops can't be bound to threads or blocks");
  }
  const Combine* custom = scan.combine.get();
  std::vector<std::vector<ScalarValue>> states(width_);
  auto publish = [&](int t) {
    for (size_t i = 0; i < scan.states.size(); ++i) scalar(scan.states[i].result.get(), t) = states[static_cast<size_t>(t)][i];
  };
  for (int t : active) states[static_cast<size_t>(t)] = initial(scan.states, t);
  iterate(scan.dims, 0, nullptr, active, [&](const Threads& threads) {
    run(scan.body, threads);
    std::vector<std::vector<ScalarValue>> next(width_);
    for (int t : threads) {
      const size_t at = static_cast<size_t>(t);
      std::vector<ScalarValue> values;
      for (const State& state : scan.states) values.push_back(evaluate(state.value, t));
      next[at] = states[at];
      combine(scan.states, custom, next[at], values, t);
      if (!scan.exclusive) states[at] = next[at];
      publish(t);
    }
    run(scan.after, threads);
    for (int t : threads) states[static_cast<size_t>(t)] = next[static_cast<size_t>(t)];
  });
  for (int t : active) publish(t);
}

void Machine::execute(const Let& let, const Threads& active) {
  for (int t : active) scalar(let.scalar.get(), t) = evaluate(let.value, t);
}

void Machine::execute(const Store& store, const Threads& active) {
  ++tick_;
  std::vector<ScalarValue> values;
  std::vector<std::vector<int64_t>> places;
  for (int t : active) {  // all read before any writes
    values.push_back(evaluate(store.value, t));
    places.emplace_back();
    for (const Index& index : store.indices) places.back().push_back(evaluate(index, t));
  }
  for (size_t i = 0; i < active.size(); ++i) {
    if (offset(*store.buffer, places[i].data(), active[i]) < 0) {
      fail("store outside of " + element(*store.buffer, places[i].data()) + ", extents " + tcc::to_string(store.buffer->extents));
    }
    write(store.buffer, places[i].data(), values[i], active[i]);
  }
}

void Machine::execute(const Scatter& scatter, const Threads& active) {
  for (int t : active) {
    const ScalarValue value = evaluate(scatter.value, t);
    std::vector<int64_t> place;
    for (const Index& index : scatter.indices) place.push_back(evaluate(index, t));
    const int64_t at = offset(*scatter.buffer, place.data(), t);
    if (at < 0) continue;
    Memory& target = memory(scatter.buffer, t, true);
    const DType dtype = scatter.buffer->dtype;
    const ScalarValue pair[] = {get(target, at, dtype), value};
    set(target, at, dtype,
        scatter.combiner == Combiner::assign ? value : evaluate_scalar(pointwise_of(scatter.combiner), dtype, dtype, pair));
  }
}

void Machine::execute(const If& branch, const Threads& active) {
  const Threads then = filter(branch.condition, active);
  Threads otherwise;
  std::set_difference(active.begin(), active.end(), then.begin(), then.end(), std::back_inserter(otherwise));
  run(branch.then, then);
  run(branch.otherwise, otherwise);
}

// ------------------------------------------------------------------------------------------------------------- values

int64_t Machine::evaluate(const Index& index, int thread) {
  int64_t result = index.constant();
  for (const Term& term : index.terms()) {
    int64_t value = 0;
    switch (term.atom.kind) {
      case Atom::Kind::var: value = var(term.atom.var.get(), thread); break;
      case Atom::Kind::scalar: value = scalar(term.atom.scalar.get(), thread).i; break;
      case Atom::Kind::floor_div:
      case Atom::Kind::mod: {
        const int64_t operand = evaluate(*term.atom.operand, thread), divisor = term.atom.divisor;
        const int64_t remainder = (operand % divisor + divisor) % divisor;
        value = term.atom.kind == Atom::Kind::mod ? remainder : (operand - remainder) / divisor;
        break;
      }
    }
    result += term.coefficient * value;
  }
  return result;
}

ScalarValue Machine::evaluate(const ExprPtr& expr, int thread) {
  switch (expr->kind) {
    case Expr::Kind::constant:
      return is_float(expr->dtype) ? ScalarValue::of_float(expr->float_value) : ScalarValue::of_int(expr->int_value);
    case Expr::Kind::index: return ScalarValue::of_int(evaluate(expr->index, thread));
    case Expr::Kind::scalar: return scalar(expr->scalar.get(), thread);
    case Expr::Kind::load: {
      int64_t places[16];
      check(expr->indices.size() <= 16, "a buffer of more than 16 axes");
      for (size_t i = 0; i < expr->indices.size(); ++i) places[i] = evaluate(expr->indices[i], thread);
      const Buffer& buffer = *expr->buffer;
      bool inside = true;
      for (size_t i = 0; i < buffer.extents.size(); ++i) inside = inside && places[i] >= 0 && places[i] < buffer.extents[i];
      if (inside) return read(expr->buffer, places, thread);
      if (expr->otherwise) return evaluate(expr->otherwise, thread);
      fail("load outside of " + element(buffer, places) + ", extents " + tcc::to_string(buffer.extents));
    }
    case Expr::Kind::op: {
      if (expr->op == Op::cast_) return cast_scalar(evaluate(expr->args[0], thread), expr->args[0]->dtype, expr->dtype);
      if (expr->op == Op::bitcast_) return bitcast_scalar(evaluate(expr->args[0], thread), expr->args[0]->dtype, expr->dtype);
      if (expr->op == Op::check_index_) return check_index(*expr, thread);
      ScalarValue args[3];
      for (size_t i = 0; i < expr->args.size(); ++i) args[i] = evaluate(expr->args[i], thread);
      return evaluate_scalar(expr->op, expr->dtype, expr->args[0]->dtype, {args, expr->args.size()});
    }
  }
  internal_error("no such expression");
}

ScalarValue Machine::check_index(const Expr& check, int thread) {
  const int64_t index = evaluate(check.args[1], thread).i;
  if (options_.bad_indices && (index < 0 || index >= check.args[3]->int_value)) {
    const size_t site = static_cast<size_t>(check.args[4]->int_value);
    if (options_.bad_indices->size() <= site) options_.bad_indices->resize(site + 1);
    int64_t& first = (*options_.bad_indices)[site];
    if (first == 0) first = evaluate(check.args[2], thread).i;
  }
  return evaluate(check.args[0], thread);
}

}  // namespace tcc::loop
