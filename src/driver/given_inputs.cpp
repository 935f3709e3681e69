#include "driver/given_inputs.h"

#include <algorithm>

#include "tcc/support/npy.h"
#include "tcc/support/suggest.h"

namespace tcc::driver {

namespace {

[[noreturn]] void usage(const std::string& kind, const std::string& where, const std::string& message, const std::string& help = "") {
  throw Error(ExitCode::usage, kind, where, message, help);
}

std::string type_text(DType dtype, const Shape& shape) { return std::string(name_of(dtype)) + to_string(std::span(shape)); }

std::string numpy_name(DType dtype) {
  if (dtype == DType::boolean) return "bool_";
  const std::string name(name_of(dtype));
  return (name[0] == 'f' ? "float" : name[0] == 'u' ? "uint" : "int") + name.substr(1);
}

std::string remedy(const Tensor& tensor, const ExpectedTensor& wanted) {
  if (tensor.dtype() != wanted.dtype) {
    if (!npy_has(wanted.dtype)) return "NumPy has no " + std::string(name_of(wanted.dtype)) + ": give it as a TensorProto (.pb)";
    return "convert it in Python: x.astype(np." + numpy_name(wanted.dtype) + ")";
  }
  if (tensor.count() == num_elements(wanted.shape)) return "it has as many elements as are expected: reshape it";
  return "sizes are fixed when the model is compiled: give what it was compiled for, or compile it with other --shapes";
}

}  // namespace

GivenInputs::GivenInputs(const std::vector<ExpectedTensor>& expected, const std::string& where) : expected_(expected), where_(where) {
  for (const ExpectedTensor& tensor : expected) names_.push_back(tensor.name);
  values_.resize(expected.size());
}

size_t GivenInputs::index_of(const std::string& name) const {
  return static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
}

bool GivenInputs::give_by_name(const std::string& text, const std::set<std::string>& others) {
  const NamedText named = split_name(text, names_);
  if (!named.name.empty()) {
    give(index_of(named.name), read_tensor_file(named.rest), named.rest, "input `" + named.name + "`");
    return true;
  }
  if (!named.rest.ends_with(".npz")) return false;
  std::string unknown;
  for (auto& [name, tensor] : read_npz(named.rest)) {
    const size_t i = index_of(name);
    if (i < names_.size()) give(i, tensor, named.rest, "array `" + name + "`");
    else if (!others.contains(name)) unknown += (unknown.empty() ? "`" : ", `") + name + "`";
  }
  if (!unknown.empty()) {
    const bool several = unknown.find("`, `") != std::string::npos;
    usage("unknown-input", named.rest,
          (several ? "arrays " : "array ") + unknown + (several ? " are not inputs" : " is not an input") + " of the model",
          suggest(several ? "" : unknown.substr(1, unknown.size() - 2), "inputs", names_));
  }
  return true;
}

void GivenInputs::give_next(const std::string& path) {
  // `nme=x.npy` would otherwise be a file that is not found.
  const size_t equals = path.find('=');
  const bool looks_named = equals != std::string::npos && path.find('/') > equals;
  if (looks_named)
    usage("unknown-input", where_, "`" + path.substr(0, path.rfind('=')) + "` is not an input of the model",
          suggest(path.substr(0, path.rfind('=')), "inputs", names_));
  const auto free = std::find_if(values_.begin(), values_.end(), [](const auto& value) { return !value.has_value(); });
  if (free == values_.end())
    usage("invalid-argument", where_, "`" + path + "` is one input too many, the model has " + std::to_string(names_.size()));
  const size_t i = static_cast<size_t>(free - values_.begin());
  give(i, read_tensor_file(path), path, "input `" + names_[i] + "`");
}

void GivenInputs::give(size_t i, Tensor tensor, const std::string& file, const std::string& what) {
  if (values_[i]) usage("invalid-argument", where_, "input `" + names_[i] + "` is given twice");
  const ExpectedTensor& wanted = expected_[i];
  if (tensor.dtype() != wanted.dtype || tensor.shape() != wanted.shape) {
    misfits_.push_back({Diagnostic::Severity::error, "invalid-argument", file,
                        what + " is " + type_text(tensor.dtype(), tensor.shape()) + ", expected " + type_text(wanted.dtype, wanted.shape),
                        ""});
    misfits_.push_back({Diagnostic::Severity::help, "", file, remedy(tensor, wanted), ""});
  }
  values_[i] = std::move(tensor);
}

std::vector<std::optional<Tensor>> GivenInputs::finish() {
  if (!misfits_.empty()) throw Error(ExitCode::usage, std::move(misfits_));
  return std::move(values_);
}

}  // namespace tcc::driver
