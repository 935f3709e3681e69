// tcc verify --from=loop|kernel: the code of one unit, or of one kernel, against the interpreter of loops.

#include <algorithm>

#include "driver/trial_library.h"
#include "tcc/driver/pipeline.h"
#include "tcc/driver/read_ir.h"
#include "tcc/driver/verify.h"
#include "tcc/loop/row_padding.h"
#include "tcc/support/diagnostics.h"

namespace tcc::driver {

namespace {

template <class Form> Form only_one(std::vector<Form> forms, const Options& options, const char* what) {
  if (forms.size() == 1) return std::move(forms.front());
  throw Error(ExitCode::usage, "invalid-argument", options.model,
              "found " + std::to_string(forms.size()) + " " + what + "s, one was expected: what passes between them is not in the text",
              "cut the text, or verify the model");
}

std::variant<loop::Unit, loop::Kernel> read_text(const Options& options) {
  if (options.from == "kernel") return only_one(read_kernels(options), options, "kernel");
  return only_one(read_units(options), options, "unit");
}

/// The coarsest of the parameters' float dtypes: what lies between them is not finer in what tcc writes.
std::optional<DType> rounding_of(const std::vector<loop::Param>& params) {
  std::optional<DType> coarsest;
  for (const loop::Param& param : params) {
    const DType dtype = param.buffer->dtype;
    if (is_float(dtype) && (!coarsest || default_tolerance(dtype).rtol > default_tolerance(coarsest).rtol)) coarsest = dtype;
  }
  return coarsest;
}

}  // namespace

UnitText::UnitText(const Options& options) : options_(options), text_(read_text(options)) {}

const std::vector<loop::Param>& UnitText::params() const {
  return std::visit([](const auto& text) -> const std::vector<loop::Param>& { return text.params; }, text_);
}

std::vector<std::pair<std::string, Type>> UnitText::inputs() const {
  std::vector<std::pair<std::string, Type>> inputs;
  for (const loop::Param& param : params()) {
    if (!param.written) inputs.emplace_back(param.buffer->name, Type(param.buffer->dtype, param.buffer->padded_extents()));
  }
  return inputs;
}

Verification UnitText::verify(const std::vector<Tensor>& inputs, const VerifyOptions& verify) const {
  const TrialLibrary trial(options_, verify, [](Options options, const std::string& path) {
    options.output = path;
    Diagnostics diagnostics;
    compile(options, diagnostics);
  });
  const std::vector<Tensor> found = trial.instance().run(inputs);
  std::vector<Tensor> tensors;
  size_t next = 0;
  for (const loop::Param& param : params())
    tensors.push_back(param.written ? Tensor() : loop::without_row_padding(*param.buffer, inputs.at(next++)));
  std::visit([&](const auto& text) { loop::interpret(text, tensors); }, text_);

  Verification result;
  result.device = trial.instance().device_name();
  next = 0;
  for (size_t i = 0; i < params().size(); ++i) {
    const loop::Buffer& buffer = *params()[i].buffer;
    if (!params()[i].written) continue;
    Verification::Output output;
    output.name = buffer.name;
    output.type = Type(buffer.dtype, buffer.extents);
    if (is_float(buffer.dtype)) output.rounding = rounding_of(params());
    output.tolerance = with_options(default_tolerance(output.rounding), verify);
    output.comparison = compare(loop::without_row_padding(buffer, found.at(next++)), tensors[i], output.tolerance);
    result.passed &= output.comparison.num_wrong == 0;
    result.outputs.push_back(std::move(output));
  }
  return result;
}

}  // namespace tcc::driver
