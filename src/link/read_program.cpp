#include "tcc/link/read_program.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "tcc/runtime/checksum.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/integer_math.h"

namespace tcc::link {

namespace {

using namespace tcc::program;

[[noreturn]] void unusable(const std::string& path, const std::string& message) {
  throw Error(ExitCode::environment, "unusable-library", path, message, "compile the model again");
}

/// A file that was copied in part ends before its section headers do, which linkers write last.
void check_length(std::string_view bytes, const std::string& path) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) unusable(path, "the file is cut short: it has " + std::to_string(bytes.size()) + " bytes");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64) unusable(path, "this is not a library for x86-64");
  const uint64_t end = header.e_shoff + uint64_t{header.e_shnum} * header.e_shentsize;
  if (end < header.e_shoff || end > bytes.size()) {
    unusable(path, "the file is cut short: it has " + std::to_string(bytes.size()) + " bytes, " + std::to_string(end) + " were expected");
  }
}

std::string chip_text(const Image& image) {
  return (image.kind == ImageKind::ptx ? "PTX for sm_" : "cubin for sm_") + std::to_string(image.arch) +
         (image.arch_specific != 0 ? "a" : "");
}

class Reader {
 public:
  Reader(std::string_view file, const std::string& path) : path_(path) {
    const size_t at = find(file);
    std::memcpy(&header_, file.data() + at, sizeof header_);
    const char* tables = file.data() + at + sizeof header_;
    if (header_.header_checksum != header_checksum(header_) ||
        header_.tables_checksum != checksum(tables, header_.program_bytes - sizeof header_))
      unusable(path, "the program inside this library is damaged: its checksum is another");
    bytes_ = file.substr(at, header_.program_bytes);
    file_bytes_ = static_cast<int64_t>(file.size());
  }

  LibraryContents run() {
    LibraryContents contents;
    contents.file_bytes = file_bytes_;
    contents.model_name = text(header_.model_name);
    read_about(text(header_.compiler), &contents);
    contents.weights_embedded = header_.weights_embedded != 0;
    contents.weights_bytes = static_cast<int64_t>(header_.weights_bytes);
    contents.weights_hash = header_.weights_hash;
    contents.accumulate = header_.accumulate;
    contents.state_bytes = static_cast<int64_t>(header_.state_bytes);
    contents.gradient_bytes = static_cast<int64_t>(header_.gradient_bytes);
    extents_ = rows<int64_t>(header_.extents);
    weights_ = rows<program::Tensor>(header_.weights);
    const std::vector<program::Tensor> tensors = rows<program::Tensor>(header_.tensors);
    for (const Function& function : rows<Function>(header_.functions)) {
      contents.functions.push_back({text(function.name), part(tensors, function.inputs), part(tensors, function.outputs)});
    }
    if (contents.functions.empty()) damaged();
    contents.weights = part(weights_, {0, static_cast<uint32_t>(weights_.size())});
    for (const program::StateTensor& tensor : rows<program::StateTensor>(header_.state)) {
      if (static_cast<uint32_t>(tensor.role) > static_cast<uint32_t>(program::StateRole::buffer)) damaged();
      contents.state.push_back({named(tensor.name, tensor.dtype, tensor.shape, tensor.size_bytes),
                                static_cast<tcc::StateRole>(static_cast<uint32_t>(tensor.role)), tensor.trained != 0});
    }
    for (const program::Scalar& scalar : rows<program::Scalar>(header_.scalars)) {
      const DType dtype = dtype_of(scalar.dtype);
      tcc::Tensor value(dtype, {});
      std::memcpy(value.mutable_bytes(), &scalar.default_bits, static_cast<size_t>(tcc::size_bytes(dtype)));
      contents.scalars.push_back({text(scalar.name), dtype, value.as_double(0)});
    }
    for (const Target& target : rows<Target>(header_.targets)) contents.targets.push_back(read(target, contents));
    return contents;
  }

 private:
  [[noreturn]] void damaged() const { unusable(path_, "the library is damaged: a table of its program leads out of it"); }

  /// The program lies somewhere among the constants; it begins with its mark.
  size_t find(std::string_view file) const {
    bool other_version = false;
    const std::string_view magic(kMagic, sizeof kMagic);
    for (size_t at = file.find(magic); at != std::string_view::npos; at = file.find(magic, at + 1)) {
      Header header;
      if (at % 8 != 0 || file.size() - at < sizeof header) continue;
      std::memcpy(&header, file.data() + at, sizeof header);
      if (header.version != kVersion || header.header_bytes != sizeof header) {
        other_version |= header.version < 1000 && header.header_bytes < 4096;
        continue;
      }
      if (header.program_bytes >= sizeof header && header.program_bytes <= file.size() - at) return at;
    }
    unusable(path_, other_version ? "the library was made by another version of tcc" : "this library was not made by tcc");
  }

  template <class T> std::vector<T> rows(const Table& table) const {
    if (table.count > 0 && table.stride != sizeof(T)) damaged();
    const uint64_t size = uint64_t{table.count} * sizeof(T);
    if (table.offset > bytes_.size() || size > bytes_.size() - table.offset) damaged();
    std::vector<T> rows(table.count);
    if (size > 0) std::memcpy(rows.data(), bytes_.data() + table.offset, size);
    return rows;
  }

  std::string text(const Text& text) const {
    if (text.offset > bytes_.size() || text.size > bytes_.size() - text.offset) damaged();
    return std::string(bytes_.substr(text.offset, text.size));
  }

  DType dtype_of(uint32_t dtype) const {
    if (dtype > static_cast<uint32_t>(kNumDTypes - 1)) damaged();
    return static_cast<DType>(dtype);
  }

  LibraryTensor named(const Text& name, uint32_t dtype, Span shape, uint64_t size_bytes) const {
    if (shape.first > extents_.size() || shape.count > extents_.size() - shape.first) damaged();
    const auto begin = extents_.begin() + shape.first;
    return {text(name), dtype_of(dtype), Shape(begin, begin + shape.count), static_cast<int64_t>(size_bytes)};
  }

  std::vector<LibraryTensor> part(const std::vector<program::Tensor>& tensors, Span span) const {
    if (span.first > tensors.size() || span.count > tensors.size() - span.first) damaged();
    std::vector<LibraryTensor> result;
    for (uint32_t i = 0; i < span.count; ++i) {
      const program::Tensor& tensor = tensors[span.first + i];
      result.push_back(named(tensor.name, tensor.dtype, tensor.shape, tensor.size_bytes));
    }
    return result;
  }

  /// The first line names the compiler, the others are a word and its value.
  static void read_about(const std::string& text, LibraryContents* contents) {
    size_t at = std::min(text.find('\n'), text.size());
    contents->compiler = text.substr(0, at);
    while (at < text.size()) {
      const size_t end = std::min(text.find('\n', at + 1), text.size());
      const std::string line = text.substr(at + 1, end - at - 1);
      const size_t blank = std::min(line.find(' '), line.size());
      contents->about.emplace_back(line.substr(0, blank), line.substr(std::min(blank + 1, line.size())));
      at = end;
    }
  }

  LibraryTarget read(const Target& target, const LibraryContents& contents) const {
    LibraryTarget result;
    result.kind = target.kind;
    if (target.kind != TargetKind::cpu && target.kind != TargetKind::cuda) damaged();
    result.num_kernels = target.kernels.count;
    for (const CpuLevel level : rows<CpuLevel>(target.levels))
      result.code.push_back("x86-64-v" + std::to_string(static_cast<uint32_t>(level)));
    const std::vector<Image> images = rows<Image>(target.images);
    for (const uint32_t image : rows<uint32_t>(target.image_choices)) {
      // Kernels of different groups have images of their own; a chip is named once. Those of other targets are not named.
      if (image >= images.size()) damaged();
      const std::string chip = chip_text(images[image]);
      if (std::find(result.code.begin(), result.code.end(), chip) == result.code.end()) result.code.push_back(chip);
    }
    const std::vector<FunctionCode> codes = rows<FunctionCode>(target.functions);
    if (codes.size() != contents.functions.size()) damaged();
    result.prepared_bytes = static_cast<int64_t>(target.prepared_bytes);
    const int64_t shared =
        weights_bytes(codes) + result.prepared_bytes + static_cast<int64_t>(state_block_bytes(header_.state_bytes, header_.scalars.count));
    for (const FunctionCode& code : codes) {
      bool gradients = false;
      for (const Buffer& buffer : rows<Buffer>(code.buffers)) gradients |= buffer.kind == BufferKind::state && buffer.index == 1;
      const auto arena = static_cast<int64_t>(code.arena_bytes);
      result.plans.push_back({code.launches.count, arena, shared + arena + (gradients ? contents.gradient_bytes : 0)});
    }
    return result;
  }

  /// What an instance allocates for weights; see planned_memory().
  int64_t weights_bytes(const std::vector<FunctionCode>& codes) const {
    std::set<uint64_t> counted;
    int64_t bytes = 0;
    for (const FunctionCode& code : codes) {
      for (const Buffer& buffer : rows<Buffer>(code.buffers)) {
        if (buffer.kind != BufferKind::weight) continue;
        if (buffer.index >= weights_.size()) damaged();
        const program::Tensor& weight = weights_[buffer.index];
        if (weight.size_bytes > 0 && counted.insert(weight.offset).second)
          bytes += static_cast<int64_t>(align_up(weight.size_bytes, uint64_t{256}));
      }
    }
    return bytes;
  }

  std::string path_;
  Header header_ = {};
  std::string_view bytes_;
  int64_t file_bytes_ = 0;
  std::vector<int64_t> extents_;
  std::vector<program::Tensor> weights_;
};

}  // namespace

LibraryContents read_library(std::string_view bytes, const std::string& path) {
  check_length(bytes, path);
  return Reader(bytes, path).run();
}

}  // namespace tcc::link
