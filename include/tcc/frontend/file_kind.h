// What a file is that is not an ONNX model: so that a message names it, and says how to come to one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tcc {

/// What else tcc has to do with a file of a kind.
enum class FileFormat {
  other_model,    ///< a model of another format
  torch_archive,  ///< of torch.export
  torch_json,     ///< a program of torch.export, maybe
  fx_json,        ///< tcc.fx
  graph_text,     ///< what --from takes
  loop_text,
  kernel_text,
  safetensors,  ///< weights or state
  elf,          ///< a library, maybe one of ours
  other,
};

struct FileKind {
  std::string what;    ///< "a TensorFlow Lite model"
  std::string remedy;  ///< what to do
  FileFormat format = FileFormat::other;
};

/// By the first bytes, of an archive also by the names in it; nothing for what may be an ONNX model, which has no mark of its own.
std::optional<FileKind> foreign_kind(std::string_view bytes);

}  // namespace tcc
