// Obeys a schedule: each primitive is one pass of src/loop/primitives.
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "schedule/apply.h"
#include "tcc/loop/primitives.h"
#include "tcc/support/diagnostics.h"

namespace tcc::schedule {

namespace {

using loop::Unit;

/// Reads the arguments of one primitive; everything must be used.
class Arguments {
 public:
  explicit Arguments(const Primitive& primitive) : primitive_(primitive) {}

  std::string name(const char* what) {
    const Argument* argument = next();
    const auto* word = argument ? std::get_if<std::string>(&argument->value) : nullptr;
    if (!word) internal_error("argument " + std::to_string(position_) + " must name " + what);
    return *word;
  }
  int64_t number(const char* what) {
    const Argument* argument = next();
    const auto* value = argument ? std::get_if<int64_t>(&argument->value) : nullptr;
    if (!value) internal_error("argument " + std::to_string(position_) + " must be a number, " + what);
    return *value;
  }
  /// The rest of the names that stand without a key.
  std::vector<std::string> names() {
    std::vector<std::string> result;
    while (more()) result.push_back(name("a loop"));
    return result;
  }
  bool more() const { return position_ < primitive_.arguments.size() && primitive_.arguments[position_].key.empty(); }
  const Argument* keyed(std::string_view key) {
    for (const Argument& argument : primitive_.arguments) {
      if (argument.key == key) {
        num_keyed_++;
        return &argument;
      }
    }
    return nullptr;
  }
  std::string word(std::string_view key, const std::string& otherwise) {
    const Argument* argument = keyed(key);
    if (!argument) return otherwise;
    const auto* value = std::get_if<std::string>(&argument->value);
    if (!value) internal_error("`" + std::string(key) + "` must be a word");
    return *value;
  }
  int64_t integer(std::string_view key, int64_t otherwise) {
    const Argument* argument = keyed(key);
    if (!argument) return otherwise;
    const auto* value = std::get_if<int64_t>(&argument->value);
    if (!value) internal_error("`" + std::string(key) + "` must be a number");
    return *value;
  }
  void finish() const {
    if (position_ + num_keyed_ != primitive_.arguments.size()) internal_error("it has an argument too many");
  }

 private:
  const Argument* next() { return more() ? &primitive_.arguments[position_++] : nullptr; }
  const Primitive& primitive_;
  size_t position_ = 0, num_keyed_ = 0;
};

loop::Bind parse_bind(const std::string& word) {
  using loop::Bind;
  for (const Bind bind : {Bind::serial, Bind::unroll, Bind::vector, Bind::block, Bind::threads, Bind::thread, Bind::warp, Bind::lane}) {
    if (loop::name_of(bind) == word) return bind;
  }
  internal_error("`" + word + "` is no place for a loop to run");
}

loop::Space parse_space(const std::string& word) {
  if (word == "registers") return loop::Space::registers;
  if (word == "scratch") return loop::Space::scratch;
  if (word == "shared") return loop::Space::shared;
  internal_error("`" + word + "` is no space that a schedule chooses (registers, scratch, shared)");
}

/// "021" -> {0, 2, 1}
std::vector<int64_t> parse_order(const std::string& word) {
  std::vector<int64_t> order;
  if (word == "same") return order;
  for (const char c : word) {
    if (c < 'a' || c > 'z') internal_error("an order of axes is written in letters (`acb`), not `" + word + "`");
    order.push_back(c - 'a');
  }
  return order;
}

struct Row {
  std::string_view name;
  Unit (*run)(const Unit&, Arguments&);
};

constexpr std::array kPrimitives = {
    Row{"split",
        [](const Unit& unit, Arguments& a) {
          const std::string dim = a.name("a loop");
          const int64_t factor = a.number("the factor");
          const std::string tail = a.word("tail", "mask");
          if (tail != "mask" && tail != "peel" && tail != "pad") internal_error("`tail` is mask, peel or pad, not `" + tail + "`");
          Unit result = loop::split(unit, dim, factor, tail == "pad");
          return tail == "peel" ? loop::peel(result, dim + "_1") : result;
        }},
    Row{"peel", [](const Unit& unit, Arguments& a) { return loop::peel(unit, a.name("a loop")); }},
    Row{"fuse",
        [](const Unit& unit, Arguments& a) {
          const std::string outer = a.name("a loop");
          return loop::fuse(unit, outer, a.name("a loop"));
        }},
    Row{"reorder", [](const Unit& unit, Arguments& a) { return loop::reorder(unit, a.names()); }},
    Row{"bind",
        [](const Unit& unit, Arguments& a) {
          const std::string dim = a.name("a loop");
          return loop::bind(unit, dim, parse_bind(a.name("where it runs")));
        }},
    Row{"vectorize", [](const Unit& unit, Arguments& a) { return loop::bind(unit, a.name("a loop"), loop::Bind::vector); }},
    Row{"unroll", [](const Unit& unit, Arguments& a) { return loop::bind(unit, a.name("a loop"), loop::Bind::unroll); }},
    Row{"reduce_across",
        [](const Unit& unit, Arguments& a) {
          const std::string dim = a.name("a loop");
          return loop::reduce_across(unit, dim, parse_bind(a.name("lane, warp or thread")));
        }},
    Row{"tile",
        [](const Unit& unit, Arguments& a) {
          const std::string accumulator = a.name("a reduce");
          const std::vector<std::string> dims = a.names();
          const loop::Space space = parse_space(a.word("space", "registers"));
          return loop::tile(unit, accumulator, dims, space, a.word("apart", ""));
        }},
    Row{"skip_zeros", [](const Unit& unit, Arguments& a) { return loop::skip_zeros(unit, a.name("a reduce")); }},
    Row{"keep",
        [](const Unit& unit, Arguments& a) {
          const std::string scalar = a.name("a let");
          return loop::keep(unit, scalar, parse_space(a.name("a space")));
        }},
    Row{"compute_at",
        [](const Unit& unit, Arguments& a) {
          const std::string scalar = a.name("a let");
          return loop::compute_at(unit, scalar, a.name("a place"));
        }},
    Row{"online",
        [](const Unit& unit, Arguments& a) {
          const std::string first = a.name("a reduce");
          return loop::online(unit, first, a.name("a reduce"));
        }},
    Row{"stage",
        [](const Unit& unit, Arguments& a) {
          const std::string buffer = a.name("a buffer");
          const loop::Space space = parse_space(a.name("a space"));
          const std::string at = a.word("at", "");
          Unit result = loop::stage(unit, buffer, space, at, parse_order(a.word("order", "same")), a.integer("phases", 1));
          const int64_t swizzle_bits = a.integer("swizzle", 0), pad = a.integer("pad", 0);
          return swizzle_bits > 0 || pad > 0 ? loop::lay_out_shared(result, buffer, static_cast<int>(swizzle_bits), pad) : result;
        }},
    Row{"tensorize",
        [](const Unit& unit, Arguments& a) {
          const std::string accumulator = a.name("a reduce"), shape = a.name("an instruction");
          const int64_t warps_m = a.number("of warps along the rows");
          return loop::tensorize(unit, accumulator, shape, warps_m, a.number("of warps along the columns"));
        }},
    Row{"epilogue", [](const Unit& unit, Arguments& a) { return loop::epilogue(unit, a.name("a reduce")); }},
    Row{"pipeline",
        [](const Unit& unit, Arguments& a) {
          const std::string dim = a.name("a loop");
          return loop::pipeline(unit, dim, static_cast<int>(a.number("of stages")));
        }},
    Row{"split_reduce",
        [](const Unit& unit, Arguments& a) {
          const std::string accumulator = a.name("a reduce");
          const int64_t parts = a.number("of parts");
          return loop::split_reduce(unit, accumulator, parts, a.integer("multiple", 0));
        }},
    Row{"sum_apart", [](const Unit& unit, Arguments& a) { return loop::sum_apart(unit, a.name("a loop")); }},
};

}  // namespace

loop::Unit apply_one(const loop::Unit& unit, const Primitive& primitive, const Schedule& schedule) {
  for (const Row& row : kPrimitives) {
    if (row.name != primitive.name) continue;
    try {
      Arguments arguments(primitive);
      Unit result = row.run(unit, arguments);
      arguments.finish();
      return result;
    } catch (const Error& error) {
      throw Error(ExitCode::internal, "internal-error", "",
                  "the primitive `" + print({primitive}) + "` does not fit: " + error.diagnostics()[0].message +
                      " (schedule: " + print(schedule) + ")");
    }
  }
  internal_error("there is no primitive `" + primitive.name + "` (schedule: " + print(schedule) + ")");
}

loop::Unit apply(const loop::Unit& unit, const Schedule& schedule, const Target& target) {
  loop::Unit result = unit;
  for (const Primitive& primitive : schedule) result = apply_one(result, primitive, schedule);
  return place(std::move(result), target);
}

}  // namespace tcc::schedule
