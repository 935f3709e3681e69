#include "driver/array_files.h"

#include <algorithm>
#include <optional>

#include "tcc/frontend/tensor_file.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/npy.h"
#include "tcc/support/random.h"

namespace tcc::driver {

namespace {

[[noreturn]] void usage(const std::string& kind, const std::string& where, const std::string& message, const std::string& help = "") {
  throw Error(ExitCode::usage, kind, where, message, help);
}

std::string list_of(const std::vector<ExpectedTensor>& expected) {
  std::string text;
  for (const ExpectedTensor& tensor : expected) text += (text.empty() ? "`" : ", `") + tensor.name + "`";
  return text;
}

}  // namespace

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

std::vector<Tensor> gather_inputs(const std::vector<ExpectedTensor>& expected, const InputOptions& options, const std::string& where) {
  std::vector<std::string> names;
  for (const ExpectedTensor& tensor : expected) names.push_back(tensor.name);
  std::vector<std::optional<Tensor>> values(expected.size());
  const auto give = [&](size_t i, Tensor tensor) {
    if (values[i]) usage("invalid-argument", where, "input `" + names[i] + "` is given twice");
    values[i] = std::move(tensor);
  };
  // Named ones first, so that the others fill the places that are left, in order.
  std::vector<std::string> in_order;
  for (const std::string& text : options.inputs) {
    const NamedText named = split_name(text, names);
    const bool takes_name = !named.name.empty();
    if (!takes_name && named.rest.ends_with(".npz")) {
      for (auto& [name, tensor] : read_npz(named.rest)) {
        const auto at = std::find(names.begin(), names.end(), name);
        if (at == names.end())
          usage("unknown-input", named.rest, "array `" + name + "` is no input of the model", "inputs are " + list_of(expected));
        give(static_cast<size_t>(at - names.begin()), tensor);
      }
    } else if (takes_name) {
      const auto at = std::find(names.begin(), names.end(), named.name);
      give(static_cast<size_t>(at - names.begin()), read_tensor_file(named.rest));
    } else {
      in_order.push_back(named.rest);
    }
  }
  for (const std::string& path : in_order) {
    // `nme=x.npy` would otherwise be a file that is not found.
    const size_t equals = path.find('=');
    const bool looks_named = equals != std::string::npos && path.find('/') > equals;
    if (looks_named)
      usage("unknown-input", where, "`" + path.substr(0, path.rfind('=')) + "` is no input of the model",
            "inputs are " + list_of(expected));
    const auto free = std::find_if(values.begin(), values.end(), [](const auto& value) { return !value.has_value(); });
    if (free == values.end())
      usage("invalid-argument", where, "`" + path + "` is one input too many, the model has " + std::to_string(names.size()));
    *free = read_tensor_file(path);
  }
  std::vector<Diagnostic> missing;
  std::vector<Tensor> result;
  for (size_t i = 0; i < values.size(); ++i) {
    const ExpectedTensor& wanted = expected[i];
    if (!values[i] && options.random) values[i] = random_tensor(wanted.dtype, wanted.shape, options.seed, i);
    if (values[i]) {
      result.push_back(*values[i]);
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

Tensor random_tensor(DType dtype, const Shape& shape, uint64_t seed, uint64_t stream) {
  const RandomStream random{.seed = seed, .stream = stream, .base = 0};
  return is_float(dtype) ? random_normal(dtype, shape, random) : random_integers(dtype, shape, random, 0, 2);
}

}  // namespace tcc::driver
