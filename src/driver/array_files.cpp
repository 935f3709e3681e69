#include "tcc/driver/array_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "driver/given_inputs.h"
#include "tcc/frontend/tensor_file.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/npy.h"
#include "tcc/support/printable.h"
#include "tcc/support/random.h"
#include "tcc/support/suggest.h"

namespace tcc::driver {

namespace {

[[noreturn]] void usage(const std::string& kind, const std::string& where, const std::string& message, const std::string& help = "") {
  throw Error(ExitCode::usage, kind, where, message, help);
}

struct Range {
  double low, high;
};

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// The ranges of --range, by input.
std::vector<std::optional<Range>> parse_ranges(const std::vector<ExpectedTensor>& expected, const std::vector<std::string>& names,
                                               const InputOptions& options, const std::string& where) {
  std::vector<std::optional<Range>> ranges(expected.size());
  for (const std::string& text : options.ranges) {
    const NamedText named = split_name(text, names);
    const size_t colon = named.rest.find(':');
    if (named.name.empty()) {
      const size_t equals = text.rfind('=');
      if (equals == std::string::npos) usage("invalid-argument", "", "--range=" + text + ": NAME=LOW:HIGH was expected");
      usage("unknown-input", where, "--range: `" + text.substr(0, equals) + "` is not an input of the model",
            suggest(text.substr(0, equals), "inputs", names));
    }
    const size_t i = static_cast<size_t>(std::find(names.begin(), names.end(), named.name) - names.begin());
    const auto low = number_of(std::string_view(named.rest).substr(0, colon));
    const auto high = colon == std::string::npos ? low : number_of(std::string_view(named.rest).substr(colon + 1));
    const bool whole = low && high && (is_float(expected[i].dtype) || (*low == std::floor(*low) && *high == std::floor(*high)));
    constexpr double kWidest = 4294967295.0;  // that one draw of 32 bits reaches
    if (colon == std::string::npos || !low || !high || *low > *high || !whole || (!is_float(expected[i].dtype) && *high - *low > kWidest) ||
        std::abs(*low) > 0x1p53 || std::abs(*high) > 0x1p53) {
      usage("invalid-argument", "",
            "--range=" + text + ": two " + (is_float(expected[i].dtype) ? "numbers" : "integers") +
                " LOW:HIGH were expected, LOW not above HIGH" + (is_float(expected[i].dtype) ? "" : ", at most 2^32 - 1 apart"));
    }
    if (ranges[i]) usage("invalid-argument", where, "--range is given twice for `" + names[i] + "`");
    ranges[i] = Range{*low, *high};
  }
  return ranges;
}

/// Standard normal for floats. Integers and flags: 0 and 1, which serve as mask of every model, where it is not known what they are for.
Tensor random_tensor(const ExpectedTensor& wanted, const std::optional<Range>& range, uint64_t seed, uint64_t stream, Drawn* drawn) {
  const RandomStream random{.seed = seed, .stream = stream, .base = 0};
  *drawn = {.name = wanted.name, .dtype = wanted.dtype, .shape = wanted.shape, .seed = seed};
  const bool floats = is_float(wanted.dtype);
  drawn->normal = floats && !range && !wanted.range;
  if (range) {
    drawn->low = range->low;
    drawn->high = range->high;
  } else if (wanted.range) {
    constexpr int64_t kMost = (int64_t{1} << 32) - 1;
    drawn->low = static_cast<double>(wanted.range->low);
    drawn->high = static_cast<double>(std::min(wanted.range->high, wanted.range->low + kMost));
  }
  if (drawn->normal) return random_normal(wanted.dtype, wanted.shape, random);
  if (floats) return random_uniform(wanted.dtype, wanted.shape, random, static_cast<float>(drawn->low), static_cast<float>(drawn->high));
  return random_integers(wanted.dtype, wanted.shape, random, static_cast<int64_t>(drawn->low), static_cast<int64_t>(drawn->high) + 1);
}

std::string number_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return value == std::floor(value) && std::abs(value) < 0x1p53 ? std::to_string(static_cast<int64_t>(value)) : std::string(text, end);
}

}  // namespace

std::string describe(const Drawn& drawn) {
  return printable(drawn.name) + ": " + std::string(name_of(drawn.dtype)) + to_string(std::span(drawn.shape)) + " random " +
         (drawn.normal ? "normal" : "in " + number_text(drawn.low) + ":" + number_text(drawn.high)) + ", seed " +
         std::to_string(drawn.seed);
}

Tensor read_tensor_file(const std::string& path) {
  if (path.ends_with(".pb")) return read_tensor_proto(path);
  if (path.ends_with(".npz")) {
    const std::map<std::string, Tensor> arrays = read_npz(path);
    if (arrays.size() != 1) usage("invalid-argument", path, "holds " + std::to_string(arrays.size()) + " arrays, one was expected");
    return arrays.begin()->second;
  }
  return read_npy(path);
}

std::string write_tensor_file(const std::string& path, const Tensor& tensor, const std::string& name) {
  if (npy_has(tensor.dtype())) {
    write_npy(path + ".npy", tensor);
    return path + ".npy";
  }
  write_tensor_proto(path + ".pb", tensor, name);
  return path + ".pb";
}

NamedText split_name(std::string_view text, std::span<const std::string> names) {
  const std::string* longest = nullptr;
  for (const std::string& name : names) {
    const bool fits = text.size() > name.size() && text.starts_with(name) && text[name.size()] == '=';
    if (fits && (longest == nullptr || name.size() > longest->size())) longest = &name;
  }
  if (longest == nullptr) return {"", std::string(text)};
  return {*longest, std::string(text.substr(longest->size() + 1))};
}

InputTensors gather_inputs(const std::vector<ExpectedTensor>& expected, const InputOptions& options, const std::string& where) {
  GivenInputs given(expected, where);
  // Named ones first, so that the others fill the places that are left, in order.
  std::vector<std::string> in_order;
  for (const std::string& text : options.inputs) {
    if (!given.give_by_name(text, options.other_arrays)) in_order.push_back(text);
  }
  for (const std::string& path : in_order) given.give_next(path);
  std::vector<std::optional<Tensor>> values = given.finish();
  std::vector<Diagnostic> missing;
  InputTensors result;
  const std::vector<std::optional<Range>> ranges = parse_ranges(expected, given.names(), options, where);
  for (size_t i = 0; i < values.size(); ++i) {
    const ExpectedTensor& wanted = expected[i];
    if (values[i] && ranges[i])
      usage("invalid-argument", where, "--range is about random elements, but `" + wanted.name + "` is given with --input");
    if (!values[i] && options.random) values[i] = random_tensor(wanted, ranges[i], options.seed, i, &result.drawn.emplace_back());
    if (values[i]) {
      result.tensors.push_back(*values[i]);
      continue;
    }
    missing.push_back(
        {Diagnostic::Severity::error, "missing-input", where,
         "input `" + wanted.name + "` (" + std::string(name_of(wanted.dtype)) + to_string(std::span(wanted.shape)) + ") is not given", ""});
  }
  if (!missing.empty()) {
    missing.push_back({Diagnostic::Severity::help, "", where, "give each with --input NAME=FILE, or --random for random values", ""});
    throw Error(ExitCode::usage, std::move(missing));
  }
  return result;
}

}  // namespace tcc::driver
