// From a plan, its kernels and the weights to the shared library: the last stage (src/link).
//
//   LinkInput {program, cpu objects, cuda images, weights}  ->  link_shared_object()  ->  model.so
//                                                           ->  write_header()        ->  model.h      --emit=header
//                                                           ->  write_manifest()      ->  model.json   --emit=manifest
//
// The library holds the launcher stub (src/runtime), the program (tcc/runtime/program.h), the code and the page-aligned weights.
// Equal inputs make equal bytes: no time, path or build id goes in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tcc/graph/state.h"
#include "tcc/runtime/program.h"
#include "tcc/support/dtype.h"
#include "tcc/support/int_range.h"
#include "tcc/support/output_files.h"
#include "tcc/support/tensor.h"

namespace tcc::link {

using program::BufferKind;
using program::CpuLevel;
using program::ImageKind;
using program::LaunchKind;
using program::TargetKind;

/// A named tensor of the interface. All extents are constants.
struct TensorDesc {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint32_t alignment = 0;  ///< of its address, where more than its dtype and the target ask for: a tensor u8[N] that others are packed into
  std::optional<IntRange> range;  ///< an input whose elements are indices, classes or lengths: which are valid, negative ones left out
};

/// What a scalar has to be for a function to be run, once it is set.
struct GuardDesc {
  uint32_t scalar = 0;  ///< in ProgramDesc::scalars
  double value = 0;
  std::string text;  ///< for messages: "`state:training` is true"
};

/// One of the things that the library can be asked to run.
struct FunctionDesc {
  std::string name = "infer";
  std::vector<TensorDesc> inputs, outputs;
  std::vector<GuardDesc> guards;
};

/// A number that the caller may set between runs.
struct ScalarDesc {
  std::string name;
  DType dtype = DType::f32;
  double value = 0;  ///< until it is set
};

/// Where an operand's bytes are at run time; see program::BufferKind.
struct BufferDesc {
  BufferKind kind = BufferKind::arena;
  uint32_t index = 0;   ///< input, output, weight, scalar: which one; alias: the buffer it lies in; state: the block; checks: the first
  uint64_t offset = 0;  ///< arena: in the workspace; state, prepared: in its block; alias: in that buffer; input, output: in that tensor
  uint64_t size_bytes = 0;
  std::string name;  ///< for the manifest: a value's name, "" allowed
};

/// One function of the target's code. Equal bodies are one kernel, launched several times.
struct KernelDesc {
  std::string name;  ///< cpu: the body's name; the symbol at level l is cpu_symbol(name, l). cuda: the entry's name
  uint32_t num_buffers = 0;
  uint32_t threads = 0;                         ///< cuda: threads per block
  uint32_t shared_bytes = 0;                    ///< cuda: dynamic shared memory
  bool depends_on_order = false;                ///< of threads: two runs may compute other bits
  std::vector<uint32_t> images;                 ///< cuda: which LinkInput::images hold it, any order
  std::vector<program::TensorMap> tensor_maps;  ///< cuda: of the parameters behind those for buffers, in order
};

struct LaunchDesc {
  LaunchKind kind = LaunchKind::kernel;
  uint32_t kernel = 0;              ///< index into kernels
  uint64_t grid = 1;                ///< cuda: blocks; cpu: parallel items. 0 launches nothing
  std::vector<uint32_t> arguments;  ///< buffers, in the order of the kernel's parameters; copy: source, destination; fill: destination
  std::string label;                ///< the model's own node names
  uint64_t cost_ns = 0;             ///< cpu: estimate on one thread, all items; small: the caller alone. The first runs correct it
  uint64_t size_bytes = 0;          ///< copy, fill
  uint32_t pattern = 0;             ///< fill: `pattern_bytes` (1, 2 or 4) low bytes, repeated
  uint32_t pattern_bytes = 1;
};

/// What a check of indices is about; see program::Check.
struct CheckDesc {
  std::string index, place;
  int64_t low = 0, high = 0;
};

/// The plan of one function for one kind of device.
struct FunctionCode {
  std::vector<BufferDesc> buffers;
  std::vector<LaunchDesc> launches;  ///< of kernels that all functions of the target share
  std::vector<CheckDesc> checks;
  uint64_t arena_bytes = 0;     ///< planned peak
  uint64_t sum_of_buffers = 0;  ///< the same buffers without reuse, for the manifest
};

/// All code for one kind of device.
struct TargetDesc {
  TargetKind kind = TargetKind::cpu;
  std::vector<KernelDesc> kernels;
  std::vector<FunctionCode> functions;  ///< as ProgramDesc::functions
  FunctionCode preparation;             ///< what an instance runs once: it reads weights, and writes what is prepared
  uint64_t prepared_bytes = 0;          ///< of the block for it
  std::vector<CpuLevel> levels;         ///< cpu: which levels the objects hold, e.g. {v3}
  uint32_t arena_alignment = 256;
  uint32_t io_alignment = 0;  ///< what kernels rely on for inputs and outputs; 0: cuda 16, cpu the element's own
};

/// All that the launcher and the manifest know of a model.
struct ProgramDesc {
  std::string model_name;                                  ///< of the graph
  std::vector<FunctionDesc> functions;                     ///< at least one; the first is what api->run runs
  std::vector<TensorDesc> weights;                         ///< what never changes, constants too; bytes in LinkInput::weights, same order
  std::vector<TargetDesc> targets;                         ///< at least one, one for CPUs at most; of those for CUDA the best first
  StateLayout state;                                       ///< what an instance keeps between calls; first contents included
  std::vector<ScalarDesc> scalars;                         ///< such as `lr`
  int accumulate = 1;                                      ///< micro-batches of a step; above 1 there is a function `accumulate`
  std::vector<std::pair<std::string, std::string>> about;  ///< for who looks at the library: keys are words, values are lines
};

/// The symbol that a CPU object must define for kernel `name` at `level`: "tcc_v3_<name>" with characters outside [A-Za-z0-9_] escaped.
/// Signature: void (void* const* buffers, int64_t begin, int64_t end); see program::Kernel. It may call memcpy, memmove and memset.
std::string cpu_symbol(std::string_view name, CpuLevel level);

/// One relocatable ELF object (x86-64, position independent) with any number of kernels of any level.
struct CpuObject {
  std::string name;  ///< for messages
  std::string bytes;
};

struct CudaImage {
  ImageKind kind = ImageKind::ptx;
  uint32_t arch = 80;          ///< 80, 90
  bool arch_specific = false;  ///< sm_90a
  std::string bytes;           ///< PTX as text (a NUL is added) or a cubin
};

struct LinkInput {
  ProgramDesc program;
  std::vector<CpuObject> cpu_objects;
  std::vector<CudaImage> images;
  std::vector<Tensor> weights;              ///< as program.weights; only their bytes matter. Equal tensors are stored once
  std::string symbol_prefix = "tcc_model";  ///< exports <prefix>_query beside tcc_model_query; a C identifier
  bool embed_weights = true;                ///< false: the library takes a file that write_weights_file() made
  std::string soname;  ///< what a program linked with the library asks the loader for; empty: the path it was linked with
};

/// Links the library, staged among `outputs`: it appears at `output_path` when those are committed.
/// Errors: environment (unwritable, a directory in its place, disk full); internal when the parts do not fit together (a launch names
/// a buffer that is not there, an object lacks a kernel or calls a function that is not in libc), each fault named.
/// One link at a time runs in a process; others wait.
void link_shared_object(const LinkInput& input, OutputFiles& outputs, const std::string& output_path);
/// The same for a library alone, committed.
void link_shared_object(const LinkInput& input, const std::string& output_path);

/// The weights as a file of their own, for LinkInput::embed_weights = false. Staged before the library (Note [Order] in output_files.cpp).
void write_weights_file(const LinkInput& input, OutputFiles& outputs, const std::string& output_path);
void write_weights_file(const LinkInput& input, const std::string& output_path);

/// The program's bytes, as the library embeds them (tests, --emit). The checks of link_shared_object() on the description included.
std::string write_program(const LinkInput& input);

/// A self-contained C11 header for this model: the interface of tcc/runtime/runtime.h, constants for names, shapes and sizes, and
/// inline functions <prefix>_create, <prefix>_run (typed pointers to host memory), <prefix>_run_on (device, workspace, stream). Of a training
/// library also <prefix>_step, _forward, _backward, _update, _set_lr (one per scalar), _save and _load.
std::string write_header(const ProgramDesc& program, std::string_view symbol_prefix);

/// JSON: model, functions with inputs and outputs, weights, state, sections, scalars, and per target the kernels and per function the launches
/// with labels, peak_bytes (of the arena), planned_peak_bytes, sum_of_buffers_bytes. Top-level inputs and outputs are those of the first function.
std::string write_manifest(const LinkInput& input);

/// The memory that an instance on a device asks for, to run one function: each a block of its own, byte for byte. The caller's tensors, and
/// the copies of those that are not on the device, come on top.
struct PlannedMemory {
  uint64_t weights_bytes = 0;   ///< that some function of the target uses; equal ones once, each rounded up to 256
  uint64_t prepared_bytes = 0;  ///< what is made of weights
  uint64_t state_bytes = 0;     ///< block 0 and the scalars
  uint64_t gradient_bytes = 0;  ///< block 1, when the function uses it
  uint64_t arena_bytes = 0;
  uint64_t peak_bytes() const { return weights_bytes + prepared_bytes + state_bytes + gradient_bytes + arena_bytes; }
};
PlannedMemory planned_memory(const LinkInput& input, const TargetDesc& target, size_t function);

}  // namespace tcc::link
