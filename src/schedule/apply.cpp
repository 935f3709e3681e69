// Obeys a schedule: each primitive is one pass of src/loop/primitives.
#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schedule/apply.h"
#include "tcc/loop/fit.h"
#include "tcc/loop/primitives.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/suggest.h"

namespace tcc::schedule {

namespace {

using loop::Unit;

/// Reads the arguments of one primitive; everything must be used.
class Arguments {
 public:
  Arguments(const Primitive& primitive, std::string_view usage) : primitive_(primitive), usage_(usage) {}

  std::string name(const char* what) {
    const Argument* argument = next();
    const auto* word = argument ? std::get_if<std::string>(&argument->value) : nullptr;
    if (!word) refuse("argument " + std::to_string(argument ? position_ : position_ + 1) + " must name " + what);
    return *word;
  }
  int64_t number(const char* what, int64_t most = kMost) {
    const Argument* argument = next();
    const auto* value = argument ? std::get_if<int64_t>(&argument->value) : nullptr;
    if (!value) refuse("argument " + std::to_string(argument ? position_ : position_ + 1) + " must be " + what);
    return within(*value, 1, what, most);
  }
  /// The rest of the names that stand without a key.
  std::vector<std::string> names() {
    std::vector<std::string> result;
    while (more()) result.push_back(name("a loop"));
    return result;
  }
  std::string word(std::string_view key, const std::string& otherwise) {
    const Argument* argument = keyed(key);
    if (!argument) return otherwise;
    const auto* value = std::get_if<std::string>(&argument->value);
    if (!value) refuse("`" + std::string(key) + "` must be a word");
    return *value;
  }
  int64_t integer(std::string_view key, int64_t low, int64_t otherwise) {
    const Argument* argument = keyed(key);
    if (!argument) return otherwise;
    const auto* value = std::get_if<int64_t>(&argument->value);
    if (!value) refuse("`" + std::string(key) + "` must be a number");
    return within(*value, low, "`" + std::string(key) + "`", kMost);
  }
  /// A word of a list.
  template <class Value>
  Value one_of(const std::string& word, std::span<const std::pair<const char*, Value>> choices, const std::string& what) {
    std::vector<std::string> words;
    for (const auto& [name, value] : choices) {
      if (name == word) return value;
      words.emplace_back(name);
    }
    loop::unfit("`" + word + "` is not one of the " + what, suggest(word, what, words));
  }
  void finish() const {
    if (position_ + num_keyed_ != primitive_.arguments.size()) refuse("it has an argument too many");
  }
  [[noreturn]] void refuse(const std::string& message) const { loop::unfit(message, "it is written `" + std::string(usage_) + "`"); }

 private:
  static constexpr int64_t kMost = 1 << 30;

  bool more() const { return position_ < primitive_.arguments.size() && primitive_.arguments[position_].key.empty(); }
  const Argument* next() { return more() ? &primitive_.arguments[position_++] : nullptr; }
  const Argument* keyed(std::string_view key) {
    const Argument* found = nullptr;
    for (const Argument& argument : primitive_.arguments) {
      if (argument.key != key) continue;
      if (found) refuse("`" + std::string(key) + "` is given twice");
      found = &argument;
      num_keyed_++;
    }
    return found;
  }
  int64_t within(int64_t value, int64_t low, const std::string& what, int64_t most) const {
    if (value < low || value > most)
      refuse(what + " is " + std::to_string(value) + ", expected " + std::to_string(low) + " or more, up to " + std::to_string(most));
    return value;
  }

  const Primitive& primitive_;
  std::string_view usage_;
  size_t position_ = 0, num_keyed_ = 0;
};

loop::Bind parse_bind(Arguments& arguments, const std::string& word) {
  using loop::Bind;
  static constexpr std::pair<const char*, Bind> kBinds[] = {
      {"serial", Bind::serial},     {"unroll", Bind::unroll}, {"vector", Bind::vector}, {"block", Bind::block},
      {"parallel", Bind::parallel}, {"thread", Bind::thread}, {"warp", Bind::warp},     {"lane", Bind::lane}};
  return arguments.one_of<Bind>(word, kBinds, "places for a loop to run");
}

loop::Space parse_space(Arguments& arguments, const std::string& word) {
  using loop::Space;
  static constexpr std::pair<const char*, Space> kSpaces[] = {
      {"registers", Space::registers}, {"scratch", Space::scratch}, {"shared", Space::shared}};
  return arguments.one_of<Space>(word, kSpaces, "spaces that a schedule chooses");
}

/// "acb" -> {0, 2, 1}
std::vector<int64_t> parse_order(Arguments& arguments, const std::string& word) {
  std::vector<int64_t> order;
  if (word == "same") return order;
  for (const char c : word) {
    if (c < 'a' || c > 'z') arguments.refuse("an order of axes is written in letters (`acb`), not `" + word + "`");
    order.push_back(c - 'a');
  }
  return order;
}

struct Row {
  std::string_view name;
  std::string_view usage;
  Unit (*run)(const Unit&, Arguments&);
};

/// Tiles of products that stay in registers.
loop::Unit apply_streamed(decltype(loop::stream)& primitive, const loop::Unit& unit, Arguments& a) {
  const std::string reduce = a.name("a reduce");
  const int64_t rows = a.number("the rows of a tile"), columns = a.number("the columns of a tile");
  const int stages = static_cast<int>(a.number("the number of stages"));
  const int math = static_cast<int>(a.number("the registers of who multiplies"));
  return primitive(unit, reduce, rows, columns, stages, math, static_cast<int>(a.number("the registers of who copies")));
}

constexpr std::array kPrimitives = {
    Row{"split", "split(LOOP, FACTOR, tail=mask|peel|pad)",
        [](const Unit& unit, Arguments& a) {
          const std::string dim = a.name("a loop");
          const int64_t factor = a.number("the factor", loop::kMostIterations);  // of a loop that long
          const std::string tail = a.word("tail", "mask");
          if (tail != "mask" && tail != "peel" && tail != "pad") a.refuse("`tail` is `" + tail + "`");
          Unit result = loop::split(unit, dim, factor, tail == "pad");
          return tail == "peel" ? loop::peel(result, dim + "_1") : result;
        }},
    Row{"peel", "peel(LOOP)", [](const Unit& unit, Arguments& a) { return loop::peel(unit, a.name("a loop")); }},
    Row{"fuse", "fuse(OUTER, INNER)",
        [](const Unit& unit, Arguments& a) {
          const std::string outer = a.name("a loop");
          return loop::fuse(unit, outer, a.name("a loop"));
        }},
    Row{"reorder", "reorder(LOOP, LOOP, ...)", [](const Unit& unit, Arguments& a) { return loop::reorder(unit, a.names()); }},
    Row{"bind", "bind(LOOP, PLACE)",
        [](const Unit& unit, Arguments& a) {
          const std::string dim = a.name("a loop");
          return loop::bind(unit, dim, parse_bind(a, a.name("where it runs")));
        }},
    Row{"vectorize", "vectorize(LOOP)",
        [](const Unit& unit, Arguments& a) { return loop::bind(unit, a.name("a loop"), loop::Bind::vector); }},
    Row{"unroll", "unroll(LOOP)", [](const Unit& unit, Arguments& a) { return loop::bind(unit, a.name("a loop"), loop::Bind::unroll); }},
    Row{"reduce_across", "reduce_across(LOOP, lane|thread)",
        [](const Unit& unit, Arguments& a) {
          const std::string dim = a.name("a loop");
          return loop::reduce_across(unit, dim, parse_bind(a, a.name("where it runs")));
        }},
    Row{"tile", "tile(REDUCE, LOOP, ..., space=registers|scratch, apart=LOOP)",
        [](const Unit& unit, Arguments& a) {
          const std::string accumulator = a.name("a reduce");
          const std::vector<std::string> dims = a.names();
          const loop::Space space = parse_space(a, a.word("space", "registers"));
          return loop::tile(unit, accumulator, dims, space, a.word("apart", ""));
        }},
    Row{"skip_zeros", "skip_zeros(REDUCE)", [](const Unit& unit, Arguments& a) { return loop::skip_zeros(unit, a.name("a reduce")); }},
    Row{"own_updates", "own_updates(LOOP, OWNERS)",
        [](const Unit& unit, Arguments& a) {
          const std::string dim = a.name("a loop");
          return loop::own_updates(unit, dim, a.number("a number of owners"));
        }},
    Row{"cache", "cache(VALUE, registers)",
        [](const Unit& unit, Arguments& a) {
          const std::string scalar = a.name("a let");
          return loop::cache(unit, scalar, parse_space(a, a.name("a space")));
        }},
    Row{"skip_rounding", "skip_rounding(REDUCE)",
        [](const Unit& unit, Arguments& a) { return loop::skip_rounding(unit, a.name("a reduce")); }},
    Row{"sink_lets", "sink_lets(REDUCE)", [](const Unit& unit, Arguments& a) { return loop::sink_lets(unit, a.name("a reduce")); }},
    Row{"chain", "chain(REDUCE, ROWS, COLUMNS, STAGES, REGISTERS, REGISTERS)",
        [](const Unit& unit, Arguments& a) { return apply_streamed(loop::chain, unit, a); }},
    Row{"compute_at", "compute_at(VALUE, top, first=sum, as=DTYPE)",
        [](const Unit& unit, Arguments& a) {
          const std::string scalar = a.name("a let"), where = a.name("a place"), first = a.word("first", "");
          if (!first.empty() && first != "sum") a.refuse("`first` can be `sum`, the dims of the reduce, not `" + first + "`");
          const std::string as = a.word("as", "");
          const std::optional<DType> dtype = as.empty() ? std::nullopt : parse_dtype(as);
          if (!as.empty() && !dtype) a.refuse("`as` is a dtype");
          return loop::compute_at(unit, scalar, where, first == "sum", dtype);
        }},
    Row{"fuse_online_reduction", "fuse_online_reduction(MAXIMUM, SUM)",
        [](const Unit& unit, Arguments& a) {
          const std::string first = a.name("a reduce");
          return loop::fuse_online_reduction(unit, first, a.name("a reduce"));
        }},
    Row{"stage",
        "stage(BUFFER, SPACE, at=LOOP, by=axes|loops, as=DTYPE, masks=all|sum, order=AXES, phases=N, panels=N, join=AXIS, swizzle=BITS, "
        "pad=N)",
        [](const Unit& unit, Arguments& a) {
          const std::string buffer = a.name("a buffer");
          const std::string where = a.name("a space");
          const loop::Space space = where == "global" ? loop::Space::global : parse_space(a, where);
          const std::string at = a.word("at", "");
          if (at.empty()) a.refuse("`at` says inside which loop");
          const std::string by = a.word("by", "axes"), as = a.word("as", ""), masks = a.word("masks", "all");
          const std::vector<int64_t> order = parse_order(a, a.word("order", "same"));
          const int64_t phases = a.integer("phases", 1, 1), panels = a.integer("panels", 0, 0);
          const std::vector<int64_t> joined = parse_order(a, a.word("join", "same"));
          if (joined.size() > 1) a.refuse("one axis is joined with the one after it");
          const int64_t swizzle_bits = a.integer("swizzle", 0, 0), pad = a.integer("pad", 0, 0);
          if (by != "axes" && by != "loops") a.refuse("`by` is `" + by + "`");
          const bool by_loops = by == "loops";
          if (by_loops && (space != loop::Space::shared || !order.empty() || phases != 1 || !joined.empty()))
            a.refuse("a copy by loops is in shared memory and has no order of axes");
          const std::optional<DType> dtype = as.empty() ? std::nullopt : parse_dtype(as);
          if (masks != "all" && (masks != "sum" || !by_loops)) a.refuse("`masks` is all, or for a copy by loops sum");
          if (!as.empty() && (!by_loops || !dtype || !is_float(*dtype))) a.refuse("`as` is a dtype of floats for a copy by loops");
          Unit result = by_loops ? loop::stage_by_loops(unit, buffer, at, dtype, masks == "sum")
                                 : loop::stage(unit, buffer, space, at, order, phases, panels, joined.empty() ? -1 : joined[0]);
          const int64_t shared_panels = by_loops ? panels : 0;
          if (swizzle_bits == 0 && pad == 0 && shared_panels == 0) return result;
          return loop::lay_out_shared(result, buffer, static_cast<int>(swizzle_bits), pad, shared_panels);
        }},
    Row{"tensorize", "tensorize(REDUCE, INSTRUCTION, WARPS, WARPS)",
        [](const Unit& unit, Arguments& a) {
          const std::string accumulator = a.name("a reduce"), shape = a.name("an instruction");
          const int64_t warps_m = a.number("the number of warps along the rows");
          return loop::tensorize(unit, accumulator, shape, warps_m, a.number("the number of warps along the columns"));
        }},
    Row{"epilogue", "epilogue(REDUCE, bytes=16)",
        [](const Unit& unit, Arguments& a) {
          const std::string accumulator = a.name("a reduce");
          const int64_t bytes = a.integer("bytes", 1, 16);
          if (bytes > 16 || !std::has_single_bit(static_cast<uint64_t>(bytes)))
            loop::unfit("pieces of " + std::to_string(bytes) + " bytes");
          return loop::epilogue(unit, accumulator, bytes);
        }},
    Row{"pipeline", "pipeline(LOOP, STAGES)",
        [](const Unit& unit, Arguments& a) {
          const std::string dim = a.name("a loop");
          return loop::pipeline(unit, dim, static_cast<int>(a.number("the number of stages")));
        }},
    Row{"pipeline_tiles", "pipeline_tiles(LOOP, STAGES, REGISTERS, REGISTERS)",
        [](const Unit& unit, Arguments& a) {
          const std::string dim = a.name("a loop");
          const int stages = static_cast<int>(a.number("the number of stages"));
          const int math = static_cast<int>(a.number("the registers of who multiplies"));
          return loop::pipeline_tiles(unit, dim, stages, math, static_cast<int>(a.number("the registers of who copies")));
        }},
    Row{"split_reduce", "split_reduce(REDUCE, PARTS, multiple=N)",
        [](const Unit& unit, Arguments& a) {
          const std::string accumulator = a.name("a reduce");
          const int64_t parts = a.number("the number of parts");
          return loop::split_reduce(unit, accumulator, parts, a.integer("multiple", 0, 0));
        }},
    Row{"split_factors", "split_factors(REDUCE, TERMS)",
        [](const Unit& unit, Arguments& a) {
          const std::string accumulator = a.name("a reduce");
          return loop::split_factors(unit, accumulator, a.number("the number of terms that are summed apart"));
        }},
    Row{"stream", "stream(MAXIMUM, ROWS, COLUMNS, STAGES, REGISTERS, REGISTERS)",
        [](const Unit& unit, Arguments& a) { return apply_streamed(loop::stream, unit, a); }},
    Row{"two_level_sum", "two_level_sum(LOOP)", [](const Unit& unit, Arguments& a) { return loop::two_level_sum(unit, a.name("a loop")); }},
};

}  // namespace

std::vector<std::string> primitive_names() {
  std::vector<std::string> names;
  for (const Row& row : kPrimitives) names.emplace_back(row.name);
  std::sort(names.begin(), names.end());
  return names;
}

loop::Unit apply_one(const loop::Unit& unit, const Primitive& primitive) {
  const auto row = std::find_if(kPrimitives.begin(), kPrimitives.end(), [&](const Row& r) { return r.name == primitive.name; });
  if (row == kPrimitives.end())
    loop::unfit("there is no primitive `" + primitive.name + "`", suggest(primitive.name, "primitives", primitive_names()));
  try {
    Arguments arguments(primitive, row->usage);
    Unit result = row->run(unit, arguments);
    arguments.finish();
    return result;
  } catch (const Error& error) {
    const std::vector<Diagnostic>& said = error.diagnostics();
    if (said[0].kind != "invalid-schedule") throw;
    loop::unfit("`" + print({primitive}) + "` does not fit: " + said[0].message, said.size() > 1 ? said[1].message : "");
  }
}

loop::Unit apply(const loop::Unit& unit, const Schedule& schedule, const Target& target) {
  loop::Unit result = unit;
  for (const Primitive& primitive : schedule) result = apply_one(result, primitive);
  return approximate_math(place(std::move(result), target), target);
}

}  // namespace tcc::schedule
