// The layout of torch 2.9 and later: models/NAME.json is the program, data/weights/NAME_weights_config.json and
// data/constants/NAME_constants_config.json say in which entry each tensor lies. Source: torch/export/pt2_archive.
#include "frontend/fx/read_archive.h"

#include <nlohmann/json.hpp>

#include "frontend/fx/read_program.h"
#include "frontend/fx/strided.h"
#include "tcc/graph/graph.h"
#include "tcc/graph/rule_error.h"

namespace tcc::fx {

namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(Diagnostics& diagnostics, const std::string& file, const std::string& message, const std::string& help) {
  diagnostics.not_supported("unsupported-format", file, message);
  diagnostics.help(file, help);
  diagnostics.checkpoint(ExitCode::model);
  internal_error("a refusal was not thrown");
}

bool has_below(const Archive& archive, std::string_view folder) {
  return std::any_of(archive.names().begin(), archive.names().end(), [&](const std::string& name) { return name.starts_with(folder); });
}

/// What a zip is that holds no program.
[[noreturn]] void refuse_other_zip(const Archive& archive, Diagnostics& diagnostics) {
  const std::string& file = archive.file();
  const char* export_it = "export the module: torch.export.save(torch.export.export(module, args), 'model.pt2')";
  if (has_below(archive, "data/aotinductor/"))
    refuse(diagnostics, file, "this is a package of AOTInductor: it holds compiled code, and no graph", export_it);
  if (archive.has("serialized_exported_program.json") || archive.has("exported_program.json"))
    refuse(diagnostics, file, "this is an archive of torch 2.7 or older, whose weights are pickled",
           "save the program again with torch 2.9 or later");
  refuse(diagnostics, file, "this is a zip archive without a program of torch.export",
         "models are ONNX files and torch.export archives (.pt2)");
}

int64_t integer_at(const Json& json, const char* key) { return json.at(key).at("as_int").get<int64_t>(); }

StoredTensor read_entry(const Json& json, const std::string& folder) {
  StoredTensor stored;
  stored.entry = folder + json.at("path_name").get<std::string>();
  stored.pickled = json.value("use_pickle", false);
  if (stored.pickled || json.at("tensor_meta").is_null()) {
    stored.pickled = true;
    return stored;
  }
  const Json& meta = json.at("tensor_meta");
  stored.meta = read_tensor_meta(meta);
  for (const Json& stride : meta.at("strides")) stored.strides.push_back(stride.at("as_int").get<int64_t>());
  stored.offset = integer_at(meta, "storage_offset");
  return stored;
}

void read_table(const Archive& archive, const std::string& folder, const std::string& entry, ArchiveIndex& index) {
  if (!archive.has(entry)) return;
  const std::string where = archive.file() + ":" + entry;
  const Json json = parse_json(archive.read(entry).text(), where);
  try {
    for (const auto& [name, value] : json.at("config").items()) {
      if (!index.tensors.emplace(name, read_entry(value, folder)).second)
        throw Error(ExitCode::model, "malformed-file", where, "the tensor `" + name + "` is listed twice");
    }
  } catch (const Json::exception& error) {
    throw Error(ExitCode::model, "malformed-file", where, std::string("not a table of tensors: ") + error.what());
  } catch (const RuleError& error) { throw Error(ExitCode::model, error.kind, where, error.message); }
}

}  // namespace

ArchiveIndex read_index(const Archive& archive, Diagnostics& diagnostics) {
  std::vector<std::string> programs;
  for (const std::string& name : archive.names()) {
    if (name.starts_with("models/") && name.ends_with(".json")) programs.push_back(name);
  }
  if (programs.empty()) refuse_other_zip(archive, diagnostics);
  if (programs.size() > 1) {
    std::string list;
    for (const std::string& name : programs) list += (list.empty() ? "`" : ", `") + name + "`";
    refuse(diagnostics, archive.file(), "the archive holds several models: " + list, "save one model in an archive");
  }
  if (archive.has("byteorder") && archive.read("byteorder").text() != "little")
    refuse(diagnostics, archive.file(), "the archive was written on a machine of another byte order", "save it on a little-endian machine");
  ArchiveIndex index;
  index.program = programs[0];
  index.model = index.program.substr(7, index.program.size() - 7 - 5);
  read_table(archive, "data/weights/", "data/weights/" + index.model + "_weights_config.json", index);
  read_table(archive, "data/constants/", "data/constants/" + index.model + "_constants_config.json", index);
  return index;
}

Tensor read_tensor(const Archive& archive, const StoredTensor& stored, const std::string& name) {
  if (!stored.meta.dtype) throw RuleError{"unsupported-dtype", "the tensor `" + name + "` is " + stored.meta.dtype_name};
  const DType dtype = *stored.meta.dtype;
  Shape shape;
  for (const SizeExpr& size : stored.meta.sizes) {
    const auto extent = evaluate(size, {});
    if (!extent) throw RuleError{"malformed-file", "the tensor `" + name + "` has a size that is not known"};
    shape.push_back(*extent);
  }
  if (stored.strides.size() != shape.size())
    throw RuleError{"malformed-file", "the tensor `" + name + "` has as many strides as it has not axes"};
  const EntryBytes entry = archive.read(stored.entry);
  if (entry.bytes.empty() && num_elements(shape) > 0)
    throw RuleError{"malformed-file", "the tensor `" + name + "` has no bytes: the program was exported with fake weights"};
  return read_strided({dtype, shape, stored.strides, stored.offset}, entry.bytes, entry.owner, name);
}

}  // namespace tcc::fx
