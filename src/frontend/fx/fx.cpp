#include "frontend/fx/fx.h"

#include "frontend/fx/importer.h"
#include "frontend/fx/read_archive.h"
#include "frontend/fx/read_program.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

std::unique_ptr<Graph> import_archive(const ModelFile& file, const ImportOptions& options, Diagnostics& diagnostics) {
  const Archive archive(file.name, file.bytes, file.owner);
  const ArchiveIndex index = read_index(archive, diagnostics);
  const EntryBytes text = archive.read(index.program);
  Program program = read_program(text.text(), file.name);
  program.name = index.model;
  std::map<std::string, Tensor> read;  // asked for twice: once whether it is there
  const WeightSource weights = [&](const InputSpec& input, const TensorMeta&) -> std::optional<Tensor> {
    if (const auto found = read.find(input.target); found != read.end()) return found->second;
    const auto stored = index.tensors.find(input.target);
    if (stored == index.tensors.end())
      throw Error(ExitCode::model, "malformed-file", file.name + ":" + input.target, "the archive has no tensor `" + input.target + "`");
    if (stored->second.pickled) {
      Diagnostics refusal;
      refusal.not_supported("unsupported-format", file.name + ":" + input.target, "the tensor is pickled, by " + program.producer);
      refusal.help(file.name, "save the program again with torch 2.9 or later");
      refusal.checkpoint(ExitCode::model);
    }
    try {
      return read.emplace(input.target, read_tensor(archive, stored->second, input.target)).first->second;
    } catch (const RuleError& error) { throw Error(ExitCode::model, error.kind, file.name + ":" + input.target, error.message); }
  };
  return Importer(program, file.name, weights, options, diagnostics).run();
}

std::unique_ptr<Graph> import_json(const ModelFile& file, const ImportOptions& options, Diagnostics& diagnostics) {
  const Program program = read_program(file.text(), file.name);
  const WeightSource weights = [&](const InputSpec& input, const TensorMeta&) -> std::optional<Tensor> {
    return options.parameters == nullptr ? std::nullopt : options.parameters(input.target);
  };
  return Importer(program, file.name, weights, options, diagnostics).run();
}

}  // namespace tcc::fx
