// Reads what print wrote. Names follow blocks; one that another block used already gets a number, so that every name of a unit is unique.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "loop/parse_expr.h"
#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/text.h"

namespace tcc::loop {
namespace {

class Parser : ExprParser {
 public:
  using ExprParser::ExprParser;

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
  static constexpr int kMostStages = 64;
  static constexpr int64_t kMostPending = 64;
  static constexpr int64_t kMostWarps = 64;
  static constexpr int64_t kLongestPanel = 4096;

  void finish() {
    if (lexer_.peek().kind != TokenKind::end) lexer_.fail("expected the end of the text after `}`");
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
      } else if (lexer_.accept("panel")) {
        lexer_.expect("(");
        made.panel = integer(1, kLongestPanel);
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
        const bool constant = !written && lexer_.accept("constant");
        result.push_back({declaration(), written, constant});
      }
    };
    group(false);
    lexer_.expect("->");
    group(true);
    return result;
  }

  ScalarRef new_scalar(const std::string& written, DType type) { return make_scalar(names_.fresh(written), type); }

  void dims(std::vector<Dim>& result, ExprPtr* where) {
    static constexpr Bind binds[] = {Bind::serial, Bind::unroll, Bind::vector, Bind::block, Bind::parallel,
                                     Bind::thread, Bind::warp,   Bind::lane,   Bind::tile};
    while (lexer_.peek().kind == TokenKind::value) {
      Dim dim;
      dim.var = loop_variable();
      if (lexer_.accept("bind")) {
        lexer_.expect("(");
        const std::string word = lexer_.expect_identifier();
        for (Bind bind : binds) dim.bind = name_of(bind) == word ? bind : dim.bind;
        if (dim.bind == Bind::none) lexer_.fail("`" + word + "` is not a place to bind a loop to");
        lexer_.expect(")");
      }
      result.push_back(std::move(dim));
      if (!lexer_.accept(",")) break;
    }
    if (lexer_.accept("where")) {
      if (!where) lexer_.fail("a scan has no `where`");
      *where = condition();
    }
  }

  /// `%i in 8`
  VarRef loop_variable() {
    const std::string written = lexer_.expect_value();
    lexer_.expect("in");
    const VarRef var = make_var(names_.fresh(written), integer(0, kMostIterations));
    define(written, {var, nullptr, nullptr, nullptr});
    return var;
  }

  ExprPtr condition() {
    ExprPtr result = expr();
    if (result->dtype != DType::boolean) lexer_.fail("a condition is not bool");
    return result;
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

  Combiner combiner() {
    const std::string word = lexer_.expect_identifier();
    if (const auto known = combiner_named(word)) return *known;
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
    for (const Result& r : results) states.push_back({r.scalar, Combiner::sum, nullptr, nullptr});
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

  /// `%tile:` in front of dims over its coordinates; null where there is none.
  BufferRef named_tile() {
    if (lexer_.peek().kind != TokenKind::value || !lookup(lexer_.peek().text) || !lookup(lexer_.peek().text)->buffer) return nullptr;
    BufferRef tile = buffer();
    lexer_.expect(":");
    return tile;
  }

  Stmt reduce(const std::vector<Result>& results) {
    Reduce made;
    head(made.states, results);
    scopes_.emplace_back();
    made.tile = named_tile();
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
    made.tile = named_tile();
    dims(made.dims, &made.where);
    made.body = braced();
    scopes_.pop_back();
    return {std::move(made)};
  }

  Stmt copy(Copy::Kind kind) {
    Copy made;
    made.kind = kind;
    scopes_.emplace_back();
    lexer_.expect("(");
    while (lexer_.peek().kind == TokenKind::value) {
      made.box.push_back(loop_variable());
      if (!lexer_.accept(",")) break;
    }
    if (lexer_.accept("where")) made.where = condition();
    lexer_.expect(")");
    made.source = buffer();
    made.from = indices(made.source);
    lexer_.expect("->");
    made.destination = buffer();
    made.to = indices(made.destination);
    lexer_.expect("bytes");
    made.vector_bytes = small_integer();
    if (lexer_.accept("as")) made.value = expr();
    scopes_.pop_back();
    return {std::move(made)};
  }

  Stmt mma(bool async) {
    Mma made;
    made.async = async;
    made.zero_first = lexer_.accept("zero");
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

  Stmt mma_wait() {
    MmaWait made;
    made.pending = static_cast<int>(integer(0, kMostPending));
    if (!lexer_.accept("(")) return {std::move(made)};
    do made.accumulators.push_back(buffer());
    while (lexer_.accept(","));
    lexer_.expect(")");
    return {std::move(made)};
  }

  Stmt roles() {
    Roles made;
    lexer_.expect("{");
    while (!lexer_.accept("}")) {
      lexer_.expect("role");
      Role role;
      role.name = lexer_.expect_identifier();
      lexer_.expect("warps");
      role.warps = static_cast<int>(integer(1, kMostWarps));
      if (lexer_.accept("registers")) role.registers = static_cast<int>(integer(8, 256));
      role.body = braced();
      made.roles.push_back(std::move(role));
    }
    return {std::move(made)};
  }

  Stmt pipe_declaration() {
    const std::string written = lexer_.expect_value();
    const std::string name = names_.fresh(written);
    lexer_.expect("stages");
    const int stages = small_integer();
    if (stages < 1 || stages > kMostStages) lexer_.fail("a pipe of " + std::to_string(stages) + " stages");
    const Pipe::Kind kind = lexer_.accept("mbarrier") ? Pipe::Kind::mbarrier : Pipe::Kind::group;
    std::vector<BufferRef> buffers;
    lexer_.expect("(");
    while (!lexer_.accept(")")) {
      if (!buffers.empty()) lexer_.expect(",");
      buffers.push_back(declaration());
    }
    const PipeRef made = make_pipe(name, kind, stages, std::move(buffers));
    define(written, {nullptr, nullptr, nullptr, made});
    return {PipeDecl{made}};
  }

  Stmt scatter() {
    const std::string word = lexer_.expect_identifier();
    const auto combiner = scatter_combiner_named(word);
    if (!combiner) lexer_.fail("found `" + word + "`, expected assign, add, mul, max or min");
    Scatter made;
    made.combiner = *combiner;
    made.value = expr();
    lexer_.expect(",");
    made.buffer = buffer();
    made.indices = indices(made.buffer);
    return {std::move(made)};
  }

  Stmt statement() {
    if (lexer_.peek().kind == TokenKind::value) return definition();
    const std::string word = lexer_.expect_identifier();
    std::optional<Stmt> made = begin(word, static_cast<decltype(Stmt::node)*>(nullptr));
    if (!made) lexer_.fail("`" + word + "` is not a statement of the loop IR");
    return std::move(*made);
  }

  /// The statement that the word begins, of whichever kind; nothing when it begins none.
  template <class... Kinds> std::optional<Stmt> begin(const std::string& word, const std::variant<Kinds...>*) {
    std::optional<Stmt> made;
    static_cast<void>(((made = begin(word, std::type_identity<Kinds>())).has_value() || ...));
    return made;
  }
  template <class Kind> using Is = std::type_identity<Kind>;
  std::optional<Stmt> begin(const std::string&, Is<Let>) { return {}; }  // these three begin with the names of their results
  std::optional<Stmt> begin(const std::string&, Is<Reduce>) { return {}; }
  std::optional<Stmt> begin(const std::string&, Is<Scan>) { return {}; }
  std::optional<Stmt> begin(const std::string& word, Is<Loop>) {
    if (word == "map") return loop(Loop::Kind::map);
    if (word == "for") return loop(Loop::Kind::for_);
    return {};
  }
  std::optional<Stmt> begin(const std::string& word, Is<Store>) { return word == "store" ? std::optional(store()) : std::nullopt; }
  std::optional<Stmt> begin(const std::string& word, Is<Scatter>) { return word == "scatter" ? std::optional(scatter()) : std::nullopt; }
  std::optional<Stmt> begin(const std::string& word, Is<If>) { return word == "if" ? std::optional(branch()) : std::nullopt; }
  std::optional<Stmt> begin(const std::string& word, Is<Alloc>) {
    return word == "alloc" ? std::optional(Stmt{Alloc{declaration()}}) : std::nullopt;
  }
  std::optional<Stmt> begin(const std::string& word, Is<Barrier>) {
    return word == "barrier" ? std::optional(Stmt{Barrier{}}) : std::nullopt;
  }
  std::optional<Stmt> begin(const std::string& word, Is<Copy>) {
    if (word == "copy") return copy(Copy::Kind::plain);
    if (word == "copy.async") return copy(Copy::Kind::async);
    if (word == "copy.tma") return copy(Copy::Kind::tma);
    return {};
  }
  std::optional<Stmt> begin(const std::string& word, Is<PipeDecl>) {
    return word == "pipe" ? std::optional(pipe_declaration()) : std::nullopt;
  }
  std::optional<Stmt> begin(const std::string& word, Is<PipeOp>) {
    using Kind = PipeOp::Kind;
    static constexpr std::pair<std::string_view, Kind> kWords[] = {
        {"acquire", Kind::acquire}, {"commit", Kind::commit}, {"wait", Kind::wait}, {"release", Kind::release}};
    for (const auto& [name, kind] : kWords) {
      if (word == name) return Stmt{PipeOp{kind, pipe()}};
    }
    return {};
  }
  std::optional<Stmt> begin(const std::string& word, Is<Mma>) {
    return word == "mma" || word == "mma.async" ? std::optional(mma(word == "mma.async")) : std::nullopt;
  }
  std::optional<Stmt> begin(const std::string& word, Is<Roles>) { return word == "roles" ? std::optional(roles()) : std::nullopt; }
  std::optional<Stmt> begin(const std::string& word, Is<MmaWait>) { return word == "mma.wait" ? std::optional(mma_wait()) : std::nullopt; }

  Stmt store() {
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

  Stmt branch() {
    If made;
    made.condition = expr();
    made.then = braced();
    if (lexer_.accept("else")) made.otherwise = braced();
    return {std::move(made)};
  }
};

}  // namespace

Unit parse_unit(std::string_view text, const std::string& file) { return Parser(text, file).unit(); }
Kernel parse_kernel(std::string_view text, const std::string& file, std::string* name) { return Parser(text, file).kernel(name); }

}  // namespace tcc::loop
