// What the rules of canonicalize share. A rule looks at one node whose operands are canonical already and returns the value that should stand for its
// result, or null. It must give a value of the same type, and something simpler: rules are applied until none fires.
#pragma once

#include <optional>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/graph/splat.h"
#include "tcc/graph/uses.h"

namespace tcc {

class Rewriter {
 public:
  Rewriter(Graph& graph, bool keep_parameters) : graph_(graph), keep_parameters_(keep_parameters) {}

  void run();

  /// A new node, made canonical in turn; its location is that of the node being rewritten.
  Value* emit(Op op, std::vector<Value*> operands, Attrs attrs = {});
  Value* full(const Type& type, const Splat& splat) { return emit(Op::full_, {}, full_attrs(type, splat)); }
  Value* full(const Type& type, double value);
  /// x in this shape; x itself when it has it.
  Value* reshape(Value* x, const Shape& shape);

  /// The one value of all elements, when it is known at compile time.
  std::optional<Splat> splat(const Value* value);
  /// Whether it is a constant that holds this number everywhere; -0 is not 0.
  bool is_splat(const Value* value, double number);
  /// The tensor of a weight that is constant.
  const Tensor* constant(const Value* value) const;

 private:
  void sweep(Region& region);
  Value* place(Node& node);
  void use_literals(Node& node);

  Graph& graph_;
  bool keep_parameters_;
  Location loc_;
  std::vector<Node*> kept_;                                  // of the region at hand
  std::vector<Value*> replacement_;                          // by value id
  std::vector<std::optional<std::optional<Splat>>> splats_;  // of weights, by value id
};

using RewriteRule = Value* (*)(Rewriter & rewriter, Node& node);
struct RewriteRow {
  Op op;
  RewriteRule rule;
};
// The tables, one per file; rules of one op are tried in order.
std::vector<RewriteRow> arithmetic_rewrites();  // canonicalize_arithmetic.cpp
std::vector<RewriteRow> logic_rewrites();       // canonicalize_logic.cpp
std::vector<RewriteRow> cast_rewrites();        // canonicalize_cast.cpp
std::vector<RewriteRow> view_rewrites();        // canonicalize_view.cpp
std::vector<RewriteRow> access_rewrites();      // canonicalize_access.cpp

}  // namespace tcc
