// The one printer of both forms; print.cpp gives it the names of the IR, equal.cpp names that depend on structure alone.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "tcc/loop/loop.h"

namespace tcc::loop {

class Printer {
 public:
  /// `structural`: names are kinds and numbers in order of definition, so that units that differ in names print alike.
  explicit Printer(bool structural = false) : structural_(structural) {}

  std::string unit(const Unit& unit);
  std::string kernel(const Kernel& kernel, const std::string& name);
  void block(const Block& block, int indent);
  std::string take() { return std::move(out_); }
  std::string expr(const ExprPtr& expr);

 private:
  /// The name of something that is defined or used for the first time: its own, with a number when another has it already.
  const std::string& name(const void* key, const std::string& own, char kind);
  std::string var(const VarRef& var) { return name(var.get(), var->name, 'i'); }
  std::string scalar(const ScalarRef& scalar) { return name(scalar.get(), scalar->name, 's'); }
  std::string buffer(const BufferRef& buffer) { return name(buffer.get(), buffer->name, 'b'); }
  std::string pipe(const PipeRef& pipe) { return name(pipe.get(), pipe->name, 'p'); }

  std::string index(const Index& index);
  std::string indices(const std::vector<Index>& indices);
  bool before(const Atom& a, const Atom& b);
  int compare(const Index& a, const Index& b);
  int compare(const Atom& a, const Atom& b);
  int order(const Atom& leaf);

  std::string constant(const Expr& expr);
  std::string element(const BufferRef& buffer, const std::vector<Index>& at);
  std::string declaration(const BufferRef& buffer);
  std::string params(const std::vector<Param>& params);
  std::string dims(const std::vector<Dim>& dims, const ExprPtr& where);
  std::string results(const std::vector<State>& states);
  std::string combiners(const std::vector<State>& states, bool custom);
  std::string exprs(const std::vector<ExprPtr>& list);
  void yielding(const Block& body, const std::vector<ExprPtr>& values, int indent);
  void combine(const Combine& combine, int indent);
  void line(int indent) { out_.append(static_cast<size_t>(indent), ' '); }

  void stmt(const Loop& loop, int indent);
  void stmt(const Reduce& reduce, int indent);
  void stmt(const Scan& scan, int indent);
  void stmt(const Let& let, int indent);
  void stmt(const Store& store, int indent);
  void stmt(const Scatter& scatter, int indent);
  void stmt(const If& branch, int indent);
  void stmt(const Alloc& alloc, int indent);
  void stmt(const Barrier& barrier, int indent);
  void stmt(const Copy& copy, int indent);
  void stmt(const PipeDecl& decl, int indent);
  void stmt(const PipeOp& op, int indent);
  void stmt(const Mma& mma, int indent);
  void stmt(const MmaWait& wait, int indent);
  void stmt(const Roles& roles, int indent);

  bool structural_;
  std::string out_;
  struct Named {
    std::string text;  ///< with the sigil
    int order;         ///< of definition
  };
  std::map<const void*, Named> named_;
  std::set<std::string> taken_;
};

}  // namespace tcc::loop
