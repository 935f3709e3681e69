// Reads what print wrote. Names follow blocks; one that another block used already gets a number, so that every name of a unit is unique.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "loop/scalar_math.h"
#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/text.h"

namespace tcc::loop {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : lexer_(text, file) { scopes_.emplace_back(); }

  Unit unit() {
    lexer_.expect("unit");
    Unit unit;
    unit.params = params();
    unit.body = braced();
    finish();
    return unit;
  }

  Kernel kernel(std::string* name) {
    lexer_.expect("kernel");
    if (lexer_.peek().kind != TokenKind::body) lexer_.fail("expected the kernel's name, such as `#0`");
    const std::string given = lexer_.next().text;
    if (name) *name = given;
    Kernel kernel;
    lexer_.expect("target");
    kernel.target = lexer_.expect_identifier();
    lexer_.expect("grid");
    kernel.grid = lexer_.expect_integer();
    lexer_.expect("threads");
    kernel.threads = small_integer();
    lexer_.expect("shared");
    kernel.shared_bytes = lexer_.expect_integer();
    kernel.params = params();
    kernel.body = braced();
    finish();
    return kernel;
  }

 private:
  struct Symbol {
    VarRef var;
    ScalarRef scalar;
    BufferRef buffer;
    PipeRef pipe;
  };

  /// Blocks within blocks and expressions within expressions: what reads, checks and emits them goes as deep.
  class Deeper {
   public:
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kDeepest) parser_.lexer_.fail("nested more than " + std::to_string(kDeepest) + " deep");
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Parser& parser_;
  };
  static constexpr int kDeepest = 1000;
  static constexpr int kMostStages = 64;

  int64_t integer(int64_t low, int64_t high) {
    const int64_t value = lexer_.expect_integer();
    if (value < low || value > high)
      lexer_.fail("found " + std::to_string(value) + ", expected a number from " + std::to_string(low) + " to " + std::to_string(high));
    return value;
  }
  int small_integer() { return static_cast<int>(integer(-(1 << 30), 1 << 30)); }

  void finish() {
    if (lexer_.peek().kind != TokenKind::end) lexer_.fail("expected the end of the text after `}`");
  }

  // ------------------------------------------------------------------------------------------------------------ names

  void define(const std::string& written, Symbol symbol) {
    if (lookup(written)) lexer_.fail("`" + print_value_name(written) + "` is defined already");
    scopes_.back().emplace(written, std::move(symbol));
  }
  const Symbol* lookup(const std::string& name) const {
    for (size_t i = scopes_.size(); i-- > 0;) {
      const auto at = scopes_[i].find(name);
      if (at != scopes_[i].end()) return &at->second;
    }
    return nullptr;
  }
  const Symbol& find(const std::string& name) const {
    const Symbol* symbol = lookup(name);
    if (!symbol) lexer_.fail("`" + print_value_name(name) + "` is not defined here");
    return *symbol;
  }
  BufferRef buffer() {
    const std::string name = lexer_.expect_value();
    const BufferRef result = find(name).buffer;
    if (!result) lexer_.fail("`" + print_value_name(name) + "` is not a buffer");
    return result;
  }
  PipeRef pipe() {
    const std::string name = lexer_.expect_value();
    const PipeRef result = find(name).pipe;
    if (!result) lexer_.fail("`" + print_value_name(name) + "` is not a pipe");
    return result;
  }
  DType dtype() {
    const std::string word = lexer_.expect_identifier();
    const auto result = parse_dtype(word);
    if (!result) lexer_.fail("`" + word + "` is not a dtype");
    return *result;
  }
  std::vector<int64_t> integers(std::string_view close) {
    std::vector<int64_t> result;
    while (!lexer_.accept(close)) {
      if (!result.empty()) lexer_.expect(",");
      result.push_back(lexer_.expect_integer());
    }
    return result;
  }

  // ---------------------------------------------------------------------------------------------------------- indices

  /// The index, when all that it can be and all on the way there fits 64 bits with room to spare.
  Index bounded(const Index& index) const {
    double reach = std::abs(static_cast<double>(index.constant()));
    for (const Term& term : index.terms()) {
      const double most = term.atom.var                       ? static_cast<double>(term.atom.var->extent)
                          : term.atom.kind == Atom::Kind::mod ? static_cast<double>(term.atom.divisor)
                                                              : 1;
      reach += std::abs(static_cast<double>(term.coefficient)) * std::max(most, 1.0);
    }
    if (reach > kFarthest) lexer_.fail("an index that 64 bits don't hold");
    return index;
  }
  Index times(const Index& index, int64_t by) const {
    double largest = std::abs(static_cast<double>(index.constant()));
    for (const Term& term : index.terms()) largest = std::max(largest, std::abs(static_cast<double>(term.coefficient)));
    if (largest * std::abs(static_cast<double>(by)) > kFarthest) lexer_.fail("an index that 64 bits don't hold");
    return bounded(index * by);
  }
  static constexpr double kFarthest = 1LL << 60;

  Index factor() {
    const Deeper deeper(*this);
    if (lexer_.accept("(")) {
      const Index result = index();
      lexer_.expect(")");
      return result;
    }
    if (lexer_.peek().kind == TokenKind::integer) return bounded(Index(lexer_.expect_integer()));
    const std::string name = lexer_.expect_value();
    const Symbol& symbol = find(name);
    if (symbol.var) return Index(symbol.var);
    if (symbol.scalar && !is_float(symbol.scalar->dtype)) return Index::of_scalar(symbol.scalar);
    lexer_.fail("`" + print_value_name(name) + "` is neither a loop variable nor an integer scalar");
  }
  Index term() {
    const bool negative = lexer_.accept("-");
    Index result = factor();
    while (true) {
      if (lexer_.accept("*")) {
        const Index other = factor();
        if (!result.is_constant() && !other.is_constant()) lexer_.fail("an index multiplies by constants only");
        result = other.is_constant() ? times(result, other.constant()) : times(other, result.constant());
      } else if (lexer_.at("/") || lexer_.at("mod")) {
        const bool divide = lexer_.next().text == "/";
        const int64_t divisor = lexer_.expect_integer();
        if (divisor <= 0) lexer_.fail("a divisor is " + std::to_string(divisor) + ", expected a positive one");
        result = divide ? floor_div(result, divisor) : mod(result, divisor);
      } else {
        return negative ? result * -1 : result;
      }
    }
  }
  Index index() {
    Index result = term();
    while (true) {
      if (lexer_.accept("+")) result = bounded(result + term());
      else if (lexer_.accept("-")) result = bounded(result - term());
      else return result;
    }
  }
  std::vector<Index> indices(const BufferRef& buffer) {
    std::vector<Index> result;
    lexer_.expect("[");
    while (!lexer_.accept("]")) {
      if (!result.empty()) lexer_.expect(",");
      result.push_back(index());
    }
    if (result.size() != buffer->extents.size()) {
      lexer_.fail("found " + std::to_string(result.size()) + " indices, `" + print_value_name(buffer->name) + "` has " +
                  std::to_string(buffer->extents.size()) + " axes");
    }
    return result;
  }

  // ------------------------------------------------------------------------------------------------------ expressions

  ExprPtr number(DType type) {
    if (is_float(type)) return constant_float(type, lexer_.expect_number());
    const Token token = lexer_.peek();
    if (type == DType::u64 && token.kind == TokenKind::floating) {  // beyond i64: the lexer gives it as a float, its text is exact
      lexer_.next();
      return constant_int(type, static_cast<int64_t>(std::stoull(token.text)));
    }
    return constant_int(type, lexer_.expect_integer());
  }

  ExprPtr expr() {
    const Deeper deeper(*this);
    const Token token = lexer_.peek();
    if (token.kind == TokenKind::value) {
      const std::string name = lexer_.expect_value();
      const Symbol& symbol = find(name);
      if (symbol.var)
        lexer_.fail("`" + print_value_name(name) + "` is a loop variable: its value is written `index(" + print_value_name(name) + ")`");
      if (!symbol.scalar) lexer_.fail("`" + print_value_name(name) + "` is not a scalar");
      return scalar_value(symbol.scalar);
    }
    if (token.kind == TokenKind::integer) return constant_int(DType::i64, lexer_.expect_integer());
    if (token.kind == TokenKind::floating || lexer_.at("-") || lexer_.at("inf") || lexer_.at("nan")) return number(DType::f32);
    const std::string word = lexer_.expect_identifier();
    if (word == "true" || word == "false") return constant_int(DType::boolean, word == "true");
    if (word == "load") {
      const BufferRef from = buffer();
      std::vector<Index> at = indices(from);
      ExprPtr otherwise = lexer_.accept("else") ? expr() : nullptr;
      if (otherwise && otherwise->dtype != from->dtype) {
        lexer_.fail("the value after `else` is " + std::string(name_of(otherwise->dtype)) + ", the buffer " +
                    std::string(name_of(from->dtype)));
      }
      return load(from, std::move(at), std::move(otherwise));
    }
    if (word == "index") {
      lexer_.expect("(");
      const Index value = index();
      lexer_.expect(")");
      return index_value(value);
    }
    if (const auto type = parse_dtype(word)) {
      lexer_.expect("(");
      ExprPtr value = number(*type);
      lexer_.expect(")");
      return value;
    }
    const auto op = parse_op(word);
    if (!op) lexer_.fail("`" + word + "` is not a pointwise prim");
    if (*op == Op::cast_ || *op == Op::bitcast_) {
      lexer_.expect("<");
      const DType to = dtype();
      lexer_.expect(">");
      lexer_.expect("(");
      const ExprPtr value = expr();
      lexer_.expect(")");
      if (*op == Op::bitcast_ && size_bits(value->dtype) != size_bits(to)) lexer_.fail("`bitcast` between dtypes of different widths");
      return *op == Op::cast_ ? cast_to(value, to) : bitcast_to(value, to);
    }
    lexer_.expect("(");
    std::vector<ExprPtr> args;
    std::vector<DType> dtypes;
    while (!lexer_.accept(")")) {
      if (!args.empty()) lexer_.expect(",");
      args.push_back(expr());
      dtypes.push_back(args.back()->dtype);
    }
    if (!result_dtype(*op, dtypes)) {
      std::string given;
      for (DType d : dtypes) given += (given.empty() ? "" : ", ") + std::string(name_of(d));
      lexer_.fail("`" + word + "` does not take (" + given + ")");
    }
    return apply(*op, std::move(args));
  }

  // ----------------------------------------------------------------------------------------------------- declarations

  TileLayout tile() {
    TileLayout layout;
    while (!lexer_.accept(")")) {
      if (!layout.digits.empty()) lexer_.expect(",");
      const std::string level = lexer_.expect_identifier();
      TileDigit digit{};
      if (level == "reg") digit.level = TileDigit::Level::reg;
      else if (level == "lane") digit.level = TileDigit::Level::lane;
      else if (level == "warp") digit.level = TileDigit::Level::warp;
      else lexer_.fail("found `" + level + "`, expected reg, lane or warp");
      digit.axis = small_integer();
      digit.extent = lexer_.expect_integer();
      digit.stride = lexer_.expect_integer();
      layout.digits.push_back(digit);
    }
    return layout;
  }

  BufferRef declaration() {
    const std::string written = lexer_.expect_value();
    lexer_.expect(":");
    Buffer made;
    made.name = names_.fresh(written);
    made.dtype = dtype();
    lexer_.expect("[");
    made.extents = integers("]");
    static const std::map<std::string, Space> spaces = {{"global", Space::global},
                                                        {"local", Space::local},
                                                        {"registers", Space::registers},
                                                        {"scratch", Space::scratch},
                                                        {"shared", Space::shared}};
    while (lexer_.peek().kind == TokenKind::identifier) {
      if (lexer_.accept("strides")) {
        lexer_.expect("(");
        made.strides = integers(")");
        if (made.strides.size() != made.extents.size()) lexer_.fail("as many strides as extents are needed");
      } else if (lexer_.accept("swizzle")) {
        lexer_.expect("(");
        made.swizzle.bits = static_cast<int>(integer(0, 8));
        lexer_.expect(",");
        made.swizzle.base = static_cast<int>(integer(0, 12));
        lexer_.expect(",");
        made.swizzle.shift = static_cast<int>(integer(0, 12));
        lexer_.expect(")");
      } else if (lexer_.accept("tile")) {
        lexer_.expect("(");
        made.tile = std::make_shared<const TileLayout>(tile());
      } else if (lexer_.accept("distributed")) {
        lexer_.expect("(");
        while (!lexer_.accept(")")) {
          if (!made.distributed.empty()) lexer_.expect(",");
          made.distributed.push_back(small_integer());
        }
      } else if (const auto at = spaces.find(lexer_.peek().text); at != spaces.end()) {
        made.space = at->second;
        lexer_.next();
      } else {
        break;  // the next statement
      }
    }
    const BufferRef result = make_buffer(std::move(made));
    define(written, {nullptr, nullptr, result, nullptr});
    return result;
  }

  std::vector<Param> params() {
    std::vector<Param> result;
    auto group = [&](bool results) {
      lexer_.expect("(");
      bool first = true;
      while (!lexer_.accept(")")) {
        if (!first) lexer_.expect(",");
        first = false;
        const bool written = lexer_.accept("written") || results;
        result.push_back({declaration(), written});
      }
    };
    group(false);
    lexer_.expect("->");
    group(true);
    return result;
  }

  ScalarRef new_scalar(const std::string& written, DType type) { return make_scalar(names_.fresh(written), type); }

  void dims(std::vector<Dim>& result, ExprPtr* where) {
    static constexpr Bind binds[] = {Bind::serial, Bind::unroll, Bind::vector, Bind::block, Bind::threads,
                                     Bind::thread, Bind::warp,   Bind::lane,   Bind::tile};
    while (lexer_.peek().kind == TokenKind::value) {
      const std::string written = lexer_.expect_value();
      lexer_.expect("in");
      Dim dim;
      dim.var = make_var(names_.fresh(written), integer(0, kMostIterations));
      if (lexer_.accept("bind")) {
        lexer_.expect("(");
        const std::string word = lexer_.expect_identifier();
        for (Bind bind : binds) dim.bind = name_of(bind) == word ? bind : dim.bind;
        if (dim.bind == Bind::none) lexer_.fail("`" + word + "` is not a place to bind a loop to");
        lexer_.expect(")");
      }
      define(written, {dim.var, nullptr, nullptr, nullptr});
      result.push_back(std::move(dim));
      if (!lexer_.accept(",")) break;
    }
    if (lexer_.accept("where")) {
      if (!where) lexer_.fail("a scan has no `where`");
      *where = expr();
      if ((*where)->dtype != DType::boolean) lexer_.fail("a condition is not bool");
    }
  }

  // ------------------------------------------------------------------------------------------------------- statements

  Block braced() {
    const Deeper deeper(*this);
    lexer_.expect("{");
    scopes_.emplace_back();
    Block result = statements();
    scopes_.pop_back();
    lexer_.expect("}");
    return result;
  }

  Block statements() {
    Block result;
    while (!lexer_.at("}") && !lexer_.at("yield")) {
      if (lexer_.peek().kind == TokenKind::end) lexer_.fail("found the end of the text inside a block, expected `}`");
      result.push_back(statement());
      while (lexer_.accept(";")) {}
    }
    return result;
  }

  /// `{ statements yield a, b }`; the values are seen in the scope of the block.
  std::vector<ExprPtr> yielding(Block& body) {
    const Deeper deeper(*this);
    lexer_.expect("{");
    scopes_.emplace_back();
    body = statements();
    lexer_.expect("yield");
    std::vector<ExprPtr> values{expr()};
    while (lexer_.accept(",")) values.push_back(expr());
    lexer_.accept(";");
    scopes_.pop_back();
    lexer_.expect("}");
    return values;
  }

  Op combiner() {
    const std::string word = lexer_.expect_identifier();
    for (Op op : {Op::reduce_sum_, Op::reduce_prod_, Op::reduce_max_, Op::reduce_min_, Op::reduce_and_, Op::reduce_or_}) {
      if (combiner_name(op) == word) return op;
    }
    lexer_.fail("found `" + word + "`, expected sum, prod, max, min, and or or");
  }

  struct Result {
    std::string written;
    ScalarRef scalar;
  };

  std::shared_ptr<const Combine> combine(const std::vector<Result>& results) {
    if (!lexer_.accept("combine")) return nullptr;
    auto made = std::make_shared<Combine>();
    scopes_.emplace_back();
    auto side = [&](std::vector<ScalarRef>& scalars) {
      lexer_.expect("(");
      while (!lexer_.accept(")")) {
        if (!scalars.empty()) lexer_.expect(",");
        const std::string written = lexer_.expect_value();
        lexer_.expect(":");
        scalars.push_back(new_scalar(written, dtype()));
        define(written, {nullptr, scalars.back(), nullptr, nullptr});
      }
      if (scalars.size() != results.size()) lexer_.fail("a combine takes as many scalars on each side as there are states");
    };
    side(made->left);
    lexer_.expect(",");
    side(made->right);
    made->results = yielding(made->body);
    if (made->results.size() != results.size()) lexer_.fail("a combine yields as many values as there are states");
    scopes_.pop_back();
    return made;
  }

  /// What follows `reduce` or `scan` up to the dims.
  void head(std::vector<State>& states, const std::vector<Result>& results) {
    for (const Result& r : results) states.push_back({r.scalar, Op::reduce_sum_, nullptr, nullptr});
    if (lexer_.accept("(")) {
      for (size_t i = 0; i < states.size(); ++i) {
        if (i) lexer_.expect(",");
        states[i].combiner = combiner();
      }
      lexer_.expect(")");
    } else if (lexer_.peek().kind == TokenKind::identifier && !lexer_.at("init") && !lexer_.at("where") && !lexer_.at("exclusive")) {
      if (states.size() != 1) lexer_.fail("several states need their combiners in parentheses, or a `combine`");
      states[0].combiner = combiner();
    }
    if (lexer_.accept("init")) {
      lexer_.expect("(");
      for (size_t i = 0; i < states.size(); ++i) {
        if (i) lexer_.expect(",");
        if (lexer_.accept("_")) continue;
        states[i].init = expr();
      }
      lexer_.expect(")");
    }
  }

  void tail(std::vector<State>& states, std::vector<ExprPtr> values) {
    if (values.size() != states.size()) {
      lexer_.fail("found " + std::to_string(values.size()) + " values yielded for " + std::to_string(states.size()) + " states");
    }
    for (size_t i = 0; i < states.size(); ++i) states[i].value = std::move(values[i]);
  }

  void publish(const std::vector<Result>& results) {
    for (const Result& r : results) define(r.written, {nullptr, r.scalar, nullptr, nullptr});
  }

  Stmt reduce(const std::vector<Result>& results) {
    Reduce made;
    head(made.states, results);
    scopes_.emplace_back();
    dims(made.dims, &made.where);
    tail(made.states, yielding(made.body));
    scopes_.pop_back();
    made.combine = combine(results);
    publish(results);
    return {std::move(made)};
  }

  Stmt scan(const std::vector<Result>& results) {
    Scan made;
    head(made.states, results);
    made.exclusive = lexer_.accept("exclusive");
    scopes_.emplace_back();
    dims(made.dims, nullptr);
    tail(made.states, yielding(made.body));
    made.combine = combine(results);
    lexer_.expect("after");
    scopes_.emplace_back();
    publish(results);
    made.after = braced();
    scopes_.pop_back();
    scopes_.pop_back();
    publish(results);
    return {std::move(made)};
  }

  /// `%a: f32 = expression`, `%a: f32, %b: f32 = reduce ...`, `... = scan ...`.
  Stmt definition() {
    std::vector<Result> results;
    do {
      const std::string written = lexer_.expect_value();
      lexer_.expect(":");
      results.push_back({written, new_scalar(written, dtype())});
    } while (lexer_.accept(","));
    lexer_.expect("=");
    if (lexer_.accept("reduce")) return reduce(results);
    if (lexer_.accept("scan")) return scan(results);
    if (results.size() != 1) lexer_.fail("found several results, expected `reduce` or `scan` after `=`");
    ExprPtr value = expr();
    if (value->dtype != results[0].scalar->dtype) {
      lexer_.fail("the value is " + std::string(name_of(value->dtype)) + ", `" + print_value_name(results[0].written) + "` is " +
                  std::string(name_of(results[0].scalar->dtype)));
    }
    publish(results);
    return {Let{results[0].scalar, std::move(value)}};
  }

  Stmt loop(Loop::Kind kind) {
    Loop made;
    made.kind = kind;
    scopes_.emplace_back();
    if (lexer_.peek().kind == TokenKind::value && lookup(lexer_.peek().text) && lookup(lexer_.peek().text)->buffer) {
      made.tile = buffer();
      lexer_.expect(":");
    }
    dims(made.dims, &made.where);
    made.body = braced();
    scopes_.pop_back();
    return {std::move(made)};
  }

  Stmt copy(Copy::Kind kind) {
    Copy made;
    made.kind = kind;
    made.source = buffer();
    made.from = indices(made.source);
    lexer_.expect("->");
    made.destination = buffer();
    made.to = indices(made.destination);
    lexer_.expect("extents");
    lexer_.expect("(");
    made.extents = integers(")");
    lexer_.expect("bytes");
    made.vector_bytes = small_integer();
    return {std::move(made)};
  }

  Stmt mma() {
    Mma made;
    made.accumulator = buffer();
    lexer_.expect(",");
    made.transpose_a = lexer_.accept("transpose");
    made.a = buffer();
    made.a_from = indices(made.a);
    lexer_.expect(",");
    made.transpose_b = lexer_.accept("transpose");
    made.b = buffer();
    made.b_from = indices(made.b);
    lexer_.expect("size");
    lexer_.expect("(");
    const auto size = integers(")");
    if (size.size() != 3) lexer_.fail("`size` takes m, n and k");
    made.m = size[0];
    made.n = size[1];
    made.k = size[2];
    lexer_.expect("shape");
    made.shape = lexer_.expect_identifier();
    return {std::move(made)};
  }

  Stmt pipe_declaration() {
    const std::string written = lexer_.expect_value();
    const std::string name = names_.fresh(written);
    lexer_.expect("stages");
    const int stages = small_integer();
    if (stages < 1 || stages > kMostStages) lexer_.fail("a pipe of " + std::to_string(stages) + " stages");
    std::vector<BufferRef> buffers;
    lexer_.expect("(");
    while (!lexer_.accept(")")) {
      if (!buffers.empty()) lexer_.expect(",");
      buffers.push_back(declaration());
    }
    const PipeRef made = make_pipe(name, stages, std::move(buffers));
    define(written, {nullptr, nullptr, nullptr, made});
    return {PipeDecl{made}};
  }

  Stmt scatter() {
    const std::string word = lexer_.expect_identifier();
    Scatter made;
    bool known = false;
    for (Op op : {Op::identity_, Op::add_, Op::mul_, Op::max_, Op::min_}) {
      if (combiner_name(op) == word) made.combiner = op, known = true;
    }
    if (!known) lexer_.fail("found `" + word + "`, expected assign, add, mul, max or min");
    made.value = expr();
    lexer_.expect(",");
    made.buffer = buffer();
    made.indices = indices(made.buffer);
    return {std::move(made)};
  }

  Stmt statement() {
    if (lexer_.peek().kind == TokenKind::value) return definition();
    const std::string word = lexer_.expect_identifier();
    if (word == "map") return loop(Loop::Kind::map);
    if (word == "for") return loop(Loop::Kind::for_);
    if (word == "store") {
      Store made;
      made.value = expr();
      lexer_.expect(",");
      made.buffer = buffer();
      made.indices = indices(made.buffer);
      if (made.value->dtype != made.buffer->dtype) {
        lexer_.fail("the value is " + std::string(name_of(made.value->dtype)) + ", the buffer " + std::string(name_of(made.buffer->dtype)));
      }
      return {std::move(made)};
    }
    if (word == "scatter") return scatter();
    if (word == "if") {
      If made;
      made.condition = expr();
      made.then = braced();
      if (lexer_.accept("else")) made.otherwise = braced();
      return {std::move(made)};
    }
    if (word == "alloc") return {Alloc{declaration()}};
    if (word == "barrier") return {Barrier{}};
    if (word == "copy") return copy(Copy::Kind::plain);
    if (word == "copy.async") return copy(Copy::Kind::async);
    if (word == "pipe") return pipe_declaration();
    if (word == "mma") return mma();
    if (word == "acquire") return {PipeOp{PipeOp::Kind::acquire, pipe()}};
    if (word == "commit") return {PipeOp{PipeOp::Kind::commit, pipe()}};
    if (word == "wait") return {PipeOp{PipeOp::Kind::wait, pipe()}};
    if (word == "release") return {PipeOp{PipeOp::Kind::release, pipe()}};
    lexer_.fail("`" + word + "` is not a statement of the loop IR");
  }

  Lexer lexer_;
  int depth_ = 0;
  std::vector<std::map<std::string, Symbol>> scopes_;
  NameTable names_;
};

}  // namespace

Unit parse_unit(std::string_view text, const std::string& file) { return Parser(text, file).unit(); }
Kernel parse_kernel(std::string_view text, const std::string& file, std::string* name) { return Parser(text, file).kernel(name); }

}  // namespace tcc::loop
