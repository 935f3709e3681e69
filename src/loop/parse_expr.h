// What parsing is made of below statements: names in scope, indices, expressions. The parser of parse.cpp adds statements, units and kernels.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"
#include "tcc/support/text.h"

namespace tcc::loop {

class ExprParser {
 public:
  ExprParser(std::string_view text, const std::string& file) : lexer_(text, file) { scopes_.emplace_back(); }

 protected:
  struct Symbol {
    VarRef var;
    ScalarRef scalar;
    BufferRef buffer;
    PipeRef pipe;
  };

  /// Blocks within blocks and expressions within expressions: what reads, checks and emits them goes as deep.
  class Deeper {
   public:
    explicit Deeper(ExprParser& parser);
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    ExprParser& parser_;
  };

  int64_t integer(int64_t low, int64_t high);
  int small_integer();
  void define(const std::string& written, Symbol symbol);
  const Symbol* lookup(const std::string& name) const;
  const Symbol& find(const std::string& name) const;
  BufferRef buffer();
  PipeRef pipe();
  DType dtype();
  std::vector<int64_t> integers(std::string_view close);
  /// The index, when all that it can be and all on the way there fits 64 bits with room to spare.
  Index bounded(const Index& index) const;
  Index times(const Index& index, int64_t by) const;
  Index factor();
  Index term();
  Index index();
  std::vector<Index> indices(const BufferRef& buffer);
  ExprPtr number(DType type);
  ExprPtr expr();

  Lexer lexer_;
  int depth_ = 0;
  std::vector<std::map<std::string, Symbol>> scopes_;
  NameTable names_;
};

}  // namespace tcc::loop
