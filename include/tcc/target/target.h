// What tcc knows of a chip: the limits that a kernel must keep, and the rates that the choice of schedules, the cost model and the plan go by.
//
// Everything about a chip stands in a row of src/target/target.cpp. Code that needs a number of one, or has to know what a kernel's `target` is, asks here:
// no other file compares names of chips or has their sizes. The test in tests/target/one_place_test.cpp looks for those.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tcc/support/dtype.h"

namespace tcc {

/// The dtype in which tensor cores add products of factors: f32, of integers i32.
inline DType sum_dtype(DType factor) { return is_float(factor) ? DType::f32 : DType::i32; }

/// A product of small matrices that one instruction computes: D[m, n] += A[m, k] * B[k, n], D in f32 or i32.
struct TensorCore {
  std::string_view name;      ///< of the instruction in kernel texts: "m16n8k16"
  int64_t m, n, k;            ///< elements
  int64_t most_n;             ///< n is a multiple of `n` up to this
  bool warpgroup;             ///< by four warps together, asynchronously, from shared memory that tensor maps filled
  std::vector<DType> dtypes;  ///< of A and B, which have the same one; those of 8 bits mix, floats with floats and integers with integers
  bool transposed = false;    ///< operands may lie in shared memory with k outside
  double flops_per_ns;        ///< multiplications and additions that kernels of tcc reach on the whole chip; measured
  bool takes(DType a, DType b) const;
  bool operator==(const TensorCore&) const = default;
};

/// Two kinds of numbers. Limits are properties of `name`: a kernel that breaks one does not run. Rates are those of one chip, `tuned_for`, for all chips that
/// run the code: they decide what is chosen, not whether it is right.
struct Target {
  enum class Kind : uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  std::string name;       ///< of the instruction set, as kernels and plans print it: "x86-64-v3", "sm_80"
  std::string base;       ///< CUDA: the row whose kernels are used where nothing is gained by instructions of this one alone; empty: none
  std::string tuned_for;  ///< CUDA: architecture of the chip that the rates are of

  bool is_cpu() const { return kind == Kind::cpu; }
  bool is_cuda() const { return kind == Kind::cuda; }

  // ------------------------------------------------------------------------------------------------ limits of a launch

  int64_t grid_blocks = 0;       ///< CUDA: blocks of a launch along x. Source: programming guide; cuDeviceGetAttribute
  int block_threads = 1;         ///< CUDA: threads of a block at most. Source: programming guide; cuDeviceGetAttribute
  int warp_threads = 1;          ///< CUDA: lanes of a warp. Source: programming guide
  int thread_registers = 0;      ///< CUDA: 32-bit registers of a thread at most. Source: programming guide
  bool has_tensor_maps = false;  ///< CUDA: a copy engine for tiles, mbarriers that count its bytes. Source: PTX ISA, cp.async.bulk.tensor
  int64_t shared_bytes = 0;      ///< CUDA: bytes of shared memory that a block may ask for. Source: programming guide; cuDeviceGetAttribute
  int64_t stack_bytes =
      0;  ///< CPU: bytes of its stack that a kernel may use. Source: threads have 8 MiB, often less; what libraries use is left to them

  // ------------------------------------------------------------------------------------------------ instructions

  int cpu_level = 0;         ///< CPU: the number in x86-64-v3. Source: x86-64 psABI
  int vector_bytes = 0;      ///< bytes of a SIMD register (CPU), of the widest access of a thread (CUDA). Source: psABI; PTX ISA, ld.v4
  int vector_registers = 0;  ///< CPU: SIMD registers. Source: Intel 64 manual
  std::vector<TensorCore> tensor_cores;  ///< CUDA. Source: PTX ISA, mma.sync, wgmma

  /// The tensor-core instruction that takes operands of the dtype; null where there is none. f32 operands lose 13 bits of their mantissas (tf32). It lives as
  /// long as the target, so a target that is gone by the end of the statement has none.
  const TensorCore* tensor_core(DType dtype) const& { return tensor_core(dtype, false); }
  const TensorCore* tensor_core(DType dtype) const&& = delete;
  /// The same of a warpgroup.
  const TensorCore* warpgroup_core(DType dtype) const& { return tensor_core(dtype, true); }
  const TensorCore* warpgroup_core(DType dtype) const&& = delete;
  /// The one with that name; null where there is none.
  const TensorCore* tensor_core(std::string_view name) const&;
  const TensorCore* tensor_core(std::string_view name) const&& = delete;

  // ------------------------------------------------------------------------------------------------ what runs at once

  int cores = 1;                         ///< cores that a kernel gets (CPU); multiprocessors (CUDA). Source: assumed; cuDeviceGetAttribute
  int multiprocessor_threads = 0;        ///< CUDA: resident threads. Source: programming guide; cuDeviceGetAttribute
  int multiprocessor_blocks = 0;         ///< CUDA: resident blocks. Source: programming guide; cuDeviceGetAttribute
  int64_t multiprocessor_registers = 0;  ///< CUDA: 32-bit registers of all threads. Source: programming guide; cuDeviceGetAttribute
  int64_t multiprocessor_shared_bytes = 0;  ///< CUDA: bytes of all blocks, with `block_reserved_bytes` of each. Source: as those
  int64_t block_reserved_bytes = 0;         ///< CUDA: bytes that the system takes of each block's shared memory. Source: as those
  int schedulers = 0;                       ///< CUDA: warps of a multiprocessor that issue in one cycle. Source: H100 architecture paper
  int fma_lanes = 0;     ///< CUDA: f32 multiply-adds of a multiprocessor in one cycle. Source: programming guide, throughput
  int busy_threads = 0;  ///< CUDA: threads that keep a multiprocessor busy. Source: measured, kernels that stream memory

  // ------------------------------------------------------------------------------------------------ memory

  int64_t l1_bytes = 0,
          l2_bytes = 0;     ///< bytes of the caches of a core (CPU); of a multiprocessor, of the chip (CUDA). Source: cuDeviceGetAttribute
  int l1_ways = 1;          ///< CPU: lines of a set of that of a core. Source: CPUID, leaf 4
  double bytes_per_ns = 1;  ///< of memory, all cores. Source: measured by copies
  double cache_bytes_per_ns = 0;  ///< CUDA: of the caches, whole chip. Source: measured
  double shared_bytes_per_ns =
      0;  ///< CUDA: of shared memory, whole chip; the limit is 128 bytes a cycle of a multiprocessor. Source: measured
  /// CPU: bytes that one core loads from its caches in a ns: by vectors, by elements, in a mixture of both. Source: two loads a cycle at 3 GHz are 192 and
  /// 24; what kernels reach is measured.
  double vector_load_bytes_per_ns = 0, scalar_load_bytes_per_ns = 0, mixed_load_bytes_per_ns = 0;

  // ------------------------------------------------------------------------------------------------ time

  double flops_per_ns = 1;  ///< f32 multiplications and additions by multiply-adds, all cores. Source: clock x lanes; measured (CUDA)
  double launch_ns =
      0;  ///< ns that a kernel takes beside its work. Source: measured; launches follow each other (CUDA), calls of the pool (CPU)
  double second_kernel_ns =
      0;  ///< CUDA: ns of a short kernel that waits for another one: its launch and the latency of its loads. Source: measured

  bool allow_tf32 = false;     ///< CUDA: f32 products may lose bits on tensor cores; a choice of the user's, not of the chip
  bool split_f32 = true;       ///< CUDA: f32 products may be sums of products of parts, which are as exact; the same kind of choice
  bool deterministic = false;  ///< CUDA: each run computes the same bits; the same kind of choice

  bool operator==(const Target&) const = default;

  // ------------------------------------------------------------------------------------------------ rows

  /// The row with that name; null when there is none.
  static const Target* named(std::string_view name);
  /// The same. Internal error when there is none: the name comes from a kernel that was verified.
  static const Target& of(std::string_view name);
  /// All names, for messages.
  static std::vector<std::string> names();
  /// What libraries are compiled for: all code of one row comes from one schedule.
  static Target cpu_v3();
  static Target cuda_sm80();
  static Target cuda_sm90a();

 private:
  const TensorCore* tensor_core(DType dtype, bool warpgroup) const&;
};

/// An architecture as -march writes it: "sm_90a" is 90, for this chip alone. Rows exist for few of them: PTX of a row's runs on all later ones.
struct CudaArch {
  uint32_t number = 0;
  bool specific = false;
};
std::optional<CudaArch> parse_cuda_arch(std::string_view name);

}  // namespace tcc
