#include "random_kernel.h"

#include <algorithm>
#include <functional>
#include <random>
#include <utility>
#include <vector>

namespace tcc::codegen {
namespace {

using std::to_string;

struct Dim {
  std::string name, bind;
  int64_t extent;
};

std::string text_of(const std::vector<Dim>& dims) {
  std::string text;
  for (const Dim& dim : dims) text += (text.empty() ? "%" : ", %") + dim.name + " in " + to_string(dim.extent) + " bind(" + dim.bind + ")";
  return text;
}

class Generator {
 public:
  Generator(uint64_t seed, bool cuda) : random_(seed), cuda_(cuda) {}

  std::string kernel() {
    if (cuda_) {
      warps_ = pick(1, 4);
      by_thread_ = chance(2);
    }
    for (int64_t i = pick(2, 3); i > 0; --i) add_input();
    std::vector<Dim> items = dims(cuda_ ? "block" : "parallel", 6);
    const std::string body = nest(items, false, [&] {
      std::string phases;
      for (int64_t i = pick(1, 3); i > 0; --i) phases += cuda_ ? cuda_phase() : cpu_phase();
      return phases;
    });
    int64_t grid = 1;
    for (const Dim& dim : items) grid *= dim.extent;
    return std::string("kernel #k target ") + (cuda_ ? "sm_80" : "x86-64-v3") + " grid " + to_string(grid) + " threads " +
           to_string(cuda_ ? warps_ * 32 : 1) + " shared " + to_string(cuda_ ? 32768 : 0) + " (" + inputs_text_ + ") -> (" + outputs_ +
           ") {\n" + body + "}\n";
  }

 private:
  struct Input {
    std::string name, dtype;
    std::vector<int64_t> extents;
  };
  using Body = std::function<std::string()>;

  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int64_t in) { return pick(1, in) == 1; }
  template <class T> T one_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(pick(0, static_cast<int64_t>(list.size()) - 1))];
  }
  std::string fresh(const std::string& base) { return base + "_" + to_string(next_++); }

  void add_input() {
    Input input{fresh("x"), one_of<std::string>({"f32", "f16", "bf16", "f64", "i32", "i64", "u8", "bool"}), {}};
    for (int64_t i = pick(1, 2); i > 0; --i) input.extents.push_back(pick(3, 40));
    std::string extents;
    for (int64_t extent : input.extents) extents += (extents.empty() ? "" : ", ") + to_string(extent);
    inputs_text_ += (inputs_text_.empty() ? "%" : ", %") + input.name + ": " + input.dtype + "[" + extents + "]";
    inputs_.push_back(std::move(input));
  }

  // ------------------------------------------------------------------------------------------------------------ loops

  /// One to three dims of a bind, of `most` iterations together. `all`: exactly that many.
  std::vector<Dim> dims(const std::string& bind, int64_t most, bool all = false) {
    std::vector<Dim> result;
    int64_t left = most;
    for (int64_t i = pick(1, 3); i > 0; --i) {
      int64_t extent = pick(1, left);
      if (all) {
        while (left % extent != 0) --extent;
        if (i == 1) extent = left;
      }
      result.push_back({fresh("i"), bind, extent});
      left /= extent;
    }
    return result;
  }

  /// Loops of one thread.
  std::vector<Dim> own_dims(bool vector) {
    std::vector<Dim> result;
    for (int64_t i = pick(0, 2); i > 0; --i) result.push_back({fresh("i"), one_of<std::string>({"serial", "unroll"}), pick(1, 5)});
    if (vector && chance(2)) result.push_back({fresh("v"), "vector", one_of<int64_t>({2, 4, 8})});
    return result;
  }

  /// Maps over the dims, cut into loops within each other at random, around what `body` makes. `masked`: one of them may have a condition.
  std::string nest(const std::vector<Dim>& dims, bool masked, const Body& body) {
    if (dims.empty()) return body();
    const size_t outer = vars_.size(), cut = static_cast<size_t>(pick(1, static_cast<int64_t>(dims.size())));
    const std::vector<Dim> here(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(cut));
    vars_.insert(vars_.end(), here.begin(), here.end());
    const bool has_mask = masked && chance(3);
    const std::string mask = has_mask ? " where " + condition() : "";
    const size_t scalars = scalars_.size();
    std::string inner = nest({dims.begin() + static_cast<std::ptrdiff_t>(cut), dims.end()}, masked && !has_mask, body);
    vars_.resize(outer);
    scalars_.resize(scalars);
    return "map " + text_of(here) + mask + " {\n" + inner + "}\n";
  }

  bool in_vector() const { return !vars_.empty() && vars_.back().bind == "vector"; }

  // ------------------------------------------------------------------------------------------------------ expressions

  std::string affine() {
    std::string text = to_string(pick(0, 7));
    for (const Dim& var : vars_) {
      if (chance(2)) text += " + %" + var.name + " * " + to_string(pick(1, 9));
    }
    return text;
  }
  std::string index_below(int64_t extent) { return "(" + affine() + ") mod " + to_string(extent); }

  std::string load() {
    const Input& input = one_of(inputs_);
    loaded_ = input.dtype;
    std::string indices;
    const bool guarded = chance(4);
    for (int64_t extent : input.extents) indices += (indices.empty() ? "" : ", ") + (guarded ? affine() : index_below(extent));
    return "load %" + input.name + "[" + indices + "]" + (guarded ? " else " + constant(input.dtype) : "");
  }
  std::string constant(const std::string& dtype) {
    if (dtype == "bool") return chance(2) ? "true" : "false";
    const std::string number = to_string(pick(0, 4));
    return dtype == "i64" ? number : is_float(dtype) ? dtype + "(" + number + ".5)" : dtype + "(" + number + ")";
  }
  static bool is_float(const std::string& dtype) { return dtype[0] == 'f' || dtype[0] == 'b'; }

  /// What depends on comparisons is exact: loads, indices, integers.
  std::string condition() {
    switch (pick(0, 3)) {
      case 0: return "lt(index(" + affine() + "), " + to_string(pick(1, 40)) + ")";
      case 1: return "eq(index((" + affine() + ") mod 3), " + to_string(pick(0, 2)) + ")";
      case 2: {
        const std::string from = load();
        return loaded_ == "bool" ? from : "ge(" + from + ", " + constant(loaded_) + ")";
      }
      default: return "or(" + condition() + ", not(" + condition() + "))";
    }
  }

  std::string leaf(const std::string& dtype) {
    std::vector<std::string> known;
    for (const auto& [name, of] : scalars_) {
      if (of == dtype) known.push_back("%" + name);
    }
    if (!known.empty() && chance(2)) return one_of(known);
    if (chance(5)) return "cast<" + dtype + ">(index(" + index_below(11) + "))";
    if (chance(5)) return constant(dtype);
    const std::string from = load();
    return loaded_ == dtype ? from : "cast<" + dtype + ">(" + from + ")";
  }

  std::string value(const std::string& dtype, int depth) {
    if (dtype == "bool") return condition();
    if (depth == 0) return leaf(dtype);
    const auto part = [&] { return value(dtype, depth - 1); };
    if (chance(5)) return "select(" + condition() + ", " + part() + ", " + part() + ")";
    if (is_float(dtype)) {
      switch (pick(0, 7)) {
        case 0: return "exp(neg(abs(" + part() + ")))";
        case 1: return "sqrt(abs(" + part() + "))";
        case 2: return "tanh(" + part() + ")";
        case 3: return "fma(" + part() + ", " + part() + ", " + part() + ")";
        default: break;
      }
    } else if (chance(3)) {
      return one_of<std::string>({"and", "or", "xor", "div", "rem"}) + "(" + part() + ", " + part() + ")";
    }
    return one_of<std::string>({"add", "sub", "mul", "max", "min"}) + "(" + part() + ", " + part() + ")";
  }

  std::string bounded(const std::string& dtype) {
    const std::string text = value(dtype, static_cast<int>(pick(0, 2)));
    if (dtype != "f32" && dtype != "f64") return text;
    return "max(min(" + text + ", " + dtype + "(8.0)), " + dtype + "(-8.0))";
  }

  std::string working_dtype() { return one_of<std::string>({"f32", "f32", "f64", "i32", "i64", "u8", "bool"}); }

  // ------------------------------------------------------------------------------------------------------- statements

  /// A store to an element of an output of its own, for each iteration of all loops around.
  std::string store(const std::string& text, const std::string& dtype) {
    const std::string stored = dtype == "f32" ? one_of<std::string>({"f32", "f16", "bf16"}) : dtype;
    const std::string name = fresh("r");
    std::string extents, indices;
    for (const Dim& var : vars_) {
      extents += (extents.empty() ? "" : ", ") + to_string(var.extent);
      indices += (indices.empty() ? "%" : ", %") + var.name;
    }
    outputs_ += (outputs_.empty() ? "%" : ", %") + name + ": " + stored + "[" + extents + "]";
    return "store " + (stored == dtype ? text : "cast<" + stored + ">(" + text + ")") + ", %" + name + "[" + indices + "]\n";
  }
  std::string store_value() {
    const std::string dtype = working_dtype();
    return store(bounded(dtype), dtype);
  }

  std::string let() {
    const std::string dtype = working_dtype(), name = fresh("t");
    const std::string text = "%" + name + ": " + dtype + " = " + bounded(dtype) + "\n";
    scalars_.emplace_back(name, dtype);
    return text;
  }

  std::string combiner(const std::string& dtype) {
    if (dtype == "bool") return one_of<std::string>({"and", "or", "max", "min"});
    return is_float(dtype) ? one_of<std::string>({"sum", "max", "min"}) : one_of<std::string>({"sum", "prod", "max", "min", "and", "or"});
  }

  /// A reduce over the dims, whose results are scalars from here on.
  std::string reduce(const std::vector<Dim>& over) {
    const size_t outer = vars_.size(), scalars = scalars_.size();
    std::vector<std::pair<std::string, std::string>> results;
    std::string text, body;
    if (chance(5)) {  // the first of the largest, and where
      const Input& input = one_of(inputs_);
      const std::string m = fresh("m"), n = fresh("n"), lv = fresh("lv"), li = fresh("li"), rv = fresh("rv"), ri = fresh("ri");
      vars_.insert(vars_.end(), over.begin(), over.end());
      std::string flat = "0", indices;
      for (const Dim& dim : over) flat = "(" + flat + ") * " + to_string(dim.extent) + " + %" + dim.name;
      for (int64_t extent : input.extents) indices += (indices.empty() ? "" : ", ") + index_below(extent);
      text = "%" + m + ": f32, %" + n + ": i64 = reduce init(-inf, -1) " + text_of(over) + " { yield cast<f32>(load %" + input.name + "[" +
             indices + "]), index(" + flat + ") } combine (%" + lv + ": f32, %" + li + ": i64), (%" + rv + ": f32, %" + ri +
             ": i64) {\nyield select(or(gt(%" + rv + ", %" + lv + "), and(eq(%" + rv + ", %" + lv + "), lt(%" + ri + ", %" + li + "))), %" +
             rv + ", %" + lv + "), select(or(gt(%" + rv + ", %" + lv + "), and(eq(%" + rv + ", %" + lv + "), lt(%" + ri + ", %" + li +
             "))), %" + ri + ", %" + li + ") }\n";
      results = {{m, "f32"}, {n, "i64"}};
    } else {
      std::string names, combiners, inits, values;
      bool any_init = false;
      vars_.insert(vars_.end(), over.begin(), over.end());
      if (chance(3)) body = let();
      for (int64_t i = pick(1, 2); i > 0; --i) {
        const std::string dtype = working_dtype(), name = fresh("s"), separator = names.empty() ? "" : ", ";
        results.emplace_back(name, dtype);
        names += separator + "%" + name + ": " + dtype;
        combiners += separator + combiner(dtype);
        const bool init = chance(4);
        any_init = any_init || init;
        inits += separator + (init ? constant(dtype) : "_");
        values += separator + bounded(dtype);
      }
      const std::string mask = chance(4) ? " where " + condition() : "";
      text = names + " = reduce " + (results.size() > 1 ? "(" + combiners + ")" : combiners) + (any_init ? " init(" + inits + ") " : " ") +
             text_of(over) + mask + " {\n" + body + "yield " + values + " }\n";
    }
    vars_.resize(outer);
    scalars_.resize(scalars);
    for (auto& result : results) scalars_.push_back(std::move(result));
    return text;
  }

  std::string scan() {
    const std::string dtype = one_of<std::string>({"f32", "i32", "i64"}), name = fresh("c");
    const Dim dim{fresh("i"), one_of<std::string>({"serial", "unroll"}), pick(1, 6)};
    std::string text =
        "%" + name + ": " + dtype + " = scan " + one_of<std::string>({"sum", "max", "min"}) + (chance(2) ? " exclusive " : " ");
    vars_.push_back(dim);
    text += text_of({dim}) + " { yield " + bounded(dtype) + " } after {\n";
    text += store(is_float(dtype) ? "max(min(%" + name + ", 1000.0), -1000.0)" : "%" + name, dtype) + "}\n";
    vars_.pop_back();
    scalars_.emplace_back(name, dtype);
    return text + store(is_float(dtype) ? "max(min(%" + name + ", 1000.0), -1000.0)" : "%" + name, dtype);
  }

  /// Registers of a thread, filled and then read by other loops.
  std::string registers() {
    const std::string name = fresh("a"), dtype = one_of<std::string>({"f32", "f64", "i32", "u8", "bool"});
    const int64_t extent = pick(1, 6);
    const Dim fill{fresh("i"), one_of<std::string>({"serial", "unroll"}), extent},
        read{fresh("i"), one_of<std::string>({"serial", "unroll"}), extent};
    std::string text = "alloc %" + name + ": " + dtype + "[" + to_string(extent) + "] registers\n";
    vars_.push_back(fill);
    text += "map " + text_of({fill}) + " { store " + bounded(dtype) + ", %" + name + "[%" + fill.name + "] }\n";
    vars_.back() = read;
    text += "map " + text_of({read}) + " {\n" + store("load %" + name + "[%" + read.name + "]", dtype) + "}\n";
    vars_.pop_back();
    return text;
  }

  /// Statements of one thread, each of which may see what those before it define.
  std::string own_statements() {
    std::string text;
    for (int64_t i = pick(1, 3); i > 0; --i) {
      switch (pick(0, 6)) {
        case 0: text += let(); break;
        case 1: text += reduce(serial_dims()); break;
        case 2: text += in_vector() ? store_value() : scan(); break;
        case 3: text += in_vector() ? store_value() : registers(); break;
        case 4: text += "if " + condition() + " {\n" + store_value() + "} else {\n" + store_value() + "}\n"; break;
        default: text += store_value(); break;
      }
    }
    return text + store_value();
  }
  std::vector<Dim> serial_dims() {
    std::vector<Dim> result = own_dims(!in_vector());
    if (result.empty()) result.push_back({fresh("i"), "serial", pick(1, 9)});
    return result;
  }

  std::string scatter() {
    const std::string dtype = one_of<std::string>({"i32", "i64"}), name = fresh("r");
    const int64_t extent = pick(1, 20);
    outputs_ += (outputs_.empty() ? "%" : ", %") + name + ": " + dtype + "[" + to_string(extent) + "]";
    const std::string at = chance(2) ? index_below(extent) : affine();
    return "scatter " + one_of<std::string>({"add", "mul", "max", "min"}) + " " + bounded(dtype) + ", %" + name + "[" + at + "]\n";
  }

  std::string cpu_phase() {
    if (chance(5)) {
      std::vector<Dim> over = own_dims(false);
      return nest(over, true, [&] { return scatter(); });
    }
    return nest(own_dims(true), true, [&] { return own_statements(); });
  }

  // ------------------------------------------------------------------------------------------------- threads of a block

  /// Dims over the threads of a block, or over part of them.
  std::vector<Dim> thread_dims() {
    if (by_thread_) return dims("thread", warps_ * 32);
    std::vector<Dim> result = dims("warp", warps_);
    for (Dim& dim : dims("lane", 32)) result.push_back(std::move(dim));
    if (chance(2)) std::reverse(result.begin(), result.end());  // lanes around warps are other digits, in any order
    return result;
  }
  std::vector<Dim> with_own_dims(std::vector<Dim> dims) {
    for (Dim& dim : own_dims(true)) dims.push_back(std::move(dim));
    return dims;
  }

  std::string cuda_phase() {
    switch (pick(0, 5)) {
      case 0: return through_shared_memory();
      case 1: return by_thread_ ? across_threads() : across_lanes();
      case 2: return by_thread_ ? row_in_registers() : across_lanes();
      case 3: {
        std::vector<Dim> over = by_thread_ ? dims("thread", warps_ * 32) : dims("warp", warps_);
        if (!by_thread_) {
          for (Dim& dim : dims("lane", 32)) over.push_back(std::move(dim));
        }
        return nest(over, true, [&] { return scatter(); });
      }
      default: return nest(with_own_dims(thread_dims()), true, [&] { return own_statements(); });
    }
  }

  /// A reduce of the whole block, or of a part of its threads; all have the result.
  std::string across_threads() {
    std::vector<Dim> over = dims("thread", warps_ * 32);
    for (Dim& dim : own_dims(true)) over.push_back(std::move(dim));
    std::string text = reduce(over);
    const auto [name, dtype] = scalars_.back();
    text += store("%" + name, dtype);
    return text + nest(thread_dims(), true, [&] { return store_value(); });  // which may use it
  }

  /// Rows of a warp, or several in a warp: lanes that a loop around spreads over the rows, and those within that a reduce joins.
  std::string across_lanes() {
    const int64_t rows = int64_t{1} << pick(0, 5);
    std::vector<Dim> around = dims("warp", warps_);
    if (rows > 1) {
      for (Dim& dim : dims("lane", rows, true)) around.push_back(std::move(dim));
    }
    return nest(around, false, [&] {
      std::vector<Dim> over = rows == 32 ? std::vector<Dim>{} : dims("lane", 32 / rows, rows > 1);
      for (Dim& dim : own_dims(true)) over.push_back(std::move(dim));
      if (over.empty()) over.push_back({fresh("i"), "serial", 3});
      std::string text = reduce(over);
      const auto [name, dtype] = scalars_.back();
      return text + store("%" + name, dtype);
    });
  }

  /// Written by threads, read by others after a barrier; in a loop, so that the next round waits for the readers of this one.
  std::string through_shared_memory() {
    const std::string name = fresh("sh"), dtype = one_of<std::string>({"f32", "f64", "i32", "u8", "bool"});
    std::vector<Dim> writers = by_thread_ ? dims("thread", warps_ * 32) : dims("warp", warps_);
    if (!by_thread_) {
      for (Dim& dim : dims("lane", 32)) writers.push_back(std::move(dim));
    }
    std::string extents, indices;
    std::vector<int64_t> sizes;
    for (const Dim& dim : writers) {
      extents += (extents.empty() ? "" : ", ") + to_string(dim.extent);
      indices += (indices.empty() ? "%" : ", %") + dim.name;
      sizes.push_back(dim.extent);
    }
    const bool repeated = chance(2);
    const Dim round{fresh("i"), "serial", pick(1, 3)};
    std::string text = "alloc %" + name + ": " + dtype + "[" + extents + "] shared\n";
    if (repeated) vars_.push_back(round);
    std::string inner = nest(writers, false, [&] { return "store " + bounded(dtype) + ", %" + name + "[" + indices + "]\n"; });
    inner += "barrier\n";
    inner += nest(with_own_dims(thread_dims()), true, [&] {
      std::string at;
      for (int64_t size : sizes) at += (at.empty() ? "" : ", ") + index_below(size);
      return store("load %" + name + "[" + at + "]", dtype);
    });
    if (!repeated) return text + inner;
    vars_.pop_back();
    return text + "for " + text_of({round}) + " {\n" + inner + "barrier\n}\n";
  }

  /// An element or more a thread, kept in registers between two loops over the threads.
  std::string row_in_registers() {
    const std::string name = fresh("row");
    const int64_t steps = pick(1, 4), threads = pick(1, warps_ * 32);
    const auto both = [&] { return std::vector<Dim>{{fresh("u"), "unroll", steps}, {fresh("t"), "thread", threads}}; };
    std::string text = "alloc %" + name + ": f32[" + to_string(steps) + ", " + to_string(threads) + "] registers distributed(1)\n";
    const std::vector<Dim> fill = both(), sum = both();
    const auto at = [&](const std::vector<Dim>& dims) { return "%" + name + "[%" + dims[0].name + ", %" + dims[1].name + "]"; };
    vars_.insert(vars_.end(), fill.begin(), fill.end());
    text += "map " + text_of(fill) + " { store " + bounded("f32") + ", " + at(fill) + " }\n";
    vars_.resize(vars_.size() - 2);
    const std::string result = fresh("s");
    text += "%" + result + ": f32 = reduce " + combiner("f32") + " " + text_of(sum) + " { yield load " + at(sum) + " }\n";
    return text + store("%" + result, "f32");
  }

  std::mt19937_64 random_;
  const bool cuda_;
  bool by_thread_ = true;  ///< a kernel binds to threads, or to warps and lanes
  int64_t warps_ = 1;
  int next_ = 0;
  std::vector<Input> inputs_;
  std::string inputs_text_, outputs_, loaded_;
  std::vector<Dim> vars_;                                     ///< of the loops around
  std::vector<std::pair<std::string, std::string>> scalars_;  ///< in scope: name, dtype
};

}  // namespace

std::string random_cuda_kernel(uint64_t seed) { return Generator(seed, true).kernel(); }
std::string random_cpu_kernel(uint64_t seed) { return Generator(seed, false).kernel(); }

std::string mutated(const std::string& kernel_text, uint64_t seed) {
  std::mt19937_64 random(seed);
  static const std::vector<std::pair<std::string, std::vector<std::string>>> kSwaps = {
      {"bind(",
       {"bind(serial)", "bind(unroll)", "bind(vector)", "bind(thread)", "bind(warp)", "bind(lane)", "bind(parallel)", "bind(block)"}},
      {" in ", {" in 1", " in 2", " in 3", " in 17", " in 33"}},
      {"barrier\n", {"\n"}},
      {" mod ", {" mod 50", " / 2", " mod 1"}},
      {"map ", {"for "}},
      {" shared\n", {" registers\n", " scratch\n"}},
      {"distributed(1)", {"distributed(0)", ""}},
      {"threads ", {"threads 32", "threads 64", "threads 1"}},
  };
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto& [what, others] = kSwaps[random() % kSwaps.size()];
    std::vector<size_t> places;
    for (size_t at = kernel_text.find(what); at != std::string::npos; at = kernel_text.find(what, at + 1)) places.push_back(at);
    if (places.empty()) continue;
    const size_t at = places[random() % places.size()];
    size_t end = at + what.size();
    if (what == "bind(") end = kernel_text.find(')', at) + 1;
    while ((what == " in " || what == " mod " || what == "threads ") && end < kernel_text.size() && isdigit(kernel_text[end]) != 0) ++end;
    return kernel_text.substr(0, at) + others[random() % others.size()] + kernel_text.substr(end);
  }
  return kernel_text;
}

}  // namespace tcc::codegen
