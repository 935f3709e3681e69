// What each kind of statement is made of, said once. Walks, uses, copies and substitution, names, the tidying of lowered units, the order of accesses and who has
// to reach a statement all derive from this list; a kind that is not in it does not compile.
//
//   fields(loop, f)   calls   f.buffer(Effect::names, tile); f.dims(dims); f.condition(where); f.block(body);
//
// The fields come in the order in which the text has them: what a statement defines before what is inside of it. f derives from NoFields and hides the
// calls that it wants; without that base it has to have all of them. Statements that are not const hand out their fields to be changed. The structured
// bindings take all members of a statement: who adds one has to come by here.
#pragma once

#include <concepts>
#include <type_traits>

#include "tcc/loop/loop.h"

namespace tcc::loop {

/// What a statement does with a buffer that it mentions. `updates`: reads and writes.
enum class Effect : uint8_t { names, reads, writes, updates };

/// The threads that execute a statement together: each for itself, or all of a warp or block, which then have to reach it.
enum class Team : uint8_t { thread, warp, block };

struct Together {
  Team team = Team::thread;
  bool synchronizes = false;  ///< each sees after it what the others wrote before it
  bool keeps_order = false;   ///< no other statement moves across it
};

/// The calls that `fields` makes; here they do nothing.
struct NoFields {
  template <class T> void defines(T&) {}    ///< ScalarRef, BufferRef, PipeRef: for what comes after it
  template <class T> void dims(T&) {}       ///< std::vector<Dim>: seen by the condition, the blocks and what they yield
  template <class T> void box(T&) {}        ///< std::vector<VarRef>: seen by the condition, the places and the value of this statement
  template <class T> void condition(T&) {}  ///< ExprPtr, null when there is none: whether the blocks run, a copy copies
  template <class T> void expr(T&) {}       ///< ExprPtr, null when there is none: a value from before the blocks
  template <class T, class B> void yields(T&, B&) {}         ///< ExprPtr: a value seen at the end of that block
  template <class T, class I> void place(Effect, T&, I&) {}  ///< BufferRef at std::vector<Index>
  template <class T> void buffer(Effect, T&) {}              ///< BufferRef as a whole, null when there is none
  template <class T> void pipe(T&) {}                        ///< PipeRef, used
  template <class T> void block(T&) {}                       ///< Block
  template <class T> void combine(T&) {}                     ///< std::shared_ptr<const Combine>, null when there is none
  void together(const Together&) {}
};

template <class N, class Kind>
concept Of = std::same_as<std::remove_const_t<N>, Kind>;

/// A reduce joins the values of the threads that its dims are bound to.
inline Together together_across(const std::vector<Dim>& dims) {
  Together result;
  for (const Dim& dim : dims) {
    if (dim.bind == Bind::thread || dim.bind == Bind::warp) result = {Team::block, true, false};
    if ((dim.bind == Bind::lane || dim.bind == Bind::tile) && result.team == Team::thread) result.team = Team::warp;
  }
  return result;
}

template <Of<Loop> N, class F> void fields(N& loop, F& f) {
  auto& [kind, dims, where, tile, body] = loop;
  f.buffer(Effect::names, tile);
  f.dims(dims);
  f.condition(where);
  f.block(body);
}

/// The states of reduces and scans, whose results come first in the text and whose values last.
template <class States, class F> void fields_before(States& states, F& f) {
  for (auto& [result, combiner, init, value] : states) f.defines(result);
  for (auto& [result, combiner, init, value] : states) f.expr(init);
}
template <class States, class B, class F> void fields_after(States& states, B& body, F& f) {
  for (auto& [result, combiner, init, value] : states) f.yields(value, body);
}

template <Of<Reduce> N, class F> void fields(N& reduce, F& f) {
  auto& [dims, where, tile, body, states, combine] = reduce;
  fields_before(states, f);
  f.buffer(Effect::names, tile);
  f.dims(dims);
  f.condition(where);
  f.block(body);
  fields_after(states, body, f);
  f.combine(combine);
  f.together(together_across(dims));
}

template <Of<Scan> N, class F> void fields(N& scan, F& f) {
  auto& [dims, body, states, combine, exclusive, after] = scan;
  fields_before(states, f);
  f.dims(dims);
  f.block(body);
  fields_after(states, body, f);
  f.combine(combine);
  f.block(after);
}

template <Of<Let> N, class F> void fields(N& let, F& f) {
  auto& [scalar, value] = let;
  f.defines(scalar);
  f.expr(value);
}

template <Of<Store> N, class F> void fields(N& store, F& f) {
  auto& [buffer, indices, value] = store;
  f.expr(value);
  f.place(Effect::writes, buffer, indices);
}

template <Of<Scatter> N, class F> void fields(N& scatter, F& f) {
  auto& [buffer, indices, combiner, value] = scatter;
  f.expr(value);
  f.place(Effect::updates, buffer, indices);
}

template <Of<If> N, class F> void fields(N& branch, F& f) {
  auto& [condition, then, otherwise] = branch;
  f.condition(condition);
  f.block(then);
  f.block(otherwise);
}

template <Of<Alloc> N, class F> void fields(N& alloc, F& f) {
  auto& [buffer] = alloc;
  f.defines(buffer);
  if (buffer->space == Space::shared) f.together({Team::block, false, false});
}

template <Of<Barrier> N, class F> void fields(N&, F& f) { f.together({Team::block, true, true}); }

template <Of<Copy> N, class F> void fields(N& copy, F& f) {
  auto& [kind, box, where, source, destination, from, to, vector_bytes, value] = copy;
  f.box(box);
  f.condition(where);
  f.place(Effect::reads, source, from);
  f.place(Effect::writes, destination, to);
  f.expr(value);
  f.together({Team::block, false, false});
}

template <Of<PipeDecl> N, class F> void fields(N& declaration, F& f) {
  auto& [pipe] = declaration;
  f.defines(pipe);
  f.together({Team::block, false, true});
}

template <Of<PipeOp> N, class F> void fields(N& operation, F& f) {
  auto& [kind, pipe] = operation;
  f.pipe(pipe);
  f.together({Team::block, kind == PipeOp::Kind::wait && pipe->kind == Pipe::Kind::group, true});
}

template <Of<Mma> N, class F> void fields(N& mma, F& f) {
  auto& [accumulator, a, b, a_from, b_from, m, n, k, transpose_a, transpose_b, async, zero_first, shape] = mma;
  f.buffer(zero_first ? Effect::writes : Effect::updates, accumulator);
  f.place(Effect::reads, a, a_from);
  f.place(Effect::reads, b, b_from);
  f.together({Team::block, false, false});
}

template <Of<MmaWait> N, class F> void fields(N& wait, F& f) {
  auto& [pending, accumulators] = wait;
  for (auto& accumulator : accumulators) f.buffer(Effect::updates, accumulator);
  f.together({Team::block, false, true});
}

template <Of<Roles> N, class F> void fields(N& all, F& f) {
  auto& [roles] = all;
  for (auto& [name, warps, registers, body] : roles) f.block(body);
  f.together({Team::block, false, true});
}

template <class S, class F> void fields_of(S& stmt, F&& f) {
  std::visit([&](auto& node) { fields(node, f); }, stmt.node);
}

// ------------------------------------------------------------------------------------------------ what follows from it

/// Which threads execute the statement together.
Together together(const Stmt& stmt);

/// The combine of a reduce or scan; null for other statements and when there is none.
const Combine* combine_of(const Stmt& stmt);

template <class S, class F> struct EachExpr : NoFields {
  F& f;
  explicit EachExpr(F& f) : f(f) {}
  void expr(auto& e) {
    if (e) f(e);
  }
  void condition(auto& e) { expr(e); }
  void yields(auto& e, auto&) { f(e); }
  void combine(auto& custom) {
    if constexpr (std::is_const_v<S>) {
      if (!custom) return;
      for (const ExprPtr& result : custom->results) f(result);
    }
  }
};

/// Calls f with every expression that stands in the statement itself (ExprPtr&, const when the statement is), those of inner blocks not.
/// The results of a combine are given for const statements only: a combine is shared.
template <class S, class F> void each_expr(S& stmt, F f) { fields_of(stmt, EachExpr<S, F>(f)); }

/// Calls f(effect, buffer, indices) for every element or box that the statement itself reads or writes; loads are in its expressions.
template <class F> void each_place(const Stmt& stmt, F f) {
  struct Each : NoFields {
    F& f;
    explicit Each(F& f) : f(f) {}
    void place(Effect effect, const BufferRef& buffer, const std::vector<Index>& indices) { f(effect, buffer, indices); }
  };
  fields_of(stmt, Each(f));
}

/// Calls f(effect, buffer) for the buffers that the statement mentions as a whole.
template <class F> void each_buffer(const Stmt& stmt, F f) {
  struct Each : NoFields {
    F& f;
    explicit Each(F& f) : f(f) {}
    void buffer(Effect effect, const BufferRef& buffer) {
      if (buffer) f(effect, buffer);
    }
  };
  fields_of(stmt, Each(f));
}

/// Calls f with everything that the statement defines, a VarRef, ScalarRef, BufferRef or PipeRef: variables, results, the buffers of a pipe, both sides of
/// a combine.
template <class F> void each_definition(const Stmt& stmt, F f) {
  struct Each : NoFields {
    F& f;
    explicit Each(F& f) : f(f) {}
    void defines(const ScalarRef& scalar) { f(scalar); }
    void defines(const BufferRef& buffer) { f(buffer); }
    void defines(const PipeRef& pipe) {
      f(pipe);
      for (const BufferRef& buffer : pipe->buffers) f(buffer);
    }
    void dims(const std::vector<Dim>& dims) {
      for (const Dim& dim : dims) f(dim.var);
    }
    void box(const std::vector<VarRef>& vars) {
      for (const VarRef& var : vars) f(var);
    }
    void combine(const std::shared_ptr<const Combine>& custom) {
      if (!custom) return;
      for (const ScalarRef& scalar : custom->left) f(scalar);
      for (const ScalarRef& scalar : custom->right) f(scalar);
    }
  };
  fields_of(stmt, Each(f));
}

}  // namespace tcc::loop
