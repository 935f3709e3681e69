#include "driver/bindings.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "tcc/driver/array_files.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"
#include "tcc/support/suggest.h"

namespace tcc::driver {

namespace {

[[noreturn]] void usage(const std::string& kind, const std::string& message, const std::string& help = "") {
  throw Error(ExitCode::usage, kind, "", message, help);
}

template <class Number> std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// "8x3x224" -> {8, 3, 224}; "" -> {}
std::optional<Shape> parse_sizes(std::string_view text) {
  Shape shape;
  while (!text.empty()) {
    const size_t end = std::min(text.find('x'), text.size());
    const auto size = parse_number<int64_t>(text.substr(0, end));
    if (!size || *size < 0 || end + 1 == text.size()) return std::nullopt;
    shape.push_back(*size);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return shape;
}

/// A value on the command line: `true`, `0.5`, `3`. Rank 0, or of the declared shape when that has one element.
std::optional<Tensor> parse_literal(const std::string& text, const Type& type) {
  Shape shape;
  if (type.is_static() && type.count() == 1) shape = type.shape();
  Tensor tensor(type.dtype, shape);
  if (text == "true" || text == "false") {
    tensor.set_int64(0, text == "true" ? 1 : 0);
  } else if (const auto integer = parse_number<int64_t>(text)) {
    tensor.set_int64(0, *integer);
  } else if (const auto number = parse_number<double>(text); number && is_float(type.dtype)) {
    tensor.set_double(0, *number);
  } else {
    return std::nullopt;
  }
  return tensor;
}

std::vector<std::string> symbols_of(const Graph& graph, const std::vector<std::string>& sizes) {
  std::set<std::string> symbols(sizes.begin(), sizes.end());
  for (const Value* input : graph.body.args) {
    for (const Dim& dim : input->type.dims) {
      if (!dim.is_constant()) symbols.insert(dim.symbol);
    }
  }
  return {symbols.begin(), symbols.end()};
}

[[noreturn]] void refuse_unknown(const std::string& text, const std::vector<std::string>& names, const std::vector<std::string>& symbols) {
  if (text.find('=') == std::string::npos)
    usage("invalid-argument", "--bind: `" + text + "` is not NAME=VALUE", "write --bind batch=8, or --bind mask=mask.npy");
  const std::string name = text.substr(0, text.rfind('='));
  std::vector<std::string> both = names;
  both.insert(both.end(), symbols.begin(), symbols.end());
  const std::string meant = did_you_mean(name, both);
  std::string help = suggest("", "inputs", names);
  if (!symbols.empty()) help += (help.empty() ? "" : "; ") + suggest("", "sizes", symbols);
  usage("unknown-input", "--bind: `" + name + "` is not an input or a size of the model", meant.empty() ? help : meant + " " + help);
}

/// "batch=2,seq=4" -> two pieces: a comma ends one when a name of the model follows, or when what stands before is a whole value. Names and
/// files may have commas of their own.
std::vector<std::string> split_bindings(const std::string& text, const std::vector<std::string>& names) {
  std::vector<std::string> pieces;
  size_t begin = 0;
  for (size_t comma = text.find(','); comma != std::string::npos; comma = text.find(',', comma + 1)) {
    const std::string piece = text.substr(begin, comma - begin), rest = text.substr(comma + 1);
    const size_t equals = piece.rfind('=');
    const std::string value = equals == std::string::npos ? "" : piece.substr(equals + 1);
    const bool whole = value == "true" || value == "false" || parse_number<double>(value).has_value();
    if (split_name(rest, names).name.empty() && !(whole && rest.find('=') != std::string::npos)) continue;
    pieces.push_back(piece);
    begin = comma + 1;
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

}  // namespace

std::map<std::string, Shape> parse_shapes(const std::vector<std::string>& texts) {
  std::map<std::string, Shape> shapes;
  for (const std::string& text : texts) {
    size_t begin = 0;
    for (size_t comma = 0; begin < text.size(); comma++) {
      comma = std::min(text.find(',', comma), text.size());
      const std::string pair = text.substr(begin, comma - begin);
      const size_t colon = pair.rfind(':');
      const auto sizes = colon == std::string::npos || colon == 0 ? std::nullopt : parse_sizes(std::string_view(pair).substr(colon + 1));
      if (!sizes) {
        if (comma < text.size()) continue;
        usage("invalid-argument", "--shapes: `" + pair + "` is not NAME:SIZES",
              "write --shapes=NAME:8x3x224x224, several pairs separated by commas");
      }
      const std::string name = pair.substr(0, colon);
      if (!shapes.emplace(name, *sizes).second) usage("invalid-argument", "--shapes gives sizes for `" + name + "` twice");
      begin = comma + 1;
    }
  }
  return shapes;
}

bool is_tensor_file(const std::string& value) { return value.ends_with(".pb") || value.ends_with(".npy") || value.ends_with(".npz"); }

Bindings resolve_bindings(const Graph& signature, const Options& options, CommandFiles* files, const std::vector<std::string>& sizes) {
  Bindings bindings = options.bindings;
  for (auto& [name, shape] : parse_shapes(options.shapes)) bindings.shapes[name] = shape;
  std::vector<std::string> names;
  for (const Value* input : signature.body.args) names.push_back(input->name);
  const std::vector<std::string> symbols = symbols_of(signature, sizes);
  std::vector<std::string> both = names;
  both.insert(both.end(), symbols.begin(), symbols.end());
  std::vector<std::string> texts;
  for (const std::string& text : options.bind) {
    for (std::string& piece : split_bindings(text, both)) texts.push_back(std::move(piece));
  }
  for (const std::string& text : texts) {
    const NamedText named = split_name(text, names);
    if (named.name.empty()) {
      const NamedText symbol = split_name(text, symbols);
      if (symbol.name.empty()) refuse_unknown(text, names, symbols);
      const auto size = parse_number<int64_t>(symbol.rest);
      if (!size || *size < 0)
        usage("invalid-argument", "--bind: size `" + symbol.name + "` is `" + symbol.rest + "`, a number of 0 or more was expected");
      bindings.symbols[symbol.name] = *size;
      continue;
    }
    const Value* input = signature.body.args[static_cast<size_t>(std::find(names.begin(), names.end(), named.name) - names.begin())];
    auto value = parse_literal(named.rest, input->type);
    if (!value) {
      if (!is_tensor_file(named.rest)) {
        usage("invalid-argument",
              "--bind: `" + named.rest + "` is not a value of input `" + named.name + "` (" + to_string(input->type) + ")",
              "write a number, true, false, or a file that ends in .npy, .npz or .pb");
      }
      if (files != nullptr) files->reads(named.rest, "the value of input `" + named.name + "`");
      value = read_tensor_file(named.rest);
    }
    if (!bindings.inputs.emplace(named.name, *value).second) usage("invalid-argument", "--bind gives `" + named.name + "` twice");
  }
  return bindings;
}

}  // namespace tcc::driver
