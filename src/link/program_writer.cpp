#include "link/program_writer.h"

#include <cstring>
#include <map>
#include <type_traits>
#include <unordered_map>

#include "link/check_program.h"
#include "tcc/runtime/checksum.h"
#include "tcc/support/integer_math.h"

namespace tcc::link {

using namespace tcc::program;

namespace {

// A program is compared and hashed as bytes: no struct of it may have bytes that nothing sets.
template <class... T> constexpr bool no_padding = (std::has_unique_object_representations_v<T> && ...);
static_assert(no_padding<Header, Function, program::Tensor, program::StateTensor, Section, Scalar, Target, program::FunctionCode, Buffer,
                         Kernel, Image, Launch, Check, WeightsFileHeader>);

// The bytes of one element, in the low bytes.
uint64_t element_bits(DType dtype, double value) {
  const tcc::Tensor element = tcc::Tensor::scalar(dtype, value);
  uint64_t bits = 0;
  std::memcpy(&bits, element.bytes(), static_cast<size_t>(size_bytes(dtype)));
  return bits;
}

class Writer {
 public:
  Text text(std::string_view string) {
    const auto [place, added] = texts_.try_emplace(std::string(string), texts_bytes_.size());
    if (added) texts_bytes_.append(string).push_back('\0');
    // Texts stand right behind the header, so their places are known before the tables are.
    return {sizeof(Header) + place->second, static_cast<uint32_t>(string.size()), 0};
  }

  Span extents(const Shape& shape) {
    const Span span = {static_cast<uint32_t>(extents_.size()), static_cast<uint32_t>(shape.size())};
    extents_.insert(extents_.end(), shape.begin(), shape.end());
    return span;
  }

  std::vector<program::Tensor> tensors(const std::vector<TensorDesc>& descs, const std::vector<uint64_t>* offsets) {
    std::vector<program::Tensor> rows;
    for (size_t i = 0; i < descs.size(); i++) {
      program::Tensor row = {};
      row.name = text(descs[i].name);
      row.dtype = static_cast<uint32_t>(descs[i].dtype);
      row.shape = extents(descs[i].shape);
      row.alignment = descs[i].alignment;
      row.offset = offsets ? (*offsets)[i] : 0;
      row.size_bytes = static_cast<uint64_t>(storage_bytes(descs[i].dtype, num_elements(descs[i].shape)));
      const IntRange range = descs[i].range.value_or(IntRange{1, 0});
      row.low = range.low;
      row.high = range.high;
      rows.push_back(row);
    }
    return rows;
  }

  // Tables are kept until all texts are known.
  struct FunctionRows {
    uint64_t arena_bytes = 0, sum_of_buffers = 0;
    std::vector<Buffer> buffers;
    std::vector<Launch> launches;
    std::vector<uint32_t> arguments;
    std::vector<Check> checks;
  };
  struct TargetRows {
    Target target = {};
    std::vector<CpuLevel> levels;
    std::vector<Kernel> kernels;
    std::vector<Image> images;
    std::vector<uint32_t> image_choices;
    std::vector<program::TensorMap> tensor_maps;
    std::vector<FunctionRows> functions;
    std::vector<FunctionRows> preparation;  ///< one, or none
  };

  TargetRows target(const TargetDesc& desc, const std::vector<CudaImage>& images) {
    const bool cuda = desc.kind == TargetKind::cuda;
    TargetRows rows;
    rows.target.kind = desc.kind;
    rows.target.io_alignment = desc.io_alignment ? desc.io_alignment : cuda ? 16 : 0;
    rows.target.arena_alignment = desc.arena_alignment;
    rows.target.num_levels = static_cast<uint32_t>(desc.levels.size());
    rows.levels = desc.levels;
    for (const KernelDesc& kernel : desc.kernels) {
      Kernel row = {};
      row.name = text(kernel.name);
      row.num_buffers = kernel.num_buffers;
      row.threads = kernel.threads;
      row.shared_bytes = kernel.shared_bytes;
      row.cluster = 1;
      row.images = {static_cast<uint32_t>(rows.image_choices.size()), static_cast<uint32_t>(kernel.images.size())};
      rows.image_choices.insert(rows.image_choices.end(), kernel.images.begin(), kernel.images.end());
      row.tensor_maps = {static_cast<uint32_t>(rows.tensor_maps.size()), static_cast<uint32_t>(kernel.tensor_maps.size())};
      rows.tensor_maps.insert(rows.tensor_maps.end(), kernel.tensor_maps.begin(), kernel.tensor_maps.end());
      rows.kernels.push_back(row);
    }
    uint64_t offset = 0;
    for (const CudaImage& image : images) {
      if (!cuda) break;
      // A PTX text ends with a NUL, which the string has behind its end.
      rows.images.push_back({image.kind, image.arch, image.arch_specific ? 1u : 0u, 0, offset, image_size_bytes(image),
                             checksum(image.bytes.c_str(), image_size_bytes(image))});
      offset += align_up(image_size_bytes(image), kImageAlignment);
    }
    for (const link::FunctionCode& code : desc.functions) rows.functions.push_back(function_code(code));
    if (!desc.preparation.launches.empty()) rows.preparation.push_back(function_code(desc.preparation));
    rows.target.prepared_bytes = desc.prepared_bytes;
    return rows;
  }

  FunctionRows function_code(const link::FunctionCode& code) {
    FunctionRows rows;
    rows.arena_bytes = code.arena_bytes;
    rows.sum_of_buffers = code.sum_of_buffers;
    for (const BufferDesc& buffer : code.buffers) rows.buffers.push_back({buffer.kind, buffer.index, buffer.offset, buffer.size_bytes});
    for (const LaunchDesc& launch : code.launches) {
      Launch row = {};
      row.kind = launch.kind;
      row.kernel = launch.kernel;
      row.label = text(launch.label);
      row.grid = launch.grid;
      row.arguments = {static_cast<uint32_t>(rows.arguments.size()), static_cast<uint32_t>(launch.arguments.size())};
      row.size_bytes = launch.size_bytes;
      row.pattern = launch.pattern;
      row.pattern_bytes = launch.pattern_bytes;
      row.cost_ns = launch.cost_ns;
      rows.arguments.insert(rows.arguments.end(), launch.arguments.begin(), launch.arguments.end());
      rows.launches.push_back(row);
    }
    for (const CheckDesc& check : code.checks) rows.checks.push_back({text(check.index), text(check.place), check.low, check.high});
    return rows;
  }

  // Views have no row: they are for the compiler. `first_initial`: the row in the weights of the first tensor with contents of its own.
  std::vector<program::StateTensor> state(const StateLayout& layout, uint32_t first_initial) {
    std::vector<program::StateTensor> rows;
    std::map<std::string, uint32_t> initial_of;
    for (const tcc::StateTensor& tensor : layout.tensors) {
      if (is_stored(tensor)) initial_of[tensor.name] = first_initial++;
    }
    for (const tcc::StateTensor& tensor : layout.tensors) {
      if (tensor.view) continue;
      program::StateTensor row = {};
      row.name = text(tensor.name);
      row.role = static_cast<program::StateRole>(tensor.role);
      row.dtype = static_cast<uint32_t>(tensor.dtype);
      row.shape = extents(tensor.shape);
      row.section = static_cast<uint32_t>(tensor.section);
      row.trained = tensor.trained;
      row.offset = static_cast<uint64_t>(tensor.offset);
      row.size_bytes = static_cast<uint64_t>(tensor.size_bytes());
      const auto initial = initial_of.find(tensor.converted_from.empty() ? tensor.name : tensor.converted_from);
      row.initial = initial == initial_of.end() ? kNoWeight : initial->second;
      row.pattern_bytes = static_cast<uint32_t>(size_bytes(tensor.dtype));
      row.pattern = element_bits(tensor.dtype, tensor.fill);
      rows.push_back(row);
    }
    return rows;
  }

  std::vector<Section> sections(const StateLayout& layout) {
    std::vector<Section> rows;
    for (const StateSection& section : layout.sections) {
      rows.push_back({text(section.name), static_cast<program::StateRole>(section.role), static_cast<uint32_t>(section.dtype),
                      static_cast<uint64_t>(section.offset), static_cast<uint64_t>(section.size_bytes)});
    }
    return rows;
  }

  std::vector<Scalar> scalars(const std::vector<ScalarDesc>& descs) {
    std::vector<Scalar> rows;
    for (const ScalarDesc& desc : descs)
      rows.push_back({text(desc.name), static_cast<uint32_t>(desc.dtype), 0, element_bits(desc.dtype, desc.value)});
    return rows;
  }

  void begin_tables() {
    bytes_.assign(sizeof(Header), '\0');
    bytes_ += texts_bytes_;
  }

  template <class T> Table table(const std::vector<T>& rows) {
    bytes_.resize(align_up(bytes_.size(), size_t{8}));
    const Table table = {bytes_.size(), static_cast<uint32_t>(rows.size()), sizeof(T)};
    if (!rows.empty()) bytes_.append(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(T));
    return table;
  }

  std::vector<program::FunctionCode> finish(const std::vector<FunctionRows>& codes) {
    std::vector<program::FunctionCode> rows;
    for (const FunctionRows& code : codes) {
      rows.push_back(
          {code.arena_bytes, code.sum_of_buffers, table(code.buffers), table(code.launches), table(code.arguments), table(code.checks)});
    }
    return rows;
  }

  Target finish(const TargetRows& rows) {
    Target target = rows.target;
    target.levels = table(rows.levels);
    target.kernels = table(rows.kernels);
    target.images = table(rows.images);
    target.image_choices = table(rows.image_choices);
    target.tensor_maps = table(rows.tensor_maps);
    target.functions = table(finish(rows.functions));
    target.preparation = table(finish(rows.preparation));
    return target;
  }

  const std::vector<int64_t>& extents() const { return extents_; }

  std::string finish(Header header) {
    header.program_bytes = bytes_.size();
    header.tables_checksum = checksum(bytes_.data() + sizeof header, bytes_.size() - sizeof header);
    header.header_checksum = header_checksum(header);
    std::memcpy(bytes_.data(), &header, sizeof header);
    return std::move(bytes_);
  }

 private:
  std::unordered_map<std::string, uint64_t> texts_;
  std::string texts_bytes_;
  std::vector<int64_t> extents_;
  std::string bytes_;
};

}  // namespace

uint64_t image_size_bytes(const CudaImage& image) { return image.bytes.size() + (image.kind == ImageKind::ptx ? 1 : 0); }

std::string write_program(const LinkInput& input, const WeightsLayout& weights) {
  const ProgramDesc& desc = input.program;
  Writer writer;
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.header_bytes = sizeof(Header);
  header.model_name = writer.text(desc.model_name);
  std::string compiler = "tcc " TCC_VERSION;
  for (const auto& [key, value] : desc.about) compiler += "\n" + key + " " + value;
  header.compiler = writer.text(compiler);
  header.weights_bytes = weights.size_bytes;
  header.weights_hash = weights.hash;
  header.weights_embedded = input.embed_weights || weights.size_bytes == 0;
  header.accumulate = static_cast<uint32_t>(desc.accumulate);
  header.state_bytes = static_cast<uint64_t>(desc.state.state_bytes);
  header.gradient_bytes = static_cast<uint64_t>(desc.state.gradient_bytes);
  std::vector<Function> functions;
  std::vector<program::Tensor> tensors;
  const auto add_tensors = [&](const std::vector<TensorDesc>& descs) {
    const std::vector<program::Tensor> rows = writer.tensors(descs, nullptr);
    const Span span = {static_cast<uint32_t>(tensors.size()), static_cast<uint32_t>(rows.size())};
    tensors.insert(tensors.end(), rows.begin(), rows.end());
    return span;
  };
  for (const FunctionDesc& function : desc.functions) {
    const Text name = writer.text(function.name);
    const Span inputs = add_tensors(function.inputs), outputs = add_tensors(function.outputs);
    functions.push_back({name, inputs, outputs});
  }
  std::vector<TensorDesc> stored = desc.weights;
  for (const tcc::StateTensor& tensor : desc.state.tensors) {
    if (is_stored(tensor)) stored.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  const auto weight_rows = writer.tensors(stored, &weights.offsets);
  const auto state = writer.state(desc.state, static_cast<uint32_t>(desc.weights.size()));
  const auto sections = writer.sections(desc.state);
  const auto scalars = writer.scalars(desc.scalars);
  std::vector<program::Guard> guards;
  for (size_t f = 0; f < desc.functions.size(); ++f) {
    for (const GuardDesc& guard : desc.functions[f].guards)
      guards.push_back({static_cast<uint32_t>(f), guard.scalar, guard.value, writer.text(guard.text)});
  }
  std::vector<Writer::TargetRows> target_rows;
  for (const TargetDesc& target : desc.targets) target_rows.push_back(writer.target(target, input.images));

  writer.begin_tables();
  header.functions = writer.table(functions);
  header.tensors = writer.table(tensors);
  header.weights = writer.table(weight_rows);
  header.state = writer.table(state);
  header.sections = writer.table(sections);
  header.scalars = writer.table(scalars);
  header.guards = writer.table(guards);
  header.extents = writer.table(writer.extents());
  std::vector<Target> targets;
  for (const Writer::TargetRows& rows : target_rows) targets.push_back(writer.finish(rows));
  header.targets = writer.table(targets);
  return writer.finish(header);
}

std::string write_program(const LinkInput& input) {
  check_program(input);
  return write_program(input, lay_out_weights(stored_tensors(input)));
}

std::string cpu_symbol(std::string_view name, CpuLevel level) {
  std::string symbol = "tcc_v" + std::to_string(static_cast<uint32_t>(level)) + "_";
  for (const char c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (plain) {
      symbol += c;
    } else if (c == '_') {
      symbol += "__";  // so that escapes stay unique
    } else {
      constexpr char digits[] = "0123456789abcdef";
      symbol += {'_', 'x', digits[static_cast<unsigned char>(c) >> 4], digits[c & 15]};
    }
  }
  return symbol;
}

}  // namespace tcc::link
