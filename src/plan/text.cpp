// Text of a plan:
//
//   plan @net target x86-64-v3 peak 4096 total 8192 {
//     launch k0 "fc1/Gemm + relu/Relu" grid 8 cost_ns 900.0 (%x, @fc1.weight, @fc1.bias, %r)
//     constant k1 "fc1/Gemm + relu/Relu" grid 4 cost_ns 90.0 (@fc2.weight, @fc2.weight.packed)
//     prepare k2 "fc3/Gemm" grid 4 cost_ns 90.0 (@fc3.weight, @fc3.weight.packed)
//     copy "y" cost_ns 12.5 (%r, %output1)
//     buffer %x: f32[32, 784] input 0
//     buffer @fc1.weight: f32[64, 784] weight 0
//     buffer %r: f32[32, 64] arena offset 0 bytes 8192
//     buffer %s: f32[2048] alias of %r offset 0
//     buffer %unit3.scratch0: f32[64] arena offset 8192 bytes 256 scratch
//     buffer @fc2.weight: f32[10, 64] state 0 offset 4096
//     buffer %fc2.new: f32[10, 64] alias of @fc2.weight offset 0 overwrites
//     buffer %lr: f32[] scalar 0
//     buffer @fc2.weight.packed: f32[4, 64, 16] constant 0
//     buffer @fc3.weight.packed: f32[4, 64, 16] prepared 0
//     buffer %saved1: f32[32] output 1 packed 256
//     check "input `ids` has the index" at "gather `embed/Gather`" in -200 to 199
//   }
//
// A launch whose kernel checks indices ends with the number of its first check: `(%ids, @table, %r) checks 0`.
// After the sizes of the arena stands what is packed: `packed_input 2 bytes 8448`, `packed_output 1 bytes 8448`.

#include <unordered_map>

#include "plan/arena.h"
#include "tcc/plan/plan.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/text.h"

namespace tcc::plan {
namespace {

std::string name_of(const Buffer& buffer) {
  const bool global = buffer.kind == Buffer::Kind::weight || buffer.kind == Buffer::Kind::state || buffer.kind == Buffer::Kind::constant ||
                      buffer.kind == Buffer::Kind::prepared;
  return global ? print_global_name(buffer.name) : print_value_name(buffer.name);
}

std::string print(const Plan& plan, const Buffer& buffer) {
  std::string text = "  buffer " + name_of(buffer) + ": " + std::string(tcc::name_of(buffer.dtype)) + to_string(buffer.shape);
  if (buffer.row_padding > 0) text += " row padding " + std::to_string(buffer.row_padding);
  switch (buffer.kind) {
    case Buffer::Kind::input:
    case Buffer::Kind::output: {
      const bool input = buffer.kind == Buffer::Kind::input;
      text += (input ? " input " : " output ") + std::to_string(buffer.index);
      if (buffer.index == (input ? plan.first_packed_input : plan.first_packed_output)) text += " packed " + std::to_string(buffer.offset);
      break;
    }
    case Buffer::Kind::weight: text += " weight " + std::to_string(buffer.index); break;
    case Buffer::Kind::arena:
      text += " arena offset " + std::to_string(buffer.offset) + " bytes " + std::to_string(buffer.size_bytes);
      break;
    case Buffer::Kind::alias:
      text += " alias of " + name_of(plan.buffers.at(static_cast<size_t>(buffer.index))) + " offset " + std::to_string(buffer.offset) +
              (buffer.overwrites ? " overwrites" : "");
      break;
    case Buffer::Kind::state: text += " state " + std::to_string(buffer.index) + " offset " + std::to_string(buffer.offset); break;
    case Buffer::Kind::scalar: text += " scalar " + std::to_string(buffer.index); break;
    case Buffer::Kind::constant: text += " constant " + std::to_string(buffer.index); break;
    case Buffer::Kind::prepared: text += " prepared " + std::to_string(buffer.index); break;
  }
  return text + (buffer.scratch ? " scratch\n" : "\n");
}

std::string print(const Plan& plan, const Launch& launch, const std::string& word) {
  std::string text = launch.kind == Launch::Kind::copy ? "  copy " : "  " + word + " k" + std::to_string(launch.kernel) + " ";
  text += print_quoted(launch.label);
  if (launch.kind == Launch::Kind::kernel) text += " grid " + std::to_string(launch.grid);
  text += " cost_ns " + print_float(launch.cost_ns) + " (";
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    text += (i ? ", " : "") + name_of(plan.buffers.at(static_cast<size_t>(launch.arguments[i])));
  }
  return text + (launch.first_check < 0 ? ")\n" : ") checks " + std::to_string(launch.first_check) + "\n");
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : lexer_(text, file) {}

  Plan run() {
    lexer_.expect("plan");
    plan_.name = lexer_.expect_global();
    lexer_.expect("target");
    parse_target();
    lexer_.expect("peak");
    plan_.arena_bytes = lexer_.expect_integer();
    lexer_.expect("total");
    plan_.total_bytes = lexer_.expect_integer();
    parse_packed("packed_input", &plan_.first_packed_input, &plan_.packed_input_bytes);
    parse_packed("packed_output", &plan_.first_packed_output, &plan_.packed_output_bytes);
    lexer_.expect("{");
    while (!lexer_.accept("}")) {
      if (lexer_.accept("buffer")) parse_buffer();
      else if (lexer_.accept("check")) parse_check();
      else parse_launch();
    }
    resolve();
    return std::move(plan_);
  }

 private:
  void parse_target() {
    const std::string name = lexer_.expect_identifier();
    const Target* target = Target::named(name);
    if (!target) lexer_.fail("there is no target `" + name + "`");
    plan_.target = *target;
  }

  void parse_packed(const char* word, int* first, int64_t* bytes) {
    if (!lexer_.accept(word)) return;
    *first = static_cast<int>(lexer_.expect_integer());
    lexer_.expect("bytes");
    *bytes = lexer_.expect_integer();
  }

  /// A buffer's name with its sigil, which tells weights from values.
  std::string parse_name() {
    if (lexer_.peek().kind == TokenKind::global) return "@" + lexer_.expect_global();
    return "%" + lexer_.expect_value();
  }

  /// A launch and the names of its arguments, whose buffers may come later.
  struct Named {
    Launch launch;
    std::vector<std::string> arguments;
  };

  void parse_launch() {
    Named named;
    Launch& launch = named.launch;
    const bool constant = lexer_.accept("constant"), preparation = !constant && lexer_.accept("prepare");
    const bool once = constant || preparation;
    if (!once && lexer_.accept("copy")) {
      launch.kind = Launch::Kind::copy;
    } else {
      if (!once) lexer_.expect("launch");
      const std::string kernel = lexer_.expect_identifier();
      if (kernel.size() < 2 || kernel[0] != 'k' || kernel.find_first_not_of("0123456789", 1) != std::string::npos || kernel.size() > 9) {
        lexer_.fail("`" + kernel + "` is not a kernel, expected k0, k1, ...");
      }
      launch.kernel = std::stoi(kernel.substr(1));
    }
    launch.label = lexer_.expect_string();
    if (launch.kind == Launch::Kind::kernel) {
      lexer_.expect("grid");
      launch.grid = lexer_.expect_integer();
    }
    lexer_.expect("cost_ns");
    launch.cost_ns = lexer_.expect_number();
    lexer_.expect("(");
    while (!lexer_.accept(")")) {
      if (!named.arguments.empty()) lexer_.expect(",");
      named.arguments.push_back(parse_name());
    }
    if (lexer_.accept("checks")) launch.first_check = static_cast<int>(lexer_.expect_integer());
    (constant ? constants_ : preparation ? preparations_ : launches_).push_back(std::move(named));
  }

  void parse_check() {
    IndexCheck check;
    check.index = lexer_.expect_string();
    lexer_.expect("at");
    check.place = lexer_.expect_string();
    lexer_.expect("in");
    check.low = lexer_.expect_integer();
    lexer_.expect("to");
    check.high = lexer_.expect_integer();
    plan_.checks.push_back(std::move(check));
  }

  void parse_buffer() {
    Buffer buffer;
    const std::string name = parse_name();
    buffer.name = name.substr(1);
    lexer_.expect(":");
    const std::string dtype = lexer_.expect_identifier();
    const auto parsed = parse_dtype(dtype);
    if (!parsed) lexer_.fail("`" + dtype + "` is not a dtype");
    buffer.dtype = *parsed;
    lexer_.expect("[");
    while (!lexer_.accept("]")) {
      if (!buffer.shape.empty()) lexer_.expect(",");
      buffer.shape.push_back(lexer_.expect_integer());
    }
    if (lexer_.accept("row")) {
      lexer_.expect("padding");
      buffer.row_padding = lexer_.expect_integer();
      if (buffer.shape.empty() || buffer.shape.back() <= 0) lexer_.fail("`" + buffer.name + "` has no rows");
    }
    buffer.size_bytes = storage_bytes(buffer.dtype, num_elements(padded_shape(buffer.shape, buffer.row_padding)));
    std::string base;
    const std::string kind = lexer_.expect_identifier();
    if (kind == "arena") {
      lexer_.expect("offset");
      buffer.offset = lexer_.expect_integer();
      lexer_.expect("bytes");
      buffer.size_bytes = lexer_.expect_integer();
    } else if (kind == "alias") {
      buffer.kind = Buffer::Kind::alias;
      lexer_.expect("of");
      base = parse_name();
      lexer_.expect("offset");
      buffer.offset = lexer_.expect_integer();
      buffer.overwrites = lexer_.accept("overwrites");
    } else if (kind == "state") {
      buffer.kind = Buffer::Kind::state;
      buffer.index = static_cast<int>(lexer_.expect_integer());
      lexer_.expect("offset");
      buffer.offset = lexer_.expect_integer();
    } else {
      if (kind == "input") buffer.kind = Buffer::Kind::input;
      else if (kind == "output") buffer.kind = Buffer::Kind::output;
      else if (kind == "weight") buffer.kind = Buffer::Kind::weight;
      else if (kind == "scalar") buffer.kind = Buffer::Kind::scalar;
      else if (kind == "constant") buffer.kind = Buffer::Kind::constant;
      else if (kind == "prepared") buffer.kind = Buffer::Kind::prepared;
      else lexer_.fail("`" + kind + "` is not a kind of buffer");
      buffer.index = static_cast<int>(lexer_.expect_integer());
      const bool may_be_packed = buffer.kind == Buffer::Kind::input || buffer.kind == Buffer::Kind::output;
      if (may_be_packed && lexer_.accept("packed")) buffer.offset = lexer_.expect_integer();
    }
    buffer.scratch = lexer_.accept("scratch");
    numbers_[name] = static_cast<int>(plan_.buffers.size());
    bases_.push_back(base);
    plan_.buffers.push_back(std::move(buffer));
  }

  int find(const std::string& name) const {
    const auto it = numbers_.find(name);
    if (it == numbers_.end()) lexer_.fail("the plan has no buffer `" + name + "`");
    return it->second;
  }

  /// Names may come before their buffers.
  void resolve() {
    const auto resolve_all = [&](std::vector<Named>& all, std::vector<Launch>& launches) {
      for (Named& named : all) {
        for (const std::string& name : named.arguments) named.launch.arguments.push_back(find(name));
        launches.push_back(std::move(named.launch));
      }
    };
    resolve_all(launches_, plan_.launches);
    resolve_all(preparations_, plan_.preparations);
    resolve_all(constants_, plan_.constants);
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      if (plan_.buffers[i].kind == Buffer::Kind::alias) plan_.buffers[i].index = find(bases_[i]);
    }
  }

  Lexer lexer_;
  Plan plan_;
  std::unordered_map<std::string, int> numbers_;
  std::vector<Named> launches_, preparations_, constants_;
  std::vector<std::string> bases_;  ///< of each buffer; empty where it is no alias
};

}  // namespace

std::string print(const Plan& plan) {
  std::string text = "plan " + print_global_name(plan.name) + " target " + plan.target.name + " peak " + std::to_string(plan.arena_bytes) +
                     " total " + std::to_string(plan.total_bytes);
  auto packed = [&](const char* word, int first, int64_t bytes) {
    if (first >= 0) text += std::string(" ") + word + " " + std::to_string(first) + " bytes " + std::to_string(bytes);
  };
  packed("packed_input", plan.first_packed_input, plan.packed_input_bytes);
  packed("packed_output", plan.first_packed_output, plan.packed_output_bytes);
  text += " {\n";
  for (const Launch& constant : plan.constants) text += print(plan, constant, "constant");
  for (const Launch& preparation : plan.preparations) text += print(plan, preparation, "prepare");
  for (const Launch& launch : plan.launches) text += print(plan, launch, "launch");
  for (const IndexCheck& check : plan.checks) {
    text += "  check " + print_quoted(check.index) + " at " + print_quoted(check.place) + " in " + std::to_string(check.low) + " to " +
            std::to_string(check.high) + "\n";
  }
  for (const Buffer& buffer : plan.buffers) text += print(plan, buffer);
  return text + "}\n";
}

Plan parse_plan(std::string_view text, const std::string& file) { return Parser(text, file).run(); }

bool equal(const Plan& a, const Plan& b, std::string* why) {
  auto differ = [&](std::string message) {
    if (why) *why = std::move(message);
    return false;
  };
  if (a.name != b.name || a.target.name != b.target.name) return differ("the names or targets differ");
  if (a.arena_bytes != b.arena_bytes || a.total_bytes != b.total_bytes) return differ("the sizes of the arenas differ");
  if (a.first_packed_input != b.first_packed_input || a.first_packed_output != b.first_packed_output ||
      a.packed_input_bytes != b.packed_input_bytes || a.packed_output_bytes != b.packed_output_bytes)
    return differ("the packed tensors differ");
  if (a.buffers.size() != b.buffers.size())
    return differ(std::to_string(a.buffers.size()) + " buffers and " + std::to_string(b.buffers.size()));
  const auto same = [](const Launch& x, const Launch& y) {
    return x.kind == y.kind && x.kernel == y.kernel && x.label == y.label && x.grid == y.grid && x.arguments == y.arguments &&
           x.first_check == y.first_check && x.cost_ns == y.cost_ns;
  };
  const std::string names[] = {"launch", "preparation", "constant"};
  for (size_t list = 0; list < launch_lists(a).size(); ++list) {
    const std::vector<Launch>&x = *launch_lists(a)[list], &y = *launch_lists(b)[list];
    if (x.size() != y.size())
      return differ("one has " + std::to_string(x.size()) + " of " + names[list] + ", the other " + std::to_string(y.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      if (!same(x[i], y[i])) return differ(names[list] + " " + std::to_string(i) + " differs");
    }
  }
  if (a.checks != b.checks) return differ("the checks of indices differ");
  for (size_t i = 0; i < a.buffers.size(); ++i) {
    const Buffer &x = a.buffers[i], &y = b.buffers[i];
    if (x.kind != y.kind || x.name != y.name || x.dtype != y.dtype || x.shape != y.shape || x.row_padding != y.row_padding ||
        x.size_bytes != y.size_bytes || x.index != y.index || x.offset != y.offset || x.scratch != y.scratch ||
        x.overwrites != y.overwrites) {
      return differ("buffer " + std::to_string(i) + " differs");
    }
  }
  return true;
}

}  // namespace tcc::plan
