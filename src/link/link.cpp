// Links the library: lld, called as a function.
//
// What goes in has no names on disk (memory_file.h), so neither a path nor a time can get into the result:
//   the launcher stub, compiled with tcc        src/runtime/stub
//   the CPU kernels                             one object per call of the code generator
//   the payload                                 program, images, room for the weights, and the table of pointers that the stub starts from
//   a library with the names of libc            so that libc.so.6 is recorded as needed, and nothing else can be
#include "tcc/link/link.h"
#include "tcc/support/integer_math.h"

#include <elf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

#include "link/assemble_library.h"
#include "link/check_program.h"
#include "link/elf_object.h"
#include "link/memory_file.h"
#include "link/pipe_to_memory.h"
#include "link/program_writer.h"
#include "link/weights_layout.h"
#include "runtime/embedded.h"
#include "tcc/support/output_files.h"

LLD_HAS_DRIVER(elf)

namespace tcc::link {
namespace {

constexpr uint64_t kPageBytes = 4096;
// Placed by the linker where 32-bit distances need not reach: weights may be larger than 2 GB.
constexpr uint64_t kLarge = 0x10000000;  // SHF_X86_64_LARGE
constexpr std::byte kZeros[kImageAlignment] = {};

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

const TargetDesc* find_target(const ProgramDesc& program, TargetKind kind) {
  for (const TargetDesc& target : program.targets) {
    if (target.kind == kind) return &target;
  }
  return nullptr;
}

// What an object holds must live until it is written.
struct Payload {
  std::string program;
  std::string pointers;
  ElfObject object;
};

void fill_payload(const LinkInput& input, const WeightsLayout& weights, Payload* payload) {
  payload->program = write_program(input, weights);
  payload->object.add({.name = ".rodata.tcc.program",
                       .flags = SHF_ALLOC,
                       .alignment = 64,
                       .symbol = "tcc_payload_program",
                       .pieces = {as_bytes(payload->program)},
                       .relocations = {}});

  ElfObject::Section images = {.name = ".rodata.tcc.images",
                               .flags = SHF_ALLOC,
                               .alignment = kImageAlignment,
                               .symbol = "tcc_payload_images",
                               .pieces = {},
                               .relocations = {}};
  if (find_target(input.program, TargetKind::cuda)) {
    for (const CudaImage& image : input.images) {
      images.pieces.push_back(as_bytes(image.bytes));
      const uint64_t size = image_size_bytes(image);  // the padding holds the NUL of a PTX text
      const uint64_t padded = align_up(size, kImageAlignment);
      images.pieces.emplace_back(kZeros, padded - image.bytes.size());
    }
  }
  payload->object.add(std::move(images));

  const bool embedded = input.embed_weights && weights.size_bytes > 0;
  if (embedded) {
    payload->object.add({.name = ".lrodata.tcc.weights",
                         .flags = SHF_ALLOC | kLarge,
                         .alignment = kPageBytes,
                         .symbol = "tcc_payload_weights",
                         .pieces = {},
                         .relocations = {},
                         .reserved_bytes = weights.size_bytes});
  }

  // stub::Payload, then the function table it points to.
  std::vector<ElfObject::Relocation> functions;
  if (const TargetDesc* cpu = find_target(input.program, TargetKind::cpu)) {
    for (const CpuLevel level : cpu->levels) {
      for (const KernelDesc& kernel : cpu->kernels) functions.push_back({functions.size() * 8, cpu_symbol(kernel.name, level)});
    }
  }
  payload->pointers.assign(std::max<size_t>(4, functions.size()) * 8, '\0');
  const std::span<const std::byte> zeros = as_bytes(payload->pointers);
  payload->object.add({.name = ".data.rel.ro.tcc.functions",
                       .flags = SHF_ALLOC | SHF_WRITE,
                       .alignment = 8,
                       .symbol = "tcc_payload_functions",
                       .pieces = {zeros.first(functions.size() * 8)},
                       .relocations = functions});
  payload->object.add({.name = ".data.rel.ro.tcc.payload",
                       .flags = SHF_ALLOC | SHF_WRITE,
                       .alignment = 8,
                       .symbol = "tcc_payload",
                       .pieces = {zeros.first(4 * 8)},
                       .relocations = {{0, "tcc_payload_program"},
                                       {8, "tcc_payload_images"},
                                       {16, embedded ? "tcc_payload_weights" : ""},
                                       {24, "tcc_payload_functions"}}});
}

// The linker speaks of paths; the reader wants to know which part.
std::string with_names(std::string text, const std::vector<MemoryFile>& files) {
  for (const MemoryFile& file : files) {
    const std::string path = file.path();
    for (size_t at = 0; (at = text.find(path, at)) != std::string::npos; at += file.name().size()) {
      const size_t end = at + path.size();
      if (end < text.size() && text[end] >= '0' && text[end] <= '9') continue;  // a longer number: another file
      text.replace(at, path.size(), file.name());
    }
  }
  return text;
}

// lld keeps its state in globals, one link at a time.
std::mutex lld_mutex;

void run_lld(const std::vector<std::string>& arguments, const std::vector<MemoryFile>& files, const std::string& output_path) {
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  const std::lock_guard lock(lld_mutex);
  const lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode == 0 && result.canRunAgain) return;
  // What the system did not give is no fault of the parts. lld says it in the system's words, and goes on to miss what it could not read.
  for (const int error : {EMFILE, ENFILE, ENOMEM, ENOSPC, EAGAIN}) {
    if (messages.find(std::strerror(error)) == std::string::npos) continue;
    throw Error(ExitCode::environment, "failed-tool", output_path, std::string("the library can't be linked: ") + std::strerror(error),
                "raise the limits of the system (`ulimit -a` lists them)");
  }
  throw Error(ExitCode::internal, "internal-error", output_path, "the parts of the library do not link:\n" + with_names(messages, files));
}

}  // namespace

void link_shared_object(const LinkInput& input, OutputFiles& outputs, const std::string& output_path) {
  check_program(input);
  PipeToMemory output;
  const std::vector<Tensor> stored = stored_tensors(input);
  const WeightsLayout weights = lay_out_weights(stored);
  Payload payload;
  fill_payload(input, weights, &payload);
  std::vector<MemoryFile> files;
  files.emplace_back("the launcher stub", runtime::launcher_stub());
  files.emplace_back("the payload", payload.object.pieces());
  for (const CpuObject& object : input.cpu_objects) files.emplace_back(object.name, object.bytes);
  files.emplace_back("the names of libc", runtime::libc_interface());
  const size_t num_inputs = files.size();

  // Two names for one function: one for every tool that opens libraries of tcc, one that may stand beside those of other models.
  const std::string query = input.symbol_prefix + "_query";
  files.emplace_back("the list of exports", "{ global: tcc_model_query; " + query + "; local: *; };");

  std::vector<std::string> arguments = {"ld.lld",
                                        "-shared",
                                        "--hash-style=gnu",
                                        "--build-id=none",
                                        "--no-undefined",
                                        "--gc-sections",
                                        "-z",
                                        "now",
                                        "-z",
                                        "relro",
                                        "-z",
                                        "noexecstack",
                                        "--threads=1",
                                        "--strip-debug",
                                        "--discard-all",
                                        "--no-color-diagnostics",
                                        "--version-script=" + files.back().path(),
                                        "-o",
                                        output.path()};
  if (!input.soname.empty()) arguments.push_back("--soname=" + input.soname);
  if (query != "tcc_model_query") arguments.push_back("--defsym=" + query + "=tcc_model_query");
  for (size_t i = 0; i < num_inputs; i++) arguments.push_back(files[i].path());
  run_lld(arguments, files, output_path);
  const AssembledLibrary library(output.finish(), input.embed_weights ? weights.pieces : std::vector<std::span<const std::byte>>());
  outputs.write(output_path, library.pieces(), 0777);
}

void link_shared_object(const LinkInput& input, const std::string& output_path) {
  OutputFiles outputs;
  link_shared_object(input, outputs, output_path);
  outputs.commit();
}

void write_weights_file(const LinkInput& input, OutputFiles& outputs, const std::string& output_path) {
  check_program(input);
  const std::vector<Tensor> stored = stored_tensors(input);
  const WeightsLayout weights = lay_out_weights(stored);
  std::string head(program::kWeightsFileHeaderBytes, '\0');
  program::WeightsFileHeader header = {};
  std::memcpy(header.magic, program::kWeightsMagic, sizeof header.magic);
  header.version = program::kVersion;
  header.weights_bytes = weights.size_bytes;
  header.weights_hash = weights.hash;
  std::memcpy(head.data(), &header, sizeof header);
  std::vector<std::span<const std::byte>> pieces = {as_bytes(head)};
  pieces.insert(pieces.end(), weights.pieces.begin(), weights.pieces.end());
  outputs.write(output_path, pieces);
}

void write_weights_file(const LinkInput& input, const std::string& output_path) {
  OutputFiles outputs;
  write_weights_file(input, outputs, output_path);
  outputs.commit();
}

}  // namespace tcc::link
