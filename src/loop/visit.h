// Where the expressions of a statement stand: one list for reading and for rewriting.
#pragma once

#include <type_traits>
#include <variant>

#include "tcc/loop/loop.h"

namespace tcc::loop {

inline const Combine* combine_of(const Stmt& stmt) {
  if (const auto* reduce = std::get_if<Reduce>(&stmt.node)) return reduce->combine.get();
  if (const auto* scan = std::get_if<Scan>(&stmt.node)) return scan->combine.get();
  return nullptr;
}

/// Calls f with every expression that stands in the statement itself (ExprPtr&, const when the statement is), those of inner blocks not.
/// The results of a combine are given for const statements only: a combine is shared.
template <class S, class F> void each_expr(S& stmt, F f) {
  constexpr bool is_const = std::is_const_v<S>;
  auto states = [&](auto& list) {
    for (auto& state : list) {
      if (state.init) f(state.init);
      f(state.value);
    }
  };
  std::visit(
      [&](auto& node) {
        using Node = std::remove_cvref_t<decltype(node)>;
        if constexpr (std::is_same_v<Node, Loop>) {
          if (node.where) f(node.where);
        } else if constexpr (std::is_same_v<Node, Reduce>) {
          if (node.where) f(node.where);
          states(node.states);
        } else if constexpr (std::is_same_v<Node, Scan>) {
          states(node.states);
        } else if constexpr (std::is_same_v<Node, Let> || std::is_same_v<Node, Store> || std::is_same_v<Node, Scatter>) {
          f(node.value);
        } else if constexpr (std::is_same_v<Node, If>) {
          f(node.condition);
        }
      },
      stmt.node);
  if constexpr (is_const) {
    if (const Combine* combine = combine_of(stmt)) {
      for (const ExprPtr& result : combine->results) f(result);
    }
  }
}

}  // namespace tcc::loop
