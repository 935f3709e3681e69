// What holds in both forms: definitions before uses, dtypes, indices in bounds. The verifiers of the two forms add what is theirs through the hooks.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "loop/index_bounds.h"
#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"

namespace tcc::loop {

class Verifier {
 public:
  virtual ~Verifier() = default;
  std::vector<std::string> take() { return std::move(faults_); }

 protected:
  /// What is around the statement being looked at.
  struct Around {
    const Stmt* stmt;
    std::set<const Buffer*> buffers_before;  ///< buffers defined when the statement began
  };

  void verify_params(const std::vector<Param>& params);
  void verify(const Block& block);

  /// Called before the general checks of the statement; `inside` before its blocks with the statement in around().back(), `left` after them.
  virtual void on_stmt(const Stmt&) {}
  virtual void on_enter(const Stmt&) {}
  virtual void on_leave(const Stmt&) {}
  virtual void on_role(const Role*) {}  ///< what comes is of the role; null: of the block again
  virtual void on_load(const Expr&) {}  ///< without `else`
  virtual void on_access(const BufferRef&, const std::vector<Index>&, bool /*write*/) {}

  void fault(const std::string& message);
  const std::vector<Around>& around() const { return around_; }
  const IndexBounds& bounds() const { return bounds_; }
  bool is_written_param(const Buffer* buffer) const { return written_params_.count(buffer) != 0; }
  bool is_read_param(const Buffer* buffer) const { return read_params_.count(buffer) != 0; }

 private:
  void verify(const Stmt& stmt);
  void statement(const Loop& loop);
  void statement(const Reduce& reduce);
  void statement(const Scan& scan);
  void statement(const Let& let);
  void statement(const Store& store);
  void statement(const Scatter& scatter);
  void statement(const If& branch);
  void statement(const Alloc& alloc);
  void statement(const Barrier&) {}
  void statement(const Copy& copy);
  void statement(const PipeDecl& decl);
  void statement(const PipeOp& op);
  void statement(const Mma& mma);
  void statement(const MmaWait& wait);
  void statement(const Roles& roles);

  void loop_variable(const VarRef& var);
  void dims(const std::vector<Dim>& dims);
  void states(const std::vector<State>& states, const Combine* combine);
  void condition(const ExprPtr& condition);
  void expr(const ExprPtr& expr);
  void value_of_copy(const Copy& copy);
  void index(const Index& index);
  void indices(const std::vector<Index>& list);
  void use(const BufferRef& buffer);
  void in_bounds(const BufferRef& buffer, const std::vector<Index>& indices, const char* what);
  void define(const void* key, const std::string& name);
  void buffer_shape(const BufferRef& buffer);
  void inner(const Block& block, const ExprPtr& holds, const ExprPtr& fails = nullptr);

  std::vector<std::string> faults_;
  std::set<const void*> visible_, ever_;
  std::set<std::string> names_;
  std::set<const Buffer*> buffers_, written_params_, read_params_;
  std::vector<Around> around_;
  const Stmt* current_ = nullptr;
  IndexBounds bounds_;
};

}  // namespace tcc::loop
