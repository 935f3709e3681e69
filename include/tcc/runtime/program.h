// The binary program inside every library that tcc makes: what to launch, on which buffers. The compiler writes it
// (src/link/program_writer), the launcher stub reads it in place (src/runtime).
//
// Plain data, little endian, no pointers: a Table or Text holds an offset in bytes from the start of the program, so it works
// wherever it is mapped and two compiles of one model make the same bytes. Layout: the Header, then the tables in the order
// in which the header names them, each aligned to 8 bytes, then the texts.
//
//   Header ── functions ── inputs, outputs                   what the library can do: `infer`, `step`, ...
//          ├─ weights                                        what never changes
//          ├─ state, sections, scalars                       what an instance keeps between calls
//          ├─ guards                                         what scalars have to be for a function to be run
//          └─ targets: cpu, cuda ── kernels ── images        code: a function per CPU level, or an entry in PTX or cubin images
//                                └─ functions ── buffers     every operand: where its bytes are at run time
//                                             └─ launches ── arguments    the steps, in order: kernel, copy, fill
//                                └─ preparation                           the same, once for an instance: what is made of weights alone
//
// Each target has its own plans, since schedules, scratch buffers and fusion differ; its functions share its kernels. Of several CUDA targets the first whose
// code fits the chip is used. Control flow (if,
// while) comes as new kinds of launch whose `body` spans the launches that belong to it; the reader refuses kinds it does not know.
#pragma once

#include <cstdint>

namespace tcc::program {

inline constexpr char kMagic[8] = {'t', 'c', 'c', 'p', 'r', 'o', 'g', '\0'};
inline constexpr uint32_t kVersion = 7;

struct Table {
  uint64_t offset;  ///< of the first row
  uint32_t count;   ///< rows
  uint32_t stride;  ///< bytes per row; sizeof of the row's type in this version
};
struct Text {
  uint64_t offset;  ///< of the first character; a NUL follows the last
  uint32_t size;
  uint32_t reserved;
};
/// Rows [first, first + count) of a table.
struct Span {
  uint32_t first;
  uint32_t count;
};

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;     ///< sizeof(Header)
  uint64_t header_checksum;  ///< of the header behind this field; compared first, so that the length is one to rely on
  uint64_t program_bytes;    ///< all of it
  uint64_t tables_checksum;  ///< of all behind the header
  Text model_name;
  Text compiler;              ///< "tcc 0.1.0"
  uint64_t weights_bytes;     ///< of the blob that weights point into
  uint64_t weights_hash;      ///< of the blob, see add_weight() in checksum.h; a weights file apart must carry the same
  uint32_t weights_embedded;  ///< 0: the blob is a file of its own, see WeightsFileHeader
  uint32_t accumulate;        ///< micro-batches of one step: `accumulate` runs for all but the last; 1 where that function is missing
  uint64_t state_bytes;       ///< of state block 0, without the scalars behind it
  uint64_t gradient_bytes;    ///< of state block 1
  Table functions;            ///< of Function; the first is what api->run runs
  Table tensors;              ///< of Tensor: inputs and outputs of all functions
  Table weights;              ///< of Tensor; what state holds at first is among them
  Table state;                ///< of StateTensor
  Table sections;             ///< of Section
  Table scalars;              ///< of Scalar
  Table guards;               ///< of Guard
  Table extents;              ///< of int64_t: the shapes of all tensors
  Table targets;              ///< of Target
};

/// What the library can be asked to run. Its code is the row of the same number in Target::functions.
struct Function {
  Text name;
  Span inputs, outputs;  ///< in Header::tensors
};

struct Tensor {
  Text name;
  uint32_t dtype;      ///< tcc_dtype
  Span shape;          ///< in Header::extents
  uint32_t alignment;  ///< inputs and outputs: what the address has to be a multiple of, when that is more than its dtype and target need
  uint64_t offset;     ///< weights: in the blob; a multiple of 64
  uint64_t size_bytes;
  int64_t low, high;  ///< inputs: which elements are valid as indices, classes or lengths, both included; low > high: nothing is known
};

// --- state --------------------------------------------------------------------------------------------------------------------------

/// What state is for; numbered as StateRole of the compiler and tcc_state_role of the interface.
enum class StateRole : uint32_t { parameter = 0, gradient = 1, optimizer = 2, statistic = 3, buffer = 4 };

/// An instance has two blocks of state: 1 holds the gradients and comes into being when it is first needed, 0 all else. Behind block 0,
/// in the same allocation, stand the scalars, see state_block_bytes().
inline constexpr uint32_t kNumStateBlocks = 2;
inline constexpr uint32_t block_of(StateRole role) { return role == StateRole::gradient ? 1 : 0; }
inline constexpr uint32_t kNoWeight = ~uint32_t{0};

/// A named tensor that an instance keeps between calls.
struct StateTensor {
  Text name;
  StateRole role;
  uint32_t dtype;    ///< tcc_dtype
  Span shape;        ///< in Header::extents
  uint32_t section;  ///< in Header::sections
  uint32_t trained;  ///< parameters: 0 when frozen
  uint64_t offset;   ///< in the block of its role; a multiple of 256
  uint64_t size_bytes;
  uint32_t initial;  ///< the weight with its first contents, which are converted where it is f16 or bf16 and this is f32; or kNoWeight:
  uint32_t pattern_bytes;  ///< then they are `pattern`, so wide (1, 2, 4 or 8), repeated
  uint64_t pattern;
};

/// All tensors of one role and dtype, one after the other, zeros between them: a flat buffer.
struct Section {
  Text name;
  StateRole role;
  uint32_t dtype;
  uint64_t offset;  ///< in the block of its role
  uint64_t size_bytes;
};

/// A number that the caller may set between runs, and kernels read.
struct Scalar {
  Text name;
  uint32_t dtype;
  uint32_t reserved;
  uint64_t default_bits;  ///< of its dtype, in the low bytes
};

/// What a function was captured under, as a scalar that only the caller knows: each run compares it. NaN, which it is until it is set, fits any.
struct Guard {
  uint32_t function;  ///< in Header::functions
  uint32_t scalar;    ///< in Header::scalars
  double value;
  Text text;  ///< "`state:grad_enabled` is true"
};
inline constexpr uint64_t kScalarBytes = 16;  ///< from one scalar to the next: addresses that any load may use

inline constexpr uint64_t scalars_offset(uint64_t state_bytes) { return (state_bytes + 255) / 256 * 256; }
/// What is allocated for state block 0.
inline constexpr uint64_t state_block_bytes(uint64_t state_bytes, uint64_t num_scalars) {
  return scalars_offset(state_bytes) + (num_scalars * kScalarBytes + 255) / 256 * 256;
}

// --- code ---------------------------------------------------------------------------------------------------------------------------

enum class TargetKind : uint32_t { cpu = 1, cuda = 2 };

struct Target {
  TargetKind kind;
  uint32_t io_alignment;  ///< what the kernels rely on for the addresses of inputs and outputs
  uint32_t arena_alignment;
  uint32_t num_levels;      ///< cpu: levels with code, see CpuLevel
  Table levels;             ///< of CpuLevel, lowest first
  Table kernels;            ///< of Kernel
  Table images;             ///< of Image
  Table image_choices;      ///< of uint32_t: indices into images, what Kernel::images spans
  Table tensor_maps;        ///< of TensorMap, what Kernel::tensor_maps spans
  Table functions;          ///< of FunctionCode, one for each of Header::functions
  Table preparation;        ///< of FunctionCode: one that `create` runs, or none. It reads weights and writes what is prepared
  uint64_t prepared_bytes;  ///< of the block that an instance keeps for it
};

/// What one function does on one target.
struct FunctionCode {
  uint64_t arena_bytes;     ///< planned peak of all arena buffers
  uint64_t sum_of_buffers;  ///< what the same buffers would take without reuse
  Table buffers;            ///< of Buffer
  Table launches;           ///< of Launch
  Table arguments;          ///< of uint32_t: indices into buffers, what Launch::arguments spans
  Table checks;             ///< of Check
};

/// Indices that kernels check where they read them. An instance has an int64_t for each, 0 until a kernel puts a bad index there.
struct Check {
  Text index;  ///< "input `ids` has the index"
  Text place;  ///< "gather `embed/Gather`"
  int64_t low, high;
};

enum class BufferKind : uint32_t {
  input = 1,     ///< at `offset` in the caller's tensor `index`
  output = 2,    ///< the same
  weight = 3,    ///< weight `index`; never written
  arena = 4,     ///< at `offset` in the workspace
  alias = 5,     ///< at `offset` in buffer `index`, which comes earlier in the table and is not an alias itself
  state = 6,     ///< at `offset` in state block `index`; read, or written in place
  scalar = 7,    ///< scalar `index`; never written
  checks = 8,    ///< where the checks from `index` on of the function report to
  prepared = 9,  ///< at `offset` in the block of what is prepared; functions only read it
};

struct Buffer {
  BufferKind kind;
  uint32_t index;
  uint64_t offset;
  uint64_t size_bytes;
};

/// Instruction set levels of x86-64, as the psABI numbers them. The highest one that the CPU has and the library holds is used.
enum class CpuLevel : uint32_t { v1 = 1, v2 = 2, v3 = 3, v4 = 4 };

/// cpu:  void kernel(void* const* buffers, int64_t begin, int64_t end): items [begin, end) of the grid, on any thread.
///       The function for level l (row of Target::levels) is element l * kernels.count + k of the library's function table.
/// cuda: one pointer parameter per buffer, then a CUtensorMap by value for each of its tensor maps; a one-dimensional grid.
struct Kernel {
  Text name;  ///< cpu: of the body; cuda: the entry
  uint32_t num_buffers;
  uint32_t threads;       ///< cuda: per block
  uint32_t shared_bytes;  ///< cuda: dynamic shared memory
  uint32_t cluster;       ///< cuda: blocks per cluster; 1
  Span images;            ///< cuda: in Target::image_choices, any order; the loader takes the best that fits the chip
  Span tensor_maps;       ///< cuda: in Target::tensor_maps
};

/// What cuTensorMapEncodeTiled is given, for the array at the address of a buffer; the innermost axis first.
struct TensorMap {
  uint32_t buffer;         ///< which of the kernel's
  uint32_t dtype;          ///< tcc_dtype
  uint32_t num_axes;       ///< up to 5
  uint32_t swizzle_bytes;  ///< 128, 64, 32, or 0
  uint64_t extents[5];
  uint64_t strides[4];  ///< bytes, of the axes behind the innermost
  uint32_t box[5];      ///< elements of the array that it spans
  uint32_t steps[5];    ///< every how manyth of them is moved
};

enum class ImageKind : uint32_t { ptx = 1, cubin = 2 };

/// Device code of one or more kernels. PTX ends with a NUL, which size_bytes counts.
struct Image {
  ImageKind kind;
  uint32_t arch;           ///< 80 for sm_80
  uint32_t arch_specific;  ///< 1 for sm_90a: runs on that chip only
  uint32_t reserved;
  uint64_t offset;  ///< in the library's image blob; a multiple of 64
  uint64_t size_bytes;
  uint64_t checksum;  ///< compared when the image is loaded
};

enum class LaunchKind : uint32_t {
  kernel = 1,
  copy = 2,  ///< arguments: source, destination; `size_bytes` bytes
  fill = 3,  ///< arguments: destination; `pattern`, `pattern_bytes` wide, repeated over `size_bytes` bytes
};

struct Launch {
  LaunchKind kind;
  uint32_t kernel;  ///< row of Target::kernels
  Text label;       ///< the model's own node names
  uint64_t grid;    ///< cuda: blocks; cpu: parallel items
  Span arguments;   ///< in FunctionCode::arguments
  Span body;        ///< launches of a region; none yet
  uint64_t size_bytes;
  uint32_t pattern;
  uint32_t pattern_bytes;  ///< 1, 2 or 4
  uint64_t cost_ns;        ///< cpu: estimate for the whole launch on one thread; decides how many threads take part
};

inline constexpr uint64_t kWeightAlignment = 64;
inline constexpr uint64_t kWeightsFileHeaderBytes = 4096;  ///< so that the blob behind it can be mapped page-aligned

/// Begins a weights file that is kept apart from its library (--weights=file).
struct WeightsFileHeader {
  char magic[8];  ///< "tccwght\0"
  uint32_t version;
  uint32_t reserved;
  uint64_t weights_bytes;
  uint64_t weights_hash;  ///< that of the program
};
inline constexpr char kWeightsMagic[8] = {'t', 'c', 'c', 'w', 'g', 'h', 't', '\0'};

/// What stands behind the last byte of a library's ELF file, where no loader looks: how long the file is, and its checksum. The embedded
/// weights are left out of it, because they may take long: `weights_hash` of the program is theirs.
struct LibrarySeal {
  char magic[8];  ///< "tccseal\0"
  uint32_t version;
  uint32_t seal_bytes;                  ///< sizeof(LibrarySeal)
  uint64_t file_bytes;                  ///< of the ELF file, this not included
  uint64_t weights_begin, weights_end;  ///< in the file; equal where it has none
  uint64_t file_checksum;               ///< of the bytes in front of the weights, then those behind
  uint64_t seal_checksum;               ///< of this struct up to here
};
inline constexpr char kSealMagic[8] = {'t', 'c', 'c', 's', 'e', 'a', 'l', '\0'};
inline constexpr uint32_t kSealVersion = 1;

}  // namespace tcc::program
