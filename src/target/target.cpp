// A row for each instruction set that kernels may be for.
//
// Sources: "programming guide" is the CUDA C++ Programming Guide, technical specifications per compute capability and throughput of native arithmetic;
// "cuDeviceGetAttribute" was read on an H200; "measured" is on an H200 at 1980 MHz, or on cores at 3 GHz.
#include "tcc/target/target.h"

#include <algorithm>
#include <array>

#include "tcc/support/diagnostics.h"

namespace tcc {

namespace {

Target x86_64(int level, int vector_bytes, int vector_registers) {
  Target target;
  target.kind = Target::Kind::cpu;
  target.name = "x86-64-v" + std::to_string(level);
  target.stack_bytes = int64_t{1} << 20;
  target.cpu_level = level;
  target.vector_bytes = vector_bytes;
  target.vector_registers = vector_registers;
  target.cores = 2;
  target.l1_bytes = 32 << 10;
  target.l1_ways = 8;
  target.l2_bytes = 1 << 20;
  target.bytes_per_ns = 12;
  target.vector_load_bytes_per_ns = 64;
  target.scalar_load_bytes_per_ns = 12;
  target.mixed_load_bytes_per_ns = 40;
  target.flops_per_ns = 2 * 3.0 * (2 * 2 * vector_bytes / 4);  // two cores at 3 GHz, two multiply-adds of a vector's f32 elements a cycle
  target.launch_ns = 100;
  return target;
}

/// Code for an architecture, chosen by the rates of an H200.
Target cuda(const char* name, int64_t multiprocessor_shared_bytes) {
  Target target;
  target.kind = Target::Kind::cuda;
  target.name = name;
  target.tuned_for = "sm_90";
  target.grid_blocks = (int64_t{1} << 31) - 1;
  target.block_threads = 1024;
  target.warp_threads = 32;
  target.thread_registers = 255;
  target.vector_bytes = 16;
  target.tensor_cores = {{"m16n8k16", 16, 8, 16, 8, false, {DType::f16, DType::bf16}, true, 300000},
                         {"m16n8k8", 16, 8, 8, 8, false, {DType::f32}, true, 150000},
                         {"m16n8k32", 16, 8, 32, 8, false, {DType::i8, DType::u8}, false, 600000}};
  target.cores = 132;
  target.multiprocessor_threads = 2048;
  target.multiprocessor_blocks = 32;
  target.multiprocessor_registers = 65536;
  target.multiprocessor_shared_bytes = multiprocessor_shared_bytes;
  target.block_reserved_bytes = 1 << 10;
  target.shared_bytes = multiprocessor_shared_bytes - target.block_reserved_bytes;
  target.schedulers = 4;
  target.fma_lanes = 128;
  target.busy_threads = 512;
  target.l1_bytes = 128 << 10;
  target.l2_bytes = 60 << 20;
  target.bytes_per_ns = 4300;
  target.cache_bytes_per_ns = 10750;
  target.shared_bytes_per_ns = 27950;
  target.flops_per_ns = 60000;
  target.launch_ns = 1300;
  target.second_kernel_ns = 2500;
  return target;
}

Target hopper() {
  Target target = cuda("sm_90a", 228 << 10);
  target.base = "sm_80";
  target.tuned_for = "sm_90a";
  target.has_tensor_maps = true;
  target.tensor_cores.push_back({"m64nNk16", 64, 8, 16, 256, true, {DType::f16, DType::bf16}, true, 800000});
  target.tensor_cores.push_back({"m64nNk8", 64, 8, 8, 256, true, {DType::f32}, false, 400000});
  const std::vector<DType> bytes = {DType::f8e4m3fn, DType::f8e5m2, DType::i8, DType::u8};
  target.tensor_cores.push_back({"m64nNk32", 64, 8, 32, 256, true, bytes, false, 1600000});
  return target;
}

const std::array<Target, 5>& rows() {
  static const std::array<Target, 5> rows = {x86_64(3, 32, 16), x86_64(4, 64, 32), cuda("sm_80", 164 << 10), cuda("sm_90", 228 << 10),
                                             hopper()};
  return rows;
}

}  // namespace

bool TensorCore::takes(DType a, DType b) const {
  const auto has = [&](DType dtype) { return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end(); };
  return has(a) && has(b) && (a == b || (size_bits(a) == 8 && size_bits(b) == 8 && sum_dtype(a) == sum_dtype(b)));
}

const TensorCore* Target::tensor_core(DType dtype, bool warpgroup) const& {
  for (const TensorCore& core : tensor_cores) {
    if (core.warpgroup == warpgroup && std::find(core.dtypes.begin(), core.dtypes.end(), dtype) != core.dtypes.end()) return &core;
  }
  return nullptr;
}

const TensorCore* Target::tensor_core(std::string_view name) const& {
  const auto core = std::find_if(tensor_cores.begin(), tensor_cores.end(), [&](const TensorCore& c) { return c.name == name; });
  return core == tensor_cores.end() ? nullptr : &*core;
}

const Target* Target::named(std::string_view name) {
  const auto row = std::find_if(rows().begin(), rows().end(), [&](const Target& target) { return target.name == name; });
  return row == rows().end() ? nullptr : &*row;
}

const Target& Target::of(std::string_view name) {
  const Target* target = named(name);
  if (!target) internal_error("a kernel for the unknown target `" + std::string(name) + "`");
  return *target;
}

std::vector<std::string> Target::names() {
  std::vector<std::string> names;
  for (const Target& target : rows()) names.push_back(target.name);
  return names;
}

Target Target::cpu_v3() { return of("x86-64-v3"); }

Target Target::cuda_sm80() { return of("sm_80"); }

Target Target::cuda_sm90a() { return of("sm_90a"); }

std::optional<CudaArch> parse_cuda_arch(std::string_view name) {
  if (!name.starts_with("sm_")) return std::nullopt;
  CudaArch arch;
  std::string digits(name.substr(3));
  arch.specific = digits.ends_with('a');
  if (arch.specific) digits.pop_back();
  if (digits.empty() || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  arch.number = static_cast<uint32_t>(std::stoul(digits));
  return arch;
}

}  // namespace tcc
