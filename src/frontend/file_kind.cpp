#include "tcc/frontend/file_kind.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace tcc {

namespace {

using std::string_view_literals::operator""sv;

constexpr FileFormat kModel = FileFormat::other_model;
constexpr const char* kFromTorch = "export the model: torch.onnx.export(model, args, 'net.onnx', dynamo=True)";
constexpr const char* kUnpack = "unpack it and pass the .onnx file in it";

struct Mark {
  size_t offset;
  std::string_view bytes;
  const char* what;
  const char* remedy;
  FileFormat format = FileFormat::other;
};

constexpr auto kMarks = std::to_array<Mark>({
    {4, "TFL3"sv, "a TensorFlow Lite model (.tflite)",
     "convert it with tf2onnx: python -m tf2onnx.convert --tflite net.tflite --output net.onnx", kModel},
    {0, "GGUF"sv, "a GGUF file, weights for llama.cpp", "export the model that it was made from to ONNX", kModel},
    {0, "ggml"sv, "a GGML file, weights for llama.cpp", "export the model that it was made from to ONNX", kModel},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file, as Keras saves models",
     "convert it with tf2onnx: python -m tf2onnx.convert --keras net.h5 --output net.onnx", kModel},
    {0, "ftrt"sv, "a TensorRT engine", "pass the .onnx file that it was built from", kModel},
    {0, "\x93NUMPY"sv, "a NumPy array (.npy)", "pass the model here, arrays with --bind or --input", FileFormat::other},
    {0,
     "\x7f"
     "ELF"sv,
     "an ELF file: a compiled library or program", "a library that tcc made is run with `tcc run`, timed with `tcc bench`",
     FileFormat::elf},
    {0, "\x1f\x8b"sv, "a gzip archive", kUnpack, FileFormat::other},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "an xz archive", kUnpack, FileFormat::other},
    {0, "\x28\xb5\x2f\xfd"sv, "a zstd archive", kUnpack, FileFormat::other},
    {0, "BZh"sv, "a bzip2 archive", kUnpack, FileFormat::other},
    {257, "ustar"sv, "a tar archive", kUnpack, FileFormat::other},
    {0, "version https://git-lfs"sv, "a git-lfs pointer, not the model itself", "run `git lfs pull`", FileFormat::other},
    {0, "<!DOCTYPE"sv, "a web page", "the download brought a page in place of the model: check its address", FileFormat::other},
    {0, "<!doctype"sv, "a web page", "the download brought a page in place of the model: check its address", FileFormat::other},
    {0, "<html"sv, "a web page", "the download brought a page in place of the model: check its address", FileFormat::other},
    {0, "<?xml"sv, "XML, as OpenVINO keeps models", "pass the .onnx file that it was made from", kModel},
});

/// A protocol 2 to 5 pickle: what torch.save wrote before it wrote archives.
bool is_pickle(std::string_view bytes) {
  return bytes.size() > 3 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 &&
         (bytes[2] == '\x8a' || bytes[2] == '}' || bytes[2] == 'c' || bytes[2] == '\x95');
}

/// An eight-byte length, then a JSON object of that length.
bool is_safetensors(std::string_view bytes) {
  if (bytes.size() < 10 || bytes[8] != '{') return false;
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return length >= 2 && length <= bytes.size() - 8 && length < (uint64_t{1} << 30);
}

/// The names in an archive stand in front of each file and again at the end: whether one of the first or last holds that text.
bool archive_names(std::string_view bytes, std::string_view text) {
  constexpr size_t kLookedAt = 1 << 16;
  if (bytes.substr(0, kLookedAt).find(text) != std::string_view::npos) return true;
  return bytes.size() > kLookedAt && bytes.substr(bytes.size() - kLookedAt).find(text) != std::string_view::npos;
}

FileKind archive_kind(std::string_view bytes) {
  if (archive_names(bytes, "serialized_exported_program") || archive_names(bytes, "archive_format") ||
      archive_names(bytes, "models/model.json") || archive_names(bytes, "data/aotinductor/"))
    return {"a torch.export archive (.pt2)", kFromTorch, FileFormat::torch_archive};
  if (archive_names(bytes, "constants.pkl"))
    return {"a TorchScript archive", std::string("load the Python model and ") + kFromTorch, kModel};
  if (archive_names(bytes, "data.pkl"))
    return {"what torch.save wrote (.pt, .pth): weights or a pickled module, not a program",
            std::string("load it into the Python model, then ") + kFromTorch, kModel};
  if (archive_names(bytes, "model.weights.h5"))
    return {"a Keras model (.keras)", "export it: model.export('net.onnx', format='onnx')", kModel};
  if (archive_names(bytes, ".npy"))
    return {"an archive of arrays (.npz)", "pass the model here, arrays with --bind or --input", FileFormat::other};
  return {"a zip archive", kUnpack, FileFormat::other};
}

bool is_text(std::string_view bytes) {
  for (const char c : bytes.substr(0, 256)) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20 && c != '\n' && c != '\t' && c != '\r') return false;
  }
  return true;
}

/// The text behind blank lines and comments.
std::string_view first_word_on(std::string_view text) {
  while (true) {
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return "";
    text.remove_prefix(begin);
    if (!text.starts_with("//")) return text;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
}

/// Whether "format" and "tcc.fx" stand near the beginning of an object: keys may come in any order, but no writer puts graphs in front.
bool is_fx_json(std::string_view text) {
  if (!text.starts_with('{')) return false;
  const std::string_view beginning = text.substr(0, 1 << 16);
  const size_t key = beginning.find("\"format\"");
  if (key == std::string_view::npos) return false;
  const size_t colon = beginning.find_first_not_of(" \t\r\n", key + 8);
  if (colon == std::string_view::npos || beginning[colon] != ':') return false;
  const size_t value = beginning.find_first_not_of(" \t\r\n", colon + 1);
  return value != std::string_view::npos && beginning.substr(value).starts_with("\"tcc.fx\"");
}

std::optional<FileKind> text_kind(std::string_view bytes) {
  const std::string_view text = first_word_on(bytes);
  if (is_fx_json(text)) return FileKind{"tcc.fx JSON", "see docs/fx_json.md", FileFormat::fx_json};
  if (text.starts_with('{') || text.starts_with("[{"))
    return FileKind{"JSON (a torch.export program or a configuration)", kFromTorch, FileFormat::torch_json};
  if (text.starts_with("graph @") || text.starts_with("weights \""))
    return FileKind{"a graph that tcc printed", "name its form: --from=graph or --from=prims", FileFormat::graph_text};
  if (text.starts_with("unit ") || text.starts_with("unit("))
    return FileKind{"loops that tcc printed", "name their form: --from=loop", FileFormat::loop_text};
  if (text.starts_with("kernel ") || text.starts_with("kernel("))
    return FileKind{"kernels that tcc printed", "name their form: --from=kernel", FileFormat::kernel_text};
  if (text.starts_with("module") || text.starts_with("func.func") || text.starts_with("#"))
    if (text.find("func.func") != std::string_view::npos || text.starts_with("module @") || text.starts_with("module {"))
      return FileKind{"MLIR text", "pass the .onnx file that it was made from", kModel};
  if (text.starts_with("ir_version") || (text.starts_with('<') && text.find("ir_version") != std::string_view::npos))
    return FileKind{"an ONNX model as text", "write it as bytes: onnx.save(onnx.load('net.txt'), 'net.onnx')", kModel};
  return std::nullopt;
}

}  // namespace

std::optional<FileKind> foreign_kind(std::string_view bytes) {
  for (const Mark& mark : kMarks) {
    if (bytes.size() > mark.offset && bytes.substr(mark.offset).starts_with(mark.bytes))
      return FileKind{mark.what, mark.remedy, mark.format};
  }
  if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("PK\x05\x06")) return archive_kind(bytes);
  if (is_safetensors(bytes)) {
    return FileKind{"a safetensors file: weights, not a program", std::string("load it into the Python model, then ") + kFromTorch,
                    FileFormat::safetensors};
  }
  if (is_pickle(bytes)) {
    return FileKind{"a pickle, as torch.save wrote it: weights or a module, not a program",
                    std::string("load it into the Python model, then ") + kFromTorch, kModel};
  }
  return is_text(bytes) ? text_kind(bytes) : std::nullopt;
}

}  // namespace tcc
